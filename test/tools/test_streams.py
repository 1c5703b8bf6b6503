"""Standard streams that are closed, full or broken; signals that end a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits.onnx"
TOOL = f"{sys.executable} -m mgx_mlir.tools.mgx"
PARAMS = f"{TOOL} params {DIGITS}"


def shell(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MGX_JOBS": "2", **variables}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_good_run_succeeds_without_streams(closed: str, tmp_path: Path) -> None:
    file = tmp_path / "m.mgx"
    found = shell(f"{TOOL} compile {DIGITS} -o {file} -v {closed}")
    assert found.returncode == 0 and file.read_bytes()[:4] == b"\x89MGX", found
    assert "Traceback" not in found.stderr


def test_a_wrong_run_fails_without_streams() -> None:
    assert shell(f"{TOOL} params nothing.onnx >&- 2>&-").returncode == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [f"params {DIGITS}", "--help", "read --help"])
def test_a_full_device_is_said(words: str, unbuffered: str) -> None:
    found = shell(f"{TOOL} {words} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert found.returncode == 1
    assert found.stderr.endswith("standard output: No space left on device\n")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [f"params {DIGITS}", "--help", "op"])
def test_a_reader_that_goes_away_is_no_failure(words: str) -> None:
    found = shell(f"{TOOL} {words} | true; exit ${{PIPESTATUS[0]}}")
    assert (found.returncode, found.stderr) == (0, "")


def test_errors_that_nobody_reads_leave_the_exit_code() -> None:
    found = shell(f"{TOOL} params nothing.onnx 2>&1 | true; exit ${{PIPESTATUS[0]}}")
    assert (found.returncode, found.stderr) == (1, "")


def test_a_log_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    words = f"compile {DIGITS} -o {tmp_path}/m.mgx -vv --log-file /dev/full"
    found = shell(f"{TOOL} {words}")
    assert found.returncode == 0 and (tmp_path / "m.mgx").exists()
    assert found.stderr.count("/dev/full cannot be written") == 1 == found.stderr.count("\n")


def test_python_finalizes_without_streams(tmp_path: Path) -> None:
    program = (
        f"import mgx_mlir; a = mgx_mlir.compile_to_bytecode({str(DIGITS)!r}); "
        f"mgx_mlir.save(mgx_mlir.finalize(a, 'x86-64-v3'), {str(tmp_path / 'm.mgx')!r})"
    )
    command = f'{sys.executable} -c "{program}" <&- >&- 2>&-'
    assert shell(command, MGX_CACHE_DIR="none").returncode == 0
    assert (tmp_path / "m.mgx").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom mgx_mlir.artifact.files import atomic_file\n"
        "from mgx_mlir.tools.command import exit_code, end_with\nfrom pathlib import Path\n"
        "def work():\n    with atomic_file(Path('out')) as stream:\n        stream.write(b'half')\n"
        "        print('begun', flush=True)\n        time.sleep(60)\n"
        "end_with(lambda: exit_code('mgx', work))"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate()
    said = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert (process.returncode, error) == (128 + number, f"mgx: {said}\n")
    assert not list(tmp_path.iterdir())
