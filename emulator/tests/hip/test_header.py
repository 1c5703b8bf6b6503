"""The library's declarations against the HIP header of a package: the triton wheel has one."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hip_support import HERE, E

SOURCES = HERE.parents[1] / "hip"
# Newer than the header: hip-python's enumeration vouches for them.
NEWER = {
    "hipErrorInvalidResourceType",
    "hipErrorInvalidResourceConfiguration",
    "hipErrorStreamDetached",
    "hipErrorInvalidClusterSize",
}


@pytest.fixture(scope="module")
def include() -> Path:
    spec = importlib.util.find_spec("triton")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "backends" / "amd" / "include"
        if (folder / "hip" / "hip_runtime_api.h").is_file():
            return folder
    pytest.skip("no HIP header: pip install triton")


@pytest.fixture(scope="module")
def compiler() -> str:
    for name in ("g++", "clang++-22", "clang++"):
        if path := shutil.which(name):
            return path
    pytest.skip("no C++ compiler")


def real(include: Path) -> list[str]:
    return ["-DMGX_HIP_REAL_HEADER", "-D__HIP_PLATFORM_AMD__", f"-I{include}"]


@pytest.fixture(scope="module")
def precompiled(include, compiler, tmp_path_factory) -> list[str]:
    """The command that checks a source, with all headers of the folder read once."""
    header = tmp_path_factory.mktemp("precompiled") / "all.h"
    names = sorted(p.name for p in SOURCES.glob("*.h") if not p.name.startswith("abi_"))
    header.write_text("".join(f'#include "{name}"\n' for name in names))
    command = [compiler, "-std=c++17", "-w", *real(include), f"-I{SOURCES}", f"-I{SOURCES.parent}"]
    output = header.with_name("all.h.gch" if compiler.endswith("g++") else "all.h.pch")
    made = [*command, "-x", "c++-header", str(header), "-o", str(output)]
    result = subprocess.run(made, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000]
    return [*command, "-fsyntax-only", "-include", str(header)]


@pytest.mark.parametrize("source", sorted(p.name for p in SOURCES.glob("*.cpp")))
def test_every_prototype_is_that_of_the_header(source, precompiled):
    command = [*precompiled, str(SOURCES / source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000]


def declarations() -> str:
    text = "".join(p.read_text() for p in sorted(SOURCES.glob("abi_*.h")))
    return re.sub(r"//[^\n]*", "", text)


def facts() -> list[str]:
    """C++ expressions of every size, offset and enumerator of our declarations."""
    text = declarations()
    found = []
    for body, name in re.findall(r"typedef (?:struct|union)[^{;]*\{(.*?)\n\} (\w+);", text, re.S):
        found.append(f"sizeof({name})")
        flat = re.sub(r"\n  union \{.*?\n  \};", "", body, flags=re.S)
        if "hipDeviceArch_t" in name:
            continue  # bit fields have no offset
        members = re.findall(r"^  [^\n;{}]*?(\w+)(?:\[[^;]*\])?;$", flat, re.M)
        found += [f"offsetof({name}, {member})" for member in members]
    for body in re.findall(r"enum[^{;]*\{(.*?)\}", text, re.S):
        found += [f"(long)({n})" for n in re.findall(r"^\s*(\w+)\s*=", body, re.M)]
    found += [f"(long)({n})" for n in re.findall(r"#define (hip\w+) ", text)]
    return found


def values(compiler: str, folder: Path, name: str, options: list[str]) -> list[str]:
    lines = [f'  std::printf("%s = %ld\\n", "{fact}", long({fact}));' for fact in facts()]
    source = folder / f"{name}.cpp"
    source.write_text(
        '#include "abi.h"\n#include <cstdio>\nint main() {\n' + "\n".join(lines) + "\n}\n"
    )
    program = folder / name
    command = [compiler, "-std=c++17", "-w", *options, f"-I{SOURCES}", str(source)]
    result = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000]
    return subprocess.run([str(program)], capture_output=True, text=True).stdout.splitlines()


def test_every_size_offset_and_enumerator_is_that_of_the_header(include, compiler, tmp_path):
    ours = values(compiler, tmp_path, "ours", [])
    theirs = values(compiler, tmp_path, "theirs", real(include))
    assert len(ours) > 400
    assert ours == theirs


def test_every_error_code_is_that_of_hip_python():
    rows = re.findall(r"MGX_HIP_ERROR\((\w+), (\d+),", (SOURCES / "error_codes.inc").read_text())
    ours = {name: int(value) for name, value in rows}
    theirs = {name: int(E[name]) for name in E.__members__}
    assert ours.keys() >= NEWER
    assert {n: v for n, v in theirs.items() if n in ours} == ours
    assert {v for n, v in theirs.items() if n != "hipErrorTbd"} == set(ours.values())
