"""Functions of GPUs whose sizes are arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import gpu

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.meaning.index import symbol_values

DynamicProgram = GpuProgram


@contextmanager
def sized_function(
    block: ir.Block, name: str, threads: int, names: Sequence[str]
) -> Iterator[ir.Operation]:
    """Appends a gpu.func to `block`; ops that are built inside of the context are its body.

    Its first arguments are the sizes of these names; the body adds its pointers.
    """
    op = ir.Operation.create(
        "gpu.func",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
            "gpu.kernel": ir.UnitAttr.get(),
            "known_block_size": ir.DenseI32ArrayAttr.get([threads, 1, 1]),
        },
        regions=1,
        ip=ir.InsertionPoint(block),
    )
    entry = op.regions[0].blocks.append()
    values = [entry.add_argument(ir.IndexType.get(), ir.Location.unknown()) for _ in names]
    with ir.InsertionPoint(entry), symbol_values(dict(zip(names, values, strict=True))):
        yield op
        gpu.return_([])
    emit.set_arguments(op, entry)


def position(op: str) -> ir.Value:
    """The number of a thread, or of a work-group."""
    attributes = {"dimension": ir.Attribute.parse("#gpu<dim x>")}
    return ir.Operation.create(op, results=[ir.IndexType.get()], attributes=attributes).result
