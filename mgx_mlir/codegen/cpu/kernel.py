"""One kernel for the host: which generator it takes, and the code object that comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from mlir import ir

from mgx_mlir.codegen.contraction.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.contraction.problem import Contraction
from mgx_mlir.codegen.contraction.views import element_name
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.direct import choose_direct, emit_direct
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.function import KernelBuilder, Memory
from mgx_mlir.codegen.cpu.generic import compile_generic
from mgx_mlir.codegen.cpu.pooling import Pooling, emit_pooling, match_pooling
from mgx_mlir.codegen.cpu.schedule import Machine, Schedule, choose
from mgx_mlir.codegen.cpu.skinny import choose_skinny, emit_skinny
from mgx_mlir.finalizer.code_object import Argument, CodeObject
from mgx_mlir.target import Target

_DIALECTS = ("arith", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector")


def compile_kernel(kernel: ir.OpView, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` for a cpu target.

    Raises UnsupportedError, naming the op, for what no generator takes, and CompilerError
    where one fails.
    """
    for dialect in _DIALECTS:
        kernel.context.get_dialect_descriptor(dialect)  # loads it
    with kernel.context, kernel.location:
        found = match_contraction(kernel)
        if found is not None:
            return _contraction(kernel, found, target)
        pooling = match_pooling(kernel, Machine(target.vector_bytes))
        if pooling is not None:
            return _pooling(kernel, pooling, target)
        return compile_generic(kernel, target)


def kernel_name(kernel: ir.OpView) -> str:
    return ir.StringAttr(kernel.attributes["sym_name"]).value


def kernel_types(kernel: ir.OpView) -> tuple[Sequence[ir.Type], Sequence[ir.Type]]:
    """The tensor types of the kernel's inputs and results."""
    type_ = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value)
    return type_.inputs, type_.results


def _pooling(kernel: ir.OpView, pooling: Pooling, target: Target) -> CodeObject:
    inputs, results = kernel_types(kernel)
    number, element = pooling.image.argument, pooling.image.element
    memories = [
        Memory(Argument("input", number), element, math.prod(inputs[number].shape)),
        Memory(Argument("output", 0), element, math.prod(results[0].shape)),
    ]
    builder = KernelBuilder(kernel_name(kernel), ir.Module.create())

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, result = pointers
        emit_pooling(pooling, source, result, begin, end)

    builder.add(memories, pooling.cut.items(pooling.problem), body)
    return builder.finish(target, explicit=True)


def _contraction(kernel: ir.OpView, match: Match, target: Target) -> CodeObject:
    inputs, results = kernel_types(kernel)
    used = used_arguments(match)
    memories = [
        Memory(Argument("input", number), element, math.prod(inputs[number].shape))
        for number, element in used
    ]
    memories += [
        Memory(Argument("output", number), element_name(type_), math.prod(type_.shape))
        for number, type_ in enumerate(results)
    ]
    builder = KernelBuilder(kernel_name(kernel), ir.Module.create())
    match = match.as_row()
    problem = match.problem
    items, generate, schedule = _generator(problem, Machine(target.vector_bytes))
    if schedule is not None and schedule.shared:
        memories.append(_packing_launch(builder, problem, schedule, dict(used), memories))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        store = Epilogue(match, places, pointers[len(used) :][: len(results)])
        shared = schedule is not None and schedule.shared
        a, b = places[problem.a.argument], places[problem.b.argument]
        b = pointers[-1] if shared else b
        generate(a, b, store, begin, end)

    builder.add(memories, items, body)
    return builder.finish(target, explicit=True)


def _packing_launch(
    builder: KernelBuilder,
    problem: Contraction,
    schedule: Schedule,
    elements: dict[int, str],
    memories: Sequence[Memory],
) -> Memory:
    """Adds the launch that packs B into scratch, and gives that scratch."""
    scratch = builder.scratch(schedule.packed_size(problem), problem.accumulator)
    operand = memories[list(elements).index(problem.b.argument)]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, packed = pointers
        emit_packing(problem, schedule, source, packed, begin, end)

    builder.add([operand, scratch], schedule.pack_items(problem), body)
    return scratch


def _generator(
    problem: Contraction, machine: Machine
) -> tuple[int, Callable[..., None], Schedule | None]:
    """Work items of a contraction, and what builds them: the first generator that takes it.

    The general one comes with its schedule.
    """
    skinny = choose_skinny(problem, machine)
    if skinny is not None:
        return skinny.items(problem), partial(emit_skinny, problem, skinny), None
    direct = choose_direct(problem, machine)
    if direct is not None:
        return direct.items(problem), partial(emit_direct, problem, direct), None
    schedule = choose(problem, machine)
    return schedule.items(problem), partial(emit_contraction, problem, schedule), schedule
