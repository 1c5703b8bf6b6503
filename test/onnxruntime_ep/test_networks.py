"""Networks through onnxruntime's sessions with the provider, for several sizes each."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest

from test import dynamic_models
from test.dynamic_models import inputs_of
from test.onnxruntime_ep import provider
from test.zoo_models import ZOO

pytestmark = pytest.mark.slow

# Nodes that stay outside, by the network; all others compile as one part.
OUTSIDE = {"detector": ["NonMaxSuppression"]}


def expect_results_of_the_cpu(session: Any, model: onnx.ModelProto, feeds: list[Any]) -> None:
    of_cpu = ["CPUExecutionProvider"]
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=of_cpu)
    for feed in feeds:
        wanted = reference.run(None, feed)
        for found, expected in zip(session.run(None, feed), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)


def feeds_of(name: str) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    make, sizes = ZOO[name]
    model = make()
    return model, [inputs_of(model, known, seed) for seed, known in enumerate(sizes)]


@pytest.mark.parametrize("name", list(ZOO))
def test_families_of_models_compile_once_for_any_sizes(name: str, tmp_path: Path) -> None:
    model, feeds = feeds_of(name)
    before = provider.counters()
    session = provider.session(model, cache_dir=str(tmp_path))
    expect_results_of_the_cpu(session, model, feeds)
    after = provider.counters()
    assert after["compiled"] == before["compiled"] + 1
    assert after["programs"] == before["programs"] + 1


@pytest.mark.parametrize("chip", provider.CHIPS)
@pytest.mark.parametrize("name", ["clip", "qwen3"])
def test_families_of_models_run_on_emulated_chips(name: str, chip: str) -> None:
    model, feeds = feeds_of(name)
    session = provider.context_session(model, chip)
    expect_results_of_the_cpu(session, model, feeds)


@pytest.mark.parametrize("name", list(ZOO))
def test_what_stays_outside_is_known(name: str) -> None:
    found = provider.islands_of(ZOO[name][0]())
    operators = [entry.operator for entry in found.outside if "not worth" not in entry.reason]
    assert operators == OUTSIDE.get(name, [])
    assert len(found.islands) == 1


def test_sixteen_threads_with_random_batches_for_a_minute(tmp_path: Path) -> None:
    model = dynamic_models.mlp()
    session = provider.session(model, cache_dir=str(tmp_path))
    feeds = [inputs_of(model, {"batch": n}, n) for n in range(1, 13)]
    of_cpu = ["CPUExecutionProvider"]
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=of_cpu)
    wanted = [reference.run(None, feed) for feed in feeds]
    for feed in feeds:
        session.run(None, feed)
    before, process = provider.counters(), psutil.Process()
    memory, end, failed = process.memory_info().rss, time.monotonic() + 60, list[int]()

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        while time.monotonic() < end:
            which = int(generator.integers(12))
            found = session.run(None, feeds[which])
            if not all(map(np.allclose, found, wanted[which])):
                failed.append(which)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = provider.counters()
    assert not failed
    assert after["compiled"] == before["compiled"]
    assert after["programs"] == before["programs"]
    assert after["runs"] > before["runs"] + 1000
    assert process.memory_info().rss < memory + (64 << 20)
