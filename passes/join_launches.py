"""mgx-join-launches: small kernels that do not wait for each other are one launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeGuard

from mlir import ir

from mgx_mlir.capabilities import MAX_BYTES, MAX_TENSORS
from mgx_mlir.dialects import mgx
from mgx_mlir.reference.meanings import enum
from mgx_mlir.rewriting.fusing import Order
from mgx_mlir.rewriting.graph import kernels, main_function, node_name, symbol_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    MOST_USERS,
    blocks,
    clone_into,
    definition,
    element_bits,
    element_type,
    erase_dead,
    fused_location,
    identity,
    is_constant,
    is_dead,
    memory_of,
    shape,
    used_values,
    users,
)
from mgx_mlir.rewriting.topology import sort_topologically

# Pointwise work of more elements than this, or, with open sizes, of longer rows, stays alone: its
# own kernels choose among more schedules.
MOST_ELEMENTS = 1 << 16
# Launches that become one.
MOST_LAUNCHES = 8
# Launches that become one where a launch may read the result of another, and their tensors.
MOST_CHAINED, MOST_CHAINED_TENSORS = 64, 1 << 10
# Elements of a launch that is joined on the CPU: work on more of them takes longer than a launch.
MOST_SMALL_ELEMENTS = 1 << 10

_GATHERS = (mgx.GatherOp, mgx.GatherElementsOp)
_MOVES = (*mgx.MOVERS, mgx.ConstantOp)
_SUMS = (*mgx.REDUCTION_OPS, mgx.FusedReduceOp, mgx.ArgmaxOp, mgx.ArgminOp)


@dataclass(frozen=True)
class JoinLaunches(Pass):
    """Joins launches of small kernels that read one value, and none of them another's result.

    Before:  %a = mgx.launch @k0_pointwise(%x, %t) : ... -> tensor<1x4x1x8xf16>
             %b = mgx.launch @k1_pointwise(%x, %t) : ... -> tensor<1x2x1x8xf16>
             %c = mgx.launch @k2_concat(%past, %b) : ... -> tensor<1x2x512x8xf16>
    After:   %a, %c = mgx.launch @joined0(%x, %t, %past) : ...

    Launches that read inputs alone are one too, whichever they read; of symbolic sizes, gathers.
    The kernels are pointwise work, concats, gathers and paddings. A concat joins the pointwise work
    whose result it copies, too: that is stored where it belongs. A step of a decoder rotates its
    queries and keys and extends its caches so, in one launch. Gathers by indices that others made
    are one launch with these, element by element: the steps of a forest. A launch costs little on
    the CPU: only work of few elements is joined there, whatever reads what.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-join-launches"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        made: set[str] = set()
        for rule in (_SMALL,) if context.kind == "cpu" else (_WALKS, _LIGHT):
            table = _Kernels(module, rule, frozenset(made))
            self._join(table, context)
            made.update(table.made.values())

    def _join(self, table: _Kernels, context: PassContext) -> None:
        for block in blocks(table.main):
            order, joined = Order(block), False
            left = {identity(op): op for op in block.operations if table.is_light(op)}
            for key, op in list(left.items()):
                if key not in left or not table.may_start(op):
                    continue
                group = _Group(table, order, [op])
                group.grow(left)
                if not group.pays():
                    continue
                for member in group.members:
                    del left[identity(member)]
                if len(group.members) > 1:
                    context.note(f"{len(group.members)} launches", node_name(op))
                    table.join(group)
                    joined = True
            if joined:
                sort_topologically(block)
                erase_dead(block)
        table.erase_unused()


@dataclass
class _Kernels:
    """The kernels of a module, by symbol, and those that were made of several, by their text.

    `done`: the symbols of kernels that are joined already.
    """

    module: ir.Module
    rule: _Rule
    done: frozenset[str]
    made: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.main = main_function(self.module)
        self.by_symbol = {symbol_name(op): op for op in kernels(self.module)}
        left = ((name, op) for name, op in self.by_symbol.items() if name not in self.done)
        self._light = {name for name, op in left if self.rule.may_join(op)}

    def of(self, launch: mgx.LaunchOp) -> mgx.KernelOp:
        return self.by_symbol[launch.kernel.value]

    def is_gather(self, launch: mgx.LaunchOp) -> bool:
        return any(isinstance(op, _GATHERS) for op in self.of(launch).regions[0].blocks[0])

    def may_start(self, launch: mgx.LaunchOp) -> bool:
        """Whether a group may begin with a launch: a walk begins with a gather."""
        return not self.rule.walks or self.is_gather(launch)

    def is_start(self, op: ir.OpView) -> bool:
        """Whether a launch reads inputs and weights alone: it waits for no other.

        One of symbolic sizes is a gather: other work has schedules of its own for many elements.
        """
        if not self.is_light(op):
            return False
        if not all(is_constant(x) or definition(x) is None for x in map(memory_of, op.operands)):
            return False
        types = [ir.RankedTensorType(v.type) for v in (*op.operands, *op.outputs)]
        return self.is_gather(op) or all(type_.has_static_shape for type_ in types)

    def is_light(self, op: ir.OpView) -> TypeGuard[mgx.LaunchOp]:
        return isinstance(op, mgx.LaunchOp) and op.kernel.value in self._light

    def join(self, group: _Group) -> None:
        """Replaces the launches of a group by one of a kernel that does all of their work."""
        members = group.members
        location = fused_location(members)
        inputs = list(dict.fromkeys(v for op in members for v in group.outside(op)))
        results = [
            value
            for op in members
            for value in op.outputs
            if any(user not in members for user in _readers(value))
        ]
        with ir.InsertionPoint(self.main), location:
            types = [value.type for value in inputs]
            type_ = ir.FunctionType.get(types, [value.type for value in results])
            kernel = mgx.KernelOp("kernel", ir.TypeAttr.get(type_), self.of(members[0]).arch)
            block = kernel.body.blocks.append(*types, arg_locs=[location] * len(inputs))
        values: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block), location:
            for op in members:
                _inline(self.of(op), op, values)
            mgx.ReturnOp([values[v] for v in results])
        symbol = self._unique(kernel)
        with ir.InsertionPoint(members[-1]), location:
            launch = mgx.LaunchOp(
                [value.type for value in results], ir.FlatSymbolRefAttr.get(symbol), inputs
            )
        keys = [key for op in members if (key := identity(op)) is not None]
        for value, new in zip(results, launch.outputs, strict=True):
            value.replace_all_uses_with(new)
        group.order.replaced(keys, launch)
        # A query looks at few users of a value: those that are joined must not hide the others.
        for op in reversed(members):
            if is_dead(op):
                op.erase()

    def erase_unused(self) -> None:
        """Erases the kernels that no launch names any more."""
        named = {op.kernel.value for block in blocks(self.main)
                 for op in block.operations if isinstance(op, mgx.LaunchOp)}  # fmt: skip
        for op in list(kernels(self.module)):
            if symbol_name(op) not in named:
                op.erase()

    def _unique(self, kernel: mgx.KernelOp) -> str:
        text = kernel.operation.get_asm(use_local_scope=True)
        if text in self.made:
            kernel.erase()
            return self.made[text]
        symbol = self.made[text] = f"joined{len(self.done) + len(self.made)}"
        kernel.sym_name = ir.StringAttr.get(symbol)
        return symbol


@dataclass
class _Group:
    """Launches of one block that become one, in an order in which each reads earlier ones."""

    table: _Kernels
    order: Order
    members: list[mgx.LaunchOp]
    # The member that makes each value.
    makers: dict[ir.Value, mgx.LaunchOp] = field(init=False)

    def __post_init__(self) -> None:
        self.makers = {value: op for op in self.members for value in op.outputs}

    def grow(self, left: dict[ir.Value | None, mgx.LaunchOp]) -> None:
        """Takes in launches of `left` that read what a member reads, or copy its results."""
        for member in self.members:  # which grows
            if len(self.members) == self.table.rule.most:
                break
            for op in self._near(member):
                if op in self.members or not self.table.is_light(op) or identity(op) not in left:
                    continue
                if len(self.members) == self.table.rule.most or not self._may_enter(op):
                    continue
                self.members.append(op)
                self.makers.update(dict.fromkeys(op.outputs, op))
        self.members.sort(key=self.order.of)

    def outside(self, op: mgx.LaunchOp) -> list[ir.Value]:
        """The operands of a member that no member makes."""
        return [value for value in op.operands if memory_of(value) not in self.makers]

    def _near(self, op: mgx.LaunchOp) -> list[ir.OpView]:
        read = [memory_of(value) for value in op.operands if not is_constant(memory_of(value))]
        found = [user for value in (*op.outputs, *read) for user in _readers(value)]
        if self.table.rule.starts and self.table.is_start(op):
            inputs = op.operation.block.arguments
            found += [x for value in inputs for x in _readers(value) if self.table.is_start(x)]
        return sorted({identity(op): op for op in found}.values(), key=self.order.of)

    def _may_enter(self, op: mgx.LaunchOp) -> bool:
        """Whether a launch has a place in the group: no path leads out of it and back."""
        tensors = {v for member in (*self.members, op) for v in (*member.operands, *member.outputs)}
        rule = self.table.rule
        if len(tensors) > rule.tensors:
            return False
        if rule.walks and _elements(op) != _elements(self.members[0]):
            return False
        wider = _Group(self.table, self.order, [*self.members, op])
        inside = set(map(identity, wider.members))
        first = min(self.order.level[key] for key in inside if key is not None)
        for member in wider.members:
            direct = rule.direct(wider, member)
            if any(
                _depends(value, inside, self.order, first)
                for value in member.operands
                if value not in direct
            ):
                return False
        return True

    def pays(self) -> bool:
        """Whether the group is worth a kernel: a walk has a gather by indices that it makes."""
        return not self.table.rule.walks or any(
            self.table.is_gather(op) and self.read_in_place(op) for op in self.members
        )

    def made(self, op: mgx.LaunchOp) -> list[ir.Value]:
        """The operands of a launch that the group makes."""
        return [value for value in op.operands if memory_of(value) in self.makers]

    def read_in_place(self, op: mgx.LaunchOp) -> list[ir.Value]:
        """The operands that the group makes and the launch reads element by element."""
        arguments = self.table.of(op).regions[0].blocks[0].arguments
        argument_of = dict(zip(op.operands, arguments, strict=True))
        return [value for value in self.made(op) if _is_read_in_place(argument_of[value])]

    def copied(self, op: mgx.LaunchOp) -> list[ir.Value]:
        """The operands of a concat that pointwise work of the group makes."""
        kernel, found = self.table.of(op), []
        arguments = kernel.regions[0].blocks[0].arguments
        for value, argument in zip(op.operands, arguments, strict=True):
            source = memory_of(value)
            maker = self.makers.get(source)
            if maker is None or not _is_copied(argument):
                continue
            number = next(i for i, made in enumerate(maker.outputs) if made == source)
            if _is_pointwise(self.table.of(maker), number):
                found.append(value)
        return found


def _is_light(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel is pointwise work and moves of few elements, whose code can stand beside
    other code."""
    block = kernel.regions[0].blocks[0]
    *ops, terminator = block.operations
    values = [*block.arguments, *(value for op in ops for value in op.results)]
    if not all(_is_plain(value) for value in values):
        return False
    for op in ops:
        if isinstance(op, mgx.PointwiseOp):
            if not _is_short(op.results[0]):
                return False
        elif isinstance(op, mgx.PadOp):
            if enum(op.mode) != "constant":
                return False
        elif not isinstance(op, _MOVES) and not mgx.is_view(op):
            return False
    return all(0 not in shape(value) for value in terminator.operands)


def _is_small(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel is pointwise work, moves and sums of few elements, of static tensors."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    if not all(isinstance(op, (*_MOVES, *_SUMS, mgx.PointwiseOp)) or mgx.is_view(op) for op in ops):
        return False
    summed = (value for op in ops for value in op.operands if isinstance(op, _SUMS))
    return all(
        ir.RankedTensorType(value.type).has_static_shape
        and 0 < math.prod(shape(value)) <= MOST_SMALL_ELEMENTS
        for value in (*terminator.operands, *summed)
    )


def _is_walk(kernel: mgx.KernelOp) -> bool:
    """Whether a kernel is gathers and pointwise work of static tensors."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    known = (*_GATHERS, mgx.PointwiseOp, mgx.ConstantOp)
    if not all(isinstance(op, known) or mgx.is_view(op) for op in ops):
        return False
    values = [*kernel.regions[0].blocks[0].arguments, *(v for op in ops for v in op.results)]
    return len(terminator.operands) == 1 and all(
        ir.RankedTensorType(v.type).has_static_shape and 0 not in shape(v) and _is_plain(v)
        for v in values
    )


def _is_read_in_place(argument: ir.Value) -> bool:
    """Whether a kernel reads an argument at the place of the element that it makes."""
    return all(
        isinstance(op, mgx.PointwiseOp) or (isinstance(op, _GATHERS) and op.indices == value)
        for value, op in _reads(argument)
    )


def _reads(value: ir.Value) -> Iterator[tuple[ir.Value, ir.OpView]]:
    """The ops that read a value in a kernel, and what they read: it, or its elements reshaped."""
    for user in users(value):
        if isinstance(user, mgx.RESHAPES):
            yield from _reads(user.results[0])
        elif not isinstance(user, mgx.ReturnOp):
            yield value, user


def _elements(launch: mgx.LaunchOp) -> int:
    """The elements of a launch's first result, of static shape."""
    return math.prod(shape(launch.outputs[0]))


@dataclass(frozen=True)
class _Rule:
    """Which launches become one: at most `most`, with at most so many `tensors`.

    `direct` gives the operands of a launch that others of its group may make. `walks`: groups of
    results of one size, with gathers by indices that the group makes. `starts`: launches that read
    inputs and weights alone join each other.
    """

    may_join: Callable[[mgx.KernelOp], bool]
    direct: Callable[[_Group, mgx.LaunchOp], list[ir.Value]]
    most: int
    tensors: int
    walks: bool = False
    starts: bool = False


_LIGHT = _Rule(_is_light, _Group.copied, MOST_LAUNCHES, MAX_TENSORS, starts=True)
_WALKS = _Rule(_is_walk, _Group.read_in_place, MOST_CHAINED, MOST_CHAINED_TENSORS, walks=True)
_SMALL = _Rule(_is_small, _Group.made, MOST_CHAINED, MOST_CHAINED_TENSORS)


def _is_plain(value: ir.Value) -> bool:
    """Whether a tensor has elements of whole bytes, or bools, and offsets of 31 bits."""
    kind, bits = element_type(value), element_bits(value)
    if bits not in (1, 8, 16, 32, 64) or (isinstance(kind, ir.FloatType) and bits < 16):
        return False
    type_ = ir.RankedTensorType(value.type)
    return not type_.has_static_shape or mgx.byte_size(type_) <= MAX_BYTES


def _is_short(value: ir.Value) -> bool:
    sizes = [size for size in shape(value) if isinstance(size, int)]
    return math.prod(sizes) <= MOST_ELEMENTS


def _is_copied(argument: ir.Value) -> bool:
    """Whether a kernel only copies an argument, as one operand of a concat."""
    reader, value = None, argument
    while isinstance(reader := _only_user(value), mgx.RESHAPES):
        value = reader.results[0]
    return isinstance(reader, mgx.ConcatOp) and element_type(argument) == element_type(reader.y)


def _only_user(value: ir.Value) -> ir.OpView | None:
    found = users(value)
    return found[0] if len(found) == 1 else None


def _is_pointwise(kernel: mgx.KernelOp, number: int) -> bool:
    """Whether a result of a kernel is that of pointwise work."""
    *_, terminator = kernel.regions[0].blocks[0].operations
    return isinstance(definition(memory_of(terminator.operands[number])), mgx.PointwiseOp)


def _readers(value: ir.Value) -> Iterator[ir.OpView]:
    """The ops that read a value, through reshapes too."""
    for number, use in enumerate(value.uses):
        if number == MOST_USERS:
            return
        user = use.owner.opview
        if isinstance(user, mgx.RESHAPES):
            yield from _readers(user.results[0])
        else:
            yield user


def _depends(value: ir.Value, inside: Iterable[ir.Value | None], order: Order, first: int) -> bool:
    """Whether the ops that make a value include one of those `inside`, whose least level is
    `first`."""
    waiting, seen = [value], {value}
    while waiting:
        op = definition(waiting.pop())
        key = None if op is None else identity(op)
        if op is None or key is None or order.level.get(key, -1) < first:
            continue
        if key in inside:
            return True
        more = [v for v in used_values(op) if v not in seen]
        seen.update(more)
        waiting += more
    return False


def _inline(kernel: mgx.KernelOp, op: mgx.LaunchOp, values: dict[ir.Value, ir.Value]) -> None:
    """Clones a kernel's body; `values` has the launch's operands, and gets its results."""
    block = kernel.regions[0].blocks[0]
    *ops, terminator = block.operations
    own: dict[ir.Value, ir.Value] = {}
    for value, argument in zip(op.operands, block.arguments, strict=True):
        held = values.get(value) or values[memory_of(value)]
        own[argument] = held if held.type == value.type else mgx.ReshapeOp(value.type, held).result
    for inner in ops:
        clone_into(inner, own)
    for value, result in zip(op.outputs, terminator.operands, strict=True):
        values[value] = own[result]
