"""Small models with symbolic sizes: a perceptron, an encoder, a convolutional network."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from test.onnx_models import Builder, small


def mlp() -> onnx.ModelProto:
    """Symbol: batch."""
    b = Builder()
    x = b.op("Relu", b.linear("x", "first", 16, 32))
    y = b.op("Softmax", b.linear(x, "second", 32, 10), axis=-1)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 16])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "mlp")


def bert() -> onnx.ModelProto:
    """An encoder whose positions are an input. Symbols: batch, seq (at most 12)."""
    model = small("bert", batch="batch")
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 3 or value.name in ("input_ids", "attention_mask"):
            dims[1].dim_param = "seq"
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] == "embeddings.position":
            node.input[1] = "position_ids"
    positions = helper.make_tensor_value_info("position_ids", TensorProto.INT64, [1, "seq"])
    model.graph.input.append(positions)
    return model


def conv() -> onnx.ModelProto:
    """Convolutions, pooling, a residual sum and a classifier. Symbol: batch."""
    b = Builder()
    w = b.weight("w1", 8, 3, 3, 3)
    x = b.op("Conv", "x", w, b.weight("b1", 8), pads=[1, 1, 1, 1], strides=[2, 2])
    x = b.op("MaxPool", b.op("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    x = b.op("Add", x, b.op("Conv", x, b.weight("w2", 8, 8, 3, 3), pads=[1, 1, 1, 1]))
    y = b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), "classes", 8, 10)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 3, 16, 16])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "conv")


MODELS = {"bert": bert, "conv": conv, "mlp": mlp}
SIZES: dict[str, list[dict[str, int]]] = {
    "bert": [{"batch": 2, "seq": 5}, {"batch": 1, "seq": 12}, {"batch": 3, "seq": 1}],
    "conv": [{"batch": 1}, {"batch": 3}],
    "mlp": [{"batch": 1}, {"batch": 7}],
}


def inputs_of(
    model: onnx.ModelProto, sizes: dict[str, int], seed: int = 0
) -> dict[str, np.ndarray]:
    """Random inputs where the symbols have these sizes."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [sizes.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        if "mask" in value.name:
            array = (rng.random(shape) < 0.8) | (np.arange(shape[-1]) == 0)
        elif tensor.elem_type == TensorProto.INT64:
            array = rng.integers(0, 12, shape)
        else:
            array = rng.normal(size=shape)
        arrays[value.name] = array.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return arrays
