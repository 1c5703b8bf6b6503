"""Levels of CPUs as targets: names, what an artifact keeps, what a machine runs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.artifact import target as targets
from mgx_mlir.artifact.target import Target, check_executable, executable_levels
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.errors import TargetError, UsageError
from mgx_mlir.settings import Settings

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 20] x, float[20, 5] w) => (float[3, 5] y) { a = MatMul(x, w)  y = Tanh(a) }"""
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
X86 = pytest.mark.skipif(not executable_levels()[0].name.startswith("x86"), reason="x86-64 only")


@pytest.fixture(scope="module")
def artifact() -> mgx_mlir.Artifact:
    portable = mgx_mlir.compile_to_bytecode(parser.parse_model(MODEL))
    return mgx_mlir.finalize(
        portable, [*LEVELS, "aarch64", "gfx942"], settings=Settings(cache_dir=None, jobs=1)
    )


@pytest.fixture
def pretended(monkeypatch):
    """Makes this machine one of a level, for what it says that it runs."""

    def pretend(level: str) -> None:
        flags = Target.get(level).flags | {"x86_64"}
        monkeypatch.setattr(targets, "machine_flags", lambda: flags)
        targets.host_target.cache_clear()

    yield pretend
    targets.host_target.cache_clear()


def check_run(artifact: mgx_mlir.Artifact, target: str) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((3, 20), (20, 5)))
    (y,) = mgx_mlir.compile(artifact, target).run({"x": x, "w": w}).values()
    np.testing.assert_allclose(y, np.tanh(x @ w), rtol=1e-4, atol=1e-5)


def test_levels_are_listed_and_each_has_an_identity_of_its_own() -> None:
    assert set(LEVELS) | {"aarch64", "aarch64-sve"} <= set(Target.names())
    named = [name for name in Target.names() if name != "cpu"]
    assert len({Target.get(name).identity for name in named}) == len(named)


def test_code_of_a_level_uses_no_instruction_beyond_it(artifact) -> None:
    texts = {
        level: "".join(disassemble(code.data) for code in artifact.code_objects[level])
        for level in LEVELS
    }
    assert "ymm" not in texts["x86-64-v2"] and "vfmadd" not in texts["x86-64-v2"]
    assert "ymm" in texts["x86-64-v3"] and "zmm" not in texts["x86-64-v3"]
    assert "zmm" in texts["x86-64-v4"]


@X86
def test_a_program_runs_at_each_level_that_the_machine_has(artifact) -> None:
    again = mgx_mlir.Artifact.from_bytes(artifact.to_bytes())
    for target in executable_levels():
        if target.name in LEVELS:
            check_run(again, target.name)


@X86
def test_cpu_is_the_best_level_that_the_machine_runs(artifact, pretended, monkeypatch) -> None:
    def nothing_to_finalize(*_, **__):
        raise AssertionError

    monkeypatch.setattr("mgx_mlir.loader.finalize", nothing_to_finalize)
    monkeypatch.delenv("MGX_CPU", raising=False)
    best = executable_levels()[0]
    for level in LEVELS:
        if Target.get(level).flags <= best.flags:
            pretended(level)
            (code,) = artifact.code_objects_for(Target.get("cpu"))
            assert code.arch == level
            check_run(artifact, "cpu")


def test_a_level_that_the_machine_lacks_is_refused(artifact, pretended) -> None:
    pretended("x86-64-v3")
    with pytest.raises(TargetError, match=r"cannot run code for x86-64-v4: .* lacks avx512bw"):
        mgx_mlir.compile(artifact, "x86-64-v4")
    with pytest.raises(
        TargetError, match=r"lacks the architecture aarch64; it runs cpu, x86-64-v3"
    ):
        check_executable(Target.get("aarch64"))


@X86
def test_a_variable_says_which_level_cpu_means(monkeypatch, pretended) -> None:
    monkeypatch.setenv("MGX_CPU", "x86-64-v2")
    assert Target.get("cpu") == Target.get("x86-64-v2")
    for name in ("gfx942", "cpu", "x86-64-v9"):
        monkeypatch.setenv("MGX_CPU", name)
        with pytest.raises(UsageError, match=rf"MGX_CPU is '{name}'; use one of x86-64-v2, "):
            Target.get("cpu")
    monkeypatch.setenv("MGX_CPU", "x86-64-v4")
    pretended("x86-64-v2")
    with pytest.raises(TargetError, match="cannot run code for x86-64-v4"):
        Target.get("cpu")
