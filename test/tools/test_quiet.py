"""--quiet and MGX_QUIET: results and errors alone; the first build of the emulated GPUs."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mgx_mlir.emulator import build
from mgx_mlir.errors import UsageError
from mgx_mlir.tools.mgx import main

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits.onnx")


@pytest.mark.parametrize("how", ["-q", "--quiet", "--log-level=error", "MGX_QUIET"])
def test_verbs_that_write_say_nothing(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [] if how == "MGX_QUIET" else [how]
    monkeypatch.setenv("MGX_QUIET", "1" if how == "MGX_QUIET" else "0")
    monkeypatch.setenv("MGX_LOUD", "1")  # a variable that is not known is warned of
    assert main(["compile", DIGITS, "-o", "m.mgx", *words]) == 0
    assert main(["triton", "m.mgx", *words]) == 0
    said = capsys.readouterr()
    assert (tmp_path / "m.mgx").is_file() and not said.out + said.err
    assert main(["compile", "nothing.onnx", *words]) == 1
    assert "nothing.onnx" in capsys.readouterr().err


def test_results_are_printed_nevertheless(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DIGITS, "-q"]) == 0
    assert "probabilities" in capsys.readouterr().out


def test_verbose_wins_over_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_QUIET", "1")
    assert main(["compile", DIGITS, "-o", str(tmp_path / "m.mgx"), "-v"]) == 0
    assert "pipeline" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "moves"), [([], True), (["-q"], False)])
def test_nothing_moves_on_a_quiet_terminal(words: list[str], moves: bool, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mgx_mlir.tools.mgx", "compile", DIGITS, "-o", "m.mgx"]
    environment = {**os.environ, "TERM": "xterm", "MGX_CACHE_DIR": "none"}
    done = subprocess.run(
        [*command, "--target", "cpu", *words], cwd=tmp_path, env=environment,
        stdout=subprocess.PIPE, stderr=theirs, check=False,
    )  # fmt: skip
    os.close(theirs)
    try:
        shown = os.read(ours, 1 << 16)
    except OSError:  # nothing was written
        shown = b""
    os.close(ours)
    assert done.returncode == 0 and bool(shown) == moves == bool(done.stdout)


def test_a_build_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "echo '[1/2] a.cpp'; sleep .3; echo '[2/2] b.cpp'; sleep .3"

    def run(targets: tuple[str, ...], told: build.Told | None = None) -> Path:
        build._run(["bash", "-c", script], told)
        return tmp_path

    monkeypatch.setattr(build, "build", run)
    monkeypatch.setattr(build, "_TOLD", 0.05)
    monkeypatch.setattr(build, "_EACH", 0.2)
    build.build_for_use()
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "mgx: building the emulated GPUs, once"
    assert "mgx: building the emulated GPUs: 1 of 2 files, 0 s" in lines
    assert 2 <= len(lines) <= 4  # not each of the dozen times that it was told
    monkeypatch.setattr(logging.getLogger("mgx_mlir"), "level", logging.ERROR)
    logging.getLogger("mgx_mlir").manager._clear_cache()  # type: ignore[attr-defined]
    build.build_for_use()
    assert not capsys.readouterr().err
    logging.getLogger("mgx_mlir").manager._clear_cache()  # type: ignore[attr-defined]


def test_a_build_that_fails_shows_the_end_of_its_output() -> None:
    with pytest.raises(UsageError, match="do not build") as caught:
        build._run(["bash", "-c", "for i in $(seq 30); do echo line $i; done; exit 1"])
    assert str(caught.value).splitlines()[1:] == [f"line {n}" for n in range(11, 31)]
