"""libmgx alone, as a C or C++ project finds it: CMake, pkg-config, a Debian package."""

from __future__ import annotations

import shutil
import subprocess
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
    command("cmake", "--install", folder, "--prefix", folder / "usr")
    return folder


def test_cmake_finds_the_package(built: Path, tmp_path: Path) -> None:
    source = ROOT / "examples/libmgx/run.cpp"
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(source=source))
    command("cmake", "-S", tmp_path, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={built / 'usr'}")
    command("cmake", "--build", tmp_path)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: run MODEL.mgx DEVICE\n")


def test_pkg_config_says_where_header_and_library_are(built: Path) -> None:
    (file,) = (built / "usr").rglob("mgx.pc")
    flags = dict(line.split(": ", 1) for line in file.read_text().splitlines())
    for flag in (flags["Cflags"][2:], flags["Libs"].split()[0][2:]):
        folder = Path(flag.replace("${pcfiledir}", str(file.parent)))
        assert (folder / "mgx.h").exists() or (folder / "libmgx.so").exists()
    if shutil.which("pkg-config"):
        said = command("pkg-config", "--with-path", file.parent, "--libs", "mgx")
        assert "-lmgx" in said


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


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no Debian")
def test_a_debian_package_holds_it(built: Path) -> None:
    command("cmake", "--build", built, "--target", "package")
    (package,) = built.glob("*.deb")
    listed = command("dpkg-deb", "--contents", package)
    for name in ("include/mgx.h", "include/mgx.hpp", "libmgx.so", "mgx.pc", "mgx-config.cmake"):
        assert name in listed
