"""The cache of models that sessions had compiled, and what may befall it and its compiler."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from test.onnxruntime_ep import provider

WEIGHT = np.random.default_rng(0).standard_normal((8, 4), np.float32)


def product() -> onnx.ModelProto:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 8] x) => (float[n, 4] y) { a = MatMul(x, w)  y = Relu(a) }""")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    return model


def expect_results(session: Any) -> None:
    x = np.ones((3, 8), np.float32)
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, np.maximum(x @ WEIGHT, 0), rtol=1e-5)


def entries(cache: Path) -> list[Path]:
    return list((cache / "onnxruntime").iterdir())


def compiler(path: Path, *lines: str) -> str:
    """A command that says a version and, asked to compile, does this."""
    says = 'echo "mgx-mlir 1"'
    path.write_text("\n".join(["#!/bin/sh", f'[ "$1" = --version ] && {says} && exit', *lines]))
    path.chmod(0o755)
    return str(path)


def truncate(entry: Path) -> None:
    (entry / "0.mgx").write_bytes((entry / "0.mgx").read_bytes()[:1000])


def remove(entry: Path) -> None:
    (entry / "0.mgx").unlink()


def claim_more(entry: Path) -> None:
    (entry / "islands.txt").write_text("mgx-islands 1\n0.mgx 0 1 99\n")


SLOW = [pytest.param(damage, marks=pytest.mark.slow) for damage in (remove, claim_more)]


@pytest.mark.parametrize("damage", [truncate, *SLOW])
def test_a_damaged_entry_is_compiled_again(
    damage: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    provider.session(product(), cache_dir=str(tmp_path))
    (entry,) = entries(tmp_path)
    damage(entry)
    before = provider.counters()["compiled"]
    expect_results(provider.session(product(), cache_dir=str(tmp_path)))
    assert provider.counters()["compiled"] == before + 1
    assert "compiling again" in capfd.readouterr().err


def test_code_that_nothing_vouches_for_any_more_is_compiled_again(tmp_path: Path) -> None:
    """As where the cache of kernels was emptied."""
    provider.session(product(), cache_dir=str(tmp_path))
    shutil.rmtree(tmp_path / "kernels")
    before = provider.counters()["compiled"]
    expect_results(provider.session(product(), cache_dir=str(tmp_path)))
    assert provider.counters()["compiled"] == before + 1


def test_a_session_runs_what_it_compiled_without_a_cache_of_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expect_results(provider.session(product()))


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match=r"cannot make a folder in .*option cache_dir"):
        provider.session(product(), cache_dir=str(tmp_path / "file"))


def test_a_compiler_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    killed = compiler(tmp_path / "killed", "kill -9 $$")
    with pytest.raises(Exception, match="was ended by signal 9"):
        provider.session(product(), cache_dir=str(tmp_path), compiler=killed)
    assert entries(tmp_path) == []


def test_a_compiler_that_makes_nothing_is_an_error(tmp_path: Path) -> None:
    idle = compiler(tmp_path / "idle", "exit 0")
    with pytest.raises(Exception, match="made nothing"):
        provider.session(product(), cache_dir=str(tmp_path), compiler=idle)


@pytest.mark.slow
def test_what_a_killed_process_left_goes_away(tmp_path: Path) -> None:
    provider.session(product(), cache_dir=str(tmp_path))
    (entry,) = entries(tmp_path)
    old, new = (entry.with_name(f"{entry.name}.{end}") for end in ("abcdef", "ghijkl"))
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (time.time() - 100_000,) * 2)
    truncate(entry)
    provider.session(product(), cache_dir=str(tmp_path))
    assert {*entries(tmp_path)} == {entry, new}


SESSION = """
import sys
import onnx
from test.onnxruntime_ep import provider
model, cache, compiler = sys.argv[1:]
provider.session(onnx.load(model), cache_dir=cache, compiler=compiler)
print(provider.counters()["compiled"])
"""


def started(folder: Path, command: str) -> subprocess.Popen[str]:
    """A process of its own group that makes a session."""
    onnx.save(product(), folder / "m.onnx")
    words = [sys.executable, "-c", SESSION, folder / "m.onnx", folder / "cache", command]
    return subprocess.Popen(
        [*map(str, words)], cwd=provider.ROOT, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
def test_processes_may_compile_one_model_at_once(tmp_path: Path) -> None:
    """Each waits for the other with its compiler."""
    both = f'touch "{tmp_path}/$$"; while [ $(ls {tmp_path} | grep -c "^[0-9]") -lt 2 ]; do'
    command = compiler(tmp_path / "both", f"{both} sleep 0.05; done", f'{provider.COMPILER} "$@"')
    processes = [started(tmp_path, command) for _ in range(2)]
    for process in processes:
        said, faults = process.communicate(timeout=120)
        assert (process.returncode, said) == (0, "1\n"), faults
    assert len(entries(tmp_path / "cache")) == 1
    expect_results(provider.session(product(), cache_dir=str(tmp_path / "cache"), compiler="/none"))


@pytest.mark.parametrize("send", [os.killpg, os.kill])
def test_an_interrupt_ends_the_compiler_and_the_session(send: Any, tmp_path: Path) -> None:
    """As Ctrl-C, which goes to the group, or to the process alone."""
    slow = compiler(tmp_path / "slow", f"touch {tmp_path}/begun", "exec sleep 100")
    process = started(tmp_path, slow)
    end = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.05)
    send(process.pid, signal.SIGINT)
    _, faults = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "was ended by signal 2" in faults
    assert entries(tmp_path / "cache") == []
