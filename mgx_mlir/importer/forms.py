"""Forms of nodes that onnx's library does not take in a model's opset, and converters do.

ReduceSum <axes = [1]> (x)              of opset 11, in a model of opset 21
Einsum <equation = "...i,...i"> (x, y)  whose ellipses are of different ranks
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache

import onnx
import onnx.defs
from onnx import AttributeProto, NodeProto

from mgx_mlir.importer import registry, structure

# Operators whose definitions ask for operands of one type, or for sizes and axes of i64, where
# converters take any.
_OF_ANY_TYPES = frozenset(
    """Add And BitwiseAnd BitwiseOr BitwiseXor Clip ConstantOfShape CumSum Div Equal Expand Greater
    GreaterOrEqual Less LessOrEqual Max Min Mod Mul OneHot Or Pad Range ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize Slice Split Squeeze Sub Sum Tile TopK Unsqueeze Upsample
    Where Xor""".split()
)
# Those whose indices may be of i32 too.
_OF_INDICES = frozenset(("GatherND", "Scatter", "ScatterElements", "ScatterND"))
# The words of onnx's inference for an operand of another type, or a scalar for a vector of one.
_OF_TYPES = re.compile(
    r"op_type: ?(\w+).*"
    r"(unsupported type|inconsistent type|type mismatch|of type int64|tensor of size 1|scalars)"
)
_CONSTANTS_OF_ANY_TYPE = 9  # the opset
# A domain that onnx's library does not know: its checker and inference skip the nodes.
_HIDDEN = "experiment"


def definition(node: NodeProto, opset: int) -> onnx.defs.OpSchema | None:
    """The definition of a node's operator that the node fits.

    It is the one of its opset, or else the newest older one, or else the oldest newer one.
    Where it fits none, it is the one of its opset; None where that has none.
    """
    own = registry.definition(node.domain, node.op_type, opset)
    row = registry.find(node.domain, node.op_type)
    if row is None or node.domain or not registry.is_listed(row):
        return own
    if own is not None and not own.deprecated and _fits(node, own):
        return own
    oldest, newest = row.versions
    known = [s for s in registry.history(node.op_type) if oldest <= s.since_version <= newest]
    older = [s for s in known if s.since_version <= opset]
    newer = [s for s in known if s.since_version > opset]
    for schema in (*reversed(older), *newer):
        if not schema.deprecated and _fits(node, schema):
            return schema
    return own


def lenient_operator(message: str) -> str:
    """The operator that inference refuses for its types alone, and a converter takes, or ''."""
    text = " ".join(message.split())
    found = _OF_TYPES.search(text)
    name = "" if found is None else found[1]
    return name if name in _OF_ANY_TYPES or (name in _OF_INDICES and "int32" in text) else ""


def hide(
    model: onnx.ModelProto, opsets: Mapping[str, int], operators: Collection[str] = ()
) -> None:
    """Moves such nodes, extra ones, and those of `operators` out of ONNX's domain, in place.

    The others lose the attributes that say nothing.
    """
    opset, found = opsets[""], False
    if opset < _CONSTANTS_OF_ANY_TYPE:
        _store_constants(model.graph)
    for node in structure.all_nodes(model.graph):
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type in operators or _is_unknown(node, opset):
            node.domain, found = _HIDDEN, True
        kept = [a for a in node.attribute if a.name not in structure.WITHOUT_EFFECT]
        if len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)
    if found:
        model.opset_import.add(domain=_HIDDEN, version=1)


def _store_constants(graph: onnx.GraphProto) -> None:
    """Makes weights of Constants, which were of floats alone; exporters wrote others all along."""
    kept = []
    for node in graph.node:
        tensor = _tensor_of(node) if node.op_type == "Constant" else None
        if tensor is None:
            kept.append(node)
            continue
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = node.output[0]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)
    for node in graph.node:
        for inner in structure.subgraphs(node):
            _store_constants(inner)


def _tensor_of(node: NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant, unless it is of floats."""
    found = next((a.t for a in node.attribute if a.name == "value"), None)
    return None if found is None or found.data_type == onnx.TensorProto.FLOAT else found


def _is_unknown(node: NodeProto, opset: int) -> bool:
    if registry.is_extra(node.op_type, opset) or _has_ellipses(node):
        return True
    schema = definition(node, opset)
    return schema is not None and _own_version(node.op_type, opset) != schema.since_version


@cache
def _own_version(name: str, opset: int) -> int:
    schema = registry.definition("", name, opset)
    return 0 if schema is None else int(schema.since_version)


def _has_ellipses(node: NodeProto) -> bool:
    """Whether an Einsum has several, which onnx's inference wants to be of one rank."""
    if node.op_type != "Einsum":
        return False
    return any(a.s.partition(b"->")[0].count(b"...") > 1 for a in node.attribute)


def _fits(node: NodeProto, schema: onnx.defs.OpSchema) -> bool:
    """Whether a definition has the node's attributes, and room for its inputs and outputs."""
    stated = {a.name: a for a in node.attribute if a.name not in structure.WITHOUT_EFFECT}
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return False
    if len(node.output) > schema.max_output:
        return False
    if node.op_type == "Resize" and schema.since_version > 10 and len(node.input) == 2:
        return False  # the second input is no region of interest, but the scales of version 10
    required = {n for n, declared in schema.attributes.items() if declared.required}
    return required <= {*stated} and all(_is_declared(a, schema) for a in stated.values())


def _is_declared(attribute: AttributeProto, schema: onnx.defs.OpSchema) -> bool:
    declared = schema.attributes.get(attribute.name)
    return declared is not None and (
        bool(attribute.ref_attr_name) or int(declared.type.value) == attribute.type
    )
