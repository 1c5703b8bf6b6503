"""The inputs of a kernel that its result may overwrite."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import element_bits, has_one_use, memory_of

# On a lowered function: the numbers of the arguments that the result may overwrite.

_UPDATES = (mgx.ScatterNoneOp, mgx.ScatterndNoneOp)


def updates(kernel: ir.OpView) -> bool:
    """Whether a kernel puts elements into a copy of an input, as scatters do."""
    return any(isinstance(op, _UPDATES) for op in kernel.regions[0].blocks[0].operations)


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
    block = kernel.regions[0].blocks[0]
    *ops, terminator = block.operations
    moves = [op for op in ops if mgx.is_view(op) or isinstance(op, mgx.ConstantOp)]
    work = [op for op in ops if isinstance(op, (*_UPDATES, mgx.PointwiseOp))]
    results = terminator.operands
    if len(work) != 1 or len(ops) > len(moves) + 1 or len(results) != 1:
        return frozenset()
    (op,) = work
    if memory_of(results[0]) != op.results[0]:
        return frozenset()
    arguments: list[ir.Value] = list(block.arguments)
    found = set()
    for operand in op.operands if isinstance(op, mgx.PointwiseOp) else [op.operands[0]]:
        source = memory_of(operand)
        alike = source in arguments and _alike(source, results[0])
        if alike and has_one_use(source):
            found.add(arguments.index(source))
    return frozenset(found)


def _alike(a: ir.Value, b: ir.Value) -> bool:
    """Whether elements of equal index are the same whole bytes in both tensors."""
    if not all(ir.RankedTensorType(value.type).has_static_shape for value in (a, b)):
        return False
    same = element_bits(a) == element_bits(b) >= 8
    return same and mgx.byte_size(a.type) == mgx.byte_size(b.type)
