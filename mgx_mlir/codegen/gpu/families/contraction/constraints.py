"""The problems that the family takes, and their legal schedules. Each refusal says why."""

from __future__ import annotations

from collections.abc import Sequence

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import LEAST_DEPTH, MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.contraction.space import BUFFERS, ProductSchedule
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import ComputedImage, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number

# blockIdx.z counts batches.
MAX_BATCH = 65535


def buffers(tiles: Number) -> int:
    """Tiles in LDS of products with at most so many tiles along k: one needs no double buffer."""
    return 1 if isinstance(tiles, int) and tiles == 1 else BUFFERS


def problem_refusal(match: Match, sizes: dict[int, int] | None, target: Target) -> Refusal | None:
    """Why no function can be generated for a match; None where one can.

    sizes: bytes of each operand, by its argument's number; None where runs have other sizes.
    """
    problem = match.problem
    if isinstance(problem.b, Image):
        return _size_refusal(match, sizes)
    a, b = problem.a.element, problem.b.element
    if unit_for(target, a, problem.accumulator, b) is None:
        return Refusal(f"{target.name}: no instruction for {a} in {problem.accumulator}")
    if a != b and target.matrix != "wmma" and not {a, b} <= emit.BYTE_FLOATS:
        return Refusal(f"operands of {a} and {b}")
    depth = min(term.K for term in match.terms)
    if depth < LEAST_DEPTH:
        return Refusal(f"K = {depth} is below {LEAST_DEPTH}")
    if problem.M * problem.N == 1:
        return Refusal("one element a matrix")
    if problem.batch > MAX_BATCH:
        return Refusal(f"{problem.batch} matrices are more than {MAX_BATCH}")
    return _size_refusal(match, sizes)


def _size_refusal(match: Match, sizes: dict[int, int] | None) -> Refusal | None:
    if sizes is None:
        return None
    problem = match.problem
    results = problem.batch * problem.M * problem.N
    largest = max(emit.element_bytes(e) for e in match.result_elements) * results
    arguments = [x.argument for term in match.terms for x in (term.a, term.b)]
    arguments += [x.argument for x in match.reads]
    largest = max(largest, *(sizes[number] for number in arguments))
    if largest > MAX_BYTES:
        return Refusal(f"a tensor of {largest} bytes is more than 31-bit offsets reach")
    return None


def schedule_refusal(
    schedule: ProductSchedule,
    unit: Unit,
    target: Target,
    widths: tuple[int, int] = (0, 0),
    besides: int = 0,
) -> Refusal | None:
    """Why a schedule is illegal for an instruction on a chip; None where it is legal.

    widths: elements of A and of B that one read takes; 0 for as many as 16 bytes hold.
    besides: registers to transpose or decode both on their way to LDS (see `besides`).
    """
    threads = schedule.waves * target.wave_size
    rows, columns = schedule.rows(unit), schedule.columns(unit)
    for size in (rows, columns):
        if size * unit.row_chunks < threads:
            return Refusal(f"{threads} threads for {size} rows of {unit.row_chunks} chunks in LDS")
    lds = BUFFERS * sum(schedule.held(unit, target.wave_size)) * unit.row_bytes
    if lds > target.lds_bytes:
        return Refusal(f"{lds} bytes of LDS")
    # The longest prefetch distance that pays, in tiles: the loop's code grows with it.
    far = 1 if unit.kind == "fma" or not schedule.roomy(unit) else 2
    if schedule.prefetch > (4 if far > 1 and schedule.tiles_m * schedule.tiles_n <= 12 else far):
        return Refusal(f"a prefetch distance of {schedule.prefetch} tiles")
    waiting = schedule.prefetch * sum(n for n, _ in reads(schedule, unit, target, widths))
    if waiting > MAX_READS:
        return Refusal(f"{waiting} reads that are waited for")
    used = registers(schedule, unit, target, widths) + besides
    limit = _LIMITS[unit.kind] * target.register_share
    return Refusal(f"about {used} registers") if used > limit else None


# Outstanding reads of a wave that the hardware can count, less a few.
MAX_READS = 60
# Registers to transpose an operand of bytes, four vectors at a time; and to decode 8-bit floats,
# where all floats of a vector are decoded at once.
_TRANSPOSING, _DECODING = 10, 56
# Above these estimates LLVM spills, or uses the file that one wave a SIMD has for itself.
_LIMITS = {"fma": 170, "mfma": 240, "wmma": 240}


def besides(unit: Unit, elements: Sequence[str], transposed: int) -> int:
    """Registers for operands of some elements on their way to LDS; `transposed` are transposed."""
    size = emit.element_bytes(unit.element)
    decoded = any(x in emit.BYTE_FLOATS and x != unit.element for x in elements)
    return (_TRANSPOSING * transposed if size == 1 else 0) + (_DECODING if decoded else 0)


def registers(
    schedule: ProductSchedule, unit: Unit, target: Target, widths: tuple[int, int] = (0, 0)
) -> int:
    """Estimated vector registers of a thread: sums, operands, prefetched tiles."""
    sums = schedule.tiles_m * schedule.tiles_n * unit.sums
    size = emit.element_bytes(unit.element)
    if unit.kind == "fma":
        operands = 4 * (schedule.tiles_m + schedule.tiles_n * unit.values)
        places = 8
    else:
        operands = schedule.fragments(unit)
        # Offsets of chunks in LDS.
        places = 2 * unit.row_chunks // unit.groups
        if unit.groups > 1 and unit.lane_chunks > 1:
            # Columns of the next step are read before the last one's registers are free.
            operands += schedule.tiles_n * unit.fragment
        if unit.scaled:
            # Scales of two steps, and their offsets.
            operands += 3 * (schedule.tiles_m + schedule.tiles_n)
    prefetched = 0
    for count, wide in reads(schedule, unit, target, widths):
        # A read's address and its values; and its offset in LDS, or 4 offsets of transposed rows.
        prefetched += count * (1 + schedule.prefetch * max(1, wide * size // 4)) + min(count, 4)
    return sums + operands + places + prefetched + 8


def reads(
    schedule: ProductSchedule, unit: Unit, target: Target, widths: tuple[int, int]
) -> list[tuple[int, int]]:
    """A thread's reads from memory for a tile of A and of B: how many, of how many elements."""
    threads = schedule.waves * target.wave_size
    found = []
    for extent, width in zip(schedule.held(unit, target.wave_size), widths, strict=True):
        wide = min(width, unit.chunk) or unit.chunk
        found.append((extent * unit.tile_depth // threads // wide, wide))
    return found


# Products of one result, each of which is an instruction.
MAX_TAPS = 64


def image_in_memory(operand: Matrix | Image) -> Image | None:
    """The image whose pixels a convolution takes as they are, or converted; None for others."""
    if not isinstance(operand, ComputedImage):
        return operand if isinstance(operand, Image) else None
    body = operand.op.regions[0].blocks[0].operations
    plain = all(isinstance(op, (mgx.ConvertOp, mgx.YieldOp)) for op in body)
    return operand.tensors[0] if plain and len(operand.reads) == 1 else None


def direct_refusal(match: Match) -> Refusal | None:
    """Why plain sums do not serve a convolution; None where they do."""
    problem, image = match.problem, image_in_memory(match.problem.b)
    if not isinstance(problem.b, Image):
        return Refusal("no convolution")
    if match.added:
        return Refusal("products whose sums are added")
    if image is None:
        return Refusal("pixels that are computed")
    # Other families read converted pixels of many channels as vectors.
    if image is not problem.b and (problem.M == 1 or problem.accumulator != "f32"):
        return Refusal("converted pixels of one filter a channel, or of integers")
    if problem.a.element != problem.b.element:
        return Refusal(f"operands of {problem.a.element} and {problem.b.element}")
    if image.channel.size != 1:
        return Refusal(f"{image.channel.size} channels a group")
    if problem.K > MAX_TAPS:
        return Refusal(f"a window of {problem.K} elements a channel")
    if max(problem.batch, problem.M) > MAX_BATCH:
        return Refusal(f"{problem.batch} images of channels are more than {MAX_BATCH}")
    return None
