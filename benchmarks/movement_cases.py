"""Problems of `benchmarks.kernels` that memory bounds, beside one thread an element or a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.kernel_cases import F16, OPSET, Case

I64 = TensorProto.INT64


def _case(
    name: str,
    chip: str,
    node: onnx.NodeProto,
    inputs: dict[str, tuple[int, Sequence[int]]],
    results: dict[str, tuple[int, Sequence[int]]],
    constants: dict[str, Any] | None = None,
) -> Case:
    """A node of inputs and results of (type, shape)."""

    def model() -> onnx.ModelProto:
        def infos(tensors: dict[str, tuple[int, Sequence[int]]]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in tensors.items()]

        arrays = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
        graph = helper.make_graph([node], "benchmark", infos(inputs), infos(results), arrays)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    sizes = {F16: 2, I64: 8}
    moved = [*inputs.values(), *results.values()]
    bytes_ = sum(sizes[type_] * int(np.prod(shape)) for type_, shape in moved)
    return Case(name, chip, model, bytes=bytes_, makers=("mgx", "generic"))


_make: Callable[..., onnx.NodeProto] = helper.make_node


def scatter(reduction: str, chip: str) -> Case:
    """Rows of a table of 4096 x 256, replaced or added to by as many."""
    shape = (4096, 256)
    node = _make("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    inputs = {"x": (F16, shape), "i": (I64, (4096, 1)), "u": (F16, shape)}
    return _case(f"scatter {reduction}", chip, node, inputs, {"y": (F16, shape)})


def running_sum(axis: int, chip: str) -> Case:
    shape = (4096, 1024)
    node = _make("CumSum", ["x", "axis"], ["y"])
    tensors = (F16, shape)
    return _case(f"cumsum axis {axis}", chip, node, {"x": tensors}, {"y": tensors},
                 {"axis": np.int64(axis)})  # fmt: skip


def resize(mode: str, chip: str) -> Case:
    """Images twice as wide and high."""
    node = _make("Resize", ["x", "", "scales"], ["y"], mode=mode)
    inputs, results = {"x": (F16, (8, 64, 64, 64))}, {"y": (F16, (8, 64, 128, 128))}
    scales = np.array([1, 1, 2, 2], np.float32)
    return _case(f"resize {mode}", chip, node, inputs, results, {"scales": scales})


def reflected(chip: str) -> Case:
    node = _make("Pad", ["x", "pads"], ["y"], mode="reflect")
    inputs, results = {"x": (F16, (8, 64, 128, 128))}, {"y": (F16, (8, 64, 130, 130))}
    pads = np.array([0, 0, 1, 1] * 2)
    return _case("pad reflect", chip, node, inputs, results, {"pads": pads})


def best(k: int, chip: str) -> Case:
    """The first of a vocabulary."""
    node = _make("TopK", ["x", "k"], ["v", "i"])
    results = {"v": (F16, (1, k)), "i": (I64, (1, k))}
    return _case(f"topk {k} of 32768", chip, node, {"x": (F16, (1, 32768))}, results,
                 {"k": np.array([k])})  # fmt: skip


def columns(chip: str) -> Case:
    node = _make("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    inputs, results = {"x": (F16, (65536, 64))}, {"y": (F16, (64,))}
    return _case("sum of columns", chip, node, inputs, results, {"axes": np.array([0])})


def vector(bits: int, rows: int, chip: str) -> Case:
    """Few rows of 4096 times weights of 4096 x 4096: f16, or of 4 bits in blocks of 32."""
    size, block = 4096, 32
    blocks = size // block

    def model() -> onnx.ModelProto:
        arrays = {"w": np.zeros((size, blocks, block // 2), np.uint8)}
        arrays["s"] = np.ones((size, blocks), np.float16)
        node = _make(
            "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=size, N=size,
            bits=bits, block_size=block,
        )  # fmt: skip
        if bits == 16:
            arrays = {"w": np.zeros((size, size), np.float16)}
            node = _make("Gemm", ["x", "w"], ["y"], transB=1)
        graph = helper.make_graph(
            [node],
            "benchmark",
            [helper.make_tensor_value_info("x", F16, (rows, size))],
            [helper.make_tensor_value_info("y", F16, (rows, size))],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    bytes_ = size * size * bits // 8 + (2 * size * blocks if bits < 16 else 0) + 4 * rows * size
    return Case(f"{rows} x {bits} bits", chip, model, bytes=bytes_, makers=("mgx",))


def movement_cases() -> list[Case]:
    """All problems, in the table's order."""
    return [
        case
        for chip in ("gfx942", "gfx1100")
        for case in (
            scatter("none", chip),
            scatter("add", chip),
            running_sum(0, chip),
            running_sum(1, chip),
            resize("nearest", chip),
            resize("linear", chip),
            resize("cubic", chip),
            reflected(chip),
            best(64, chip),
            columns(chip),
            vector(16, 1, chip),
            vector(4, 1, chip),
            vector(4, 16, chip),
            vector(16, 16, chip),
        )
    ]
