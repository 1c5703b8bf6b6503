"""The examples build against the header or the library alone, and run."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.artifact.record import Artifact as PythonArtifact
from mgx_mlir.settings import Settings
from test.libmgx.test_programs import given

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/libmgx"
NATIVE = Path(mgx_mlir.__path__[0]) / "_native"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1")


def built(folder: Path, compiler: str, source: str, *options: str) -> Path:
    """An example as a program."""
    program = folder / source.replace(".", "_")
    link = (f"-L{NATIVE}", "-lmgx", f"-Wl,-rpath,{NATIVE}")
    where = (f"-I{ROOT}/libmgx/include", str(EXAMPLES / source))
    command = [compiler, *STRICT, *options, *where, "-o", str(program), *link]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([*map(str, words)], env=environment, capture_output=True, text=True)


def done(*words: object, **variables: str) -> None:
    """Runs a command, which has to succeed."""
    found = run(*words, **variables)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_example_in_c_gives_what_python_gives(
    files: dict[str, bytes], folder: Path, tmp_path: Path
) -> None:
    program = built(tmp_path, "cc", "run.c", "-std=c11")
    path = folder / "example.mgx"
    cache = {"MGX_CACHE_DIR": str(folder / "cache")}
    for name in ("some sizes and any", "caches in place", "search"):
        path.write_bytes(files[name])
        artifact = PythonArtifact.open(path)
        inputs = given(artifact.plan, 3, 1)
        words = []
        for number, (key, array) in enumerate(inputs.items()):
            (tmp_path / f"{number}.bin").write_bytes(array.tobytes())
            sizes = ":" + "x".join(map(str, array.shape)) if array.shape else ""
            words.append(f"{key}={tmp_path / f'{number}.bin'}{sizes}")
        settings = Settings(cache_dir=folder / "cache", threads=1)
        wanted = mgx_mlir.compile(artifact, "cpu", settings=settings).run(inputs)
        done = run(program, path, "cpu:2", *words, "-o", tmp_path, **cache)
        assert (done.returncode, done.stderr) == (0, "")
        for key, array in wanted.items():
            found = np.frombuffer((tmp_path / f"{key}.bin").read_bytes(), array.dtype)
            np.testing.assert_array_equal(found.reshape(array.shape), array)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("place", "start"), [("docs/libmgx.md", "    "), ("libmgx/include/mgx.hpp", "//   ")]
)
def test_what_the_documents_show_compiles(place: str, start: str) -> None:
    text = (ROOT / place).read_text()
    begin = text.index(start + "mgx::Program program(mgx::Artifact(")
    lines = text[begin:].splitlines()
    block = "\n".join(itertools.takewhile(lambda line: line.startswith(start), lines))
    block = block.replace(start, "")
    assert "run(" in block
    source = f"#include <mgx.hpp>\nint main() {{\n{block}\nreturn scores[0] > 0; }}"
    command = ["c++", "-std=c++17", f"-I{ROOT}/libmgx/include", "-fsyntax-only", "-x", "c++", "-"]
    found = subprocess.run(command, input=source, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_example_in_cpp_describes_and_runs(
    files: dict[str, bytes], folder: Path, tmp_path: Path
) -> None:
    program = built(tmp_path, "c++", "run.cpp", "-std=c++17")
    path = tmp_path / "model.mgx"
    path.write_bytes(files["some sizes and any"])
    done = run(program, path, "cpu:1", MGX_CACHE_DIR=str(folder / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "input x: n 24\noutput y: n 24\nresults: 1, ms: " in done.stdout
    done = run(program, path, "cpu:1", MGX_CACHE_DIR="none")
    assert done.returncode == 1
    assert "nothing vouches for its machine code" in done.stderr


def rust(folder: Path) -> list[Path | str]:
    link = ("-L", NATIVE, "-C", f"link-arg=-Wl,-rpath,{NATIVE}")
    done("rustc", "-O", EXAMPLES / "run.rs", *link, "-o", folder / "run")
    return [folder / "run"]


def go(folder: Path) -> list[Path | str]:
    where = {"CGO_CFLAGS": f"-I{ROOT}/libmgx/include", "CGO_LDFLAGS": f"-L{NATIVE}"}
    done("go", "build", "-o", folder / "run", EXAMPLES / "run.go", **where)
    return [folder / "run"]


def node(folder: Path) -> list[Path | str]:
    shutil.copy(EXAMPLES / "run.mjs", folder)
    done("npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "koffi@3")
    return ["node", folder / "run.mjs"]


def csharp(folder: Path) -> list[Path | str]:
    done("mcs", "-warnaserror", f"-out:{folder}/run.exe", EXAMPLES / "run.cs")
    return ["mono", folder / "run.exe"]


TOOLS = {rust: ["rustc"], go: ["go"], node: ["node", "npm"], csharp: ["mcs", "mono"]}


@pytest.mark.slow
@pytest.mark.parametrize("made", TOOLS, ids=lambda made: str(made.__name__))
def test_examples_in_other_languages_give_what_python_gives(
    made: Callable[[Path], list[Path | str]], files: dict[str, bytes], folder: Path, tmp_path: Path
) -> None:
    missing = [tool for tool in TOOLS[made] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {missing[0]}: make test-all installs it")
    command, path = made(tmp_path), tmp_path / "model.mgx"
    path.write_bytes(files["some sizes and any"])
    known = {"MGX_CACHE_DIR": str(folder / "cache"), "LD_LIBRARY_PATH": str(NATIVE)}
    found = run(*command, path, "cpu:1", "n=3", **known)
    assert (found.returncode, found.stderr) == (0, "")
    settings = Settings(cache_dir=folder / "cache", threads=1)
    model = mgx_mlir.compile(PythonArtifact.open(path), "cpu", settings=settings)
    (wanted,) = model.run({"x": np.ones((3, 24), np.float32)}).values()
    name, sizes, shown = re.fullmatch(r"(\w+) \[(.*?)\]:? \[(.*)\]\n", found.stdout).groups()
    assert (name, re.findall(r"\d+", sizes)) == ("y", ["3", "24"])
    values = [float(n) for n in re.split("[, ]+", shown)]
    np.testing.assert_allclose(values, wanted.ravel()[:4], rtol=1e-5)
    found = run(*command, path, "cpu:1", "n=3", **known | {"MGX_CACHE_DIR": "none"})
    assert found.returncode == 1 and "nothing vouches" in found.stderr
