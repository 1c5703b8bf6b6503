"""The intervals in which each tensor of a program is alive, and the tensors that share memory.

The program's launches and copies are numbered in the order of the text, branches one after
the other. A tensor is alive in intervals of these numbers: a value that a loop carries is
dead between its last use in the body and the copy of the next value over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.in_place import overwritable, updates
from mgx_mlir.rewriting.plan_attributes import IN_PLACE
from mgx_mlir.rewriting.queries import definition, memory_of, yielded
from mgx_mlir.rewriting.tensors import Tensor, conflict, merged


@dataclass
class Lifetimes:
    """The tensors of a program, by the values that lie in them."""

    tensors: dict[Any, Tensor] = field(default_factory=dict)
    # Values that are part of a concat in place: the outermost result, and the offset in it.
    parts: dict[ir.Value, tuple[ir.Value, int]] = field(default_factory=dict)

    @staticmethod
    def of(main: ir.OpView) -> Lifetimes:
        """The lifetimes of a program of launches whose sizes are known."""
        walk = _Walk()
        block = main.regions[0].blocks[0]
        walk.block(block)
        end = walk.next()
        returned = [memory_of(value) for value in yielded(block)]
        for value in returned:
            walk.use(value, end)
        walk.share()
        walk.order()
        if walk.overwrite(main):
            walk.order()
        # A concat in place stays in the arena, and is copied: outputs have no parts.
        joined = {whole for whole, _ in walk.found.parts.values()}
        for number, value in enumerate(returned):
            tensor = walk.found.tensors.get(value)
            if tensor is not None and tensor.output < 0 and value not in joined:
                tensor.output = number
        return walk.found

    def in_arena(self) -> list[Tensor]:
        """Each tensor that the arena has to hold, once."""
        unique = {id(tensor): tensor for tensor in self.tensors.values()}
        return [tensor for tensor in unique.values() if tensor.output < 0]

    def offset(self, value: ir.Value) -> int:
        """The value's byte offset in the arena; -1 - n in the output number n."""
        whole, inside = self.parts.get(value, (value, 0))
        tensor = self.tensors[whole]
        return -1 - tensor.output if tensor.output >= 0 else tensor.offset + inside

    def staged(self, op: ir.OpView) -> list[Tensor]:
        """The tensors that hold a loop's copied-aside next values (`staged_values`), in order."""
        if not isinstance(op, mgx.LoopOp):
            return []
        return [self.tensors[op.outputs[n], n] for n in staged_values(op)]


def staged_values(loop: mgx.LoopOp) -> list[int]:
    """The numbers of carried values whose next value is a carried value that changes before.

    Their next values are copied aside before any carried value changes.
    """
    block = loop.body.blocks[0]
    carried: Sequence[ir.Value] = list(block.arguments)[2:]
    _, *following = map(memory_of, yielded(block))
    return [
        number
        for number in range(len(carried))
        if following[number] in carried[:number]
        and following[carried.index(following[number])] != following[number]
    ]


# Up to this many launches, their order by data is found: each launch has as many bits. Tensors of
# longer programs share memory as if launches ran in the program's order alone.
_MOST_ORDERED = 1 << 12


@dataclass
class _Launch:
    """A launch at step `at` of a stretch: the whole values that it reads and those it makes.

    `needs`: the launches, as bits, that come before it in any order.
    """

    op: mgx.LaunchOp
    at: int
    stretch: int
    reads: set[ir.Value]
    makes: set[ir.Value]
    needs: int = 0


@dataclass
class _Walk:
    """Numbers the steps of a program, and finds the lives of its values."""

    found: Lifetimes = field(default_factory=Lifetimes)
    position: int = 0
    # Values that should be one tensor: (the source of a copy, its target, its step).
    copies: list[tuple[ir.Value, Any, int]] = field(default_factory=list)
    # Values that are one tensor: a value that a loop carries, and the loop's result.
    same: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    # The launches, each with the values it reads and makes and the stretch that it is in.
    launches: list[_Launch] = field(default_factory=list)
    stretch: int = 0
    # The values that the host decides by, and those that it stacks.
    decisions: list[ir.Value] = field(default_factory=list)
    # The keys of each tensor, by its id, once tensors are merged.
    keys: dict[int, list[Any]] = field(default_factory=dict)
    # For each loop that the walk is in: the values used in it, and those made in it.
    loops: list[tuple[set[ir.Value], set[ir.Value]]] = field(default_factory=list)

    def next(self) -> int:
        self.position += 1
        return self.position

    def block(self, block: ir.Block) -> None:
        self._find_parts(block)
        for op in block.operations:
            if isinstance(op, mgx.LaunchOp):
                at = self.next()
                for operand in op.operands_:
                    self.use(operand, at)
                for result in op.outputs:
                    self.define(result, at)
                reads = {self._whole(operand) for operand in op.operands_}
                makes = {self._whole(result) for result in op.outputs}
                self.launches.append(_Launch(op, at, self.stretch, reads, makes))
            elif isinstance(op, mgx.CONTROL_FLOW):
                self.stretch += 1
                self._branch(op) if isinstance(op, mgx.IfOp) else self._loop(op)
                self.stretch += 1

    def _branch(self, op: mgx.IfOp) -> None:
        self._decide(op.condition, self.next())
        for region in op.regions:
            block = region.blocks[0]
            self.block(block)
            self.stretch += 1
            for value, result in zip(yielded(block), op.outputs, strict=True):
                self._copy(value, result)
            self._extend(op.outputs, self.position)

    def _loop(self, op: mgx.LoopOp) -> None:
        init, block = list(op.init), op.body.blocks[0]
        carried: Sequence[ir.Value] = list(block.arguments)[2:]
        if any(True for argument in list(block.arguments)[:2] for _ in argument.uses):
            raise CompilerError("a loop's counter is used; run mgx-normalize-control-flow before")
        results = list(op.outputs)
        for value, argument in zip(init, carried, strict=True):
            self._copy(value, argument)
        at = self.next()
        for value in (op.max_trip_count, op.condition):
            self._decide(value, at)
        for result in results[len(init) :]:
            self.define(result, at)
        self.loops.append((set(), set(carried)))
        self.block(block)
        again, *following = yielded(block)
        self._follow(op, carried, following)
        end = self.next()
        self._decide(again, end)
        used, made = self.loops.pop()
        for value in used - made:
            self.use(value, end)
        self._extend(results, end)
        self.same += zip(carried, results, strict=False)

    def _follow(
        self, op: mgx.LoopOp, carried: Sequence[ir.Value], following: list[ir.Value]
    ) -> None:
        """Walks the end of a loop's body: rows are stored, then carried values change."""
        results = list(op.outputs)
        for value in following[len(carried) :]:
            self._decide(value, self.next())
        asides: dict[int, Tensor] = {}
        for number in staged_values(op):
            at = self.next()
            self.use(following[number], at)
            asides[number] = Tensor(mgx.byte_size(results[number].type), [(at, at)])
            self.found.tensors[results[number], number] = asides[number]
        for number, argument in enumerate(carried):
            if number in asides:
                at = self.next()
                asides[number].lives = [(asides[number].first, at)]
                self.define(results[number], at)
            elif memory_of(following[number]) == argument:
                self.use(argument, self.next())
                self.define(results[number], self.position)
            else:
                self._copy(following[number], results[number])

    def _decide(self, value: ir.Value, at: int) -> None:
        self.use(value, at)
        self.decisions.append(self._whole(value))

    def _copy(self, value: ir.Value, target: ir.Value) -> None:
        at = self.next()
        self.use(value, at)
        self.define(target, at)
        self.copies.append((value, target, at))

    def define(self, value: ir.Value, at: int) -> None:
        """Records that the value, or its part of a concat, is stored."""
        whole, _ = self.found.parts.get(value, (value, 0))
        if whole not in self.found.tensors:
            self.found.tensors[whole] = Tensor(mgx.byte_size(whole.type))
        tensor = self.found.tensors[whole]
        if whole == value or not tensor.lives:
            tensor.lives.append((at, at))
        else:
            self._extend([whole], at)
        for _, made in self.loops:
            made.add(whole)

    def _whole(self, value: ir.Value) -> ir.Value:
        """The value whose memory holds a value, as a whole or as a part."""
        source = memory_of(value)
        return self.found.parts.get(source, (source, 0))[0]

    def use(self, value: ir.Value, at: int) -> None:
        whole = self._whole(value)
        for used, _ in self.loops:
            used.add(whole)
        self._extend([whole], at)

    def _extend(self, values: Any, at: int) -> None:
        """Extends the values' lives to that step at least."""
        for value in values:
            tensor = self.found.tensors.get(value)
            if tensor is not None:
                start, end = tensor.lives[-1]
                tensor.lives[-1] = (start, max(end, at))

    def _find_parts(self, block: ir.Block) -> None:
        # A concat's operand concats stand before it: backwards, the outermost result is known.
        parts = self.found.parts
        for op in reversed(list(block.operations)):
            if not isinstance(op, mgx.ConcatOp) or IN_PLACE not in op.attributes:
                continue
            whole, offset = parts.get(op.y, (op.y, 0))
            for operand in op.xs:
                parts[memory_of(operand)] = (whole, offset)
                offset += mgx.byte_size(operand.type)

    def order(self) -> None:
        """Finds the launches that a tensor's makers need, if one stretch of launches uses it."""
        stretches: dict[int, set[int]] = {}
        by_id = {id(tensor): tensor for tensor in self.found.tensors.values()}
        # Decisions and copies are no launches: the tensors they use keep the program's order.
        decided = {id(self.found.tensors.get(v)) for copy in self.copies for v in copy[:2]}
        for values in (self.decisions, *self.same):
            decided |= {id(self.found.tensors.get(value)) for value in values}
        for known in by_id.values():
            known.makers = known.users = known.needed = 0
        if len(self.launches) > _MOST_ORDERED:
            return
        for number, launch in enumerate(self.launches):
            need = 0
            for value in launch.reads:
                tensor = self.found.tensors.get(value)
                if tensor is not None:
                    stretches.setdefault(id(tensor), set()).add(launch.stretch)
                    tensor.users |= 1 << number
                    need |= tensor.makers
            for maker in _bits(need):
                need |= self.launches[maker].needs
            launch.needs = need
            for value in launch.makes:
                tensor = self.found.tensors[value]
                stretches.setdefault(id(tensor), set()).add(launch.stretch)
                tensor.needed = tensor.needed & need if tensor.makers else need
                tensor.users |= 1 << number
                tensor.makers |= 1 << number
        for key, tensor in by_id.items():
            if len(stretches.get(key, ())) != 1 or key in decided:
                tensor.makers = tensor.users = tensor.needed = 0

    def share(self) -> None:
        """Merges values that must be one tensor, and those that can be one and save a copy."""
        tensors = self.found.tensors
        for carried, result in self.same:
            self._merge(carried, result)
        for value, target, at in self.copies:
            source = memory_of(value)
            if source in self.found.parts or source not in tensors or not _is_owned(source):
                continue
            a, b = tensors[source], tensors[target]
            if a is not b and not conflict(a, b, at):
                self._merge(source, target)

    def overwrite(self, main: ir.OpView) -> bool:
        """Lets kernels overwrite inputs that are read for the last time; True if any does.

        Scatters are left out: readers of artifacts 1.0 compile them for two distinct memories.
        """
        assert main.operation.parent is not None
        kernels = ir.SymbolTable(main.operation.parent)
        tensors, parts, count = self.found.tensors, self.found.parts, 0
        for number, launch in enumerate(self.launches):
            kernel = kernels[launch.op.kernel.value]
            for place in () if updates(kernel) else sorted(overwritable(kernel)):
                (result,) = launch.op.outputs
                source = memory_of(launch.op.operands_[place])
                if {source, result} & parts.keys() or source not in tensors:
                    continue
                if [self._whole(operand) for operand in launch.op.operands_].count(source) > 1:
                    continue
                read, made = tensors[source], tensors[result]
                # All other readers come before in any order, so that no launch waits for this.
                alone = not read.users & ~(launch.needs | 1 << number)
                fits = read.size == made.size and _is_owned(source) and alone
                if fits and read is not made and not conflict(read, made, launch.at):
                    self._merge(source, result)
                    count += 1
                    break
        return count > 0

    def _merge(self, source: ir.Value, target: ir.Value) -> None:
        """Puts two values in one tensor: the target's, alive where either was."""
        tensors = self.found.tensors
        if not self.keys:
            for key, tensor in tensors.items():
                self.keys.setdefault(id(tensor), []).append(key)
        a, b = tensors[source], tensors[target]
        if a is b:
            return
        both = replace(b, lives=merged([*b.lives, *a.lives]))
        # The longer list of keys stays as it is, so that long chains cost no more than short ones.
        kept, gone = sorted((a, b), key=lambda tensor: -len(self.keys[id(tensor)]))
        vars(kept).update(vars(both))
        moved = self.keys.pop(id(gone))
        for key in moved:
            tensors[key] = kept
        self.keys[id(kept)] += moved


def _bits(number: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _is_owned(value: ir.Value) -> bool:
    """Whether the program's own memory holds the value: not an input, not a weight."""
    producer = definition(value)
    if producer is None:
        return isinstance(ir.BlockArgument(value).owner.owner, mgx.LoopOp)
    return isinstance(producer, (mgx.LaunchOp, *mgx.CONTROL_FLOW))
