"""Compiles one kernel for the host: chooses the generator and gives its code object."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.any_channels import (
    add_channels,
    filters_of_channels,
    pooling_of_channels,
)
from mgx_mlir.codegen.cpu.any_images import ImagesBuilder
from mgx_mlir.codegen.cpu.any_rows import add_product, match_product, replaced
from mgx_mlir.codegen.cpu.any_windows import add_windows, has_windows_of_bytes, window_product
from mgx_mlir.codegen.cpu.any_winograd import add_winograd, open_winograd
from mgx_mlir.codegen.cpu.attention import emit_attention
from mgx_mlir.codegen.cpu.attention_cut import AttentionCut, host_attention
from mgx_mlir.codegen.cpu.function import Builder, KernelBuilder, Memory
from mgx_mlir.codegen.cpu.launches import Launches
from mgx_mlir.codegen.cpu.nests import Functions, HostKernel, compile_nests
from mgx_mlir.codegen.cpu.pooling import Pooling, emit_pooling, match_pooling
from mgx_mlir.codegen.cpu.product import add_contraction, is_product
from mgx_mlir.codegen.cpu.repeat import compile_repeat
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.codegen.loops.kernel import is_symbolic, lower_nests
from mgx_mlir.codegen.loops.repeat import has_loop
from mgx_mlir.codegen.problem.halves import Halves, split_kernel
from mgx_mlir.codegen.problem.images import has_images, images_of, of_images
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

_DIALECTS = ("arith", "func", "llvm", "math", "memref", "scf", "vector")


def compile_kernel(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` for a cpu target.

    Raises UnsupportedError, naming the op, where no generator takes the kernel, and
    CompilerError where one fails.
    """
    load_dialects(kernel.context)
    with kernel.context, kernel.location:
        if has_loop(kernel):
            return compile_repeat(kernel, target)
        if is_symbolic(kernel):
            for way in (_any_rows, _any_images, _any_windows, _attention, _product):
                if found := way(kernel, target):
                    return found
            return compile_nests(kernel, target)
        halves = split_kernel(kernel)
        product = match_contraction(halves.first) if halves else None
        if halves is not None and product is not None and product.place is None:
            return _with_product(kernel, halves, product, target)
        match = match_contraction(kernel)
        by_windows = match is not None and has_windows_of_bytes(match)
        if by_windows and (found := _any_windows(kernel, target)):
            return found
        if match is not None:
            return _contraction(kernel, match, target)
        if found := _attention(kernel, target):
            return found
        pooling = match_pooling(kernel, Machine.of(target))
        if pooling is not None:
            return _pooling(kernel, pooling, target)
        return compile_nests(kernel, target)


def is_generic(kernel: mgx.KernelOp, target: Target) -> bool:
    """Whether a kernel of symbolic sizes takes the path for all, for want of a better one."""
    machine, halves = Machine.of(target), split_kernel(kernel)
    whole = halves.first if halves else kernel
    if not is_symbolic(kernel) or match_product(whole, machine) is not None:
        return False
    if not isinstance(images_of(whole), Refusal):
        return False
    match = match_contraction(whole)
    if match and window_product(match, machine):
        return False
    channels = filters_of_channels(match) if match else pooling_of_channels(whole)
    if channels is not None or host_attention(kernel) is not None:
        return False
    return match is None or not is_product(match)


def _any_rows(kernel: mgx.KernelOp, target: Target) -> CodeObject | None:
    """The code object of a product of any number of rows, and of work on its rows; else None."""
    machine, halves = Machine.of(target), split_kernel(kernel)
    found = match_product(halves.first if halves else kernel, machine)
    if found is None:
        return None
    functions, outputs = Functions.of(kernel, target), _outputs(kernel, halves)
    add_product(functions, found, outputs, machine)
    return _with_rest(functions, kernel, halves, outputs[0], target)


def _any_images(kernel: mgx.KernelOp, target: Target) -> CodeObject | None:
    """The code object of a convolution or pooling of any number of images; else None."""
    machine, halves = Machine.of(target), split_kernel(kernel)
    whole = halves.first if halves else kernel
    images = images_of(whole)
    if isinstance(images, Refusal):
        return None
    _module, one = of_images(whole, 1)  # the module owns the kernel
    match, pooling = match_contraction(one), match_pooling(one, machine)
    if match is None and pooling is None:
        return None
    functions, (inputs, results) = Functions.of(kernel, target), kernel_types(whole)
    arguments = {Argument("input", number): type_ for number, type_ in enumerate(inputs)}
    arguments |= {Argument("output", number): type_ for number, type_ in enumerate(results)}
    each = {a: math.prod(shape_of(t)[1:]) for a, t in arguments.items() if has_images(t)}
    outputs = _outputs(kernel, halves)
    places = {} if halves is None else {Argument("output", 0): outputs[0]}
    builder = ImagesBuilder(functions, images, each, places)
    if match is not None:
        read, written = _memories(one, used_arguments(match))
        add_contraction(builder, match, read, written, machine)
    elif pooling is not None:
        _add_pooling(builder, one, pooling)
    return _with_rest(functions, kernel, halves, outputs[0], target)


def _any_windows(kernel: mgx.KernelOp, target: Target) -> CodeObject | None:
    """The code object of a convolution or pooling of images of any size, or of given; else None."""
    machine, halves = Machine.of(target), split_kernel(kernel)
    whole = halves.first if halves else kernel
    match = match_contraction(whole)
    product = window_product(match, machine) if match else None
    channels = filters_of_channels(match) if match else pooling_of_channels(whole)
    if product is None and channels is None:
        return None
    functions, outputs = Functions.of(kernel, target), _outputs(kernel, halves)
    inputs, _ = kernel_types(whole)
    places = {n: _place(type_, Argument("input", n)) for n, type_ in enumerate(inputs)}
    fast = open_winograd(match, product, machine) if match and product else None
    if fast is not None:
        add_winograd(functions, fast, places, outputs, machine)
    elif product is not None:
        add_windows(functions, product, places, outputs, machine)
    elif channels is not None:
        add_channels(functions, channels, places, outputs, machine)
    return _with_rest(functions, kernel, halves, outputs[0], target)


def _product(kernel: mgx.KernelOp, target: Target) -> CodeObject | None:
    """The code object of a product of matrices whose sizes are formulas; else None."""
    halves = split_kernel(kernel)
    whole = halves.first if halves else kernel
    match = match_contraction(whole)
    if match is None or not is_product(match):
        return None
    return _with_product(kernel, halves, match, target)


def _with_product(
    kernel: mgx.KernelOp, halves: Halves | None, match: Match, target: Target
) -> CodeObject:
    """The code object of a product, and of the kernel that reduces its rows, if any."""
    functions, outputs = Functions.of(kernel, target), _outputs(kernel, halves)
    inputs, results = _memories(halves.first if halves else kernel, used_arguments(match))
    places = {} if halves is None else {Argument("output", 0): outputs[0]}
    add_contraction(Launches(functions, places), match, inputs, results, Machine.of(target))
    return _with_rest(functions, kernel, halves, outputs[0], target)


def _attention(kernel: mgx.KernelOp, target: Target) -> CodeObject | None:
    """The code object of an attention, of given or any numbers of queries and keys; else None."""
    attention = host_attention(kernel)
    if attention is None:
        return None
    functions, (inputs, _) = Functions.of(kernel, target), kernel_types(kernel)
    cut, outputs = AttentionCut.of(attention, Machine.of(target)), _outputs(kernel, None)
    used = [number for number, _ in attention.used_arguments()]
    places = [_place(inputs[number], Argument("input", number)) for number in used]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read = dict(zip(used, pointers, strict=False))
        emit_attention(attention, cut, read, pointers[len(used) :], begin, end)

    functions.add_on([*places, *outputs], cut.items(attention), body)
    return functions.finish(kernel, target, explicit=True)


def _place(type_: ir.Type, argument: Argument | None = None) -> Place:
    """The memory of a tensor: that of an argument, or scratch."""
    return Place(emit.memory_type(element_name(type_)), math.prod(shape_of(type_)), argument)


def _outputs(kernel: mgx.KernelOp, halves: Halves | None) -> list[Place]:
    """The memory of a kernel's results, or of what its first half makes."""
    if halves is not None:
        return [_place(halves.product)]
    _, results = kernel_types(kernel)
    return [_place(type_, Argument("output", n)) for n, type_ in enumerate(results)]


def _with_rest(
    functions: Functions, kernel: mgx.KernelOp, halves: Halves | None, made: Place, target: Target
) -> CodeObject:
    """The code object of functions, and of a kernel's second half, which reads what they made."""
    if halves is None:
        return functions.finish(kernel, target, explicit=True)
    first, (inputs, _) = len(functions.places), kernel_types(kernel)
    lower_nests(halves.second, functions, HostKernel(functions))
    replaced(functions, first, len(inputs), made)
    return functions.finish(kernel, target)


def load_dialects(context: ir.Context) -> None:
    """Loads the dialects that code for CPUs uses."""
    for dialect in _DIALECTS:
        context.get_dialect_descriptor(dialect)


def kernel_name(kernel: mgx.KernelOp) -> str:
    return kernel.sym_name.value


def kernel_types(kernel: mgx.KernelOp) -> tuple[Sequence[ir.Type], Sequence[ir.Type]]:
    """The tensor types of the kernel's inputs and results."""
    type_ = ir.FunctionType(kernel.function_type.value)
    return type_.inputs, type_.results


def _pooling(kernel: mgx.KernelOp, pooling: Pooling, target: Target) -> CodeObject:
    builder = KernelBuilder(kernel_name(kernel), ir.Module.create())
    _add_pooling(builder, kernel, pooling)
    return builder.finish(target, explicit=True)


def _add_pooling(builder: Builder, kernel: mgx.KernelOp, pooling: Pooling) -> None:
    used = {s.argument: s.element for s in pooling.match.reads}
    used[pooling.image.argument] = pooling.image.element
    inputs, outputs = _memories(kernel, sorted(used.items()))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read = dict(zip(inputs, pointers, strict=False))
        emit_pooling(pooling, read, pointers[len(inputs) :], begin, end)

    builder.add([*inputs.values(), *outputs], pooling.cut.items(pooling.problem), body)


def _memories(
    kernel: mgx.KernelOp, used: Sequence[tuple[int, str]]
) -> tuple[dict[int, Memory], list[Memory]]:
    """The memory of each input that is used, by number, and of the results."""
    inputs, results = kernel_types(kernel)
    places = {
        number: Memory(Argument("input", number), element, math.prod(shape_of(inputs[number])))
        for number, element in used
    }
    outputs = [
        Memory(Argument("output", number), element_name(type_), math.prod(shape_of(type_)))
        for number, type_ in enumerate(results)
    ]
    return places, outputs


def _contraction(kernel: mgx.KernelOp, match: Match, target: Target) -> CodeObject:
    inputs, outputs = _memories(kernel, used_arguments(match))
    builder = KernelBuilder(kernel_name(kernel), ir.Module.create())
    add_contraction(builder, match, inputs, outputs, Machine.of(target))
    return builder.finish(target, explicit=True)
