"""Convolutions and poolings of images of any height and width, by generators for CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir import Calibration, CompileOptions, Precision, quantize
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.compiler import Report, import_model, optimize
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import kernels
from test.codegen.bound_code import bound_code
from test.importer.agreement import floats

FULL = CompileOptions(mode="full-dynamic")
WINDOWED = mgx.ConvolutionOp, mgx.PoolingOp


class Net:
    """A model under construction: layers one after another, with a Sigmoid between them."""

    def __init__(self, channels: int, dims: int = 2) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = [channels, dims]
        self.channels, self.last = channels, "x"

    def add(self, kind: str, *inputs: str, **attributes: Any) -> Net:
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [*inputs], [made], **attributes))
        self.last = made
        return self

    def conv(self, filters: int, *window: int, group: int = 1, **attributes: Any) -> Net:
        shape = (filters, self.channels // group, *window)
        names = [f"w{len(self.weights)}", f"w{len(self.weights) + 1}"]
        for name, size in zip(names, (shape, (filters,)), strict=True):
            array = floats(*size, seed=len(self.weights)) / np.sqrt(np.prod(shape[1:]))
            self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        self.add("Conv", self.last, *names, group=group, **attributes)
        self.channels = filters
        return self

    def act(self) -> Net:
        return self.add("Sigmoid", self.last)

    def pool(self, kind: str, **attributes: Any) -> Net:
        return self.add(kind, self.last, **attributes)

    def beside(self, filters: int) -> Net:
        """Two convolutions of one tensor, added up."""
        source, channels = self.last, self.channels
        self.conv(filters, 3, 3, strides=[2, 2], pads=[1] * 4)
        first, self.last, self.channels = self.last, source, channels
        self.conv(filters, 1, 1, strides=[2, 2])
        return self.add("Add", first, self.last)

    def model(self) -> onnx.ModelProto:
        channels, dims = self.inputs
        sizes = ["b", channels, *(f"d{n}" for n in range(dims))]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
        y = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


NETS = {
    "of few channels": Net(3).conv(20, 7, 7, strides=[2, 2], pads=[3] * 4).act().conv(17, 1, 1),
    "windows": Net(3).conv(16, 1, 1).act().conv(40, 3, 3, pads=[1, 0, 1, 2], dilations=[2, 1]),
    "deep": Net(3).conv(160, 1, 1).act().conv(24, 3, 3, pads=[1] * 4).act().conv(8, 1, 1),
    "transformed": Net(3).conv(32, 1, 1).act().conv(48, 3, 3, pads=[1] * 4).act()
        .conv(33, 3, 3, pads=[0, 1, 2, 0]),
    "groups": Net(3).conv(32, 1, 1).act().conv(48, 3, 3, group=2, pads=[1] * 4).act().conv(8, 1, 1),
    "few filters of groups": Net(8).conv(16, 3, 3, group=8, pads=[1] * 4).act()
        .conv(12, 3, 2, group=4, strides=[2, 1]),
    "groups of four": Net(3).conv(36, 3, 3).act()
        .conv(36, 3, 3, group=9, pads=[1] * 4, strides=[2, 1]).act().conv(9, 1, 1),
    "one filter": Net(2).conv(1, 7, 7, pads=[3] * 4).act().conv(3, 2, 2).act().conv(1, 1, 1),
    "channels alone": Net(3).conv(70, 3, 3, pads=[1] * 4).act()
        .conv(70, 5, 5, group=70, pads=[2] * 4, strides=[2, 2]).act().conv(9, 1, 1),
    "channels alone at the end": Net(18).conv(18, 3, 3, group=18, pads=[1] * 4),
    "two added": Net(3).conv(32, 3, 3, pads=[1] * 4).act().beside(48).act().conv(8, 1, 1),
    "largest": Net(3).conv(24, 3, 3).act()
        .pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4).conv(16, 3, 3),
    "means": Net(20).pool("AveragePool", kernel_shape=[3, 2], pads=[1, 0, 1, 1]).act(),
    "lines": Net(5, 1).conv(32, 5, strides=[2], pads=[2, 1]).act()
        .conv(32, 3, group=32, pads=[1, 1]).act().conv(8, 1),
    "volumes": Net(2, 3).conv(16, 3, 3, 3, pads=[1] * 6).act().conv(16, 1, 2, 2),
}  # fmt: skip


def codes_of(name: str) -> list[CodeObject]:
    """The code of the kernels of a net that hold windows."""
    options = CompileOptions(mode="full-dynamic", kind="cpu")
    graph = import_model(NETS[name].model(), options)
    optimize(graph, options, Report())
    return [
        compile_kernel(kernel, Target.get("cpu"))
        for kernel in kernels(graph.module)
        if any(isinstance(op, WINDOWED) for op in kernel.body.blocks[0].operations)
    ]


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "x86-64-v3"])
@pytest.mark.parametrize("name", NETS)
def test_images_of_any_size(name: str, target: str) -> None:
    net = NETS[name]
    model = net.model()
    program = mgx_mlir.compile(model, target, FULL)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    channels, dims = net.inputs
    for batch, size in ((1, 17), (2, 8), (3, 33 if dims < 3 else 12)):
        x = floats(batch, channels, *(size + 3 * n for n in range(dims)))
        (y,) = program.run({"x": x}).values()
        np.testing.assert_allclose(y, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETS)
def test_generators_take_them(name: str) -> None:
    ways = [code.why for code in codes_of(name)]
    assert ways and not any("generic" in way for way in ways)


@pytest.mark.parametrize("name", ["AveragePool", "MaxPool", "Conv"])
def test_images_smaller_than_a_window_give_nothing(name: str) -> None:
    net = Net(3).conv(16, 1, 1).act()
    window = {"strides": [2, 2], "pads": [1, 0, 1, 0]}
    if name == "Conv":
        net.conv(16, 3, 5, **window)
    else:
        net.pool(name, kernel_shape=[3, 5], **window)
    program = mgx_mlir.compile(net.model(), "cpu", FULL)
    for width, wanted in ((4, 0), (7, 2)):
        (y,) = program.run({"x": floats(1, 3, 6, width)}).values()
        assert y.shape == (1, 16, 3, wanted)


@pytest.mark.parametrize("filters", [4, 16])
def test_any_number_of_images_of_a_pixel_in_groups(filters: int) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 16, 1, 1])
    net = Net(16).conv(filters, 1, 1, group=4).model()
    net.graph.input[0].CopyFrom(x)
    session = onnxruntime.InferenceSession(net.SerializeToString())
    program = mgx_mlir.compile(net, "cpu", FULL)
    for batch in (1, 5):
        given = {"x": floats(batch, 16, 1, 1)}
        (y,) = program.run(given).values()
        np.testing.assert_allclose(y, session.run(None, given)[0], rtol=1e-4, atol=1e-5)


def test_generators_choose_by_the_pixels_of_a_run() -> None:
    code = codes_of("transformed")[1]
    few, many = (
        [launch.grid[0] for launch in bound_code(code, {"b": 1, "d0": n, "d1": n}).launches]
        for n in (15, 18)
    )
    assert [n > 0 for n in few] != [n > 0 for n in many]


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "x86-64-v3"])
@pytest.mark.parametrize("name", ["of few channels", "windows", "groups", "channels alone"])
def test_images_of_integers(name: str, target: str) -> None:
    """As programs for the sizes of the run have them, to the bit."""
    channels = NETS[name].inputs[0]
    x = floats(2, channels, 19, 23)
    model = quantize(NETS[name].model(), Precision("int8"), Calibration([{"x": x}] * 4)).source
    found = mgx_mlir.compile(model, target, FULL).run({"x": x})
    given = CompileOptions(dim_params={"b": 2, "d0": 19, "d1": 23})
    for y, wanted in zip(
        found.values(), mgx_mlir.compile(model, target, given).run({"x": x}).values(), strict=True
    ):
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["cpu", "x86-64-v3"])
def test_products_of_any_number_of_columns(target: str) -> None:
    """A product has the form of a convolution of 1x1, but as many filters as a run has."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1, n, 33, 13] x, float[n, 13] w, '
        "float[n] b) => (float[1, n, 33, n] y) "
        "{ t = Transpose <perm = [1, 0]> (w) p = MatMul(x, t) y = Add(p, b) }"
    )
    program = mgx_mlir.compile(model, target, FULL)
    for n in (1, 3, 40):
        x, w, b = floats(1, n, 33, 13), floats(n, 13, seed=1), floats(n, seed=2)
        (y,) = program.run({"x": x, "w": w, "b": b}).values()
        np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "x86-64-v3"])
@pytest.mark.parametrize("sizes", ["2, 6, 24, 48", "n, 6, 24, 48"])
def test_matrices_that_are_used_again(sizes: str, target: str) -> None:
    """Products of two batches whose right matrices are those of one."""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{sizes}] x, float[1, 6, 48, m] z) '
        "=> (float[a, 6, 24, m] y) { p = MatMul(x, z) y = Tanh(p) }"
    )
    program = mgx_mlir.compile(model, target, FULL)
    x = floats(2, 6, 24, 48)
    for columns in (1, 5, 70):
        z = floats(1, 6, 48, columns, seed=1)
        (y,) = program.run({"x": x, "z": z}).values()
        np.testing.assert_allclose(y, np.tanh(x @ z), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [["b", 3, "p", "q"], [1, 3, "p", "q"], [1, 1, "p", "q"]])
def test_another_image_is_added_pixel_by_pixel(dims: list[int | str]) -> None:
    net = Net(17).conv(3, 3, 3, pads=[1] * 4, strides=[2, 1])
    model = net.add("Add", net.last, "z").model()
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, dims))
    program = mgx_mlir.compile(model, "cpu", FULL)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for height, width in ((12, 2), (5, 37), (3, 1)):
        shape = [{"b": 2, "p": (height + 1) // 2, "q": width}.get(str(n), n) for n in dims]
        inputs = {"x": floats(2, 17, height, width), "z": floats(*map(int, shape), seed=1)}
        (y,) = program.run(inputs).values()
        np.testing.assert_allclose(y, session.run(None, inputs)[0], rtol=1e-4, atol=1e-5)
