"""Kernels as nests, as a whole, and emit_pointwise on vectors."""

import pytest
from mlir import ir
from mlir.dialects import func

from mgx_mlir.codegen.loops.kernel import lower_nests, lowered_ops
from mgx_mlir.codegen.loops.nest import Nest
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.dialects import context, mgx
from mgx_mlir.errors import UnsupportedError
from test.codegen.meaning.cases import Case

# Ops around kernels, not in them, and those that end a block.
PROGRAM_OPS = {"code_object", "if", "kernel", "launch", "return", "yield"}


class Lowered:
    """The nests of a kernel, and the memory of its results."""

    def __init__(self, case: Case) -> None:
        self.nests: list[Nest] = []
        with context() as ctx, ir.Location.unknown():
            module = ir.Module.parse(case.text, ctx)
            holder = ir.Module.create()
            with ir.InsertionPoint(holder.body):
                self.results = lower_nests(module.body.operations[0], self)

    def add(self, nest: Nest) -> None:
        self.nests.append(nest)

    def end(self) -> None:
        pass


def test_every_op_of_the_dialect_has_a_lowering() -> None:
    names = {name.removeprefix("mgx.") for name in map(str, mgx.OPS)}
    assert names - {name.removeprefix("mgx.") for name in lowered_ops()} == PROGRAM_OPS


def test_results_are_never_the_memory_of_an_argument_or_of_each_other() -> None:
    found = Lowered(
        Case(
            "k",
            "%x: tensor<2x3xf32>",
            "%f = mgx.reshape %x : tensor<2x3xf32> -> tensor<6xf32>\n"
            "%s = mgx.softmax %x axis = 1 : tensor<2x3xf32>\n"
            "%t = mgx.reshape %s : tensor<2x3xf32> -> tensor<6xf32>",
            "%f: tensor<6xf32>, %s: tensor<2x3xf32>, %t: tensor<6xf32>",
        )
    )
    assert len(set(found.results)) == 3
    assert all(place.argument and place.argument.kind == "output" for place in found.results)


def test_each_reduction_starts_from_its_own_tensor() -> None:
    found = Lowered(
        Case(
            "k",
            "%x: tensor<4x8xf32>",
            "%a = mgx.reduce_sum %x axes = [1] : tensor<4x8xf32> -> tensor<4x1xf32>\n"
            "%s = mgx.mul %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>\n"
            "%b = mgx.reduce_sum %s axes = [1] : tensor<4x8xf32> -> tensor<4x1xf32>",
            "%a: tensor<4x1xf32>, %b: tensor<4x1xf32>",
        )
    )
    assert len({result.place for nest in found.nests for result in nest.results}) == 2


def test_weights_and_sizes_without_a_name_are_refused_with_the_location() -> None:
    unnamed = Case("k", "%x: tensor<?xf32>", "", "%x: tensor<?xf32>")
    with pytest.raises(UnsupportedError, match="does not follow"):
        Lowered(unnamed)
    weight = Case("k", "%x: tensor<f32>", '%w = mgx.literal "w" : tensor<f32>', "%w: tensor<f32>")
    with pytest.raises(UnsupportedError, match=r"mgx\.literal stands in a kernel"):
        Lowered(weight)


BODIES = {
    "f16": "erf tanh sigmoid relu exp rsqrt sign leaky_relu elu",
    "bf16": "add mul div max pow mod sqdiff",
    "f32": "add mul div max pow mod prelu fmod erf tanh sigmoid relu abs neg nearbyint isnan",
    "f8E4M3FN": "add tanh neg max",
    "i32": "add div mod fmod pow shift_left shift_right abs sign max",
    "ui8": "add div mod shift_right min relu",
    "i4": "add mul neg",
    "i1": "not logical_and logical_xor",
}
UNARY = set(
    "erf tanh sigmoid relu exp rsqrt sign leaky_relu elu abs neg nearbyint isnan not".split()
)


@pytest.mark.parametrize("type_", BODIES)
def test_pointwise_ops_are_emitted_on_vectors(type_: str) -> None:
    lines = []
    for i, op in enumerate(BODIES[type_].split()):
        if op == "isnan":
            lines.append(f"%v{i} = mgx.isnan %a : {type_} -> i1")
        elif op in UNARY:
            lines.append(f"%v{i} = mgx.{op} %a : {type_}")
        else:
            lines.append(f"%v{i} = mgx.{op} %a, %b : {type_}, {type_} -> {type_}")
    target = "f32" if type_ != "f32" else "f8E5M2"
    text = f"""func.func @f(%x: tensor<8x{type_}>, %y: tensor<8x{type_}>) {{
      %r = mgx.pointwise(%x, %y) : (tensor<8x{type_}>, tensor<8x{type_}>) -> tensor<8x{target}> {{
      ^bb0(%a: {type_}, %b: {type_}):
        %k = mgx.constant {"true" if type_ == "i1" else 1.0 if type_[0] in "bf" else "1"}
            {"" if type_ == "i1" else f": {type_}"}
        {chr(10).join(lines)}
        %w = mgx.convert %k : {type_} -> {target}
        %z = mgx.convert %v0 : {type_} -> {target}
        %g = mgx.greater %z, %w : {target}, {target} -> i1
        %y0 = mgx.where %g, %z, %w : i1, {target}, {target} -> {target}
        mgx.yield %y0 : {target}
      }}
      return
    }}"""
    with context() as ctx, ir.Location.unknown():
        source = ir.Module.parse(text, ctx)
        op = source.body.operations[0].regions[0].blocks[0].operations[0]
        for name in ("arith", "func", "math", "vector"):
            ctx.get_dialect_descriptor(name)
        module = ir.Module.create()
        vector = ir.VectorType.get([2, 4], element_of(op.operands[0].type).storage())
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("g", ([vector, vector], []))
        with ir.InsertionPoint(function.add_entry_block()):
            results = emit_pointwise(op, list(function.arguments))
            func.ReturnOp([])
        assert module.operation.verify()
        assert results[0].type == ir.VectorType.get(
            [2, 4], element_of(op.results[0].type).storage()
        )
