"""Evaluates nodes whose inputs are small constants, with onnx's reference evaluator.

Models compute shapes: Shape, Gather, Concat, then Reshape. Once those are numbers, shapes
are static.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import NodeProto, TypeProto, helper, numpy_helper

MAX_ELEMENTS = 4096

# Operators without side effects or randomness, which shape arithmetic and tables use.
_FOLDABLE = frozenset(
    """Abs Add And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CastLike Ceil Clip Concat Cos CumSum Div Equal Exp Expand Flatten Floor Gather
    GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Log Max Min Mod
    Mul Neg NonZero Not OneHot Or Pad Pow Range Reciprocal ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum Relu Reshape Round ScatterElements ScatterND Shape Sign Sin Size Slice
    Split Sqrt Squeeze Sub Sum Tile TopK Transpose Trilu Unique Unsqueeze Where Xor""".split()
)

# onnx's evaluator rounds every partial sum to the type.
_SUMS = frozenset("CumSum ReduceMean ReduceProd ReduceSum".split())


def fold(
    node: NodeProto, arrays: Sequence[np.ndarray | None], opset: int
) -> list[np.ndarray] | None:
    """The node's results, or None where it does not fold.

    `arrays` are the inputs' values; an absent optional input is None.
    """
    if node.domain or node.op_type not in _FOLDABLE:
        return None
    given = {n: a for n, a in zip(node.input, arrays, strict=True) if n and a is not None}
    if any(a.size > MAX_ELEMENTS for a in given.values()):
        return None
    if node.op_type == "Squeeze" and arrays[1:] and arrays[1] is not None and not arrays[1].size:
        return None  # onnx's evaluator takes no dimension away
    if node.op_type in _SUMS and any(
        a.dtype.kind in "fV" and a.itemsize < 4 for a in given.values()
    ):
        return None
    if not _results_are_small(node, given, opset):
        return None
    graph = helper.make_graph(
        [node],
        "fold",
        [helper.make_value_info(n, _type(a)) for n, a in given.items()],
        [onnx.ValueInfoProto(name=n) for n in node.output if n],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    from onnx.reference import ReferenceEvaluator  # takes long to import: where it is used

    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, given)
    except (ArithmeticError, IndexError, KeyError, NotImplementedError, RuntimeError,
            TypeError, ValueError):  # fmt: skip
        return None  # the converter then reports the node's fault
    by_name = dict(zip((n for n in node.output if n), results, strict=True))
    if any(not isinstance(r, np.ndarray | np.generic) for r in results):
        return None
    return [np.asarray(by_name[n]) if n else np.empty(0) for n in node.output]


def _results_are_small(node: NodeProto, given: dict[str, np.ndarray], opset: int) -> bool:
    """Whether onnx's inference finds that every result is small enough."""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        types = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {n: _type(a) for n, a in given.items()},
            {n: numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in given.items()},
            opset_imports=[helper.make_opsetid("", opset)],
        )
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError,
            onnx.checker.ValidationError, KeyError, TypeError):  # fmt: skip
        return False
    for name in filter(None, node.output):
        if name not in types or not types[name].tensor_type.HasField("shape"):
            return False
        dims = types[name].tensor_type.shape.dim
        unknown = any(not d.HasField("dim_value") for d in dims)
        # Results of unknown size (NonZero, Unique) do not exceed their input's.
        if unknown and node.op_type not in ("NonZero", "Unique"):
            return False
        if math.prod(d.dim_value for d in dims if d.HasField("dim_value")) > MAX_ELEMENTS:
            return False
    return True


def _type(array: np.ndarray) -> TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
