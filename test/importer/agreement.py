"""Imports small ONNX models, evaluates the programs, and compares with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.importer import parse_onnx
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import Graph

Array = np.ndarray


def one_node(
    kind: str,
    inputs: Mapping[str, Array | None],
    opset: int = 17,
    constants: Sequence[str] = (),
    outputs: int = 1,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node, and the arrays of its inputs that are not `constants`.

    An input of None is an absent optional one.
    """
    names = [name if array is not None else "" for name, array in inputs.items()]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, name=f"the_{kind}", **attributes)
    given = {n: a for n, a in inputs.items() if a is not None}
    fed = {n: a for n, a in given.items() if n not in constants}
    graph = helper.make_graph(
        [node],
        "test",
        [_info(n, a) for n, a in fed.items()],
        [onnx.ValueInfoProto(name=n) for n in results],
        [numpy_helper.from_array(given[n], n) for n in constants],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    for value in inferred.graph.output:
        if value.type.WhichOneof("value") is None:  # onnx infers nothing for the oldest forms
            value.type.tensor_type.elem_type = inferred.graph.input[0].type.tensor_type.elem_type
    return inferred, fed


def contributed(
    kind: str,
    inputs: Mapping[str, Array | None],
    outputs: Sequence[type | None] = (np.float32,),
    constants: Sequence[str] = (),
    domain: str = "com.microsoft",
    opset_version: int = 17,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """As `one_node`, of an operator that onnx's library may not know.

    `outputs` are the element types of the results; None is one that is not asked for.
    """
    names = [name if array is not None else "" for name, array in inputs.items()]
    results = [f"y{i}" if t is not None else "" for i, t in enumerate(outputs)]
    node = helper.make_node(kind, names, results, f"the_{kind}", domain=domain, **attributes)
    given = {n: a for n, a in inputs.items() if a is not None}
    fed = {n: a for n, a in given.items() if n not in constants}
    infos = [
        helper.make_tensor_value_info(f"y{i}", helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
        for i, t in enumerate(outputs)
        if t is not None
    ]
    weights = [numpy_helper.from_array(given[n], n) for n in constants]
    graph = helper.make_graph([node], "test", [_info(n, a) for n, a in fed.items()], infos, weights)
    opsets = [helper.make_opsetid("", opset_version), helper.make_opsetid("com.microsoft", 1),
              helper.make_opsetid("ai.onnx.ml", 3)]  # fmt: skip
    if domain and all(entry.domain != domain for entry in opsets):
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )


def outputs_of(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """The results of an imported program, by the reference evaluator."""
    return list(evaluate(graph.module, graph.weights, inputs).values())


# Places of i8 operands, and of their zero points, in products with u8, by operator.
_SIGNED = {
    "DynamicQuantizeLSTM": (1, 2, 9, 11),
    "DynamicQuantizeMatMul": (1, 3),
    "MatMulIntegerToFloat": (1, 5),
    "QAttention": (1, 7),
    "QGemm": (3, 5),
    "QLinearConv": (3, 5),
}


def unsigned(
    model: onnx.ModelProto, inputs: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The same products with u8 in the place of i8: numbers and zero points are 128 higher.

    onnxruntime's sums of products of u8 and i8 saturate at 16 bits on processors without VNNI;
    those of u8 and u8 are exact on all.
    """
    moved = {
        node.input[place]
        for node in model.graph.node
        for place in _SIGNED.get(node.op_type, ())
        if place < len(node.input)
    }
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for weight in copy.graph.initializer:
        if weight.name in moved and weight.data_type == TensorProto.INT8:
            weight.CopyFrom(numpy_helper.from_array(_higher(numpy_helper.to_array(weight)),
                                                    weight.name))  # fmt: skip
    for info in copy.graph.input:
        if info.name in moved and info.type.tensor_type.elem_type == TensorProto.INT8:
            info.type.tensor_type.elem_type = TensorProto.UINT8
    return copy, {
        name: _higher(x) if name in moved and x.dtype == np.int8 else x
        for name, x in inputs.items()
    }


def _higher(x: Array) -> Array:
    return (x.astype(np.int16) + 128).astype(np.uint8)


def expected(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The results of onnxruntime, those of integers in exact arithmetic."""
    model, inputs = unsigned(model, inputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def assert_close(got: Sequence[Array], want: Sequence[Array], **tolerance: float) -> None:
    """Types, shapes and values agree."""
    tolerance = {"rtol": 1e-3, "atol": 1e-5} | tolerance
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), equal_nan=True, **tolerance
        )


def assert_agrees(
    model: onnx.ModelProto, inputs: Mapping[str, Array], atol: float = 1e-5, **options: Any
) -> Graph:
    """The imported program computes what onnxruntime computes. Returns it."""
    graph = parse_onnx(model, **options)
    assert_close(outputs_of(graph, inputs), expected(model, inputs), atol=atol)
    return graph


def floats(*shape: int, seed: int = 0) -> Array:
    """Normal random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    """A vector of int64."""
    return np.array(values, np.int64)


def op_names(graph: Graph) -> list[str]:
    """The names of the ops of main, in order, without the dialect's."""
    return [
        op.operation.name.removeprefix("mgx.")
        for op in graph.main.regions[0].blocks[0].operations
        if op.operation.name != "func.return"
    ]


def simple_model(**changes: Any) -> onnx.ModelProto:
    """y = Relu(x + b) on float tensors of 2 x 3; changes replace fields of the graph."""
    fields: dict[str, Any] = {
        "nodes": [
            helper.make_node("Add", ["x", "b"], ["s"], "add"),
            helper.make_node("Relu", ["s"], ["y"], "relu"),
        ],
        "name": "simple",
        "inputs": [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        "outputs": [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        "initializer": [numpy_helper.from_array(np.arange(3, dtype=np.float32), "b")],
    }
    graph = helper.make_graph(**(fields | changes))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
