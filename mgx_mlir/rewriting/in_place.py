"""The inputs of a kernel that its result may overwrite."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import memory_of

# On a lowered function: the numbers of the arguments that the result may overwrite.
OVERWRITABLE = "mgx.overwritable"

_FREE = mgx.VIEWS | {"mgx.constant"}
_UPDATES = frozenset(("mgx.scatter_none", "mgx.scatternd_none"))


def updates(kernel: ir.OpView) -> bool:
    """Whether a kernel puts elements into a copy of an input, as scatters do."""
    ops = kernel.operation.regions[0].blocks[0].operations
    return any(op.operation.name in _UPDATES for op in ops)


def overwritable(kernel: ir.OpView) -> frozenset[int]:
    """The numbers of the arguments whose memory the kernel's result may take.

    In a pointwise kernel these are the arguments that are read element by element, each element
    for the result's element at the same index and for nothing else:

        mgx.kernel @k(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
          %0 = multibroadcast %b : tensor<8xf32> -> tensor<4x8xf32>
          %1 = pointwise(%a, %0) ...
          return %1
        }

    may write its result over %a, not over %b. The code of such a kernel reads an element before
    it stores there, in the same thread, and stores each element once. It does not promise that
    the memory of these arguments and of the result differ.

    A scatter that replaces elements (`updates`) may overwrite the input that it copies: where
    both are the same memory, the copy of an element is that element.
    """
    block = kernel.operation.regions[0].blocks[0]
    *ops, terminator = block.operations
    work = [op for op in ops if op.operation.name in _UPDATES | {"mgx.pointwise"}]
    if len(work) != 1 or any(op not in work and op.operation.name not in _FREE for op in ops):
        return frozenset()
    (op,) = work
    results = terminator.operation.operands
    if len(results) != 1 or memory_of(results[0]) != op.operation.results[0]:
        return frozenset()
    arguments: list[ir.Value] = list(block.arguments)
    operands = list(op.operation.operands)
    found = set()
    for operand in operands[:1] if updates(kernel) else operands:
        source = memory_of(operand)
        alike = source in arguments and _alike(source.type, results[0].type)
        if alike and len(list(source.uses)) == 1:
            found.add(arguments.index(source))
    return frozenset(found)


def _alike(a: ir.Type, b: ir.Type) -> bool:
    """Whether elements of equal index are the same whole bytes in both types."""
    shaped = [ir.RankedTensorType(type_) for type_ in (a, b)]
    if not all(type_.has_static_shape for type_ in shaped):
        return False
    widths = {_width(type_.element_type) for type_ in shaped}
    return len(widths) == 1 and min(widths) >= 8 and mgx.byte_size(a) == mgx.byte_size(b)


def _width(element: ir.Type) -> int:
    if isinstance(element, ir.IntegerType | ir.FloatType):
        return int(element.width)
    return 0
