"""The launches of a contraction: the choice of its generator, and its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.cpu.channels_last import emit_pixels
from mgx_mlir.codegen.cpu.contraction import Store, emit_packing
from mgx_mlir.codegen.cpu.depthwise import Depthwise, emit_depthwise, match_depthwise
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.function import Builder, Memory
from mgx_mlir.codegen.cpu.operands import transposing_launch, with_image, with_operands
from mgx_mlir.codegen.cpu.pixels import (
    Pixels,
    PixelSchedule,
    as_rows,
    choose_pixels,
    filter_vectors,
    is_worth_packing,
    least_tile_cost,
    match_pixels,
    pack_vector,
    packed_filters,
)
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, usual
from mgx_mlir.codegen.cpu.skinny import (
    Vectors,
    reads_computed,
)
from mgx_mlir.codegen.cpu.ways import Way, clocks, expands_once, is_given, ways_of
from mgx_mlir.codegen.cpu.winograd import emit_filters, emit_winograd
from mgx_mlir.codegen.cpu.winograd_schedule import WinogradSchedule, choose_winograd
from mgx_mlir.codegen.problem.computed import vector_of
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.problem import Computed, Contraction, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal


def add_contraction(
    builder: Builder,
    match: Match,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    machine: Machine,
) -> str:
    """Adds the launches of a contraction. `inputs` has the memory of each argument it reads.

    Products whose sums are added to it come before it, each in launches of its own. Gives the
    schedule in words.
    """
    terms = _image_terms(match, machine)
    if terms is not None:
        return _add_images(builder, match, terms, inputs, outputs, machine)
    depthwise = match_depthwise(match, machine)
    if depthwise is not None:
        _add_depthwise(builder, depthwise, inputs, outputs)
        return str(depthwise)
    match = match.row_major() or match
    before = [_add_sums(builder, term, inputs, machine) for term in match.added]
    match, inputs = with_image(builder, replace(match, added=()), inputs)
    match = match.as_row()
    image = match.problem.b
    if isinstance(image, Image) and image.strides[-1] != 1 and image.matrix() is None:
        image, memory = transposing_launch(builder, image, inputs)
        inputs = {**inputs, image.argument: memory}
        match = replace(match, problem=replace(match.problem, b=image))
    problem = match.problem
    if not (reads_computed(problem, machine) or expands_once(problem, machine)):
        match, inputs = with_operands(builder, match, inputs)
    ways = ways_of(match, machine)
    for way in ways:
        _add_way(builder, way, inputs, outputs, before)
    return ways[-1].words


def is_product(match: Match) -> bool:
    """Whether a match is one product of plain matrices, whose sizes may be formulas."""
    problem = match.problem
    is_plain = type(problem.a) is Matrix and type(problem.b) is Matrix
    return is_plain and not (match.added or match.pairs or match.causal is not None)


def _add_way(
    builder: Builder,
    way: Way,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    before: Sequence[Memory],
) -> None:
    match, schedule, used = way.match, way.schedule, used_arguments(way.match)
    problem = match.problem
    memories = [*(inputs[number] for number, _ in used), *outputs, *before]
    shared = schedule is not None and schedule.shared
    if schedule is not None and shared:
        operand = inputs[problem.b.argument]
        memories.append(_packing_launch(builder, problem, schedule, operand, way.share))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        epilogue = Epilogue(match, places, pointers[len(used) :][: len(outputs)])
        sums = pointers[len(used) + len(outputs) :][: len(before)]
        store = _Total(problem, sums, epilogue) if before else epilogue
        b: ir.Value | Vectors = pointers[-1] if shared else places[problem.b.argument]
        if isinstance(problem.b, Computed):
            b = partial(vector_of, problem.b, places)
        way.generate(places[problem.a.argument], b, store, begin, end)

    builder.add(memories, way.share * way.items, body)


def _image_terms(match: Match, machine: Machine) -> list[Pixels] | None:
    """The convolutions of images with channels last whose sum a match is, the first one first."""
    if usual(match.problem) != match.problem:
        return None
    found = [match_pixels(replace(match, problem=term), machine) for term in match.terms]
    terms = [pixels for pixels in found if pixels is not None]
    place, problem = match.place, match.problem
    # Sums in scratch have the layout of a result of one group.
    whole = place is not None and place.column.stride == problem.M
    return terms if len(terms) == len(found) and (whole or len(terms) == 1) else None


def _add_images(
    builder: Builder,
    match: Match,
    terms: Sequence[Pixels],
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    machine: Machine,
) -> str:
    """Adds the launches of convolutions of images with channels last; gives the last schedule."""
    rows, words = as_rows(replace(match, added=())), ""
    problem = rows.problem
    before: list[Memory] = []
    for number, term in enumerate([*terms[1:], terms[0]], 1 - len(terms)):
        element, own, results = problem.accumulator, rows, outputs
        if number:
            own = Match(problem, element, None, (), (0,), (element,), relaxed=match.relaxed)
            results = [builder.scratch(problem.batch * problem.M * problem.N, element)]
        sums = () if number else before
        words = _add_image(builder, own, term, inputs, results, sums, machine)
        before += results
    return words


def _add_image(
    builder: Builder,
    match: Match,
    image: Pixels,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
    before: Sequence[Memory],
    machine: Machine,
) -> str:
    """Adds the launches of one convolution. `match`: its rows are pixels; `before`: sums to add."""
    used = used_arguments(replace(match, problem=image.problem))
    filters: list[Memory] = []
    offer = best_offer(
        {
            "winograd": partial(winograd_offer, image, machine, match.relaxed),
            "pixels": partial(pixels_offer, image, machine),
        }
    )
    assert isinstance(offer, Offer)
    plan, generate = offer.plan, offer.generate()
    assert isinstance(plan, WinogradSchedule | PixelSchedule)
    if isinstance(plan, WinogradSchedule):
        filters.append(_transforming_launch(builder, image, plan, inputs))
    elif is_worth_packing(image):
        packed = packed_filters(image, plan.lanes)
        filters.append(_filters_launch(builder, image, packed, plan.lanes, inputs))
        generate = partial(emit_pixels, packed, plan)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        results = pointers[len(used) :][: len(outputs)]
        sums = pointers[len(used) + len(outputs) :][: len(before)]
        store: Store = Epilogue(match, places, results)
        if sums:
            store = _Total(match.problem, sums, store)
        a = pointers[-1] if filters else places[image.filters.argument]
        generate(a, places[image.scene.argument], store, begin, end)

    memories = [*(inputs[n] for n, _ in used), *outputs, *before, *filters]
    builder.add(memories, plan.items(image), body)
    return offer.schedule


def winograd_offer(image: Pixels, machine: Machine, relaxed: bool) -> Offer | Refusal:
    """Winograd's transformation, where another formula than the model's may be computed."""
    if not relaxed:
        return Refusal("another formula than the model's")
    found = choose_winograd(image, machine)
    if isinstance(found, Refusal):
        return found
    work, plan = found
    return Offer(str(plan), lambda: partial(emit_winograd, image, plan), clocks(work), plan=plan)


def pixels_offer(image: Pixels, machine: Machine) -> Offer:
    """Register tiles over the pixels of an image with channels last."""
    plan = choose_pixels(image, machine)
    work = image.problem.batch * image.problem.K * least_tile_cost(image, machine)
    return Offer(str(plan), lambda: partial(emit_pixels, image, plan), clocks(work), plan=plan)


def _transforming_launch(
    builder: Builder,
    image: Pixels,
    plan: WinogradSchedule,
    inputs: Mapping[int, Memory],
) -> Memory:
    """Adds the launch that transforms the filters of a convolution into scratch."""
    scratch = builder.scratch(plan.filter_size(image), image.filters.element)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, target = pointers
        emit_filters(image, plan, source, target, begin, end)

    source = inputs[image.filters.argument]
    builder.add([source, scratch], plan.filter_items(image), body, _kept(source, scratch))
    return scratch


def _filters_launch(
    builder: Builder, image: Pixels, packed: Pixels, lanes: int, inputs: Mapping[int, Memory]
) -> Memory:
    """Adds the launch that packs the filters of a convolution into scratch, vector by vector."""
    count = filter_vectors(image, lanes)
    scratch = builder.scratch(count * image.problem.K * lanes, image.filters.element)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        emit.loop(begin, end, 1, partial(pack_vector, image, packed, lanes, *pointers))

    source = inputs[image.filters.argument]
    builder.add([source, scratch], count, body, _kept(source, scratch))
    return scratch


def _add_depthwise(
    builder: Builder,
    own: Depthwise,
    inputs: Mapping[int, Memory],
    outputs: Sequence[Memory],
) -> None:
    """Adds the launch of a depthwise convolution of an image with channels last."""
    used = used_arguments(own.match)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        places = {number: x for (number, _), x in zip(used, pointers, strict=False)}
        epilogue = Epilogue(own.match, places, pointers[len(used) :])
        a, b = places[own.filters.argument], places[own.scene.argument]
        emit_depthwise(own, a, b, epilogue, begin, end)

    builder.add([*(inputs[n] for n, _ in used), *outputs], own.items(), body)


def _add_sums(
    builder: Builder,
    term: Contraction,
    inputs: Mapping[int, Memory],
    machine: Machine,
) -> Memory:
    """Adds the launches of a product whose sums go to scratch, and gives that scratch."""
    element = term.accumulator
    sums = builder.scratch(term.batch * term.M * term.N, element)
    alone = Match(term, element, None, (), (0,), (element,))
    add_contraction(builder, alone, inputs, [sums], machine)
    return sums


@dataclass(frozen=True)
class _Total:
    """Adds the sums of other products, which have the result's layout, and stores the total."""

    problem: Contraction
    before: Sequence[ir.Value]
    store: Store

    def __call__(
        self, sums: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None
    ) -> None:
        problem = self.problem
        place = emit.linear(n, (batch, problem.M * problem.N), (m, problem.N))
        lanes = ir.VectorType(sums.type).shape[0]
        for memory in self.before:
            more = emit.load_vector(memory, place, lanes, mask)
            sums = emit.plus(sums, more, problem.accumulator)
        self.store(sums, batch, m, n, mask)


def _packing_launch(
    builder: Builder,
    problem: Contraction,
    schedule: CpuSchedule,
    operand: Memory,
    share: int,
) -> Memory:
    """Adds the launch that packs B into scratch, and gives that scratch."""
    share = 1 if is_given(problem.b) else share
    size = share * schedule.packed_size(problem)
    scratch = builder.scratch(size, schedule.packed_element(problem))

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, packed = pointers
        emit_packing(problem, schedule, source, packed, begin, end)

    items = share * schedule.pack_items(problem)
    builder.add([operand, scratch], items, body, _kept(operand, scratch))
    return scratch


def _kept(operand: Memory, made: Memory) -> int:
    """The bytes made of an operand that stay where it is a weight."""
    is_kept = operand.argument.kind == "input" and isinstance(made.size, int)
    return made.bytes if is_kept else 0
