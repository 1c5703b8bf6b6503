"""Compiles one kernel for the host: chooses the way of least clocks and gives its code object."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.cpu.attention import emit_attention
from mgx_mlir.codegen.cpu.attention_cut import AttentionCut, host_attention
from mgx_mlir.codegen.cpu.channels import add_channels, channels_of, largest_of
from mgx_mlir.codegen.cpu.convolution import add_windows, add_winograd, windows_work
from mgx_mlir.codegen.cpu.frame import Add, Frame
from mgx_mlir.codegen.cpu.lines import add_lines, lines_of
from mgx_mlir.codegen.cpu.nests import Functions, HostKernel, compile_nests
from mgx_mlir.codegen.cpu.products import product_offers
from mgx_mlir.codegen.cpu.repeat import compile_repeat
from mgx_mlir.codegen.cpu.schedule import Machine, choose
from mgx_mlir.codegen.cpu.windows import WindowProduct, window_product
from mgx_mlir.codegen.cpu.winograd_schedule import Squares, choose_winograd
from mgx_mlir.codegen.loops.kernel import is_symbolic, lower_nests
from mgx_mlir.codegen.loops.place import Place, memory_type
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.match import Match, match_contraction
from mgx_mlir.codegen.problem.reduced import ReducedProduct
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.kernel_loops import has_loop
from mgx_mlir.rewriting.symbolic import shape_of

_DIALECTS = ("arith", "func", "llvm", "math", "memref", "scf", "vector")
_NO_CONTRACTION = Refusal("no product or convolution that the generators match")


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
    def product(self) -> WindowProduct | Refusal:
        return window_product(self.match) if self.match else _NO_CONTRACTION

    def made(self, add: Add) -> CodeObject:
        """The code object of the functions that `add` adds."""
        functions = Functions.of(self.kernel, self.target)
        own = ir.FunctionType(self.kernel.function_type.value)
        inputs = {n: _place(type_, Argument("input", n)) for n, type_ in enumerate(own.inputs)}
        outputs = [_place(type_, Argument("output", n)) for n, type_ in enumerate(own.results)]
        add(Frame(functions, inputs, outputs))
        return functions.finish(self.target, explicit=True)

    def offer(self, words: str, clocks: float, add: Add) -> Offer:
        return Offer(words, partial(self.made, add), clocks)


def compile_kernel(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of an `mgx.kernel` for a cpu target, by the way of the least estimate.

    Where all ways refuse, it is loops that LLVM vectorises.

    Raises UnsupportedError, naming the op, where no generator takes the kernel, and
    CompilerError where one fails.
    """
    load_dialects(kernel.context)
    with kernel.context, kernel.location:
        if has_loop(kernel):
            return compile_repeat(kernel, target)
        if (parts := ReducedProduct.of(kernel)) is not None:
            return _reduced(kernel, parts, target)
        offer = best_offer(ways_of(Work(kernel, target)))
        if isinstance(offer, Offer):
            return replace(offer.generate(), why=f"{offer.variant}: {offer.schedule}")
        return compile_nests(kernel, target)


def _reduced(kernel: mgx.KernelOp, parts: ReducedProduct, target: Target) -> CodeObject:
    """A product and the rows that are reduced after it, or before, in functions in turn."""
    work = Work(parts.product, target)
    if work.match is None:
        return compile_nests(kernel, target)
    offer = best_offer(product_offers(work.match, work.machine))
    if isinstance(offer, Refusal):
        return compile_nests(kernel, target)
    functions = Functions.of(kernel, target)
    inputs = {n: _place(x, Argument("input", n)) for n, x in enumerate(parts.inputs)}
    own = ir.FunctionType(kernel.function_type.value).results
    if parts.rows_first:
        (rows,) = lower_nests(parts.reduction, functions, HostKernel(functions))
        rows.argument = parts.place
        outputs = [_place(own[n], Argument("output", n)) for n in parts.results]
        offer.generate()(Frame(functions, {**inputs, len(inputs): rows}, outputs))
        return replace(functions.finish(target), why=f"rows; then {offer.schedule}")
    rows = _place(parts.value.type, parts.place)
    offer.generate()(Frame(functions, inputs, [rows]))
    places = lower_nests(parts.reduction, functions, HostKernel(functions), [rows])
    for number, place in zip(parts.results, places, strict=True):
        place.argument = Argument("output", number)
    return replace(functions.finish(target), why=f"{offer.schedule}; then its rows")


def ways_of(work: Work) -> dict[str, Callable[[], Offer | Refusal]]:
    """The ways of a kernel, by name: each makes an offer or refuses."""
    ways = {name: partial(way, work) for name, way in WAYS.items()}
    if work.match is not None:
        offers = product_offers(work.match, work.machine)
        ways |= {name: partial(_product, work, offer) for name, offer in offers.items()}
    return {name: partial(_named, name, way) for name, way in ways.items()}


def _named(name: str, way: Callable[[], Offer | Refusal]) -> Offer | Refusal:
    answer = way()
    return answer if isinstance(answer, Refusal) else replace(answer, variant=name)


def is_generic(kernel: mgx.KernelOp, target: Target) -> bool:
    """Whether a kernel of symbolic sizes takes the path for all, for want of a better one."""
    load_dialects(kernel.context)
    with kernel.context, kernel.location:
        ways = ways_of(Work(kernel, target)).values()
        return is_symbolic(kernel) and all(isinstance(way(), Refusal) for way in ways)


def _product(work: Work, ask: Callable[[], Offer | Refusal]) -> Offer | Refusal:
    offer = ask()
    if isinstance(offer, Refusal):
        return offer
    return replace(offer, generate=lambda: work.made(offer.generate()))


def _windows(work: Work) -> Offer | Refusal:
    """Convolutions as products of their windows."""
    product = work.product
    if isinstance(product, Refusal):
        return product
    plan = replace(choose(product.match.problem, work.machine), shared=True)
    add = partial(add_windows, found=product, schedule=plan)
    return work.offer(str(plan), windows_work(product, plan, work.machine) / 2, add)


def _lines(work: Work) -> Offer | Refusal:
    """Convolutions with channels first, by lines of pixels."""
    match = work.match or largest_of(work.kernel)
    found = lines_of(match, work.machine) if match else _NO_CONTRACTION
    if isinstance(found, Refusal):
        return found
    return work.offer(str(found), found.work / 2, partial(add_lines, found))


def _winograd(work: Work) -> Offer | Refusal:
    """Convolutions by Winograd's formula; of few pixels as products of windows."""
    product, match, machine = work.product, work.match, work.machine
    if match is None or isinstance(product, Refusal):
        return Refusal("no product of windows")
    squares = Squares.of(match, product, machine)
    found = squares if isinstance(squares, Refusal) else choose_winograd(squares, machine)
    if isinstance(found, Refusal) or isinstance(squares, Refusal):
        assert isinstance(found, Refusal)
        return found
    plan = replace(choose(product.match.problem, machine), shared=True)
    high, wide = squares.usual.image.outputs
    # The estimate of as many pixels as that of windows has.
    usual = product.match.problem.M / (squares.usual.images * high * wide)
    add = partial(add_winograd, found=product, squares=squares, plan=found[1], schedule=plan)
    return work.offer(str(found[1]), usual * found[0] / 2, add)


def _channels(work: Work) -> Offer | Refusal:
    """Pooling, and convolutions with a filter for each channel, by vectors of channels."""
    channels = channels_of(work.kernel, work.match)
    if isinstance(channels, Refusal):
        return channels
    add = partial(add_channels, channels, work.machine)
    return work.offer(str(channels), channels.clocks(work.machine.lanes("f32")), add)


def _attention(work: Work) -> Offer | Refusal:
    """An attention, of given or any numbers of queries and keys."""
    attention = host_attention(work.kernel)
    if attention is None:
        return Refusal("no attention, or heads of symbolic size")
    cut = AttentionCut.of(attention, work.machine)
    used = [number for number, _ in attention.used_arguments()]

    def add(frame: Frame) -> None:
        emit = partial(emit_attention, attention, cut)
        frame.add(attention.result, used, cut.items(attention), emit)

    return work.offer(str(cut), cut.clocks(attention), add)


WAYS: dict[str, Callable[[Work], Offer | Refusal]] = {
    "attention": _attention,
    "channels": _channels,
    "lines": _lines,
    "winograd": _winograd,
    "windows": _windows,
}


def _place(type_: ir.Type, argument: Argument | None) -> Place:
    """The memory of an argument. A number of few bits that is not packed has a byte."""
    return Place(memory_type(element_of(type_).storage()), math.prod(shape_of(type_)), argument)


def load_dialects(context: ir.Context) -> None:
    """Loads the dialects that code for CPUs uses."""
    for dialect in _DIALECTS:
        context.get_dialect_descriptor(dialect)
