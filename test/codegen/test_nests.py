"""Nests of a kernel whose sizes are arguments: their loops, their order, and what they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.reference
import pytest
from mlir import ir

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.loops import across
from mgx_mlir.codegen.cpu.nests import HostKernel, compile_nests
from mgx_mlir.codegen.cpu.rows import Shared, take_over
from mgx_mlir.codegen.cpu.squares import Crossed
from mgx_mlir.codegen.loops.kernel import kernel_symbols, lower_nests
from mgx_mlir.codegen.loops.nest import Facts, Nest
from mgx_mlir.dialects import context


def tensor(*sizes: str | int, element: str = "f32") -> str:
    marks = "x".join("?" if isinstance(size, str) else str(size) for size in sizes)
    dims = ", ".join(f"{size} : 1 ... ?" if isinstance(size, str) else "_" for size in sizes)
    return f"tensor<{marks}x{element}, #mgx.dims<[{dims}]>>"


def kernel(arguments: str, result: str, body: str) -> ir.Module:
    text = (
        f'mgx.kernel @k({arguments}) -> {result} attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"{body}\nmgx.return %y : {result}\n}}"
    )
    with context(), ir.Location.unknown():
        return ir.Module.parse(text)


class Collected:
    """The nests of a kernel."""

    def __init__(self, module: ir.Module) -> None:
        self.nests: list[Facts] = []
        (op,) = module.body.operations
        self._symbols = kernel_symbols(op)
        with module.context, ir.Location.unknown():
            holder = ir.Module.create()
            with ir.InsertionPoint(holder.body):
                lower_nests(op, self, HostKernel(self))

    def add(self, nest: Nest) -> None:
        self.nests.append(Facts.of(nest, self._symbols))

    def end(self) -> None:
        pass


def unary(op: str, x: str, y: str, attributes: str = "") -> Collected:
    arrow = "" if x == y else f" -> {y}"
    return Collected(kernel(f"%x: {x}", y, f"%y = mgx.{op} %x {attributes} : {x}{arrow}"))


def loops(facts: Facts) -> tuple[list[str], list[str]]:
    """The sizes of a nest's parallel loops, and of those of its reductions."""
    return [str(g.size) for g in facts.parallel], [str(g.size) for g in facts.reduction]


def test_neighbours_are_one_loop():
    x = tensor("b", "c", 7, 7)
    (only,) = unary("tanh", x, x).nests
    assert loops(only) == (["49*b*c"], [])


def test_a_broadcast_keeps_its_loops_apart():
    x, z = tensor("b", "c", "n"), tensor("c", 1)
    body = f"%w = mgx.multibroadcast %z : {z} -> {x}\n%y = mgx.add %x, %w : {x}, {x} -> {x}"
    (only,) = Collected(kernel(f"%x: {x}, %z: {z}", x, body)).nests
    assert loops(only) == (["b", "c", "n"], [])


def test_a_mean_of_an_image_is_one_loop():
    x, y = tensor("b", "c", "h", "w"), tensor("b", "c", 1, 1)
    first, *_ = unary("reduce_mean", x, y, "axes = [2, 3]").nests
    assert loops(first) == (["b*c"], ["h*w"])


@pytest.mark.parametrize(("axis", "strided"), [(0, True), (1, False)])
def test_a_sum_across_memory_goes_along_it(axis, strided):
    x, y = tensor("m", "n"), tensor(*((1, "n") if axis == 0 else ("m", 1)))
    first, *_ = unary("reduce_sum", x, y, f"axes = [{axis}]").nests
    assert across(first) is strided


def test_a_transpose_goes_by_squares():
    (only,) = unary("transpose", tensor("m", "n"), tensor("n", "m"), "permutation = [1, 0]").nests
    found = Crossed.of(only)
    assert found is not None
    assert (str(found.across.size), str(found.along.size)) == ("n", "m")


def test_rows_of_a_softmax_share_a_function_and_the_memory_of_the_result():
    x = tensor("m", "n")
    nests = unary("softmax", x, x, "axis = 1").nests
    take_over(nests)
    (shared,) = Shared.all(nests)
    assert str(shared.rows) == "m"
    result = nests[-1].nest.results[0].place
    assert [n.nest.results[0].place.home is result for n in nests] == [False, True, False, True]


@pytest.mark.parametrize(("op", "count"), [("exp", 3), ("neg", 2)])
def test_a_function_that_a_sum_and_other_work_read_is_computed_once(op, count):
    x, y = tensor("m", "n"), tensor("m", 1)
    body = (
        f"%p = mgx.{op} %x : {x}\n%s = mgx.reduce_sum %p axes = [1] : {x} -> {y}\n"
        f"%w = mgx.multibroadcast %s : {y} -> {x}\n%y = mgx.div %p, %w : {x}, {x} -> {x}"
    )
    assert len(Collected(kernel(f"%x: {x}", x, body)).nests) == count


def test_columns_of_a_softmax_do_not():
    x = tensor("m", "n")
    assert len(Shared.all(unary("softmax", x, x, "axis = 0").nests)) > 1


def test_places_that_are_not_needed_together_share_scratch_memory():
    x = tensor(64, "n")
    body = "\n".join(
        f"%{n + 1} = mgx.softmax %{n or 'x'} axis = {n % 2} : {x}" for n in range(4)
    ).replace("%4 =", "%y =")
    module = kernel(f"%x: {x}", x, body)
    (op,) = module.body.operations
    with module.context, ir.Location.unknown():
        code = compile_nests(op, Target.host_cpu())
    # The powers or the result of at most two softmaxes, and rows of 64 and of n elements.
    assert str(code.formulas[-code.scratch_bytes - 1]).count("64*n") <= 3


def run(nodes: str, signature: str, feeds: Sequence[dict[str, np.ndarray]]) -> None:
    """Runs a program for any sizes, and those for the given ones, and compares."""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({signature}) {{ {nodes} }}'
    )
    program = mgx_mlir.compile(model, mode="full-dynamic", target="cpu")
    reference = onnx.reference.ReferenceEvaluator(model)
    for given in feeds:
        found = program.run(given).values()
        for have, want in zip(found, reference.run(None, given), strict=True):
            np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)


SIZES = [(1, 1), (15, 40), (16, 16), (17, 300), (70, 33)]
_TWICE = """a = Constant <value_ints = [0, 1]> () i = Unsqueeze (x, a)
    s = Constant <value_floats = [1.0, 1.0, 2.0, 4.0]> () y = Resize <mode = "nearest"> (i, , s)"""
_AXIS = "a = Constant <value_ints = [{}]> () y = {} (x, a)"
CASES = {
    "transpose": ("n, m", "y = Transpose <perm = [1, 0]> (x)"),
    **{f"{op}, {axis}": (shape, _AXIS.format(axis, op))
       for op in ("ReduceSum", "ReduceMax", "ReduceMin")
       for axis, shape in ((0, "1, n"), (1, "m, 1"))},
    **{f"Softmax, {axis}": ("m, n", f"y = Softmax <axis = {axis}> (x)") for axis in (0, 1)},
    "edges": ("p, q", "a = Constant <value_ints = [0, 2, 1, 3]> () y = Pad (x, a)"),
    "beside": ("m, q", "z = Tanh (x) y = Concat <axis = 1> (x, z, x)"),
    "repeated": ("1, p, q, r", _TWICE),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results(name):
    shape, nodes = CASES[name]
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal(size).astype(np.float32)} for size in SIZES]
    run(nodes, f"float[m, n] x) => (float[{shape}] y", feeds)


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize("columns", [2, 5, 12, 20])
def test_transposes_of_some_columns(columns, element):
    signature = f"{element}[b, n, {columns}] x) => ({element}[b, {columns}, n] y"
    dtype = np.dtype(np.float16 if element == "float16" else np.float32)
    sizes = [(2, n, columns) for n in (1, 7, 21, 40)]
    feeds = [{"x": np.arange(np.prod(size)).reshape(size).astype(dtype)} for size in sizes]
    run("y = Transpose <perm = [0, 2, 1]> (x)", signature, feeds)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_the_place_of_an_extreme_among_equal_ones_and_nan(op, last):
    rng = np.random.default_rng(1)
    feeds = []
    for size in SIZES:
        x = rng.integers(-3, 4, size).astype(np.float32)
        x[0, size[1] // 2] = np.nan
        feeds.append({"x": x})
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[m, n] x) => (int64[m, 1] y) '
        f"{{ y = {op} <axis = 1, select_last_index = {last}> (x) }}"
    )
    program = mgx_mlir.compile(model, mode="full-dynamic", target="cpu")
    for given in feeds:
        x = given["x"][:, ::-1] if last else given["x"]
        want = (np.argmax if op == "ArgMax" else np.argmin)(x, axis=1)
        want = x.shape[1] - 1 - want if last else want
        np.testing.assert_array_equal(program.run(given)["y"][:, 0], want)


def test_a_table_of_numbers_is_part_of_the_code():
    table = ", ".join(f"{n}.5" for n in range(6))
    nodes = f"t = Constant <value_floats = [{table}]> () y = Add (x, t)"
    rng = np.random.default_rng(2)
    run(nodes, "float[m, 6] x) => (float[m, 6] y", [{"x": rng.random((5, 6), np.float32)}])
