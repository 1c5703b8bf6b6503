"""Queries on the IR: users, constants, broadcasts; and fused locations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np
from mlir import ir

from mgx_mlir._native import _mgx
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import is_named, shape_of
from mgx_mlir.rewriting.view_chains import Change


def definition(value: ir.Value) -> ir.OpView | None:
    """The op that defines a value; None for a block argument."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    return owner.opview if isinstance(owner, ir.Operation) else owner


def memory_of(value: ir.Value) -> ir.Value:
    """The value whose memory a value lies in: reshapes share that of their operand."""
    op = definition(value)
    while isinstance(op, mgx.RESHAPES):
        value = op.x
        op = definition(value)
    return value


def op_name(op: ir.OpView | ir.Operation | None) -> str:
    """The op's full name, such as 'mgx.add'; '' for None."""
    return "" if op is None else op.operation.name


def yielded(block: ir.Block) -> list[ir.Value]:
    """The values that the op at the end of a block yields or returns."""
    return list(list(block.operations)[-1].operands)


def users(value: ir.Value) -> list[ir.OpView]:
    """The ops that use a value, once for each use."""
    return [use.owner.opview for use in value.uses]


def has_one_use(value: ir.Value) -> bool:
    """Whether exactly one operand anywhere is this value."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def shape(value: ir.Value) -> tuple[int, ...]:
    """The sizes of a tensor value (see symbolic.shape_of)."""
    return shape_of(value.type)


# The element types of the dialect.
Element: TypeAlias = ir.IntegerType | ir.FloatType


def element_type(value: ir.Value) -> Element:
    """The element type of a tensor value."""
    return cast("Element", ir.RankedTensorType(value.type).element_type)


def element_bits(value: ir.Value) -> int:
    """The bits of a tensor's elements; 0 where they are no numbers."""
    element = element_type(value)
    return int(element.width) if isinstance(element, ir.IntegerType | ir.FloatType) else 0


def is_static(op: ir.OpView | ir.Operation) -> bool:
    """Whether the sizes of all operands and results of an op are known."""
    operation = op.operation
    types = [value.type for value in (*operation.operands, *operation.results)]
    return all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types)


def has_sizes(op: ir.OpView | ir.Operation) -> bool:
    """Whether the sizes of all operands and results of an op have values or names."""
    operation = op.operation
    types = [value.type for value in (*operation.operands, *operation.results)]
    return all(isinstance(t, ir.RankedTensorType) and is_named(t) for t in types)


def blocks(op: ir.OpView | ir.Operation) -> Iterator[ir.Block]:
    """The blocks of a program's function and of the control flow in it, outermost first.

    Bodies of fused ops are not entered: they are one op to the program.
    """
    for region in op.operation.regions:
        for block in region.blocks:
            yield block
            for inner in list(block.operations):
                if isinstance(inner, mgx.CONTROL_FLOW):
                    yield from blocks(inner)


def walk(op: ir.OpView | ir.Operation) -> Iterator[ir.Operation]:
    """An op and all ops in its regions, at any depth, outer ones first."""
    yield op.operation
    for region in op.operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from walk(inner)


OpT = TypeVar("OpT", bound=ir.OpView)


def ops_inside(root: ir.OpView | ir.Operation, *classes: type[OpT]) -> list[OpT]:
    """The ops of these classes below `root` and `root` itself, an op before the one around it."""
    names = [class_.OPERATION_NAME for class_ in classes]
    return [cast(OpT, op.opview) for op in _mgx.ops_inside(root, names)]


# The most ops behind a value that a query looks at. Queries are asked for every op of a program,
# so the cost of one must not grow with the program.
MOST_BEHIND = 32
# The most users of a value that a query looks at.
MOST_USERS = 256


def is_constant(value: ir.Value) -> bool:
    """Whether a value depends on constants and weights alone, through views and pointwise ops,
    concats and unpacked ones.

    A value behind which there are more than MOST_BEHIND values counts as not constant.
    """
    waiting, seen = [value], {value}
    while waiting:
        op = definition(waiting.pop())
        if op is None or len(seen) > MOST_BEHIND:
            return False
        if isinstance(op, mgx.SOURCES):
            continue
        moves = mgx.is_view(op) or isinstance(op, mgx.ConcatOp | mgx.UnpackOp)
        if not moves and not mgx.is_pointwise(op):
            return False
        more = [v for v in op.operands if v not in seen]
        seen.update(more)
        waiting.extend(more)
    return True


def stored_array(value: ir.Value, weights: WeightStore) -> np.ndarray | None:
    """The elements of a constant or a weight; None for any other value."""
    match definition(value):
        case mgx.ConstantOp() as op:
            return mgx.constant_array(op)
        case mgx.LiteralOp() as op:
            return weights[op.key.value].array() if op.key.value in weights else None
    return None


def new_literal(
    array: np.ndarray, element: ir.Type, weights: WeightStore, key: str = ""
) -> ir.Value:
    """The value of a new weight, or of one that is stored with these elements. See `add_array`."""
    type_ = ir.RankedTensorType.get(array.shape, element)
    return mgx.literal(weights.add_array(array, key), type_)


def turned_literal(op: mgx.LiteralOp, order: Sequence[int], weights: WeightStore) -> ir.Value:
    """The value of a weight that has another's dimensions in this order; copied when it is read."""
    key = weights.add_turned(op.key.value, order)
    return mgx.literal(key, ir.RankedTensorType.get(weights[key].shape, element_type(op.result)))


def splat(value: ir.Value) -> np.generic | None:
    """The one value that all elements of a constant have, looking through broadcasts; or None."""
    op = definition(value)
    while isinstance(op, (*mgx.BROADCASTS, *mgx.RESHAPES)):
        op = definition(op.x)
    if not isinstance(op, mgx.ConstantOp):
        return None
    array = mgx.constant_array(op)
    if not array.size or any(array.strides):
        return None
    first: np.generic = array.reshape(-1)[0]
    return first


def broadcast_source(value: ir.Value) -> ir.Value:
    """The value that a chain of broadcasts starts from; the value itself where there is none."""
    op = definition(value)
    while isinstance(op, mgx.MultibroadcastOp):
        value = op.x
        op = definition(value)
    return value


def source_sizes(value: ir.Value) -> tuple[int, ...]:
    """The sizes of a broadcast's source, with ones in front for the dimensions it adds."""
    source = shape(broadcast_source(value))
    return (1,) * (len(shape(value)) - len(source)) + source


def common_sizes(*shapes: Sequence[int]) -> list[int]:
    """The sizes to which shapes of one rank are broadcast; symbolic sizes are numbers below 0."""
    return [next((n for n in sizes if n != 1), 1) for sizes in zip(*shapes, strict=True)]


def is_along(value: ir.Value, axis: int) -> bool:
    """Whether a value, without its broadcasts, differs along one dimension only, or nowhere."""
    sizes = source_sizes(value)
    return splat(value) is not None or all(n == 1 for i, n in enumerate(sizes) if i != axis)


def broadcast_to(value: ir.Value, dims: Sequence[int]) -> ir.Value:
    """The value, broadcast where its shape is another."""
    return value if list(shape(value)) == list(dims) else mgx.multibroadcast(value, list(dims))


def side_by_side(values: Sequence[ir.Value], axis: int, dims: Sequence[int]) -> ir.Value:
    """Concatenates along `axis` constants that differ along it only, broadcast to `dims`."""
    numbers = [splat(value) for value in values]
    if numbers[0] is not None and all(number == numbers[0] for number in numbers):
        return mgx.splat(numbers[0], mgx.tensor_type(dims, element_type(values[0])))
    parts = []
    for value, number in zip(values, numbers, strict=True):
        sizes = [1] * len(dims)
        sizes[axis] = shape(value)[axis]
        if number is not None:
            parts.append(mgx.splat(number, ir.RankedTensorType.get(sizes, element_type(value))))
            continue
        source = mgx.reshape(broadcast_source(value), list(source_sizes(value)))
        parts.append(broadcast_to(source, sizes))
    return mgx.multibroadcast(mgx.concat(parts, axis), list(dims))


def group_of(op: ir.OpView) -> int:
    """The number of groups of a convolution; 1 for any other op."""
    return int(op.group.value) if isinstance(op, _GROUPED) else 1


def pad_value_of(op: ir.OpView) -> int:
    """The number that the padding of a convolution has."""
    value = op.pad_value if isinstance(op, mgx.QuantConvolutionOp) else None
    return 0 if value is None else int(value.value)


_GROUPED = (*mgx.CONVOLUTIONS, mgx.ConvolutionBackwardsOp)


def slice_bounds(slice_: mgx.SliceOp) -> tuple[list[int], list[int], list[int]]:
    """The axes of a slice, and where it starts and ends along each."""
    return list(slice_.axes), list(slice_.starts), list(slice_.ends)


def in_views(value: ir.Value, steps: Iterable[Change]) -> ir.Value:
    """Applies to a value the view ops that `view_chains.changes` gave."""
    for step in steps:
        numbers = cast("Sequence[int]", step.argument)
        match step.name:
            case "reshape":
                value = mgx.reshape(value, numbers)
            case "multibroadcast":
                value = mgx.multibroadcast(value, numbers)
            case "transpose":
                value = mgx.transpose(value, numbers)
            case "slice":
                bounds = [part for part in step.argument if isinstance(part, tuple)]
                axes = [i for i, size in enumerate(shape(value)) if bounds[i] != (0, size)]
                starts, ends = ([bounds[i][end] for i in axes] for end in (0, 1))
                value = mgx.slice(value, axes, starts, ends)
    return value


def create_like(
    like: ir.OpView,
    operands: Sequence[ir.Value],
    dims: Sequence[int],
    element: ir.Type | None = None,
    /,
    **attributes: ir.Attribute,
) -> ir.Value:
    """Creates an op like `like` on other operands; gives its result, of shape `dims`.

    element: the result's element type, where it is another one.
    """
    operation = like.operation
    own = {name: operation.attributes[name] for name in operation.attributes}
    created = ir.Operation.create(
        operation.name,
        results=[mgx.tensor_type(dims, element or element_type(operation.results[0]))],
        operands=operands,
        attributes=own | attributes,
    )
    value: ir.Value = created.results[0]
    return value


def clone_into(op: ir.OpView, values: dict[ir.Value, ir.Value]) -> None:
    """Clones an op at the insertion point, on the values that `values` maps what it uses to.

    Adds the results, mapped to those of the clone.
    """
    clone = op.operation.clone()
    for number, operand in enumerate(op.operands):
        clone.operands[number] = values[operand]
    if isinstance(op, mgx.CONTROL_FLOW):
        for inner in walk(clone):
            for number, operand in enumerate(inner.operands):
                inner.operands[number] = values.get(operand, operand)
    values.update(zip(op.results, clone.results, strict=True))


def conversion_of(op: ir.OpView | None) -> ir.Value | None:
    """The floats that a `mgx.pointwise` converts to another type, where it does nothing else."""
    if not isinstance(op, mgx.PointwiseOp) or len(op.inputs) != 1 or len(op.results) != 1:
        return None
    first, last = op.body.blocks[0].operations[0], op.body.blocks[0].operations[-1]
    if not isinstance(first, mgx.ConvertOp) or list(last.operands) != [first.result]:
        return None
    types = element_type(op.inputs[0]), element_type(op.results[0])
    wide = all(isinstance(x, ir.FloatType) and x.width in (16, 32) for x in types)
    return op.inputs[0] if wide else None


def inlined(op: mgx.PointwiseOp, outside: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clones a body at the insertion point, its operands mapped to scalars; gives its results."""
    block = op.body.blocks[0]
    pairs = zip(block.arguments, op.inputs, strict=True)
    values: dict[ir.Value, ir.Value] = {argument: outside[value] for argument, value in pairs}
    *inner, terminator = block.operations
    for one in inner:
        clone_into(one, values)
    return [values[value] for value in terminator.operands]


def with_operand(
    op: ir.OpView, number: int, value: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """A copy of an op with one other operand, and other attributes; gives its result."""
    clone = op.operation.clone()
    clone.operands[number] = value
    for name, attribute in attributes.items():
        clone.attributes[name] = attribute
    return clone.results[0]


def fused_location(ops: Iterable[ir.OpView]) -> ir.Location:
    """The locations of all ops fused into one, each once, in order."""
    locations = list(dict.fromkeys(op.operation.location for op in ops))
    return locations[0] if len(locations) == 1 else ir.Location.fused(locations)


def replace(op: ir.OpView, values: Sequence[ir.Value]) -> None:
    """Replaces the results of an op by `values` and erases it."""
    for result, value in zip(op.operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def erase_dead(block: ir.Block) -> None:
    """Erases ops of a block whose results nobody uses, last to first. All must be pure."""
    for op in reversed(list(block.operations)):
        if is_dead(op):
            op.operation.erase()


def is_dead(op: ir.OpView) -> bool:
    """Whether nobody uses the results of an op of mgx that is no control flow."""
    if not op.operation.name.startswith("mgx.") or isinstance(op, mgx.CONTROL_FLOW):
        return False
    results = op.results
    return bool(results) and not any(True for result in results for _ in result.uses)


def identity(op: ir.OpView | ir.Operation) -> ir.Value | None:
    """The key of an op in sets and dicts: its first result; None for an op without results.

    The bindings hash an operation by its content, which changes with its operands and
    cannot be read once it is erased. They hash a value by its address. Take the identity
    before the op is erased.
    """
    results = op.operation.results
    return results[0] if len(results) else None


def used_values(op: ir.OpView | ir.Operation) -> Iterator[ir.Value]:
    """The values that an op, or the regions in it, use."""
    for inner in walk(op):
        yield from inner.operands


def captured(op: ir.OpView | ir.Operation) -> list[ir.Value]:
    """The values that an op, or the regions in it, use and do not make."""
    made: set[ir.Value] = set()
    for inner in walk(op):
        made.update(inner.results)
        made.update(a for region in inner.regions for b in region.blocks for a in b.arguments)
    return [value for value in dict.fromkeys(used_values(op)) if value not in made]
