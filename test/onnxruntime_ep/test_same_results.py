"""Sessions with the provider give what `mgx run` and onnxruntime's CPU provider give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.yolo import yolo
from mgx_mlir import Model
from mgx_mlir.settings import Settings
from test import decoder_models, onnx_models, test_open_islands, whisper_models, zoo_models
from test.dynamic_models import inputs_of
from test.onnxruntime_ep import provider

pytestmark = pytest.mark.slow

Feeds = list[dict[str, np.ndarray]]
Make = Callable[[], onnx.ModelProto]
Given = tuple[onnx.ModelProto, Feeds]


def fixed(make: Make) -> Given:
    model = make()
    return model, [onnx_models.random_inputs(model)]


def constant(make: Make) -> onnx.ModelProto:
    """The model, whose initializers no run may replace: in IR version 3 all are inputs too."""
    model = make()
    held = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in held]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    return model


def any_sizes(make: Make, *sizes: dict[str, int]) -> Given:
    model = make()
    return model, [inputs_of(model, known, seed) for seed, known in enumerate(sizes)]


def of_open_islands(name: str) -> Given:
    """A model whose data decide sizes: nodes of the host between parts."""
    make, shapes = test_open_islands.MODELS[name]
    random = np.random.default_rng(0)
    return make(), [{"x": random.normal(size=s).astype(np.float32)} for s in shapes[:3]]


STEPS = [decoder_models.step(tokens, past) for tokens, past in ((5, 0), (1, 5), (1, 6))]
WORDS = [{"batch": 1, "tokens": n, "past": n + 2, "frames": 6} for n in (1, 3)]


def _models() -> Iterator[tuple[str, Callable[[], Given]]]:
    for name in onnx_models.light_names():
        yield (
            f"light-{name}",
            partial(fixed, partial(constant, partial(onnx_models.light, name, 0))),
        )
    for name in onnx_models.SMALL:
        yield name, partial(fixed, partial(onnx_models.small, name))
    yield "yolov10n", partial(fixed, partial(yolo, image=160))
    yield "llama", partial(any_sizes, decoder_models.llama, *STEPS)
    yield "whisper-encoder", partial(any_sizes, whisper_models.encoder, {"batch": 1}, {"batch": 2})
    for name, past in (("first", False), ("next", True)):
        make = partial(whisper_models.decoder, past)
        yield f"whisper-{name}", partial(any_sizes, make, *WORDS)
    for name, (make, sizes) in zoo_models.ZOO.items():
        yield name, partial(any_sizes, make, *sizes)
    for name in test_open_islands.MODELS:
        yield f"open-{name}", partial(of_open_islands, name)


MODELS = dict(_models())
# One of each kind of work.
ON_CHIPS = ["bert", "llama", "open-detector", "open-experts", "resnet", "stft", "whisper-encoder"]


def expect_results(
    session: Any, model: onnx.ModelProto, feeds: Feeds, target: str, cache: Path
) -> None:
    chips = {"hip": "emulated", "emulated_devices": provider.CHIPS}
    runner = Model(model, target, settings=Settings(cache_dir=cache, jobs=1, threads=1, **chips))
    of_cpu = ["CPUExecutionProvider"]
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=of_cpu)
    for feed in feeds:
        found = session.run(None, feed)
        # One program for any sizes adds in another order than one for these.
        expect_close(found, list(runner.run(feed).values()), 1e-4)
        expect_close(found, reference.run(None, feed), 2e-3)


def expect_close(found: list[Any], wanted: list[Any], tolerance: float) -> None:
    for one, other in zip(found, map(np.asarray, wanted), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype.kind == "f":
            least = 0.1 * tolerance * np.abs(other).max(initial=0)
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=least)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_a_session_that_compiles_gives_the_same(name: str, tmp_path: Path) -> None:
    model, feeds = MODELS[name]()
    # Models whose data decide sizes have nodes outside, all others none.
    fallback = name == "detector" or name.startswith("open-")
    session = provider.session(model, cache_dir=str(tmp_path), fallback=fallback)
    expect_results(session, model, feeds, "cpu", tmp_path)


@pytest.mark.parametrize("chip", provider.CHIPS)
@pytest.mark.parametrize("name", ON_CHIPS)
def test_compiled_models_on_a_chip_give_the_same(name: str, chip: str, tmp_path: Path) -> None:
    model, feeds = MODELS[name]()
    session = provider.context_session(model, chip)
    expect_results(session, model, feeds, chip, tmp_path)
