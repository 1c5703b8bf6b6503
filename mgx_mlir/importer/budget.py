"""Limits on a model's demands: calls of functions, sizes of tensors, work of onnx's library.

Each check costs time in proportion to the model's file and comes before the work that it
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
from onnx import FunctionProto, GraphProto, TypeProto

from mgx_mlir.artifact.plan import ENDLESS
from mgx_mlir.errors import ModelError, ResourceError, memory_text
from mgx_mlir.importer import element_types, functions
from mgx_mlir.importer.structure import all_nodes, display_name, subgraphs, uses_of

# Bytes of one tensor: more than any machine holds, and far from an integer's overflow.
MAX_TENSOR_BYTES = 1 << 40
# The most dimensions that numpy can hold.
MAX_RANK = 64
# A loop that nothing but its count ends has at most this many trips.
MAX_TRIPS = 1 << 24
# Bytes of an array that a converter computes while it imports a node.
MAX_MADE_BYTES = 1 << 30
# Ops that one node becomes, where their number is that of a size or of steps of a recurrence.
MAX_OPS = 1 << 14
# The nodes of a model once its functions are inlined: at least so many, and more by its own nodes.
_CALLED_NODES, _CALLS_OF_EACH_NODE = 1 << 16, 100
_MAX_CALL_DEPTH = 200


def check_calls(model: onnx.ModelProto) -> None:
    """Raises ModelError where functions call themselves, ResourceError where they call too much."""
    table = {functions.key_of(f): f for f in model.functions}
    own = sum(1 for _ in all_nodes(model.graph))
    if len(table) < len(model.functions):
        raise ModelError("two of its functions have one domain, name and overload")
    for function in model.functions:
        own += sum(1 for _ in functions.all_nodes(function.node))
        _check_body(function)
    most = _CALLED_NODES + _CALLS_OF_EACH_NODE * own
    counts: dict[functions.Key, int] = {}
    for key in table:
        _count_calls(key, table, counts, most)
    total = sum(1 + counts.get(functions.called(node), 0) for node in all_nodes(model.graph))
    if total > most:
        raise _too_many_nodes("the graph", total, most)


def _check_body(function: FunctionProto) -> None:
    """Raises ModelError for names that nothing in a function defines, once, before their use."""
    what = functions.show(functions.key_of(function))
    defined = set(function.input)
    for node in function.node:
        for name in sorted(uses_of(node) - defined):
            raise ModelError(f"{what} reads '{name}', which nothing in it defines before")
        for name in filter(None, node.output):
            if name in defined:
                raise ModelError(f"{what} defines '{name}' twice")
            defined.add(name)
    for name in function.output:
        if name not in defined:
            raise ModelError(f"{what} does not compute its output '{name}'")


def _count_calls(
    root: functions.Key,
    table: Mapping[functions.Key, FunctionProto],
    counts: dict[functions.Key, int],
    most: int,
) -> None:
    """Notes how many nodes each function is that `root` leads to, callees first."""
    stack = [root] if root not in counts else []
    active: set[functions.Key] = set()
    while stack:
        key = stack[-1]
        active.add(key)
        callees = [functions.called(node) for node in functions.all_nodes(table[key].node)]
        left = [k for k in callees if k in table and k not in counts]
        if not left:
            active.discard(stack.pop())
            counts[key] = sum(1 + counts.get(k, 0) for k in callees)
            if counts[key] > most:
                raise _too_many_nodes(functions.show(key), counts[key], most)
            continue
        if left[0] in active:
            raise ModelError(
                f"{functions.show(left[0])} calls itself, by way of {functions.show(key)}"
            )
        if len(active) >= _MAX_CALL_DEPTH:
            raise ResourceError(
                f"calls are more than {_MAX_CALL_DEPTH} deep at {functions.show(left[0])}; "
                "inline some of the functions before"
            )
        stack.append(left[0])


def _too_many_nodes(what: str, count: int, most: int) -> ResourceError:
    return ResourceError(
        f"{what} would have {count} nodes once its functions are inlined; a model of this size "
        f"may have {most}"
    )


def check_loops(graph: GraphProto) -> None:
    """Raises ModelError for a Loop of too many trips for any run, which no condition ends.

    Exporters write the largest integer for a loop without a number of trips.
    """
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        values = {a.name: a for a in node.attribute}
        if node.op_type == "Constant" and "value" in values and node.output:
            constants[node.output[0]] = values["value"].t
    for node in graph.node:
        trips = _number(constants.get(node.input[0])) if node.input else None
        if node.op_type == "Loop" and trips is not None and MAX_TRIPS < trips < ENDLESS:
            body = next(subgraphs(node), None)
            if body is not None and _goes_on(body):
                raise ModelError(
                    f"{display_name(node)}: {trips} trips, and no condition that ends them; "
                    f"{MAX_TRIPS} are possible"
                )
        for inner in subgraphs(node):
            check_loops(inner)


def _number(tensor: onnx.TensorProto | None) -> int | None:
    if tensor is None or tensor.data_type != onnx.TensorProto.INT64:
        return None
    if math.prod(tensor.dims) != 1 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    return int(onnx.numpy_helper.to_array(tensor).reshape(()))


def _goes_on(body: GraphProto) -> bool:
    """Whether a loop's body returns the condition that it got, or true."""
    if len(body.input) < 2 or not body.output:
        return False
    makers = {name: node for node in body.node for name in node.output if name}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity" and makers[name].input:
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    tensors = [t for t in body.initializer if t.name == name]
    if name in makers and makers[name].op_type == "Constant":
        tensors += [a.t for a in makers[name].attribute if a.name == "value"]
    return any(onnx.numpy_helper.to_array(t).all() for t in tensors if t.data_type == t.BOOL)


def check_sizes(graph: GraphProto, inner: bool = False) -> None:
    """Raises ModelError for values that no machine could hold, with their node.

    Looks at the types in the graph, and in those inside of it. A branch that never runs may have
    results of sizes below zero.
    """
    for value in graph.input:
        check_type(value.name, value.type)
    types = {v.name: v.type for v in (*graph.value_info, *graph.output)}
    for node in graph.node:
        for name in node.output:
            if name in types:
                try:
                    check_type(name, types[name], signed=inner)
                except ModelError as error:
                    raise ModelError(f"{display_name(node)}: {error}") from None
        for body in subgraphs(node):
            check_sizes(body, inner=True)


def check_type(name: str, type_: TypeProto, signed: bool = False) -> None:
    """Raises ModelError where a tensor of that type cannot exist.

    signed: a size below zero means an unknown size.
    """
    if not type_.tensor_type.HasField("shape"):
        return
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in type_.tensor_type.shape.dim]
    dims = [None if signed and size is not None and size < 0 else size for size in sizes]
    check_size(name, dims, element_types.bits_of(type_.tensor_type.elem_type))


def check_size(name: str, dims: Sequence[int | str | None], bits: int) -> None:
    """Raises ModelError where a tensor of these sizes, as far as known, cannot exist."""
    known = [size for size in dims if isinstance(size, int)]
    if len(dims) > MAX_RANK:
        raise ModelError(f"'{name}' has {len(dims)} dimensions; {MAX_RANK} are possible")
    if min(known, default=0) < 0:
        raise ModelError(f"'{name}' of {known} has a negative size")
    size = math.prod(known) * bits // 8
    if size > MAX_TENSOR_BYTES:
        raise ModelError(
            f"'{name}' of {known} needs {memory_text(size)}; "
            f"one tensor may have {memory_text(MAX_TENSOR_BYTES)}"
        )


def check_made(*sizes: int, itemsize: int = 8) -> None:
    """Raises ModelError where an array of these sizes is more than an import may compute."""
    needed = math.prod(sizes) * itemsize
    if needed > MAX_MADE_BYTES:
        raise ModelError(
            f"it needs a table of {list(sizes)} while it is imported, {memory_text(needed)}; "
            f"{memory_text(MAX_MADE_BYTES)} are possible"
        )


def check_work(count: int, what: str) -> None:
    """Raises ModelError where one node would become too many ops."""
    if count > MAX_OPS:
        raise ModelError(f"{count} {what}; {MAX_OPS} are possible")
