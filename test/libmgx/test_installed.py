"""libmgx as a project finds it by CMake and pkg-config: installed, of a .deb, of a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(mgx 0.1 REQUIRED)
add_executable(run {source})
target_compile_features(run PRIVATE cxx_std_17)
target_link_libraries(run mgx::mgx)
"""

pytestmark = pytest.mark.slow


def command(*words: object) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libmgx") / "build"
    command("cmake", "-G", "Ninja", "-S", ROOT / "libmgx", "-B", folder)
    command("cmake", "--build", folder)
    return folder


def prefix(built: Path) -> Path:
    command("cmake", "--install", built, "--prefix", built / "usr")
    return built / "usr"


def debian(built: Path) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb: this is no Debian")
    command("cmake", "--build", built, "--target", "package")
    (package,) = built.glob("*.deb")
    command("dpkg-deb", "-x", package, built / "deb")
    return built / "deb/usr"


def wheel(built: Path) -> Path:
    """That of mgx-mlir-runtime; mgx-mlir's has the same files by the same lines."""
    words = ("-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", built / "wheel")
    command(sys.executable, *words, ROOT / "runtime")
    (file,) = (built / "wheel").glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(built / "wheel")
    return built / "wheel/mgx_mlir/_native"


@pytest.mark.parametrize("installed", [prefix, debian, wheel])
def test_examples_build_against_what_is_installed(
    installed: Callable[[Path], Path], built: Path, tmp_path: Path
) -> None:
    folder = installed(built)
    example = ROOT / "examples/libmgx"
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(source=example / "run.cpp"))
    command("cmake", "-S", tmp_path, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={folder}")
    command("cmake", "--build", tmp_path)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: run MODEL.mgx DEVICE\n")

    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config: make test-all installs it")
    (file,) = folder.rglob("mgx.pc")
    flags = command("pkg-config", "--with-path", file.parent, "--cflags", "--libs", "mgx").split()
    command("cc", "-std=c11", example / "run.c", "-o", tmp_path / "run_c", *flags)
    (library,) = folder.rglob("libmgx.so")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run([tmp_path / "run_c"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "usage: run MODEL.mgx DEVICE" in done.stderr


def test_the_library_needs_the_system_alone(built: Path) -> None:
    (library,) = (path for path in built.glob("libmgx.so*") if not path.is_symlink())
    needed = command("objdump", "-p", library)
    names = [line.split()[1] for line in needed.splitlines() if "NEEDED" in line]
    assert set(names) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    stripped = built / "stripped.so"
    command("strip", "-o", stripped, library)
    assert stripped.stat().st_size < 1_500_000
    symbols = command("nm", "-D", "--defined-only", library).split()[2::3]
    assert all(name.startswith("mgx_") for name in symbols)
