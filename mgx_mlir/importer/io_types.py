"""Inputs and outputs of another type than the model's, by choice.

x (f32) -> ... -> y (f32)
x (f16) -> Cast -> x/f32 -> ... -> y/f32 -> Cast -> y (f16)
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer import structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.suggest import instead, listed

# The types that floats may get; integers are for inputs alone.
FLOATS = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
_INTEGERS = {"i8": TensorProto.INT8, "u8": TensorProto.UINT8}
TYPES = {**FLOATS, **_INTEGERS}
_NAMES = {kind: name for name, kind in FLOATS.items()} | {TensorProto.DOUBLE: "f64"}
# The opsets whose Cast names its type by a number, and knows bf16.
_CAST, _CAST_BF16 = 6, 13


def check_types(types: Mapping[str, str]) -> None:
    """Raises UsageError for a type that inputs and outputs cannot get."""
    for pattern, name in types.items():
        if name not in TYPES:
            hint = instead(name, TYPES, f"use one of {', '.join(TYPES)}")
            raise UsageError(f"the type of '{pattern}' is to be '{name}'; {hint}")


def change_types(source: Source, types: Mapping[str, str]) -> Source:
    """A copy of the source with inputs and outputs of the types asked for; see `change`."""
    if not types:
        return source
    source = source.copy()
    change(source.model, source.inputs, types)
    return source


def change(model: onnx.ModelProto, inputs: Iterable[str], types: Mapping[str, str]) -> bool:
    """Gives float inputs and outputs other types; Casts lie between. Returns whether it did.

    `types` gives a type by name or pattern, of which the first that matches counts. Tensors that
    are no f16, bf16, f32 or f64 stay. Raises UsageError for a name that is no input or output of
    these types, UnsupportedError where the model's opset has no such Cast.
    """
    graph = model.graph
    names = set(inputs)
    given = {value.name: value for value in graph.input if value.name in names}
    made = {value.name: value for value in graph.output if value.name not in given}
    _check_patterns(types, given, made)
    changes = [(value, TYPES[to]) for value in (*given.values(), *made.values())
               if (to := _asked(value, types, value.name in given))]  # fmt: skip
    if not changes:
        return False
    _check_opset(model, {kind for _, kind in changes})
    taken = {n for node in structure.all_nodes(graph) for n in (*node.input, *node.output)}
    taken |= {value.name for value in (*graph.input, *graph.output)}
    inside, casts = {}, []
    for value, to in changes:
        tensor = value.type.tensor_type
        own = int(tensor.elem_type)
        name = inside[value.name] = structure.fresh(f"{value.name}/{_NAMES[own]}", taken)
        x, y, kind = (value.name, name, own) if value.name in given else (name, value.name, to)
        casts.append(helper.make_node("Cast", [x], [y], name=f"{name}/cast", to=kind))
        known = graph.value_info.add()
        known.CopyFrom(value)
        known.name = name
        tensor.elem_type = to
    _rename(graph, inside)
    first = [cast for cast in casts if cast.input[0] in given]
    nodes = [*first, *graph.node, *(cast for cast in casts if cast.input[0] not in given)]
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _check_patterns(
    types: Mapping[str, str],
    given: Mapping[str, onnx.ValueInfoProto],
    made: Mapping[str, onnx.ValueInfoProto],
) -> None:
    check_types(types)
    both = {**made, **given}
    for pattern, to in types.items():
        plain = pattern == glob.escape(pattern)
        names = given if to in _INTEGERS else both
        matching = [names[name] for name in names if fnmatchcase(name, pattern)]
        if not matching:
            where = "input" if to in _INTEGERS else "input or output"
            hint = instead(pattern, names, f"there are {listed(names)}")
            raise UsageError(f"'{pattern}' is to be {to}: no {where} has this name; {hint}")
        kind = matching[0].type.tensor_type.elem_type
        if plain and kind not in (*_NAMES, TYPES[to]):
            raise UsageError(
                f"'{pattern}' is to be {to}: it is no tensor of f16, bf16, f32 or f64, which alone "
                "change their types"
            )


def _asked(value: onnx.ValueInfoProto, types: Mapping[str, str], is_input: bool) -> str:
    """The type that an input or output is to have; '' where it keeps its own."""
    kind = value.type.tensor_type.elem_type
    if value.type.WhichOneof("value") != "tensor_type" or kind not in _NAMES:
        return ""
    matching = (to for pattern, to in types.items() if fnmatchcase(value.name, pattern))
    to = next((name for name in matching if is_input or name in FLOATS), "")
    return to if to and TYPES[to] != kind else ""


def _check_opset(model: onnx.ModelProto, kinds: set[int]) -> None:
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)
    least = _CAST_BF16 if TensorProto.BFLOAT16 in kinds else _CAST
    if opset < least:
        what = "bf16" if least == _CAST_BF16 else "another type"
        raise UnsupportedError(
            f"inputs and outputs of {what} need a model of opset {least} or later; it has {opset}"
        )


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames values at the nodes that make and read them, also in bodies that see them."""
    for node in graph.node:
        for ends in (node.input, node.output):
            for place, name in enumerate(ends):
                ends[place] = names.get(name, name)
        for body in structure.subgraphs(node):
            own = {v.name for v in (*body.input, *body.initializer)}
            own |= {name for inner in body.node for name in inner.output}
            seen = {old: new for old, new in names.items() if old not in own}
            _rename(body, seen)
            for value in body.output:
                value.name = seen.get(value.name, value.name)
