"""Kernels without a contraction on the host against the reference."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from cpu_kernels import HostKernel, kernel_text, tensor

import mgx_mlir
from mgx_mlir.rewriting.in_place import overwritable


def unary(op: str, x: str, y: str, attributes: str = "") -> str:
    arrow = "" if x == y else f" -> {y}"
    return kernel_text(f"%x: {x}", y, f"%y = {op} %x {attributes} : {x}{arrow}", "%y")


@pytest.mark.parametrize("op", ["exp", "tanh", "erf", "sigmoid", "log", "sqrt", "floor", "recip"])
def test_functions_of_elements(op):
    kernel = HostKernel(unary(f"mgx.{op}", tensor((37, 5)), tensor((37, 5))))
    kernel.check(*kernel.random(low=0.1, high=3))


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_angles_of_many_turns(op):
    kernel = HostKernel(unary(f"mgx.{op}", tensor((37, 50)), tensor((37, 50))))
    kernel.check(*kernel.random(low=-1e5, high=1e5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 7), (130, 300)], ids=str)
def test_shapes_of_elements(shape):
    HostKernel(unary("mgx.neg", tensor(shape), tensor(shape))).check()


def test_chain_with_broadcasts_and_a_transpose():
    x, y, b = tensor((6, 40, 50)), tensor((50, 40, 6)), tensor((40, 1))
    body = (
        f"%t = mgx.transpose %y permutation = [2, 1, 0] : {y} -> {x}\n"
        f"%v = mgx.multibroadcast %b : {b} -> {x}\n"
        f"%r = mgx.pointwise(%x, %t, %v) : ({x}, {x}, {x}) -> {x} {{\n"
        "^bb0(%p: f32, %q: f32, %s: f32):\n"
        "%m = mgx.mul %p, %q : f32, f32 -> f32\n%n = mgx.add %m, %s : f32, f32 -> f32\n"
        "mgx.yield %n : f32\n}"
    )
    kernel = HostKernel(kernel_text(f"%x: {x}, %y: {y}, %b: {b}", x, body, "%r"))
    kernel.check()
    with kernel.module.context:
        assert overwritable(kernel.kernel) == {0}


@pytest.mark.parametrize("shape", [(7,), (3, 5, 17), (130, 300)], ids=str)
def test_results_are_written_over_inputs(shape):
    """Both inputs, one of which has another shape and type."""
    x, y = tensor(shape), tensor((math.prod(shape), 1), "i32")
    z = tensor(shape, "i32")
    body = (
        f"%z = mgx.reshape %y : {y} -> {z}\n"
        f"%r = mgx.pointwise(%x, %z) : ({x}, {z}) -> {x} {{\n"
        "^bb0(%p: f32, %q: i32):\n%c = mgx.convert %q : i32 -> f32\n"
        "%e = mgx.tanh %p : f32\n%s = mgx.add %e, %c : f32, f32 -> f32\nmgx.yield %s : f32\n}"
    )
    kernel = HostKernel(kernel_text(f"%x: {x}, %y: {y}", x, body, "%r"))
    kernel.check()
    with kernel.module.context:
        assert overwritable(kernel.kernel) == {0, 1}


def test_bool_is_one_byte():
    x, flags = tensor((5, 33)), tensor((5, 33), "i1")
    body = (
        f"%l = mgx.less %a, %b : {x}, {x} -> {flags}\n"
        f"%n = mgx.logical_and %l, %c : {flags}, {flags} -> {flags}"
    )
    HostKernel(kernel_text(f"%a: {x}, %b: {x}, %c: {flags}", flags, body, "%n")).check()


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i32", "i64", "ui8"])
def test_element_types(element):
    x = tensor((7, 45), element)
    body = f"%s = mgx.add %a, %b : {x}, {x} -> {x}\n%r = mgx.mul %s, %a : {x}, {x} -> {x}"
    HostKernel(kernel_text(f"%a: {x}, %b: {x}", x, body, "%r")).check(rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_along_each_axis(axis):
    x = tensor((6, 40, 70))
    HostKernel(unary("mgx.softmax", x, x, f"axis = {axis}")).check()


def test_rows_of_softmax_share_one_launch():
    x = tensor((64, 300))
    kernel = HostKernel(unary("mgx.softmax", x, x, "axis = 1"))
    assert len(kernel.code.launches) == 1
    assert kernel.code.launches[0].grid[0] > 1
    kernel.check()


def test_columns_of_softmax_need_a_barrier():
    x = tensor((300, 640))
    kernel = HostKernel(unary("mgx.softmax", x, x, "axis = 0"))
    assert len(kernel.code.launches) > 1
    kernel.check()


def test_windows_over_all_channels_wait_for_every_channel():
    x, w, y = tensor((2, 5, 5, 4, 2, 2)), tensor((8, 4, 2, 2)), tensor((2, 8, 9, 9))
    t, r, s = tensor((2, 4, 5, 2, 5, 2)), tensor((2, 4, 10, 10)), tensor((2, 4, 8, 8))
    body = (  # no strides say where the image's elements lie, so its sigmoid goes to memory
        f"%t = mgx.transpose %x permutation = [0, 3, 1, 4, 2, 5] : {x} -> {t}\n"
        f"%r = mgx.reshape %t : {t} -> {r}\n"
        f"%i = mgx.slice %r axes = [2, 3] starts = [1, 1] ends = [9, 9] : {r} -> {s}\n"
        f"%s = mgx.sigmoid %i : {s}\n"
        "%y = mgx.convolution %s, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]"
        f" : {s}, {w} -> {y}"
    )
    HostKernel(kernel_text(f"%x: {x}, %w: {w}", y, body, "%y")).check(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]], ids=str)
def test_reductions(op, axes):
    shape = (4, 50, 70)
    result = [1 if i in axes else n for i, n in enumerate(shape)]
    x, y = tensor(shape), tensor(result)
    kernel = HostKernel(unary(f"mgx.reduce_{op}", x, y, f"axes = {axes}"))
    kernel.check(*kernel.random(low=0.9, high=1.01), rtol=1e-3)


def test_long_sum_is_made_of_sums_of_blocks():
    # One running sum differs by up to 4e-3.
    kernel = HostKernel(unary("mgx.reduce_sum", tensor((1000000,)), tensor((1,)), "axes = [0]"))
    x = np.random.default_rng(2).standard_normal(1000000).astype(np.float32)
    (found,) = kernel.run(x)
    np.testing.assert_allclose(found[0], x.sum(dtype=np.float64), rtol=0, atol=1e-3)


def test_layer_norm_is_one_launch():
    x, m = tensor((30, 200)), tensor((30, 1))
    body = (
        f"%r = mgx.fused_reduce(%x) axes = [1] : ({x}) -> {x} {{\n^bb0(%a: {x}):\n"
        f"%m = mgx.reduce_mean %a axes = [1] : {x} -> {m}\n"
        f"%b = mgx.multibroadcast %m : {m} -> {x}\n"
        f"%d = mgx.sub %a, %b : {x}, {x} -> {x}\n%q = mgx.mul %d, %d : {x}, {x} -> {x}\n"
        f"%v = mgx.reduce_mean %q axes = [1] : {x} -> {m}\n%s = mgx.rsqrt %v : {m}\n"
        f"%t = mgx.multibroadcast %s : {m} -> {x}\n%y = mgx.mul %d, %t : {x}, {x} -> {x}\n"
        f"mgx.yield %y : {x}\n}}"
    )
    kernel = HostKernel(kernel_text(f"%x: {x}", x, body, "%r"))
    assert len(kernel.code.launches) == 1
    kernel.check()


def test_long_sum_of_rows_that_have_numbers_of_their_own():
    """These do not make it a sum across rows, without blocks: the error was 2e-4."""
    nodes = "a = Softmax <axis = 1> (x) y = LogSoftmax <axis = 1> (a)"
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 20]> g (float[3, n] x) => (float[3, n] y) '
        f"{{ {nodes} }}"
    )
    x = np.random.default_rng(0).standard_normal((3, 20011)).astype(np.float32)
    (found,) = mgx_mlir.compile(model, "cpu", dim_params={"n": 20011}).run({"x": x}).values()
    shares = np.exp(x.astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    wanted = shares - np.log(np.exp(shares).sum(1, keepdims=True))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-6)


def test_concat_along_the_middle():
    a, b, y = tensor((2, 3, 40)), tensor((2, 5, 40)), tensor((2, 8, 40))
    body = f"%y = mgx.concat %a, %b axis = 1 : {a}, {b} -> {y}"
    HostKernel(kernel_text(f"%a: {a}, %b: {b}", y, body, "%y")).check()


@pytest.mark.parametrize("op", ["min", "max"])
def test_vectors_of_a_row_go_through_the_parts_of_a_concat(op):
    """The branch between the parts gives vectors, as long as they are."""
    x, z, w, y = (
        tensor(shape, "bf16")
        for shape in ((3, 1, 1, 24), (3, 2, 1, 24), (3, 2, 2, 24), (1, 2, 1, 1))
    )
    body = (
        f"%z = mgx.concat %a, %b axis = 1 : {x}, {x} -> {z}\n"
        f"%w = mgx.multibroadcast %z : {z} -> {w}\n"
        f"%y = mgx.reduce_{op} %w axes = [0, 2, 3] : {w} -> {y}"
    )
    HostKernel(kernel_text(f"%a: {x}, %b: {x}", y, body, "%y")).check()


def test_gather_with_negative_indices():
    x, i, y = tensor((9, 40)), tensor((2, 3), "i64"), tensor((2, 3, 40))
    body = f"%y = mgx.gather %x[%i] axis = 0 : {x}, {i} -> {y}"
    kernel = HostKernel(kernel_text(f"%x: {x}, %i: {i}", y, body, "%y"))
    indices = np.array([[0, -1, 8], [3, -9, 2]], np.int64)
    kernel.check(kernel.random()[0], indices)


def test_pad_and_slice():
    x, p, y = tensor((4, 30)), tensor((6, 35)), tensor((5, 20))
    body = (
        f"%p = mgx.pad %x low = [1, 2] high = [1, 3] : {x} -> {p}\n"
        f"%y = mgx.slice %p axes = [0, 1] starts = [1, 0] ends = [6, 20] : {p} -> {y}"
    )
    HostKernel(kernel_text(f"%x: {x}", y, body, "%y")).check()


@pytest.mark.parametrize("shape", [(30, 50), (2, 21, 77)], ids=str)
def test_argmax(shape):
    x, y = tensor(shape), tensor((shape[0], 1, *shape[2:]), "i64")
    HostKernel(unary("mgx.argmax", x, y, "axis = 1")).check()


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        (("mgx.topk %x k = 3 axis = 1", (4, 20), (4, 3)), None),
        (("mgx.prefix_scan_sum %x axis = 1", (4, 20), (4, 20)), None),
        (("mgx.prefix_scan_sum %x axis = 1", (2, 5, 299), (2, 5, 299)), None),
    ],
    ids=["topk", "cumsum", "cumsum of columns"],
)
def test_sequential_ops(text, indices):
    op, source, result = text
    x, y = tensor(source), tensor(result)
    if "topk" in op:
        i = tensor(result, "i64")
        body = f"%v, %i = {op} : {x} -> {y}, {i}"
        HostKernel(kernel_text(f"%x: {x}", f"{y}, {i}", body, "%v, %i")).check()
    else:
        HostKernel(kernel_text(f"%x: {x}", y, f"%y = {op} : {x}", "%y")).check()


@pytest.mark.parametrize("columns", [3, 299])
def test_scatter_adds_slices(columns):
    """Two of them to one place, and one by an index from the end."""
    x, i, u = tensor((9, columns)), tensor((4, 1), "i64"), tensor((4, columns))
    body = f"%y = mgx.scatternd_add %x[%i], %u : {x}, {i}, {u} -> {x}"
    kernel = HostKernel(kernel_text(f"%x: {x}, %i: {i}, %u: {u}", x, body, "%y"))
    data, _, updates = kernel.random()
    kernel.check(data, np.array([[0], [8], [-2], [8]], np.int64), updates)


def test_scatter_adds_updates():
    x, i, u = tensor((9, 4)), tensor((2, 4), "i64"), tensor((2, 4))
    body = f"%y = mgx.scatter_add %x[%i], %u axis = 0 : {x}, {i}, {u} -> {x}"
    kernel = HostKernel(kernel_text(f"%x: {x}, %i: {i}, %u: {u}", x, body, "%y"))
    data, _, updates = kernel.random()
    kernel.check(data, np.array([[0, 8, 3, 3], [0, 1, 3, 2]], np.int64), updates)


def test_convolution_out_of_reach_of_the_generator_goes_the_generic_way():
    x, w, y = tensor((1, 3, 4, 4)), tensor((3, 2, 2, 2)), tensor((1, 2, 8, 8))
    body = (
        "%y = mgx.convolution_backwards %x, %w pads = [0, 0, 0, 0] strides = [2, 2] "
        f"dilations = [1, 1] {{output_pads = array<i64: 0, 0>}} : {x}, {w} -> {y}"
    )
    HostKernel(kernel_text(f"%x: {x}, %w: {w}", y, body, "%y")).check()


@pytest.mark.parametrize("permutation", [[1, 0, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0]], ids=str)
def test_transposes(permutation):
    shape = (18, 35, 50)
    x, y = tensor(shape), tensor([shape[i] for i in permutation])
    HostKernel(unary("mgx.transpose", x, y, f"permutation = {permutation}")).check()


def test_results_without_elements_need_no_work():
    x = tensor((0, 5))
    kernel = HostKernel(unary("mgx.neg", x, x))
    assert not kernel.code.launches
    kernel.check()


def test_sum_of_no_elements_is_zero():
    x, y = tensor((0, 5)), tensor((1, 5))
    HostKernel(unary("mgx.reduce_sum", x, y, "axes = [0]")).check()


def test_product_of_empty_matrices_is_zero():
    a, b, c = tensor((3, 0)), tensor((0, 4)), tensor((3, 4))
    body = f"%c = mgx.dot %a, %b : {a}, {b} -> {c}"
    HostKernel(kernel_text(f"%a: {a}, %b: {b}", c, body, "%c")).check()


def test_functions_of_libm_resolve():
    x = tensor((5, 9), "f64")
    kernel = HostKernel(unary("mgx.exp", x, x))
    kernel.check(*kernel.random(), rtol=1e-12)


@pytest.mark.parametrize("widths", [(1, 16), (33, 64, 7), (3,) * 12, (40, 40, 40)], ids=str)
def test_neighbours_of_several_tensors(widths):
    """More parts than the innermost loop is cut into, too."""
    types = [tensor((130, width)) for width in widths]
    y = tensor((130, sum(widths)))
    names = [f"%x{number}" for number in range(len(widths))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    joined = f"%c = mgx.concat {', '.join(names)} axis = 1 : {', '.join(types)} -> {y}"
    HostKernel(kernel_text(arguments, y, f"{joined}\n%y = mgx.relu %c : {y}", "%y")).check()
