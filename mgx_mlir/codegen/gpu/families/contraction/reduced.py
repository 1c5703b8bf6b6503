"""Kernels that reduce the rows of a product: one function where a work-group has whole rows.

Else two, one after the other, with the product in scratch memory between them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, aligned, append_functions
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.contraction.constraints import problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, row_major
from mgx_mlir.codegen.gpu.families.contraction.cost import (
    BLOCK_LATENCY,
    LAUNCH_CLOCKS,
    choose,
    clocks,
)
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.generator import generate
from mgx_mlir.codegen.gpu.families.contraction.kernel import contraction_program
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.contraction.tail import Tail
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.halves import Halves, split_kernel
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number
from mgx_mlir.sizes.parser import parse

# In words: the rows' work is in the product's function.
TOGETHER = "rows reduced in LDS"


def reduced_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` that reduces a product, and its schedule in words.

    None where the kernel reduces no product.
    """
    with kernel.context, kernel.location:
        halves = split_kernel(kernel)
        if halves is None:
            return None
        found = _together(halves, target)
        if isinstance(found, Generated):
            return found
        first = contraction_program(halves.first, target)
        if first is None or isinstance(first, Refusal):
            return first
        second = rows_program(halves.second, target)
        if second is None or isinstance(second, Refusal):
            return second
        words = f"{first.schedule}; its rows after it ({found}): {second.schedule}"
        return Generated(in_sequence(halves, first.program, second.program), words)


def _together(halves: Halves, target: Target) -> Generated[GpuProgram] | Refusal:
    """One function for both halves and its schedule in words, or why there is none."""
    match, rows = match_contraction(halves.first), match_rows(halves.second)
    name, (inputs, _) = signature(halves.first)
    _, (_, results) = signature(halves.second)
    if match is None or not isinstance(rows, Rows):
        return Refusal("unmatched")
    counts = [math.prod(ir.RankedTensorType(type_).shape) for type_ in (*inputs, halves.product)]
    made = tuple(math.prod(ir.RankedTensorType(type_).shape) for type_ in results)
    tail = Tail(rows, len(inputs), made)
    bytes_ = {n: counts[n] * emit.element_bytes(e) for n, e in used_arguments(match)}
    tiling = whole_rows(match, tail, bytes_, element_name(halves.product), target)
    if isinstance(tiling, Refusal):
        return tiling
    product = Product(match, row_major(match.problem), {})
    program = generate(product, (counts, [counts[-1]]), tiling, name, tail)
    return Generated(program, f"{tiling.schedule.describe(tiling.unit)}, {TOGETHER}")


def whole_rows(
    match: Match, tail: Tail, bytes_: dict[int, int], element: str, target: Target
) -> Tiling | Refusal:
    """The tiles of a product, of which a work-group has whole rows, or why none are worth it.

    bytes_: those of the inputs, by number. element: the type of the product's elements.
    """
    problem = match.problem
    if any(isinstance(term.b, Image) for term in match.terms) or match.place is not None:
        return Refusal("a convolution")
    unit = unit_for(target, problem.a.element, problem.accumulator, problem.b.element)
    refusal = tail.refusal(problem) or problem_refusal(match, bytes_, target)
    if refusal or unit is None:
        return refusal or Refusal("no instruction")
    if unit.element != element:
        return Refusal(f"LDS of {unit.element}")
    refusal = expanding_refusal(match.terms, unit.tile_depth)
    if refusal:
        return refusal
    schedule = choose(match.terms, unit, target, partial(_fits, tail, match, unit, target))
    alone = choose(match.terms, unit, target)
    if schedule is None or alone is None:
        return Refusal(f"{problem.N} columns are more than a block has")
    whole = replace(problem, K=sum(term.K for term in match.terms))
    size = problem.batch * problem.M * problem.N * emit.element_bytes(unit.element)
    rate = target.gpu.l2_bytes_a_clock * target.compute_units
    saved = LAUNCH_CLOCKS + BLOCK_LATENCY + 2 * size / rate  # the product, written and read
    tiling = Tiling(schedule, unit, target)
    together = clocks(whole, schedule, unit, target) + tail.clocks(problem, tiling)
    if together > clocks(whole, alone, unit, target) + saved:
        return Refusal("faster on more blocks")
    return tiling


def _fits(tail: Tail, match: Match, unit: Unit, target: Target, schedule: ProductSchedule) -> bool:
    return tail.fits(match.problem, Tiling(schedule, unit, target))


def in_sequence(halves: Halves, first: GpuProgram, second: GpuProgram) -> GpuProgram:
    """Both programs' functions, with the product in scratch memory."""
    formulas, product = Formulas(), halves.product
    size = math.prod(sizes_of(product)) * emit.element_bytes(element_name(product))
    place: Number = aligned(_value(first, first.scratch_bytes))
    start = place + aligned(size)
    given = Argument("input", len(signature(halves.first)[1][0]))
    launches: list[Launch] = []
    for program, made, base in ((first, Argument("output", 0), 0), (second, given, start)):
        for launch in program.launches:
            arguments = []
            for x in launch.arguments:
                if x == made:
                    x = Argument("scratch", formulas.number(place))
                elif x.kind in ("scratch", "size"):
                    own = _value(program, x.index) + (base if x.kind == "scratch" else 0)
                    x = replace(x, index=formulas.number(own))
                arguments.append(x)
            wide, high, deep = (formulas.number(_value(program, n)) for n in launch.grid)
            grid = (wide, high, deep)
            launches.append(replace(launch, grid=grid, arguments=tuple(arguments)))
    append_functions(first.module, second.module)
    bytes_ = formulas.number(start + _value(second, second.scratch_bytes))
    bits = max(first.index_bits, second.index_bits)
    return GpuProgram.of(GpuProgram(first.module, tuple(launches), bytes_, bits), formulas)


def _value(program: GpuProgram, number: int) -> Number:
    """The size that a number of a program's launches stands for."""
    return number if number >= 0 else parse(program.formulas[-1 - number])


FAMILY = Family("reduced", 30, reduced_program)
