"""One mgx op beside the ONNX node that means the same, run by onnxruntime or onnx's reference."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from mlir import ir
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from mgx_mlir.dialects import context
from mgx_mlir.dialects.types import element_type
from mgx_mlir.reference import evaluate_kernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Twin:
    """`mgx`: the op's text, its operands %0, %1, ...; `onnx`: the node's type, with attributes.

    inputs: arrays or shapes (then f32, normal). constants: arrays that only the ONNX node takes,
    after the inputs (axes, pads). reference: run onnx's own evaluator instead of onnxruntime.
    """

    name: str
    mgx: str
    onnx: str
    inputs: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[Any] = ()
    opset: int = 19
    reference: bool = False
    rtol: float = 1e-5
    atol: float = 1e-5


def integers(low: int, high: int, *shape: int, dtype: type = np.int64) -> Array:
    """The same whole numbers in [low, high) for the same arguments."""
    rng = np.random.default_rng([low + 1000, high + 1000, *shape])
    return rng.integers(low, high, shape).astype(dtype)


def check_twins(twins: Sequence[Twin]) -> None:
    with context() as ctx:
        for twin in twins:
            inputs = [_array(twin, i, given) for i, given in enumerate(twin.inputs)]
            expected = _run_onnx(twin, inputs)
            actual = _run_mgx(twin, inputs, expected, ctx)
            for want, have in zip(expected, actual, strict=True):
                want, have = np.asarray(want), np.asarray(have)
                assert want.dtype == have.dtype, f"{twin.name}: {have.dtype} for {want.dtype}"
                np.testing.assert_allclose(
                    have.astype(np.float64),
                    want.astype(np.float64),
                    twin.rtol,
                    twin.atol,
                    err_msg=twin.name,
                )


def _array(twin: Twin, position: int, given: Any) -> Array:
    if isinstance(given, np.ndarray):
        return given
    rng = np.random.default_rng(zlib.crc32(f"{twin.name}{position}".encode()))
    return rng.standard_normal(given).astype(np.float32)


def _run_mgx(
    twin: Twin, inputs: Sequence[Array], expected: Sequence[Array], ctx: ir.Context
) -> list[Array]:
    """The op's types follow its operands: from the inputs' and the expected results' arrays."""
    arguments = [_type(x, ctx) for x in inputs]
    types = ", ".join(_type(np.asarray(x), ctx) for x in expected)
    values = ", ".join(f"%r{i}" for i in range(len(expected)))
    form = twin.mgx
    if ": tensor" not in form:
        form = f"{form} : {', '.join(arguments)} -> {types}"
    for i in range(len(inputs)):
        form = form.replace(f"%{i}", f"%x{i}")
    parameters = ", ".join(f"%x{i}: {t}" for i, t in enumerate(arguments))
    text = f"""
      mgx.kernel @k({parameters}) -> ({types}) attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
        {values} = mgx.{form}
        mgx.return {values} : {types}
      }}"""
    module = ir.Module.parse(text, ctx)
    return evaluate_kernel(module.body.operations[0], inputs)


def _type(array: Array, ctx: ir.Context) -> str:
    element = element_type(array.dtype, ctx)
    return str(ir.RankedTensorType.get(array.shape, element, loc=ir.Location.unknown(ctx)))


def _run_onnx(twin: Twin, inputs: Sequence[Array]) -> list[Array]:
    given = [*inputs, *(None if c is None else np.asarray(c) for c in twin.constants)]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(given)]
    outputs = 2 if twin.onnx == "TopK" else 1
    node = helper.make_node(twin.onnx, names, [f"y{i}" for i in range(outputs)], **twin.attributes)
    feed = {n: x for n, x in zip(names, given, strict=True) if x is not None}
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in feed.items()
        ],
        [
            helper.make_tensor_value_info(f"y{i}", TensorProto.UNDEFINED, None)
            for i in range(outputs)
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", twin.opset)], ir_version=9
    )
    if twin.reference:
        return list(ReferenceEvaluator(model).run(None, feed))
    model = onnx.shape_inference.infer_shapes(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feed))
