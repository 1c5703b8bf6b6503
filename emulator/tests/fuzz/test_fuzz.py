"""A short run of each fuzz target from its corpus: the same inputs every time.

`make fuzz` builds and runs them for as long as one likes. Their findings go into the corpus.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "sanitize" / "fuzz"
RUNTIME = list(Path("/usr/lib/llvm-22/lib/clang").glob("*/lib/linux/libclang_rt.fuzzer-*.a"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not RUNTIME, reason="libFuzzer is not there: apt-get install libclang-rt-22-dev"
    ),
]
RUNS = {"load": 600, "execute": 3000}


@pytest.fixture(scope="module")
def build() -> Path:
    options = ["-DMGX_EMULATOR_SANITIZE=ON", "-DMGX_EMULATOR_FUZZ=ON", "-DMGX_EMULATOR_V3=OFF"]
    compilers = ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT / "emulator"), "-B", str(BUILD)]
    make = ["cmake", "--build", str(BUILD), "--target", *(f"fuzz_{name}" for name in RUNS)]
    for command in ([*configure, *options, *compilers], make):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return BUILD


@pytest.mark.parametrize("target", RUNS)
def test_no_input_does_harm(build: Path, target: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(HERE / "corpus" / target, corpus)
    done = subprocess.run(
        [
            str(build / f"fuzz_{target}"),
            f"-runs={RUNS[target]}",
            "-seed=1",
            "-timeout=60",
            str(corpus),
        ],
        cwd=tmp_path,
        env=os.environ | {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
