"""mgx-simplify-dyn-ops: moves shapes that a program computes from symbolic sizes into types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import shape_values as shape_values
from mgx_mlir.rewriting.counted import number_of
from mgx_mlir.rewriting.graph import (
    main_function,
    node_name,
    required_numbers,
    set_required_numbers,
    set_signature,
)
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, element_type, erase_dead, replace
from mgx_mlir.rewriting.symbolic import (
    Sizes,
    equal_sizes,
    named,
    named_symbols,
    result_sizes,
    sizes_of,
    tensor_type,
)
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, symbols

# The ops whose shape is an operand.
_OF_DIMS = (mgx.ReshapeToOp, mgx.BroadcastWithDimsOp)


@dataclass(frozen=True)
class SimplifyDynOps(Pass):
    """Names each dimension by its size in the inputs' symbols; computed shapes become types.

    Before:  %d = mgx.dimensions_of %x start = 0 end = 1 : tensor<?x12xf32, ...> -> tensor<1xi64>
             %s = mgx.concat %d, %c axis = 0 : tensor<1xi64>, tensor<2xi64> -> tensor<3xi64>
             %y = mgx.reshape_to %x to %s : ... -> tensor<?x?x?xf32>
    After:   %y = mgx.reshape %x : tensor<?x12xf32, [batch, _]> -> tensor<?x3x4xf32, [batch, _, _]>

    Names are carried from each op's operands to its results; a size that is computed is called by
    its formula: `batch*seq`, `seq+1`. Work on data reads it as the length of a `mgx.iota`. A
    program whose inputs are static is left as it is.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-dyn-ops"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        main = main_function(module)
        found = list(blocks(main))
        arguments = [a.type for block in found for a in block.arguments]
        if all(ir.RankedTensorType(type_).has_static_shape for type_ in arguments):
            return
        walk = _Walk(context, named_symbols(arguments))
        for block in found:
            walk.counted.clear()
            for argument in block.arguments:
                walk.rename(argument)
            for op in list(block.operations):
                walk.visit(op)
            walk.count(block)
        for block in reversed(found):
            erase_dead(block)
        walk.require_equal(main)
        set_signature(main)


@dataclass
class _Walk:
    """Walks ops in the program's order; keeps the values of ops that hold shapes."""

    context: PassContext
    known: dict[str, Symbol]
    shapes: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    # The first op of the block that gives some sizes as a tensor: equal names are equal sizes.
    counted: dict[tuple[str, ...], ir.Value] = field(default_factory=dict)

    def rename(self, value: ir.Value) -> None:
        """Names the dimensions of an input by their sizes."""
        self._set(value, self.sizes(value))

    def visit(self, op: ir.OpView) -> None:
        if not op.operation.name.startswith("mgx."):
            return
        if isinstance(op, _OF_DIMS) and self._with_known_shape(op):
            return
        self._infer(op)
        if len(op.results) == 1:
            operands = [self.shapes.get(x) for x in op.operands]
            sizes = [self.sizes(x) for x in op.operands]
            value = shape_values.value_of(op, operands, sizes)
            if value is not None:
                self.shapes[op.results[0]] = value
        if isinstance(op, mgx.DimensionsOfOp):
            self._count_once(op)

    def count(self, block: ir.Block) -> None:
        """Gives ops that read one computed size the size itself, which waits for no tensor."""
        made: dict[tuple[str, str], ir.Value] = {}
        for op in list(block.operations):
            for number, value in enumerate(op.operands):
                size = self._size(value)
                if size is None or (op.results and self._size(op.results[0]) is not None):
                    continue
                key = str(size), str(value.type)
                if key not in made:
                    with ir.InsertionPoint(op), op.location:
                        made[key] = number_of(size, value.type)
                op.operation.operands[number] = made[key]

    def _size(self, value: ir.Value) -> Size | None:
        """The size that a tensor of one i64 is; None where it is another number."""
        found = self.shapes.get(value)
        if found is None or found.size != 1 or str(element_type(value)) != "i64":
            return None
        size = shape_values.plain(found).reshape(-1)[0]
        return size if isinstance(size, Size) and size >= 0 else None

    def require_equal(self, main: ir.OpView) -> None:
        """States that the sizes of operands fit in every run, where their names do not say so.

        Ops in the bodies of others are left out: who knows whether they are computed.
        """
        found = dict.fromkeys(required_numbers(main))
        for op in main.regions[0].blocks[0].operations:
            if not op.operation.name.startswith("mgx.") or op.regions:
                continue
            operands = [self.sizes(x) for x in op.operands]
            for one, other in equal_sizes(op, operands, self.sizes(op.results[0])):
                if one is None or other is None or one == other:
                    continue
                less, more = one - other, other - one
                if {symbol.name for symbol in symbols(less)} <= self.known.keys():
                    found |= dict.fromkeys((str(less), str(more)))
        set_required_numbers(main, list(found))

    def _count_once(self, op: mgx.DimensionsOfOp) -> None:
        """Replaces an op by an earlier one that gives the same sizes, of another tensor maybe."""
        sizes = self.sizes(op.x)[op.start.value : op.end.value]
        if any(size is None for size in sizes):
            return
        first = self.counted.setdefault(tuple(map(str, sizes)), op.results[0])
        if first != op.results[0] and first.type == op.results[0].type:
            replace(op, [first])

    def sizes(self, value: ir.Value) -> Sizes:
        return sizes_of(value.type, self.known)

    def _set(self, value: ir.Value, sizes: Sizes) -> None:
        sizes = [named(str(n), self.known) if isinstance(n, Size) else n for n in sizes]  # bounds
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) < len(sizes):
            value.set_type(tensor_type(sizes, element_type(value)))
        elif not ir.RankedTensorType(value.type).has_static_shape:
            value.set_type(ir.RankedTensorType.get(known, element_type(value)))

    def _with_known_shape(self, op: mgx.ReshapeToOp | mgx.BroadcastWithDimsOp) -> bool:
        """Replaces an op that gets its shape as a tensor, where that shape is known."""
        x, dims = op.operands
        shape = self.shapes.get(dims)
        if shape is None:
            return False
        shape = shape_values.plain(shape)
        wanted: Sizes | None = list(shape)
        if isinstance(op, mgx.BroadcastWithDimsOp):
            wanted = shape_values.broadcast(self.sizes(x), list(shape))
        if wanted is None:
            return False
        result = tensor_type(wanted, element_type(x))
        make = mgx.ReshapeOp if isinstance(op, mgx.ReshapeToOp) else mgx.MultibroadcastOp
        with ir.InsertionPoint(op), op.location:
            new = make(result, x).result
        self.context.note("shape", node_name(op))
        replace(op, [new])
        return True

    def _infer(self, op: ir.OpView) -> None:
        """Gives the results' dimensions the best known names."""
        results = op.results
        if all(ir.RankedTensorType(r.type).has_static_shape for r in results):
            return
        inferred = _inferred(op)
        sizes = [self.sizes(x) for x in op.operands]
        for number, result in enumerate(results):
            candidates = [self.sizes(result)]
            if inferred:
                candidates.insert(0, sizes_of(inferred[number], self.known))
            rule = result_sizes(op, sizes) if number == 0 else None
            if rule is not None:
                candidates.insert(0, rule)
            columns = zip(*candidates, strict=True)
            self._set(result, [_best(column) for column in columns])


def _best(candidates: tuple[Number | None, ...]) -> Number | None:
    """A known number if there is one, else the first formula; None if neither is known."""
    known = [size for size in candidates if size is not None]
    return min(known, key=lambda size: not isinstance(size, int), default=None)


def _inferred(op: ir.OpView) -> list[ir.Type]:
    """The result types that the op infers from its operands; none where they are stated."""
    if op.regions:
        return []
    try:
        with ir.InsertionPoint(op), op.location:
            copy = ir.Operation.create(
                op.operation.name,
                operands=list(op.operands),
                attributes={name: op.attributes[name] for name in op.attributes},
                infer_type=True,
            )
    except ir.MLIRError:  # the type of its result is stated
        return []
    found = [result.type for result in copy.results]
    copy.erase()
    return found
