"""Matrix products on the host against the reference: shapes, layouts, types, epilogues."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import HostKernel, kernel_text, tensor

from mgx_mlir.artifact.target import Target, executable_levels
from mgx_mlir.codegen.cpu import schedule
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from test.codegen import few_bits


def dot(
    M: int,
    N: int,
    K: int,
    layout: str = "nn",
    element: str = "f32",
    batch: tuple[int, ...] = (),
    result: str = "",
    op: str = "mgx.dot",
    second: str = "",
) -> str:
    """C = A B; 't' in the layout: the operand is stored transposed and read through a view.

    `second`: the element type of B, where it is not A's.
    """
    rank = len(batch)
    swap = [*range(rank), rank + 1, rank]
    second = second or element
    a, b = tensor((*batch, M, K), element), tensor((*batch, K, N), second)
    c = tensor((*batch, M, N), result or element)
    body, types, names = [], [], []
    for name, shape, wanted, mode, kind in (
        ("a", (M, K), a, layout[0], element),
        ("b", (K, N), b, layout[1], second),
    ):
        stored = tensor((*batch, *(reversed(shape) if mode == "t" else shape)), kind)
        types.append(f"%{name}: {stored}")
        names.append(f"%{name}")
        if mode == "t":
            names[-1] = f"%{name}t"
            body.append(
                f"%{name}t = mgx.transpose %{name} permutation = {swap} : {stored} -> {wanted}"
            )
    body.append(f"%c = {op} {names[0]}, {names[1]} : {a}, {b} -> {c}")
    return kernel_text(", ".join(types), c, "\n".join(body), "%c")


SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (13, 17, 19),
    (16, 32, 64),
    (64, 48, 40),
    (97, 101, 103),
    (30, 300, 2),
    (5, 33, 700),
]


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dot_of_any_shape_and_layout(shape, layout):
    HostKernel(dot(*shape, layout)).check()


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize(
    "shape", [(1, 130, 77), (2, 600, 40), (6, 50, 33), (70, 1, 50), (90, 3, 129)]
)
def test_products_with_few_rows_or_columns(shape, layout):
    HostKernel(dot(*shape, layout)).check()


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2FNUZ"])
@pytest.mark.parametrize("shape", [(13, 17, 19), (64, 48, 40), (1, 130, 77)])
def test_floats_of_8_bits_are_summed_in_f32(shape, element):
    HostKernel(dot(*shape, "nn", element, result="f32", op="mgx.quant_dot")).check()


def test_depth_beyond_one_cache_block():
    HostKernel(dot(40, 130, 5000)).check(atol=2e-3)


def test_rows_that_leave_the_first_level_cache_have_their_depth_cut():
    def plan(depth):
        sides = enumerate(strides(400, depth, 1000))
        a, b = (Matrix(number, "f32", 0, Axis(()), *axes) for number, axes in sides)
        problem = Contraction(1, 400, 1000, depth, a, b, "f32")
        return schedule.choose(problem, schedule.Machine(64, 32))

    cut, whole = plan(4096), plan(512)
    assert cut.rows * cut.depth * 4 <= schedule.HALF + 4 * cut.rows * cut.lanes
    assert cut.item_rows > cut.rows and cut.shared
    assert whole.depth == 512


@pytest.mark.parametrize("shape", [(150, 200, 4100), (129, 1000, 2500)], ids=str)
def test_items_of_several_tiles_that_read_parts_of_blocks(shape):
    HostKernel(dot(*shape)).check(atol=2e-3)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("shape", [(1, 20), (2, 33), (8, 20), (33, 40), (40, 5)], ids=str)
def test_long_sums_are_as_exact_as_short_ones(shape, layout):
    """One sum of 8192 positive products is off by 1.2e-6; sums of blocks by less than 2e-7."""
    kernel = HostKernel(dot(*shape, 8192, layout))
    a, b = kernel.random(low=0)
    (got,) = kernel.run(a, b)
    want = a.astype(np.float64) @ (b.T if layout == "nt" else b).astype(np.float64)
    assert np.sqrt(np.mean((got / want - 1) ** 2)) < 2e-7


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("shape", [(1, 9, 515), (2, 9, 515), (20, 9, 515)], ids=str)
def test_blocks_of_sums_that_do_not_divide_the_depth(shape, element):
    tolerance = 1e-3 if element == "f32" else 2e-2
    HostKernel(dot(*shape, "nn", element)).check(rtol=tolerance, atol=tolerance)


def test_batched_dot_reads_each_batch():
    HostKernel(dot(9, 20, 11, "nt", batch=(2, 3))).check()


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i32", "i64", "ui32"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_element_types(element, layout):
    tolerance = {"f16": 1e-2, "bf16": 6e-2}.get(element, 1e-5)
    HostKernel(dot(33, 40, 50, layout, element)).check(rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("element", ["i8", "ui8"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_quantized_dot_sums_in_i32(element, layout):
    HostKernel(dot(20, 30, 70, layout, element, result="i32", op="mgx.quant_dot")).check()


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("shape", [(13, 17, 19), (9, 33, 700), (24, 270, 512)], ids=str)
def test_quantized_dot_of_any_shape_and_layout(shape, layout):
    HostKernel(dot(*shape, layout, "i8", result="i32", op="mgx.quant_dot")).check()


@pytest.mark.parametrize("target", executable_levels(), ids=lambda target: target.name)
@pytest.mark.parametrize("elements", [("ui8", "i8"), ("i8", "ui8")], ids=str)
@pytest.mark.parametrize("shape", [(13, 17, 70), (24, 270, 515), (2, 40, 96)], ids=str)
def test_bytes_with_a_sign_and_without(shape, elements, target):
    text = dot(*shape, "nt", elements[0], result="i32", op="mgx.quant_dot", second=elements[1])
    kernel = HostKernel(text, target)
    kernel.check()
    arrays = kernel.random()
    for array in arrays:
        array[:] = np.iinfo(array.dtype).max
    kernel.check(*arrays)


@pytest.mark.parametrize("depth", [19, 512, 6000])
@pytest.mark.parametrize(
    ("level", "joined"), [("aarch64", 1), ("x86-64-v3", 2), ("x86-64-v4-vnni", 4)]
)
def test_quantized_products_are_summed_by_as_many_as_the_processor_does(level, joined, depth):
    a, b = (Matrix(i, "i8", 0, Axis(()), *axes) for i, axes in enumerate(strides(64, depth, 270)))
    problem = Contraction(1, 64, 270, depth, a, b, "i32")
    chosen = schedule.choose(problem, schedule.Machine.of(Target.get(level)))
    assert chosen.joined == joined
    assert chosen.packed_element(problem) == {1: "f32", 2: "i16", 4: "i8"}[joined]
    # Packed numbers fit the cache; sums in f32 are of few numbers.
    size = chosen.depth * chosen.columns * 4 // joined
    assert size <= schedule.BLOCK_BYTES and (joined > 1 or chosen.depth <= 1024)


def strides(M: int, K: int, N: int) -> tuple[tuple[Axis, Axis], tuple[Axis, Axis]]:
    return (Axis.of((M, K)), Axis.of((K, 1))), (Axis.of((K, N)), Axis.of((N, 1)))


@pytest.mark.parametrize("element", ["i8", "ui8"])
@pytest.mark.parametrize("depth", [700, 2100])
def test_quantized_dot_of_the_largest_numbers_is_exact(element, depth):
    kernel = HostKernel(dot(20, 130, depth, "nn", element, result="i32", op="mgx.quant_dot"))
    a, b = kernel.random()
    info = np.iinfo(a.dtype)
    extreme = info.min if info.min else info.max
    a[:], b[:] = extreme, extreme
    b[::7, ::3] = info.max - 1
    kernel.check(a, b)


def test_broadcast_operand_is_not_copied():
    a, b, full = tensor((3, 8, 5)), tensor((5, 9)), tensor((3, 5, 9))
    c = tensor((3, 8, 9))
    body = f"%bb = mgx.multibroadcast %b : {b} -> {full}\n%c = mgx.dot %a, %bb : {a}, {full} -> {c}"
    HostKernel(kernel_text(f"%a: {a}, %b: {b}", c, body, "%c")).check()


def test_heads_are_split_through_reshape_and_transpose():
    x, split, heads = tensor((10, 24)), tensor((10, 3, 8)), tensor((3, 10, 8))
    c = tensor((3, 10, 10))
    body = (
        f"%r = mgx.reshape %x : {x} -> {split}\n"
        f"%q = mgx.transpose %r permutation = [1, 0, 2] : {split} -> {heads}\n"
        f"%k = mgx.transpose %r permutation = [1, 2, 0] : {split} -> {tensor((3, 8, 10))}\n"
        f"%c = mgx.dot %q, %k : {heads}, {tensor((3, 8, 10))} -> {c}"
    )
    HostKernel(kernel_text(f"%x: {x}", c, body, "%c")).check()


def test_rows_made_of_several_pieces_of_memory():
    x, transposed, flat = tensor((3, 10, 16)), tensor((10, 3, 16)), tensor((10, 48))
    w, c = tensor((48, 20)), tensor((10, 20))
    body = (
        f"%t = mgx.transpose %x permutation = [1, 0, 2] : {x} -> {transposed}\n"
        f"%r = mgx.reshape %t : {transposed} -> {flat}\n"
        f"%c = mgx.dot %r, %w : {flat}, {w} -> {c}"
    )
    HostKernel(kernel_text(f"%x: {x}, %w: {w}", c, body, "%c")).check()


@pytest.mark.parametrize("view", ["slice", "step", "reverse"])
def test_operands_through_views(view):
    a, b, c = tensor((6, 12)), tensor((12, 8)), tensor((6, 8))
    made = {
        "slice": (tensor((12, 20)), "axes = [1] starts = [5] ends = [13]"),
        "step": (tensor((12, 16)), "axes = [1] steps = [2]"),
        "reverse": (tensor((12, 8)), "axes = [0, 1]"),
    }
    stored, how = made[view]
    body = f"%v = mgx.{view} %b {how} : {stored} -> {b}\n%c = mgx.dot %a, %v : {a}, {b} -> {c}"
    HostKernel(kernel_text(f"%a: {a}, %b: {stored}", c, body, "%c")).check()


def epilogue(
    inputs: str, views: str, operands: str, ops: str, shape: tuple[int, int, int] = (9, 21, 6)
) -> str:
    """A dot with a pointwise body `ops` from %v0, %v1, ... to %y. {c}: the result's type."""
    M, N, K = shape
    a, b, c = tensor((M, K)), tensor((K, N)), tensor((M, N))
    count = operands.count("%") + 1
    arguments = ", ".join(f"%v{n}: f32" for n in range(count))
    body = (
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\n{views.format(c=c)}\n"
        f"%r = mgx.pointwise(%c{operands}) : ({', '.join([c] * count)}) -> {c} {{\n"
        f"^bb0({arguments}):\n{ops}\nmgx.yield %y : f32\n}}"
    )
    return kernel_text(f"%a: {a}, %b: {b}{inputs.format(c=c)}", c, body, "%r")


ADD = "%y = mgx.add %v0, %v1 : f32, f32 -> f32"


@pytest.mark.parametrize("shape", [(9, 21, 6), (1, 40, 30), (33, 1, 20), (33, 3, 20)], ids=str)
def test_epilogue_adds_a_bias_for_each_column(shape):
    bias = tensor((shape[1],))
    views = f"%v = mgx.multibroadcast %bias : {bias} -> {{c}}"
    HostKernel(epilogue(f", %bias: {bias}", views, ", %v", ADD, shape)).check()


@pytest.mark.parametrize("shape", [(9, 21, 6), (1, 40, 30), (33, 1, 20), (33, 3, 20)], ids=str)
def test_epilogue_adds_a_bias_for_each_row(shape):
    bias = tensor((shape[0], 1))
    views = f"%v = mgx.multibroadcast %bias : {bias} -> {{c}}"
    HostKernel(epilogue(f", %bias: {bias}", views, ", %v", ADD, shape)).check()


def test_epilogue_reads_a_transposed_residual():
    views = f"%v = mgx.transpose %x permutation = [1, 0] : {tensor((21, 9))} -> {{c}}"
    HostKernel(epilogue(f", %x: {tensor((21, 9))}", views, ", %v", ADD)).check()


def test_epilogue_computes_functions_and_constants():
    ops = (
        "%k = mgx.constant 0.5 : f32\n%e = mgx.erf %v0 : f32\n%t = mgx.tanh %v1 : f32\n"
        "%s = mgx.sigmoid %e : f32\n%m = mgx.mul %s, %k : f32, f32 -> f32\n"
        "%y = mgx.add %m, %t : f32, f32 -> f32"
    )
    HostKernel(epilogue(", %x: {c}", "", ", %x", ops)).check()


def test_two_results_of_two_types():
    a, b = tensor((8, 10)), tensor((10, 20))
    c, flags = tensor((8, 20)), tensor((8, 20), "i1")
    body = (
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\n"
        f"%r:2 = mgx.pointwise(%c) : ({c}) -> ({c}, {flags}) {{\n^bb0(%x: f32):\n"
        "%z = mgx.constant 0.0 : f32\n%n = mgx.neg %x : f32\n"
        "%p = mgx.greater %x, %z : f32, f32 -> i1\nmgx.yield %n, %p : f32, i1\n}"
    )
    HostKernel(kernel_text(f"%a: {a}, %b: {b}", f"{c}, {flags}", body, "%r#0, %r#1")).check()


def test_the_same_kernel_gives_the_same_bytes():
    assert HostKernel(dot(20, 30, 40)).code.data == HostKernel(dot(20, 30, 40)).code.data


def test_nan_in_padding_lanes_stays_there():
    kernel = HostKernel(dot(3, 5, 7))
    a, b = (np.full(s.shape, np.nan, np.float32) for s in kernel.program.inputs)
    assert np.isnan(kernel.run(a, b)[0]).all()
    assert not np.isnan(kernel.run(np.zeros_like(a), np.zeros_like(b))[0]).any()


@pytest.mark.parametrize("layout", ["nn", "nt", "tt"])
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_operand_packed_once_for_many_rows(batch, layout, monkeypatch):
    monkeypatch.setattr(schedule, "SHARE_FROM", 0.0)
    kernel = HostKernel(dot(700, 50, 1001, layout, batch=batch))
    assert len(kernel.code.launches) == 2
    kernel.check(atol=1e-3)


@pytest.mark.parametrize("element", ["f32", "f16", "i32"])
@pytest.mark.parametrize(("M", "N"), [(20, 30), (1, 40), (50, 1)])
def test_two_products_that_are_added(M, N, element):
    a, b, d, e, c = (tensor(x, element) for x in ((M, 9), (9, N), (M, 140), (140, N), (M, N)))
    body = (
        f"%p = mgx.dot %a, %b : {a}, {b} -> {c}\n%q = mgx.dot %d, %e : {d}, {e} -> {c}\n"
        f"%w = mgx.multibroadcast %v : {tensor((N,), element)} -> {c}\n"
        f"%y = mgx.pointwise(%q, %p, %w) : ({c}, {c}, {c}) -> {c} {{\n"
        f"^bb0(%f: {element}, %g: {element}, %h: {element}):\n"
        f"%s = mgx.add %g, %h : {element}, {element} -> {element}\n"
        f"%t = mgx.add %f, %s : {element}, {element} -> {element}\n"
        f"%u = mgx.relu %t : {element}\nmgx.yield %u : {element}\n}}"
    )
    arguments = f"%a: {a}, %b: {b}, %d: {d}, %e: {e}, %v: {tensor((N,), element)}"
    kernel = HostKernel(kernel_text(arguments, c, body, "%y"))
    assert len(kernel.code.launches) > 1
    kernel.check(rtol=2e-2 if element == "f16" else 1e-4, atol=2e-2 if element == "f16" else 1e-5)


@pytest.mark.parametrize("code", ["ui4", "i4", "ui2", "f4E2M1FN", "i8", "f8E4M3FN"])
@pytest.mark.parametrize(("M", "transposed"), [(1, True), (3, False), (40, True)])
def test_weights_of_few_bits_expand_as_they_are_read(M, transposed, code):
    types, lines, result = few_bits.weights(M, 48, 64, 16, code, "f32", transposed)
    arguments = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
    kernel = HostKernel(kernel_text(arguments, result, "\n".join(lines), "%y"))
    x, _, scales, zeros = kernel.random()
    codes = kernel.random()[1]
    if code.startswith("ui") or code in ("i4", "f4E2M1FN"):
        codes = np.random.default_rng(2).integers(0, 256, codes.shape).astype(codes.dtype)
    kernel.check(x, codes, scales, zeros)
    # Along rows of weights, no operand comes to memory: tiles expand a block for all their rows.
    assert (kernel.code.scratch_bytes == 0) == transposed


def test_a_product_is_a_result_beside_the_work_on_it():
    a, b, c = tensor((13, 20)), tensor((20, 37)), tensor((13, 37))
    body = (
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\n"
        f"%y:2 = mgx.pointwise(%c) : ({c}) -> ({c}, {c}) {{\n^bb0(%p: f32):\n"
        "%q = mgx.relu %p : f32\nmgx.yield %q, %p : f32, f32\n}"
    )
    text = kernel_text(f"%a: {a}, %b: {b}", f"{c}, {c}", body, "%y#0, %y#1")
    kernel = HostKernel(text)
    # Only the packed block of B.
    assert [launch.kept > 0 for launch in kernel.code.launches] == [True, False]
    assert kernel.code.scratch_bytes - kernel.code.launches[0].kept < 256
    kernel.check()
