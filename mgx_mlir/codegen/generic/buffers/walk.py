"""The walk over a bufferized function that every target's generic path makes.

It resolves the memory of each value and delays a fill until the reduction that starts from it.
It hands all other ops to the target one by one: loop nests, and ops of any other kind.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.generic.buffers import loops
from mgx_mlir.codegen.generic.buffers.memory import Memory, MemoryView, Piece, storage_type
from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.plan_attributes import OVERWRITABLE

PARALLEL = frozenset(("scf.forall", "scf.parallel"))

_NESTS = frozenset(("linalg.generic", "memref.copy"))
_NOTHING = frozenset(("func.return", "memref.alloc", "memref.dealloc", "memref.get_global"))


class Walk:
    """Goes through `function`, a func.func on static memrefs whose first `inputs` arguments
    are its inputs and whose others are its outputs.

    A target overrides `nest` and `other`. Both raise CompilerError, naming the op, for
    memory whose offset is only known at run time.
    """

    def __init__(self, function: ir.Operation, inputs: int) -> None:
        self.block = function.regions[0].blocks[0]
        overwritable = function.attributes.get(OVERWRITABLE)
        given = () if overwritable is None else tuple(ir.DenseI64ArrayAttr(overwritable))
        self.memory = Memory(frozenset(given))
        # The scratch memory of scalars that one function of the target leaves for later ones.
        self.slots: dict[ir.Value, MemoryView] = {}
        assert function.parent is not None
        self._source = function.parent
        self._fills: dict[Piece, tuple[loops.Nest, ir.Value]] = {}
        for number, argument in enumerate(self.block.arguments):
            is_input = number < inputs
            index = number if is_input else number - inputs
            self.memory.bind(argument, "input" if is_input else "output", index)

    def nest(self, nest: loops.Nest, initial: dict[int, ir.Value]) -> None:
        """Runs a nest. `initial` gives, by operand, the values that outputs start from."""
        raise NotImplementedError

    def other(self, op: ir.Operation) -> None:
        """Runs a parallel loop, or an op that one thread has to run."""
        raise NotImplementedError

    # Ops ---------------------------------------------------------------------------------

    def step(self, op: ir.Operation) -> None:
        """Hands an op to the target, after the ops that it needs; or delays it."""
        if op.name in _NOTHING or _is_view(op):
            return
        if op.name in _NESTS:
            self._step_nest(loops.nest_of(op, self._static_view))
            return
        if self._is_plain_scalar(op):
            return
        for piece in self.touched(op):
            self._flush(piece)
        self.other(op)

    def finish(self) -> None:
        """Hands on the delayed ops that no op needed."""
        for piece in list(self._fills):
            # Scratch that was only filled was never read.
            if piece.kind == "output":
                self._flush(piece)

    def _step_nest(self, nest: loops.Nest) -> None:
        if nest.iterations == 0:
            return
        fill = _filled_value(nest)
        (first, *_) = nest.outputs
        assert first.view is not None
        if fill is not None:
            self._flush(first.view.piece)
            self._fills[first.view.piece] = (nest, fill)
            return
        initial: dict[int, ir.Value] = {}
        for number, operand in enumerate(nest.operands):
            if operand.view is None:
                continue
            piece = operand.view.piece
            pending = self._fills.get(piece)
            alone = sum(o.view is not None and o.view.piece == piece for o in nest.operands) == 1
            if pending and alone and nest.accumulates(operand):
                filled = pending[0].outputs[0].view
                if filled and filled.covers_same(operand.view) and _covers(nest, operand):
                    initial[number] = pending[1]
                    del self._fills[piece]
        for piece in self.touched(nest.op):
            self._flush(piece)
        if nest.body is None and nest.operands[0].view == nest.operands[1].view:
            return
        self.nest(nest, initial)

    def _flush(self, piece: Piece) -> None:
        if piece in self._fills:
            nest, _ = self._fills.pop(piece)
            self.nest(nest, {})

    def _is_plain_scalar(self, op: ir.Operation) -> bool:
        """Whether every function that needs the op's result can compute it again."""
        if len(op.regions) or not len(op.results):
            return False
        if op.name == "memref.load":
            return self._static_view(op.operands[0]).piece.kind in ("input", "constant")
        return not any(isinstance(v.type, ir.MemRefType) for v in op.operands)

    # Memory ------------------------------------------------------------------------------

    def place_allocations(self, operations: list[ir.Operation]) -> None:
        """Adds scratch for each allocation, alive from its op to the last op that uses it."""
        last_use: dict[ir.Value, int] = {}
        for position, op in enumerate(operations):
            for _, value in memory_uses(op):
                last_use[root(value)] = position
        for position, op in enumerate(operations):
            if op.name == "memref.alloc":
                value = op.results[0]
                memref = ir.MemRefType(value.type)
                lifetime = (position, last_use.get(value, position))
                piece = self.memory.scratch(prod(memref.shape), memref.element_type, lifetime)
                strides, _ = memref.get_strides_and_offset()
                self.memory.views[value] = MemoryView(piece, 0, tuple(strides), tuple(memref.shape))

    def slot(self, value: ir.Value) -> MemoryView:
        """Adds scratch for one scalar, alive in the whole function."""
        piece = self.memory.scratch(1, value.type, (0, len(self.block.operations)))
        self.slots[value] = MemoryView(piece, 0, (1,), (1,))
        return self.slots[value]

    def touched(self, op: ir.Operation, inside: bool = False) -> set[Piece]:
        """The pieces that an op and the ops inside it use; with `inside`, of these only."""
        uses = [value for user, value in memory_uses(op) if not inside or user != op]
        views = map(self.memory.view, map(root, uses))
        return {view.piece for view in views if view}

    def _static_view(self, value: ir.Value) -> MemoryView:
        view = self.memory.view(value)
        if view is None:
            raise CompilerError(f"memory that is placed at run time is not supported: {value.type}")
        return view

    # Results -----------------------------------------------------------------------------

    def copy_constants(self, block: ir.Block, space: ir.Attribute | None) -> None:
        """Copies the tables that functions in `block` read into it, flat, in memory of `space`."""
        table = ir.SymbolTable(self._source)
        for name in _symbols_used(block):
            old = table[name].operation
            value = ir.DenseElementsAttr(old.attributes["initial_value"])
            with ir.InsertionPoint.at_block_begin(block), old.location:
                flat = _flat_constant(value)
                type_ = ir.RankedTensorType(flat.type)
                memref = ir.MemRefType.get(type_.shape, type_.element_type, memory_space=space)
                ir.Operation.create(
                    "memref.global",
                    attributes={
                        "sym_name": ir.StringAttr.get(name),
                        "sym_visibility": ir.StringAttr.get("private"),
                        "type": ir.TypeAttr.get(memref),
                        "initial_value": flat,
                        "constant": ir.UnitAttr.get(),
                    },
                )


def arguments_of(pieces: tuple[Piece, ...], offsets: dict[Piece, int]) -> tuple[Argument, ...]:
    """The launch arguments of a function that takes `pieces`, with scratch at `offsets`."""
    return tuple(
        Argument("scratch", offsets[piece])
        if piece.kind == "scratch"
        else Argument(piece.kind, int(piece.key))  # type: ignore[arg-type]
        for piece in pieces
    )


def memory_uses(op: ir.Operation) -> list[tuple[ir.Operation, ir.Value]]:
    """The op and the ops inside it, each with the memrefs that it uses."""
    found: list[tuple[ir.Operation, ir.Value]] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.extend((inner, v) for v in inner.operands if isinstance(v.type, ir.MemRefType))
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


def root(value: ir.Value) -> ir.Value:
    """The memref that a chain of views starts from."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not _is_view(op) or not len(op.operands) or op.name.startswith("memref.alloc"):
            break
        value = op.operands[0]
    return value


def _is_view(op: ir.Operation) -> bool:
    return op.name.startswith("memref.") and any(
        isinstance(result.type, ir.MemRefType) for result in op.results
    )


def _filled_value(nest: loops.Nest) -> ir.Value | None:
    """The scalar that the nest fills all of its output with; None if it does anything else."""
    if nest.body is None or nest.reduction or len(nest.outputs) != 1:
        return None
    if any(operand.view for operand in nest.operands[:-1]):
        return None
    (yield_, *more) = nest.body.operations
    if more or not _covers(nest, nest.operands[-1]):
        return None
    value = yield_.operation.operands[0]
    if not isinstance(value.owner, ir.Block):
        return value
    if value.owner != nest.body:
        return None
    scalar = nest.operands[ir.BlockArgument(value).arg_number]
    return None if scalar.is_output else scalar.value


def _covers(nest: loops.Nest, operand: loops.NestOperand) -> bool:
    """Whether the parallel iterations reach every element of the operand's view, once."""
    return operand.view is not None and nest.iterations == prod(operand.view.shape)


def _symbols_used(block: ir.Block) -> list[str]:
    names: dict[str, None] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.get_global":
            names[ir.FlatSymbolRefAttr(op.attributes["name"]).value] = None
        return ir.WalkResult.ADVANCE

    for function in block.operations:
        function.operation.walk(visit)
    return list(names)


def _flat_constant(value: ir.DenseElementsAttr) -> ir.DenseElementsAttr:
    """The same elements along one dimension, in the types that memory holds."""
    type_ = ir.RankedTensorType(value.type)
    storage = storage_type(type_.element_type)
    flat = ir.RankedTensorType.get([prod(type_.shape)], storage)
    if storage == type_.element_type:
        # As text, because the bindings give no access to the elements of every type.
        elements = str(value).removeprefix("dense<").rpartition("> : ")[0]
        if "[" in elements:
            elements = "[" + elements.replace("[", "").replace("]", "") + "]"
        return ir.DenseElementsAttr(ir.Attribute.parse(f"dense<{elements}> : {flat}"))
    numbers = ir.DenseIntElementsAttr(value)
    held = [ir.IntegerAttr.get(storage, numbers[n] & 0xFF) for n in range(len(numbers))]
    return ir.DenseElementsAttr.get(held, flat)
