"""Forms that the standard forbids, but exporters write and onnxruntime accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import onnx.defs
from onnx import NodeProto, TensorProto, helper

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import equations, registry, structure

_CONSTANT_TYPES = {
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}
# What was an attribute once, and the number of the input that it is now.
_REPEATED = {
    "Pad": ("pads", 1),
    "Reshape": ("shape", 1),
    "Split": ("split", 1),
    "Squeeze": ("axes", 1),
    "TopK": ("k", 1),
    "Unsqueeze": ("axes", 1),
    "Upsample": ("scales", 1),
}


def repair(model: onnx.ModelProto) -> None:
    """Writes such forms as the standard has them. Raises ModelError naming a bad equation.

    onnx's library ends the process, or never ends, over equations that are none.
    """
    _name_others(model)
    _import_domains(model)
    _declare_constants(model.graph)
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    for node in _nodes(model):
        if node.domain not in ("", "ai.onnx"):
            continue
        _drop_repeated(node)
        if node.op_type == "Einsum":
            _check_equation(node)
        elif node.op_type == "Split" and version >= 18:
            _count_outputs(node)


def _name_others(model: onnx.ModelProto) -> None:
    """Writes operators of com.microsoft that are others with inputs in another order as these.

    y, inverse, counts = Unique(x)      ONNX's own, in the order of x
    y = DecoderMaskedMultiHeadAttention(q, k, v, mask, scores, past_k, past_v, length)

    ATen has a domain of its own in newer models.
    """
    for node in _nodes(model):
        if (node.domain, node.op_type) == ("", "ATen"):
            node.domain = "org.pytorch.aten"
        if node.domain != "com.microsoft":
            continue
        if node.op_type == "Unique":
            y, inverse, counts = [*node.output, "", ""][:3]
            node.domain = ""
            _replace(node.output, [y, "", inverse, counts])
            node.attribute.append(helper.make_attribute("sorted", 0))
        elif node.op_type == "DecoderMaskedMultiHeadAttention":
            _as_multi_head(node)


def _as_multi_head(node: NodeProto) -> None:
    given = [*node.input, *[""] * 11][:11]
    q, k, v, mask, scores, past_k, past_v, length, _, cache, bias = given
    shared = any(a.name == "past_present_share_buffer" and a.i for a in node.attribute)
    node.op_type = "MultiHeadAttention"
    length = length if shared else ""
    _replace(node.input, [q, k, v, bias, mask, scores, past_k, past_v, length, cache])
    dropped = ("past_present_share_buffer", "output_qk")
    _replace(node.attribute, [a for a in node.attribute if a.name not in dropped])


def _replace(field: Any, values: Sequence[Any]) -> None:
    """Gives a repeated field of a message other values."""
    del field[:]
    field.extend(values)


def _nodes(model: onnx.ModelProto) -> Iterator[NodeProto]:
    yield from structure.all_nodes(model.graph)
    for function in model.functions:
        for node in function.node:
            yield node
            for inner in structure.subgraphs(node):
                yield from structure.all_nodes(inner)


def _import_domains(model: onnx.ModelProto) -> None:
    """Imports the opsets of domains that are known, and used without one."""
    known = registry.domains() - {""}
    for owner in (model, *model.functions):
        nodes = structure.all_nodes(owner.graph if isinstance(owner, onnx.ModelProto) else owner)
        used = {node.domain for node in nodes} & known
        for domain in sorted(used - {entry.domain for entry in owner.opset_import}):
            owner.opset_import.append(helper.make_opsetid(domain, _newest(domain)))


def _newest(domain: str) -> int:
    if domain not in registry.STANDARD:
        return 1
    versions: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas():
        versions[schema.domain] = max(versions.get(schema.domain, 1), schema.since_version)
    return versions.get(domain, 1)


def _declare_constants(graph: onnx.GraphProto) -> None:
    """Gives constants the type of their value, whatever the model declares."""
    types = {
        n.output[0]: _constant_type(n) for n in graph.node if n.output and n.op_type == "Constant"
    }
    for value in (*graph.value_info, *graph.output):
        if types.get(value.name):
            value.type.CopyFrom(helper.make_tensor_type_proto(types[value.name], None))
    for node in graph.node:
        for inner in structure.subgraphs(node):
            _declare_constants(inner)


def _constant_type(node: NodeProto) -> int:
    """The number of a Constant's element type; 0 where an attribute of another kind says it."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return int(attribute.t.data_type)
        if attribute.name in _CONSTANT_TYPES:
            return _CONSTANT_TYPES[attribute.name]
    return 0


def _drop_repeated(node: NodeProto) -> None:
    """Drops the attribute of an old form where the input of the new one says it too."""
    place = _REPEATED.get(node.op_type)
    if place is None or len(node.input) <= place[1] or not node.input[place[1]]:
        return
    kept = [a for a in node.attribute if a.name != place[0]]
    if len(kept) < len(node.attribute):
        _replace(node.attribute, kept)


def _check_equation(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name == "equation" and not attribute.ref_attr_name:
            try:
                equations.check(attribute.s.decode("utf-8", "replace"))
            except ModelError as error:
                raise ModelError(f"{structure.display_name(node)}: {error}") from None


def _count_outputs(node: NodeProto) -> None:
    """Split without sizes has as many parts as results: since opset 18 it has to say so."""
    given = len(node.input) > 1 and node.input[1]
    if not given and not {a.name for a in node.attribute} & {"num_outputs", "split"}:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
