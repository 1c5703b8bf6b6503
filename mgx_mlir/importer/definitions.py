"""The definition of a node's operator: its row in the table, its schema, its function body."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx
from onnx import NodeProto, TypeProto, helper

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import element_types, forms, registry, structure
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.values import Value
from mgx_mlir.suggest import instead


def resolve(
    proto: NodeProto, opset: int | None
) -> tuple[registry.Operator, onnx.defs.OpSchema | None]:
    """The row and the definition of a node's operator. Raises UnsupportedError.

    onnx's library holds no definitions of other domains' operators, and of experiments.
    """
    row = registry.find(proto.domain, proto.op_type)
    if row is None:
        names = [known.name for known in registry.operators() if known.domain == proto.domain]
        if names:
            is_word = onnx.defs.has(proto.op_type, proto.domain)
            hint = "" if is_word else instead(proto.op_type, names, "")
            raise UnsupportedError(f"this operator is not supported{hint and f'; {hint}'}")
        raise UnsupportedError(f"operators of domain '{proto.domain}' are not supported")
    if opset is None:
        raise ModelError(f"the model does not import the opset of domain '{proto.domain}'")
    if row.domain not in registry.STANDARD or not registry.is_listed(row):
        return row, None
    schema = forms.definition(proto, opset)
    if schema is None:
        raise UnsupportedError(f"opset {opset} does not define this operator")
    oldest, newest = row.versions
    if not oldest <= schema.since_version <= newest:
        raise UnsupportedError(
            f"its definition of opset {schema.since_version} is not supported; "
            f"those of opsets {oldest} to {newest} are"
        )
    return row, schema


def refused_type(schema: onnx.defs.OpSchema, inputs: Sequence[Value | None]) -> str:
    """Why an operator's definition refuses the types of its inputs; '' where it takes them."""
    forms = _types(schema.name, schema.since_version, schema.domain)
    for index, value in enumerate(inputs if forms else ()):
        if value is None or value.items is not None:
            continue
        name, taken = forms[min(index, len(forms) - 1)]
        if (element := element_types.of_numpy(value.dtype).name) not in taken:
            return f"its input {name} is of type {element}, which {schema.name} does not take"
    return ""


@functools.cache
def _types(name: str, version: int, domain: str) -> list[tuple[str, frozenset[str]]]:
    """The inputs of a definition, and the types of tensors that each takes."""
    if not onnx.defs.has(name, version, domain):
        return []
    inputs = onnx.defs.get_schema(name, version, domain).inputs
    return [(i.name, frozenset(t[7:-1] for t in i.types if t[:7] == "tensor(")) for i in inputs]


def function_body(node: Node, schema: onnx.defs.OpSchema, opset: int) -> onnx.FunctionProto:
    """The body of a node, as its definition writes it. Raises UnsupportedError."""
    body: bytes = b""
    if schema.has_context_dependent_function:
        types = [_type_proto(v).SerializeToString() for v in node.inputs]
        version = _body_version(schema.context_dependent_function_opset_versions, opset)
        body = schema.get_context_dependent_function_with_opset_version(
            version, node.proto.SerializeToString(), types
        )
    elif schema.has_function:
        version = _body_version(schema.function_opset_versions, opset)
        body = schema.get_function_with_opset_version(version)
    if not body:
        raise UnsupportedError("its definition has no function body for these inputs")
    function = onnx.FunctionProto.FromString(body)
    if schema.name == "AffineGrid":
        _name_squeezed_axis(function)
    return function


def _name_squeezed_axis(function: onnx.FunctionProto) -> None:
    """Names axis 1 where AffineGrid's body squeezes rows: without axes, one batch would go too."""
    for node in structure.all_nodes(function):
        if node.op_type == "Squeeze" and len(node.input) == 1:
            node.input.append("one_1d")  # its constant [1]


def _body_version(versions: Sequence[int], opset: int) -> int:
    """The newest body that an opset can hold, or else the oldest, which means the same."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(value: Value | None) -> TypeProto:
    if value is None:
        return TypeProto()
    number = element_types.of_numpy(value.dtype).onnx
    return helper.make_tensor_type_proto(number, list(value.dims))
