"""Writes the golden files of the version that this compiler writes: run once for each version.

    python -m test.golden.make            # into test/golden/VERSION; never over what is there

A folder holds small artifacts with their inputs and expected outputs (by onnxruntime), and
every op of the dialect as bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from mlir import ir
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir._native import _mgx
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.dialects import context, mgx

HERE = Path(__file__).parent
CORPUS = sorted((HERE.parents[1] / "lit_tests/dialect").glob("roundtrip_*.mlir"))


def classifier() -> onnx.ModelProto:
    """Convolution, pooling, a matrix product and softmax, in f32."""
    return _model(
        "classifier",
        [
            helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"], "relu"),
            helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Flatten", ["c"], ["d"], "flatten"),
            helper.make_node("Gemm", ["d", "v", "bias"], ["e"], "gemm"),
            helper.make_node("Softmax", ["e"], ["y"], "softmax", axis=-1),
        ],
        ("x", TensorProto.FLOAT, [1, 3, 8, 8]),
        ("y", TensorProto.FLOAT, [1, 10]),
        {"w": (4, 3, 3, 3), "v": (64, 10), "bias": (10,)},
        np.float32,
    )


def attention() -> onnx.ModelProto:
    """A head of attention and a layer norm, in f16."""
    return _model(
        "attention",
        [
            helper.make_node("MatMul", ["x", "w"], ["q"], "query"),
            helper.make_node("Transpose", ["x"], ["k"], "keys", perm=[0, 2, 1]),
            helper.make_node("MatMul", ["q", "k"], ["s"], "scores"),
            helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
            helper.make_node("MatMul", ["p", "x"], ["a"], "values"),
            helper.make_node("Add", ["a", "x"], ["r"], "residual"),
            helper.make_node("LayerNormalization", ["r", "scale"], ["y"], "norm", axis=-1),
        ],
        ("x", TensorProto.FLOAT16, [1, 16, 32]),
        ("y", TensorProto.FLOAT16, [1, 16, 32]),
        {"w": (32, 32), "scale": (32,)},
        np.float16,
    )


def quantized() -> onnx.ModelProto:
    """To integers of 8 bits and back, with a product between."""
    scale = numpy_helper.from_array(np.array(0.05, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(0, np.int8), "zero")
    weight = np.random.default_rng(3).integers(-9, 9, (16, 8)).astype(np.int8)
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "quantize"),
            helper.make_node("MatMulInteger", ["q", "w"], ["m"], "product"),
            helper.make_node("Cast", ["m"], ["f"], "cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", ["f", "scale"], ["y"], "rescale"),
        ],
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [scale, zero, numpy_helper.from_array(weight, "w")],
    )
    return _whole(graph)


def activation() -> onnx.ModelProto:
    """A matrix product with a softplus (log1p), and a weight that repeats one element."""
    fill = helper.make_tensor("one", TensorProto.FLOAT, [1], [0.125])
    return _model(
        "activation",
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
            helper.make_node("Softplus", ["a"], ["b"], "softplus"),
            helper.make_node("ConstantOfShape", ["shape"], ["c"], "fill", value=fill),
            helper.make_node("MatMul", ["b", "c"], ["y"], "mean"),
        ],
        ("x", TensorProto.FLOAT, [4, 16]),
        ("y", TensorProto.FLOAT, [4, 64]),
        {"w": (16, 64)},
        np.float32,
        numpy_helper.from_array(np.array([64, 64], np.int64), "shape"),
    )


def control_flow() -> onnx.ModelProto:
    """A loop that ends where its sum is large, and a branch by the sign of the result."""
    value = helper.make_tensor_value_info
    scalar = [
        numpy_helper.from_array(np.array(4, np.int64), "trips"),
        numpy_helper.from_array(np.array(True), "go"),
        numpy_helper.from_array(np.array(20, np.float32), "limit"),
        numpy_helper.from_array(np.array(0, np.float32), "zero"),
    ]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum_in", "x"], ["sum_out"], "body_add"),
            helper.make_node("ReduceSum", ["sum_out"], ["all"], "body_sum", keepdims=0),
            helper.make_node("Less", ["all", "limit"], ["go_out"], "body_less"),
        ],
        "body",
        [
            value("trip", TensorProto.INT64, []),
            value("go_in", TensorProto.BOOL, []),
            value("sum_in", TensorProto.FLOAT, [2, 3]),
        ],
        [
            value("go_out", TensorProto.BOOL, []),
            value("sum_out", TensorProto.FLOAT, [2, 3]),
        ],
    )
    arms = [
        helper.make_graph(
            [helper.make_node(kind, ["last"], [f"{kind}_y"], kind.lower())],
            kind.lower(),
            [],
            [value(f"{kind}_y", TensorProto.FLOAT, [2, 3])],
        )
        for kind in ("Exp", "Neg")
    ]
    nodes = [
        helper.make_node("Loop", ["trips", "go", "x"], ["last"], "loop", body=body),
        helper.make_node("ReduceSum", ["last"], ["total"], "total", keepdims=0),
        helper.make_node("Less", ["total", "zero"], ["negative"], "less"),
        helper.make_node("If", ["negative"], ["y"], "if", then_branch=arms[0], else_branch=arms[1]),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2, 3])]
    outputs = [value("y", TensorProto.FLOAT, [2, 3])]
    return _whole(helper.make_graph(nodes, "control_flow", inputs, outputs, scalar))


def precision() -> onnx.ModelProto:
    """A quantization whose division is in f16."""
    number = TensorProto.FLOAT16
    return _whole(
        helper.make_graph(
            [
                helper.make_node("QuantizeLinear", ["x", "s"], ["q"], "quantize", precision=number),
                helper.make_node("DequantizeLinear", ["q", "s"], ["y"], "dequantize"),
            ],
            "precision",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 16])],
            [numpy_helper.from_array(np.array(0.013, np.float32), "s")],
        ),
        23,
    )


def any_sizes() -> onnx.ModelProto:
    """A matrix product, a bias and a softmax of any number of rows."""
    return _model(
        "any_sizes",
        [
            helper.make_node("Gemm", ["x", "w", "bias"], ["a"], "gemm"),
            helper.make_node("Softmax", ["a"], ["y"], "softmax", axis=-1),
        ],
        ("x", TensorProto.FLOAT, ["rows", 16]),
        ("y", TensorProto.FLOAT, ["rows", 10]),
        {"w": (16, 10), "bias": (10,)},
        np.float32,
    )


def _in_half(x: np.ndarray) -> np.ndarray:
    """The result of `precision`: onnxruntime knows no precision."""
    scale = np.float32(0.013)
    quotient = x.astype(np.float16) / scale.astype(np.float16)
    return (np.clip(np.rint(quotient.astype(np.float32)), 0, 255) * scale).astype(np.float32)


# The models that are worth keeping of each version: those of what it added.
MODELS: dict[str, dict[str, Callable[[], onnx.ModelProto]]] = {
    "1.0": {"attention": attention, "classifier": classifier, "quantized": quantized},
    "1.1": {
        "activation": activation,
        "any_sizes": any_sizes,
        "classifier": classifier,
        "control_flow": control_flow,
        "precision": precision,
    },
}


def main() -> int:
    version = ".".join(map(str, _mgx.dialect_version()))
    folder = HERE / f"v{version}"
    if folder.exists():
        print(f"{folder} is there: golden files are never written again", file=sys.stderr)
        return 1
    (folder / "ops").mkdir(parents=True)
    for path in CORPUS:
        with context():
            module = ir.Module.parse(path.read_text())
            name = path.stem.removeprefix("roundtrip_")
            (folder / "ops" / f"{name}.mlirbc").write_bytes(
                _mgx.write_bytecode(module.operation, _mgx.dialect_version())
            )
    (folder / "ops.txt").write_text("\n".join(sorted(mgx.OPS)) + "\n")
    for name, build in MODELS[version].items():
        model = build()
        spec = model.graph.input[0].type.tensor_type
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(spec.elem_type))
        shape = [d.dim_value or 5 for d in spec.shape.dim]
        x = np.random.default_rng(7).standard_normal(shape).astype(dtype)
        if build is precision:
            y = _in_half(x)
        else:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            (y,) = session.run(None, {"x": x})
        options = CompileOptions(mode="full-dynamic" if build is any_sizes else "default")
        mgx_mlir.compile_to_bytecode(model, options).save(folder / f"{name}.mgx")
        np.savez_compressed(folder / f"{name}.npz", x=x, y=y)
    return 0


def _model(
    name: str,
    nodes: list[onnx.NodeProto],
    x: tuple[str, int, list[int | str]],
    y: tuple[str, int, list[int | str]],
    weights: dict[str, tuple[int, ...]],
    dtype: type,
    *constants: onnx.TensorProto,
) -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    tensors = [
        numpy_helper.from_array((rng.standard_normal(shape) / 4).astype(dtype), key)
        for key, shape in weights.items()
    ]
    inputs, outputs = ([helper.make_tensor_value_info(*v)] for v in (x, y))
    return _whole(helper.make_graph(nodes, name, inputs, outputs, [*tensors, *constants]))


def _whole(graph: onnx.GraphProto, opset: int = 17) -> onnx.ModelProto:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    sys.exit(main())
