"""Convolutions of quantized tensors, padded with zero points, beside onnxruntime on all targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mgx_mlir
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode

TARGETS = ("cpu", "x86-64-v2", "x86-64-v3", "gfx942", "gfx1030", "gfx1201")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A convolution [images, channels, *image] of `filters`, and its window."""

    channels: int
    image: tuple[int, ...]
    filters: int
    window: tuple[int, ...]
    pads: tuple[int, ...]
    steps: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    unsigned: bool = False
    weight_zero: int = 0
    images: int = 2
    open: bool = False
    scaled: bool = field(default=False)

    def model(self) -> onnx.ModelProto:
        """x, of integers, or `scaled` floats times a number of each channel that are quantized."""
        rng, rank = np.random.default_rng(1), len(self.image)
        kind = np.uint8 if self.unsigned else np.int8
        weights = rng.integers(-127, 128, (self.filters, self.channels // self.group, *self.window))
        w_type = np.uint8 if self.weight_zero else np.int8
        given: dict[str, Array] = {
            "s": np.array(0.03, np.float32), "z": np.array(41, kind),
            "w": (weights + (128 if self.weight_zero else 0)).astype(w_type),
            "ws": rng.uniform(0.01, 0.02, self.filters).astype(np.float32),
            "wz": np.full(self.filters, self.weight_zero, w_type),
            "b": rng.standard_normal(self.filters).astype(np.float32),
            "t": np.array(0.02 * np.prod(weights.shape[1:]) ** 0.5, np.float32),
        }  # fmt: skip
        nodes = [
            helper.make_node("DequantizeLinear", ["q" if self.scaled else "x", "s", "z"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
            helper.make_node(
                "Conv", ["xf", "wf", "b"], ["c"], group=self.group, pads=self.pads,
                strides=self.steps or (1,) * rank, dilations=self.dilations or (1,) * rank,
            ),
            helper.make_node("HardSwish", ["c"], ["h"]),
            helper.make_node("QuantizeLinear", ["h", "t", "z"], ["y"]),
        ]  # fmt: skip
        integer = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        dims: list[Any] = [self.images, self.channels, *self.image]
        if self.open:
            dims = ["n", self.channels, *(f"d{i}" for i in range(rank))]
        inputs = [helper.make_tensor_value_info("x", integer, dims)]
        if self.scaled:
            product = helper.make_node("Mul", ["x", "by"], ["p"])
            nodes = [product, helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q"]), *nodes]
            own = [dims[0], self.channels, *[1] * rank]
            inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims),
                      helper.make_tensor_value_info("by", onnx.TensorProto.FLOAT, own)]  # fmt: skip
        graph = helper.make_graph(
            nodes, "convolution", inputs, [helper.make_tensor_value_info("y", integer, None)],
            [numpy_helper.from_array(array, name) for name, array in given.items()],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def inputs(self) -> dict[str, Array]:
        rng, shape = np.random.default_rng(2), (self.images, self.channels, *self.image)
        if self.scaled:
            by = rng.uniform(0.3, 1.5, (*shape[:2], *[1] * len(self.image)))
            x = rng.standard_normal(shape)
            return {"x": x.astype(np.float32), "by": by.astype(np.float32)}
        low, kind = (0, np.uint8) if self.unsigned else (-128, np.int8)
        return {"x": rng.integers(low, low + 256, shape).astype(kind)}


CASES = {
    "of many channels": Case(64, (13, 11), 48, (3, 3), (1, 1, 1, 1)),
    "strided": Case(32, (14, 15), 64, (3, 5), (0, 2, 1, 1), steps=(2, 3)),
    "dilated, unsigned": Case(
        16, (13, 12), 33, (3, 3), (2, 2, 2, 2), dilations=(2, 2), unsigned=True
    ),
    "of weights with a zero point": Case(16, (9, 9), 24, (3, 3), (1, 1, 1, 1), weight_zero=120),
    "first": Case(3, (20, 17), 16, (7, 7), (3, 3, 3, 3), steps=(2, 2)),
    "grouped": Case(32, (9, 10), 64, (3, 3), (1, 1, 1, 1), group=2),
    "depthwise": Case(24, (14, 14), 24, (3, 3), (1, 1, 1, 1), group=24),
    "depthwise of wide windows": Case(40, (9, 12), 40, (5, 7), (2, 3, 2, 3), group=40),
    "depthwise, strided, of few": Case(
        6, (15, 14), 6, (3, 2), (2, 0, 2, 1), (2, 2), (2, 1), 6, images=3
    ),
    "of a line": Case(20, (40,), 32, (4,), (3, 0)),
    "of a volume": Case(8, (5, 6, 7), 16, (3, 2, 3), (1, 1, 1, 1, 0, 1)),
    "scaled": Case(72, (14, 14), 24, (1, 1), (0, 0, 0, 0), scaled=True),
    "scaled, of windows": Case(64, (9, 9), 32, (3, 3), (1, 1, 1, 1), scaled=True),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("is_open", [False, True], ids=["given", "open"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_onnxruntimes(name: str, is_open: bool) -> None:
    case = Case(**{**vars(CASES[name]), "open": is_open})
    model, inputs = case.model(), case.inputs()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    expected = session.run(None, inputs)[0].astype(int)
    artifact = compile_to_bytecode(
        model, CompileOptions(mode="full-dynamic") if is_open else CompileOptions()
    )
    for target in TARGETS:
        found = mgx_mlir.compile(artifact, target=target).run(inputs)["y"].astype(int)
        assert found.shape == expected.shape
        # A float result next to a tie.
        assert np.abs(found - expected).max() <= 1, target
        assert (found != expected).mean() < 0.01, target


@pytest.mark.parametrize("name", ["of many channels", "depthwise"])
def test_a_zero_point_adds_a_number_a_channel(name: str) -> None:
    """Offsets that differ at borders would be tensors of the results' size."""
    case = CASES[name]
    artifact = compile_to_bytecode(case.model())
    assert len(artifact.kernels) == 1
    stored = sum(w.nbytes for w in artifact.weights.values())
    taps = int(np.prod(case.window)) * case.channels // case.group
    assert stored == case.filters * (taps + 2 * 4)


def test_a_product_quantizes_what_it_reads() -> None:
    for scaled, kernels in ((CASES["scaled"], 1), (CASES["scaled, of windows"], 1)):
        assert len(compile_to_bytecode(scaled.model()).kernels) == kernels
