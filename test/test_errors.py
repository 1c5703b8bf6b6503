"""Nothing but the project's errors leaves the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir.artifact.plan import Buffer, Plan, Step
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import (
    CompilerError,
    Edge,
    MgxError,
    ModelError,
    ResourceError,
    UnsupportedError,
    UserError,
)
from mgx_mlir.importer import conversion
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits.onnx"


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (MemoryError("4 TiB"), ResourceError, "the work: memory ran out: 4 TiB; use smaller"),
        (FileNotFoundError(2, "no such file", "x"), UserError, "the work: x: no such file"),
        (
            IndexError("7"),
            CompilerError,
            r"the work: failed with IndexError: 7 \(.*errors.py:",
        ),
        (RecursionError("deep"), CompilerError, "RecursionError: deep"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), CompilerError, "UnicodeDecodeError"),
    ],
)
def test_other_exceptions_become_errors_of_the_project(raised, kind, words):
    @Edge("the work")
    def work() -> None:
        raise raised

    with pytest.raises(kind, match=words) as caught:
        work()
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [ModelError("m"), UnsupportedError("u", ("n",))])
def test_errors_of_the_project_pass_as_they_are(raised):
    with pytest.raises(MgxError) as caught, Edge("the work"):
        raise raised
    assert caught.value is raised


def test_interrupts_pass():
    with pytest.raises(KeyboardInterrupt), Edge("the work"):
        raise KeyboardInterrupt


def test_a_fault_of_a_converter_names_the_node(monkeypatch):
    def broken(*_):
        raise KeyError("gone")

    monkeypatch.setattr(conversion.folding, "fold", broken)
    nodes = model("g (float[2] x) => (y) <float[2] c = {1.0, 2.0}> { y = Neg (c) }")
    nodes.graph.node[0].name = "the node"
    with pytest.raises(CompilerError, match="Neg 'the node': failed with KeyError: 'gone'"):
        mgx_mlir.parse_onnx(nodes)


def test_an_artifact_that_cannot_be_written(tmp_path):
    artifact = mgx_mlir.compile_to_bytecode(model("g (float[2] x) => (y) { y = Neg (x) }"))
    with pytest.raises(UserError, match=r"saving the artifact: .*No such file"):
        mgx_mlir.save(artifact, tmp_path / "nowhere" / "x.mgx")


def test_every_verb_ends_with_a_message(monkeypatch, capsys):
    def broken(*_, **__):
        raise IndexError("out of it")

    monkeypatch.setattr("mgx_mlir.tools.verbs.check.run", broken)
    assert main(["check", str(DIGITS)]) == 1
    assert "mgx check: failed with IndexError: out of it" in capsys.readouterr().err


def test_a_tensor_that_no_machine_holds_is_named():
    big = model(f'g (float[{1 << 20}] x) => (y) {{ y = Einsum <equation = "i,j->ij"> (x, x) }}')
    big.graph.node[0].name = "outer"
    with pytest.raises(ModelError, match=r"Einsum 'outer': 'y' of .* needs 4 TiB"):
        mgx_mlir.parse_onnx(big)


def test_a_tensor_inside_of_a_branch_is_looked_at():
    big = model(
        "g (bool c, float[2] x) => (y) { y = If (c) <"
        f"then_branch = t () => (float[2] z) <int64[1] n = {{{1 << 40}}}> "
        "{ a = ConstantOfShape (n) s = ReduceSum <keepdims = 0> (a) z = Add (x, s) },"
        "else_branch = e () => (float[2] w) { w = Neg (x) }> }"
    )
    with pytest.raises(ModelError, match=r"ConstantOfShape '.*': 'a' of \[1099511627776\] needs"):
        mgx_mlir.parse_onnx(big)


def test_an_output_that_this_machine_cannot_hold_is_named():
    large = model(f"g (float[1,{1 << 18}] x, float[{1 << 18},1] z) => (y) {{ y = Add (x, z) }}")
    program = mgx_mlir.compile(large, settings=Settings(cache_dir=None, jobs=1))
    with pytest.raises(
        ResourceError, match=r"output 'y', float32\[262144, 262144\], needs 256 GiB"
    ):
        program.run(
            {"x": np.ones((1, 1 << 18), np.float32), "z": np.ones((1 << 18, 1), np.float32)}
        )


def test_an_arena_that_is_not_there_names_its_largest_tensor():
    sizes = (16, 16, 1 << 40, 1 << 40)
    buffers = tuple(
        Buffer("arena", size, offset=sum(sizes[:place])) for place, size in enumerate(sizes)
    )
    steps = Step(-1, (0, 1), "small"), Step(-1, (2, 3), "big")
    plan = Plan((), (), sum(sizes), buffers, steps)
    with pytest.raises(ResourceError, match=r"needs 2 TiB, and this machine has .*'big'"):
        mgx_mlir.compile(Artifact("large", plan, (), {}))


def test_an_artifact_with_an_impossible_arena_does_not_load():
    artifact = mgx_mlir.compile_to_bytecode(model("g (float[2] x) => (y) { y = Neg (x) }"))
    hostile = replace(artifact, plan=replace(artifact.plan, arena_bytes=1 << 46))
    read = Artifact.from_bytes(hostile.to_bytes())
    with pytest.raises(ResourceError, match="needs 64 TiB"):
        mgx_mlir.compile(read, settings=Settings(cache_dir=None, jobs=1))
