"""How the CPU's executor shares chunks of steps between threads: libmgx/tests/executor.cpp."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LIBMGX = Path(__file__).resolve().parents[2] / "libmgx"
COMPILER = shutil.which("clang++-22") or shutil.which("c++")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_threads_share_steps(tmp_path: Path) -> None:
    program = tmp_path / "executor"
    sources = [LIBMGX / "tests/executor.cpp", LIBMGX / "src/cpu_executor.cpp"]
    options = ["-std=c++20", "-Wall", "-Wextra", "-pthread", "-I", LIBMGX / "src"]
    subprocess.run([*map(str, (COMPILER, *options, *sources, "-o", program))], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
