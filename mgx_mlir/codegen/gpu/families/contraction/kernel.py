"""A kernel of the contraction family: whether the family takes it, and its program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.passes import expand_math
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.broad import as_broad, generate_broad
from mgx_mlir.codegen.gpu.families.contraction.constraints import problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, row_major, stored_along
from mgx_mlir.codegen.gpu.families.contraction.cost import choose, clocks
from mgx_mlir.codegen.gpu.families.contraction.depthwise import as_depthwise
from mgx_mlir.codegen.gpu.families.contraction.depthwise_function import generate_depthwise
from mgx_mlir.codegen.gpu.families.contraction.direct import direct_refusal
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.generator import generate, generate_direct
from mgx_mlir.codegen.gpu.families.contraction.narrow import as_narrow
from mgx_mlir.codegen.gpu.families.contraction.narrow_block import generate_narrow
from mgx_mlir.codegen.gpu.families.contraction.resident import as_resident, generate_resident
from mgx_mlir.codegen.gpu.families.contraction.scaling import exact_match, is_scaled, scaled_match
from mgx_mlir.codegen.gpu.families.contraction.skinny import as_skinny, generate_skinny
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.families.contraction.specs import unit_for
from mgx_mlir.codegen.gpu.families.contraction.terms import product_of_terms
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Image


def contraction_program(
    kernel: ir.OpView, target: Target, schedule: ProductSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no contraction. Without a `schedule` the cost model chooses.
    """
    with kernel.context, kernel.location:
        anchors = [op.operation.name for op in kernel.regions[0].blocks[0].operations]
        anchor = next((name for name in anchors if name in _ANCHORS), None)
        if anchor is None:
            return None, ""
        match = match_contraction(kernel)
        if match is None:
            return None, f"{anchor}: types, views or an epilogue that the generator does not match"
        type_ = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value)
        inputs, results = ([math.prod(t.shape) for t in x] for x in (type_.inputs, type_.results))
        name = ir.StringAttr(kernel.attributes["sym_name"]).value
        program, why = match_program(match, (inputs, results), target, name, schedule)
        return program, f"{anchor}: {why}"


def match_program(
    match: Match,
    sizes: tuple[Sequence[int], Sequence[int]],
    target: Target,
    name: str,
    schedule: ProductSchedule | None = None,
) -> tuple[GpuProgram | None, str]:
    """The program `<name>_0` .. of a match and its schedule, or None and why there is none.

    sizes: elements of each input and of each result. Needs an active MLIR context and
    location.
    """
    original, image = match, match.problem.b
    plain = isinstance(image, Image) and not match.added and not direct_refusal(match)
    product = Product(match, row_major(match.problem), {}) if plain else product_of_terms(match)
    if product is None:
        return None, "products whose sums are added have unlike columns"
    along = product if plain else stored_along(product)
    turned, product = along is not product, along
    match = product.match
    bytes_ = {number: packing.bytes for number, packing in product.packings.items()}
    for number, element in used_arguments(match):
        if number not in bytes_:
            bytes_[number] = sizes[0][number] * emit.element_bytes(element)
    refusal = problem_refusal(match, bytes_, target)
    if refusal:
        return None, refusal
    if isinstance(match.problem.b, Image):
        depthwise = as_depthwise(match)
        if depthwise is not None:
            program, words = generate_depthwise(depthwise, sizes, target, name)
        else:
            program, words = generate_direct(match, match.problem.b, sizes, name)
        expand_math(program.module)
        return program, words
    broad = as_broad(product, target) if schedule is None else None
    if broad is not None:
        program = generate_broad(*broad, sizes, target, name)
        expand_math(program.module)
        return program, broad[1].describe()
    skinny = as_skinny(product, target) if schedule is None else None
    if skinny is not None:
        program = generate_skinny(*skinny, sizes, target, name)
        expand_math(program.module)
        return program, skinny[1].describe()
    match = exact_match(scaled_match(match, target))
    product = replace(product, match=match)
    problem = match.problem
    unit = unit_for(target, problem.a.element, problem.accumulator, problem.b.element)
    assert unit is not None  # or the problem would have been refused
    unit = replace(unit, scaled=is_scaled(match.problem))
    refusal = expanding_refusal(match.terms, unit.tile_depth)
    if refusal:
        return None, refusal
    chosen = schedule or choose(match.terms, unit, target)
    if chosen is None:
        return None, f"no schedule fits {target.name}"
    resident = as_resident(original, product, unit, target) if schedule is None else None
    if resident is not None and resident.clocks <= clocks(match.problem, chosen, unit, target):
        program = generate_resident(resident, sizes, name)
        expand_math(program.module)
        return program, resident.describe()
    narrow = None
    if schedule is None and product.packings:
        narrow = as_narrow(original, product, turned, sizes[0], unit, target)
    if narrow is not None:
        program = generate_narrow(narrow, sizes, name)
        expand_math(program.module)
        return program, narrow.describe()
    program = generate(product, sizes, chosen, unit, target, name)
    expand_math(program.module)
    packed = ", operands packed first" if product.packings else ""
    return program, chosen.describe(unit) + packed


_ANCHORS = frozenset(("mgx.convolution", "mgx.dot", "mgx.quant_convolution", "mgx.quant_dot"))
