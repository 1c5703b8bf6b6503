"""Compiles one kernel for the host: chooses the generator and gives its code object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.attention import emit_attention
from mgx_mlir.codegen.cpu.attention_cut import AttentionCut, host_attention
from mgx_mlir.codegen.cpu.channel_windows import Channels
from mgx_mlir.codegen.cpu.channels import (
    add_channels,
    filters_of_channels,
    pooling_of_channels,
)
from mgx_mlir.codegen.cpu.function import KernelBuilder, Memory
from mgx_mlir.codegen.cpu.images import ImagesBuilder
from mgx_mlir.codegen.cpu.launches import Launches
from mgx_mlir.codegen.cpu.nests import Functions, compile_nests
from mgx_mlir.codegen.cpu.product import add_contraction, is_product
from mgx_mlir.codegen.cpu.repeat import compile_repeat
from mgx_mlir.codegen.cpu.row_products import add_product, match_product
from mgx_mlir.codegen.cpu.schedule import Machine
from mgx_mlir.codegen.cpu.windows import add_windows, has_windows_of_bytes, window_product
from mgx_mlir.codegen.cpu.winograd_images import add_winograd, open_winograd
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.codegen.loops.kernel import is_symbolic
from mgx_mlir.codegen.loops.repeat import has_loop
from mgx_mlir.codegen.problem.images import has_images, images_of, of_images
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.codegen.problem.rows import Rows
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

_DIALECTS = ("arith", "func", "llvm", "math", "memref", "scf", "vector")


@dataclass(frozen=True)
class Work:
    """A kernel for a target."""

    kernel: mgx.KernelOp
    target: Target

    @cached_property
    def machine(self) -> Machine:
        return Machine.of(self.target)

    @cached_property
    def match(self) -> Match | None:
        return match_contraction(self.kernel)

    @cached_property
    def is_given(self) -> bool:
        """Whether all sizes are numbers."""
        return not is_symbolic(self.kernel)

    def functions(self) -> tuple[Functions, list[Place]]:
        """No functions yet, and the memory of the results."""
        return Functions.of(self.kernel, self.target), _outputs(self.kernel)

    def finish(self, functions: Functions) -> CodeObject:
        """The code object of functions."""
        return functions.finish(self.kernel, self.target, explicit=True)


def compile_kernel(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` for a cpu target, by the first generator that takes it.

    Raises UnsupportedError, naming the op, where no generator takes the kernel, and
    CompilerError where one fails.
    """
    load_dialects(kernel.context)
    with kernel.context, kernel.location:
        if has_loop(kernel):
            return compile_repeat(kernel, target)
        work = Work(kernel, target)
        refusals: list[str] = []
        for name, generator in GENERATORS.items():
            found = generator(work)
            if isinstance(found, CodeObject):
                way = f"{name}: {found.why}" if found.why else name
                return replace(found, why="; ".join([*refusals, way]))
            if found is not None:
                refusals.append(f"{name}: {found}")
        code = compile_nests(kernel, target)
        return replace(code, why="; ".join([*refusals, code.why or "generic path"]))


def is_generic(kernel: mgx.KernelOp, target: Target) -> bool:
    """Whether a kernel of symbolic sizes takes the path for all, for want of a better one."""
    work = Work(kernel, target)
    if work.is_given or isinstance(match_product(work.kernel, work.machine), Rows):
        return False
    if not isinstance(images_of(work.kernel), Refusal):
        return False
    match = work.match
    if match and window_product(match, work.machine):
        return False
    if _channels_of(work) is not None or host_attention(kernel) is not None:
        return False
    return match is None or not is_product(match)


# The code of a kernel, why a generator does not take it, or None for work of another kind.
Found: TypeAlias = "CodeObject | Refusal | None"


def _rows(work: Work) -> Found:
    """A product of any number of rows by one matrix, and work on its rows."""
    if work.is_given or work.match is None or _has_windows(work.match):
        return None
    found = match_product(work.kernel, work.machine)
    if isinstance(found, Refusal):
        return found
    functions, outputs = work.functions()
    add_product(functions, found, outputs, work.machine)
    return work.finish(functions)


def _images(work: Work) -> Found:
    """Convolutions of any number of images of given sizes: the functions of one image."""
    if work.is_given or work.match is None or not _has_windows(work.match):
        return None
    images = images_of(work.kernel)
    if isinstance(images, Refusal):
        return images
    channels = filters_of_channels(work.match)
    if channels is not None and channels.is_turned:
        return Refusal("a filter for each channel, with channels first")
    _module, one = of_images(work.kernel, 1)  # the module owns the kernel
    match = match_contraction(one)
    if match is None:
        return Refusal("types, views or an epilogue that the generator does not match")
    (inputs, results), (functions, _) = kernel_types(work.kernel), work.functions()
    arguments = {Argument("input", number): type_ for number, type_ in enumerate(inputs)}
    arguments |= {Argument("output", number): type_ for number, type_ in enumerate(results)}
    each = {a: math.prod(shape_of(t)[1:]) for a, t in arguments.items() if has_images(t)}
    builder = ImagesBuilder(functions, images, each)
    read, written = _memories(one, used_arguments(match))
    words = add_contraction(builder, match, read, written, work.machine)
    return replace(work.finish(functions), why=words)


def _has_windows(match: Match) -> bool:
    return any(isinstance(term.b, Image) for term in match.terms) or match.place is not None


_NO_WINDOWS = Refusal("windows, types or filters that tiles do not take")


def _windows(work: Work) -> Found:
    """Convolutions of images of any size, or of bytes of given sizes, as products of windows."""
    match = work.match
    if match is None or (work.is_given and not has_windows_of_bytes(match)):
        return None
    product = window_product(match, work.machine)
    if product is None:
        return _NO_WINDOWS if _has_windows(match) else None
    (functions, outputs), places = work.functions(), _places(work.kernel)
    fast = open_winograd(match, product, work.machine)
    if fast is not None:
        add_winograd(functions, fast, places, outputs, work.machine)
    else:
        add_windows(functions, product, places, outputs, work.machine)
    return work.finish(functions)


def _channels_of(work: Work) -> Channels | None:
    if work.match is not None:
        return filters_of_channels(work.match)
    return pooling_of_channels(work.kernel)


def _channels(work: Work) -> Found:
    """Pooling, and convolutions with a filter for each channel, by vectors of channels."""
    has_own = work.is_given and work.match is not None and work.match.place is not None
    channels = None if has_own else _channels_of(work)
    if channels is None:
        return None
    (functions, outputs), places = work.functions(), _places(work.kernel)
    add_channels(functions, channels, places, outputs, work.machine)
    return work.finish(functions)


def _places(kernel: mgx.KernelOp) -> dict[int, Place]:
    """The memory of a kernel's inputs, by number."""
    inputs, _ = kernel_types(kernel)
    return {n: _place(type_, Argument("input", n)) for n, type_ in enumerate(inputs)}


def _contraction(work: Work) -> Found:
    """Products and convolutions of given sizes, and products whose sizes are formulas."""
    match = work.match
    if match is None:
        return None
    if work.is_given:
        return _given(work.kernel, match, work.target)
    if not is_product(match):
        return Refusal("several products, or operands that are computed")
    functions, _ = work.functions()
    inputs, results = _memories(work.kernel, used_arguments(match))
    builder = Launches(functions)
    words = add_contraction(builder, match, inputs, results, work.machine)
    return replace(work.finish(functions), why=words)


def _attention(work: Work) -> Found:
    """An attention, of given or any numbers of queries and keys."""
    kernel, target = work.kernel, work.target
    attention = host_attention(kernel)
    if attention is None:
        return None
    functions, (inputs, _) = Functions.of(kernel, target), kernel_types(kernel)
    cut, outputs = AttentionCut.of(attention, Machine.of(target)), _outputs(kernel)
    used = [number for number, _ in attention.used_arguments()]
    places = [_place(inputs[number], Argument("input", number)) for number in used]

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read = dict(zip(used, pointers, strict=False))
        emit_attention(attention, cut, read, pointers[len(used) :], begin, end)

    functions.add_on([*places, *outputs], cut.items(attention), body)
    return functions.finish(kernel, target, explicit=True)


GENERATORS: dict[str, Callable[[Work], Found]] = {
    "products of rows": _rows,
    "image by image": _images,
    "windows as rows": _windows,
    "vectors of channels": _channels,
    "attention": _attention,
    "contraction": _contraction,
}


def _place(type_: ir.Type, argument: Argument | None = None) -> Place:
    """The memory of a tensor: that of an argument, or scratch."""
    return Place(emit.memory_type(element_name(type_)), math.prod(shape_of(type_)), argument)


def _outputs(kernel: mgx.KernelOp) -> list[Place]:
    """The memory of a kernel's results."""
    _, results = kernel_types(kernel)
    return [_place(type_, Argument("output", n)) for n, type_ in enumerate(results)]


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


def _given(kernel: mgx.KernelOp, match: Match, target: Target) -> CodeObject:
    inputs, outputs = _memories(kernel, used_arguments(match))
    builder = KernelBuilder(kernel_name(kernel), ir.Module.create())
    words = add_contraction(builder, match, inputs, outputs, Machine.of(target))
    return replace(builder.finish(target, explicit=True), why=words)
