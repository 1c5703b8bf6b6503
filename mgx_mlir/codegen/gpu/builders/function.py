"""The frame of a hand-built GPU function: its arguments, its LDS, its threads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import gpu

from mgx_mlir.capabilities import MAX_BYTES, MAX_TENSORS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.meaning.element import BOOL, Element, element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import ceil_div

_DIALECTS = ("amdgpu", "arith", "gpu", "llvm", "math", "memref", "rocdl", "scf", "vector")

Dimensions = tuple[int, int, int]
# HIP takes fewer than 2^32 threads along one dimension of a grid.
MAX_THREADS = 1 << 31


@dataclass(frozen=True)
class Tensor:
    """An argument: elements of a tensor in row-major order; `written` scratch may be read too.

    `shared`: the memory may be another argument's too.
    """

    size: int
    element: Element
    written: bool = False
    shared: bool = False

    @property
    def bytes(self) -> int:
        return self.size * element_bytes(self.element)


@dataclass(frozen=True)
class Frame:
    """The values that a function's body starts from: its tensors, as plain pointers and, where
    they are made, as raw buffers; its LDS.

    `sizes`: numbers (i64) that a launch passes after the tensors.
    """

    pointers: tuple[ir.Value, ...]
    lds: tuple[ir.Value, ...]
    sizes: tuple[ir.Value, ...] = ()
    buffers: tuple[ir.Value, ...] = ()

    def buffered(self, pointers: Iterable[ir.Value]) -> Frame:
        """The frame with these arguments, and their raw buffers."""
        found = tuple(pointers)
        return replace(self, pointers=found, buffers=tuple(map(memory.buffer, found)))


def element_bytes(element: Element) -> int:
    """Bytes of an element in memory."""
    return max(element.bits, 8) // 8


def signature(kernel: mgx.KernelOp) -> tuple[str, tuple[list[ir.Type], list[ir.Type]]]:
    """The name of an `mgx.kernel`, and the types of its inputs and of its results."""
    type_ = ir.FunctionType(kernel.function_type.value)
    return kernel.sym_name.value, (list(type_.inputs), list(type_.results))


def gpu_module() -> tuple[ir.Module, ir.Block]:
    """A module with one empty gpu.module, and the block for its functions."""
    for dialect in _DIALECTS:
        ir.Context.current.get_dialect_descriptor(dialect)  # loads it
    module = ir.Module.create()
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    with ir.InsertionPoint(module.body):
        kernels = gpu.GPUModuleOp(ir.StringAttr.get("kernels"))
    return module, kernels.regions[0].blocks.append()


@contextmanager
def function(
    block: ir.Block,
    name: str,
    arguments: Sequence[Tensor],
    threads: int,
    grid: Dimensions | None,
    lds: Sequence[tuple[int, ir.Type]] = (),
    sizes: int = 0,
    is_vectors: bool = False,
) -> Iterator[Frame]:
    """Appends a gpu.func to `block`; ops that are built inside of the context are its body, which
    gets its gpu.return.

    grid: None where a launch gives it. lds: elements and their type, for each array in LDS. sizes:
    how many numbers a launch passes after the tensors. is_vectors: the body is vectors already,
    and LLVM need not look for more; a body with LDS always is.
    """
    i8, i64 = (ir.IntegerType.get_signless(bits) for bits in (8, 64))
    elements = [(x.size, i8 if x.element.kind == BOOL else x.element.storage()) for x in arguments]
    promises = [*(promise(x.written, x.shared) for x in arguments), *[{}] * sizes]
    types = [*_arrays("global", elements), *[i64] * sizes]
    local = _arrays("workgroup", lds)
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        "arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get(p) for p in promises]),
        "gpu.kernel": ir.UnitAttr.get(),
        "known_block_size": ir.DenseI32ArrayAttr.get([threads, 1, 1]),
        "workgroup_attributions": ir.IntegerAttr.get(i64, len(local)),
    }
    if grid is not None:
        attributes["known_grid_size"] = ir.DenseI32ArrayAttr.get(list(grid))
    if is_vectors or lds:
        # LLVM's search for vectors (SLPVectorizer) leaves functions with this attribute alone,
        # and took most of its optimiser's time.
        attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noimplicitfloat")])
    point = ir.InsertionPoint(block)
    op = ir.Operation.create("gpu.func", attributes=attributes, regions=1, ip=point)
    inputs = [*types, *local]
    entry = op.regions[0].blocks.append(*inputs, arg_locs=[ir.Location.unknown()] * len(inputs))
    with ir.InsertionPoint(entry):
        values, count = tuple(entry.arguments), len(arguments)
        yield Frame(values[:count], values[len(types) :], values[count : len(types)])
        gpu.return_([])


def _arrays(space: str, arrays: Sequence[tuple[int, ir.Type]]) -> list[ir.Type]:
    """The types of arrays, of elements and their type, in a memory."""
    where = ir.Attribute.parse(f"#gpu.address_space<{space}>")
    return [ir.MemRefType.get([size], type_, memory_space=where) for size, type_ in arrays]


def promise(written: bool, shared: bool = False) -> dict[str, ir.Attribute]:
    """The attributes of an argument that is only read, or alone in its memory."""
    kept = (("llvm.readonly", not written), ("llvm.noalias", not shared))
    return {name: ir.UnitAttr.get() for name, holds in kept if holds}


def tensor_of(type_: ir.Type, written: bool = False, shared: bool = False) -> Tensor:
    """A tensor of the kernel as an argument of a function."""
    return Tensor(math.prod(shape_of(type_)), element_of(type_), written, shared)


def size_refusal(types: Sequence[ir.Type], together: bool = True) -> Refusal | None:
    """Why a function cannot take tensors of these types; None if it can.

    together: one function takes all of them; else each takes some.
    """
    if together and len(types) > MAX_TENSORS:
        return Refusal(
            f"{len(types)} tensors are more than {MAX_TENSORS}, which have a descriptor each"
        )
    given = (t for t in types if ir.RankedTensorType(t).has_static_shape)
    largest = max((tensor_of(t).bytes for t in given), default=0)
    if largest > MAX_BYTES:
        return Refusal(f"a tensor of {largest} bytes is more than 31-bit offsets reach")
    return None


def grid_of(blocks: int, threads: int = 1024) -> Dimensions:
    """A grid of at least `blocks` work-groups of up to `threads` threads; many of them take two
    dimensions."""
    columns = min(blocks, MAX_THREADS // threads)
    return columns, ceil_div(blocks, columns), 1


def linear_block(grid: Dimensions) -> Index:
    """The work-group's number in a grid of two dimensions."""
    row = emit.mul(block_number("y", grid[1]), grid[0])
    return emit.add(row, block_number("x", grid[0]))


def thread_number(threads: int) -> Index:
    """The thread's number in its work-group."""
    return 0 if threads == 1 else position("gpu.thread_id", "x", threads)


def block_number(dimension: str, blocks: int) -> Index:
    """The work-group's number along a dimension of the grid."""
    return 0 if blocks == 1 else position("gpu.block_id", dimension, blocks)


def position(op: str, dimension: str = "x", bound: int | None = None) -> ir.Value:
    """The number of a thread, or of a work-group, which is below `bound` where that is known."""
    attributes = {"dimension": ir.Attribute.parse(f"#gpu<dim {dimension}>")}
    if isinstance(bound, int):  # it may be a size that an argument gives
        attributes["upper_bound"] = ir.IntegerAttr.get(ir.IndexType.get(), bound)
    return ir.Operation.create(op, results=[ir.IndexType.get()], attributes=attributes).result
