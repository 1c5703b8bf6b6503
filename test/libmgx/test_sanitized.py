"""libmgx under sanitizers: many threads on one program, and any bytes as an artifact.

LIBMGX_SECONDS says how long each takes; the default is short.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from mgx_mlir import emulator
from mgx_mlir.settings import Settings
from test.fuzz.artifacts.programs import seeds
from test.golden.files import ARTIFACTS, name_of

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/sanitize"
SECONDS = os.environ.get("LIBMGX_SECONDS", "5")
FUZZER = list(Path("/usr/lib/llvm-22/lib/clang").glob("*/lib/linux/libclang_rt.fuzzer-*.a"))

pytestmark = pytest.mark.slow


def done(*words: object, **variables: str) -> str:
    environment = {**os.environ, **variables}
    found = subprocess.run(
        [*map(str, words)], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-6000:]
    return found.stdout + found.stderr


def built(name: str, target: str, *options: str) -> Path:
    folder = BUILD / name
    done("cmake", "-G", "Ninja", "-S", ROOT / "libmgx", "-B", folder, *options)
    done("cmake", "--build", folder, "--target", target)
    return folder / target


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_sixteen_threads_with_twelve_sizes(sanitizers: str, target: str, folder: Path) -> None:
    """Memory stays as it is; freed memory that AddressSanitizer keeps is kept small for that."""
    name = f"libmgx-{sanitizers.partition(',')[0]}"
    options = (f"-DMGX_SANITIZE={sanitizers}", "-DCMAKE_CXX_COMPILER=g++")
    stress = built(name, "stress", *options)
    path = folder / f"stress-{target}.mgx"
    settings = Settings(cache_dir=folder / "cache", threads=1, hip="emulated")
    path.write_bytes(seeds(folder, target, settings, ("some sizes and any",))["some sizes and any"])
    device = "cpu:3" if target == "cpu" else "hip:0"
    said = done(
        stress, path, device, 16, SECONDS, ASAN_OPTIONS="quarantine_size_mb=1", MGX_HIP="emulated",
        MGX_CACHE_DIR=str(folder / "cache"), MGX_EMULATED_DEVICES="gfx942",
        MGX_EMULATOR_LIBRARY=str(emulator.library_path()),
    )  # fmt: skip
    assert "wrong 0, made ready again 0" in said
    if "address" in sanitizers:
        assert int(said.rsplit("grown by ")[1].split()[0]) < 16 << 10  # kB


@pytest.mark.skipif(not FUZZER, reason="no libFuzzer: apt-get install libclang-rt-22-dev")
def test_any_bytes_are_an_artifact_or_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    fuzzer = built(
        "libmgx-fuzz", "fuzz_artifact", "-DMGX_FUZZ=ON", "-DCMAKE_CXX_COMPILER=clang++-22"
    )
    seeds, own = tmp_path / "seeds", BUILD / "corpus-artifact"
    seeds.mkdir()
    own.mkdir(exist_ok=True)
    for name, data in files.items():
        (seeds / name.replace(" ", "-")).write_bytes(data)
    for path in ARTIFACTS:
        (seeds / name_of(path)).write_bytes(path.read_bytes())
    # Of half an hour's search: the shortest files that reach what they reach.
    with zipfile.ZipFile(ROOT / "libmgx/tests/corpus.zip") as corpus:
        corpus.extractall(seeds)
    limits = (f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=4096")
    said = done(fuzzer, *limits, f"-artifact_prefix={tmp_path}/", own, seeds)
    assert "Done" in said
