"""Converts a function on tensors to one on memrefs."""

from __future__ import annotations

from math import prod

from mlir import ir
from mlir.dialects import memref
from mlir.passmanager import PassManager

from mgx_mlir.codegen.generic.buffers.loops import parallel_space
from mgx_mlir.codegen.generic.buffers.memory import byte_width
from mgx_mlir.errors import CompilerError

# The most bytes of a thread's own memory; larger tensors belong in scratch (LLVM's limit for one
# stack object is far higher, but every thread in flight has private memory in device memory).
PRIVATE_BYTES = 16384

# Named ops are generalised twice, because bufferizing makes new ones (fills of padding).
PIPELINE = (
    "builtin.module("
    "func.func(linalg-generalize-named-ops),"
    "eliminate-empty-tensors,"
    "one-shot-bufferize{bufferize-function-boundaries=1 "
    "function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{hoist-static-allocs=1 modify-public-functions=1},"
    "func.func(linalg-generalize-named-ops),"
    "lower-affine,canonicalize,cse)"
)


def bufferize(module: ir.Module) -> tuple[ir.OpView, int]:
    """Replaces the tensors of `module`'s one function by memrefs, in place.

    Gives the function, whose results are now its last arguments, and the number of its
    inputs. Inputs are never written. Raises CompilerError where a pass fails.
    """
    function = only_function(module)
    inputs = len(function.regions[0].blocks[0].arguments)
    read_only = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
    function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([read_only] * inputs)
    try:
        PassManager.parse(PIPELINE, module.context).run(module.operation)
    except ir.MLIRError as error:
        raise CompilerError(f"bufferizing failed: {error}") from error
    bufferized = only_function(module)
    for op in list(bufferized.regions[0].blocks[0].operations):
        if op.operation.name == "scf.forall":
            _move_out(op.operation)
    return bufferized, inputs


def _move_out(loop: ir.Operation) -> None:
    """Tensors of an iteration that are too large for a thread become parts of one of all."""
    space, body = parallel_space(loop), loop.regions[0].blocks[0]
    for op in list(body.operations):
        if op.operation.name != "memref.alloc":
            continue
        own = ir.MemRefType(op.operation.results[0].type)
        rank, shape = len(space.sizes), own.shape
        if prod(shape) * byte_width(own.element_type) <= PRIVATE_BYTES:
            continue
        if set(space.lower) != {0} or set(space.step) != {1}:
            raise CompilerError(f"memory of a loop that does not count from 0 by 1: {loop.name}")
        with ir.InsertionPoint(loop), loop.location:
            whole = memref.AllocOp(
                ir.MemRefType.get([*space.sizes, *shape], own.element_type), [], []
            ).result
        strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        layout = ir.StridedLayoutAttr.get(dynamic, strides)
        with ir.InsertionPoint(op), loop.location:
            part = memref.SubViewOp(
                ir.MemRefType.get(shape, own.element_type, layout),
                whole,
                list(body.arguments)[:rank],
                [],
                [],
                [dynamic] * rank + [0] * len(shape),
                [1] * rank + shape,
                [1] * (rank + len(shape)),
            ).result
        op.operation.results[0].replace_all_uses_with(part)
        op.operation.erase()


def only_function(module: ir.Module) -> ir.OpView:
    """The one func.func of a lowered kernel."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise CompilerError(f"a lowered kernel has one function, not {len(functions)}")
    return functions[0]
