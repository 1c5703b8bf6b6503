"""The attentions that the family takes, and their legal schedules. Each refusal says why."""

from __future__ import annotations

from collections.abc import Sequence

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.attention.layout import (
    PLAIN,
    block_keys,
    plain_unit,
    read_columns,
    reads_in_flight,
    step_depth,
)
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.attention.state import merge_bytes
from mgx_mlir.codegen.gpu.families.attention.tile import TileShape
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# The largest head, in elements, whose queries and results fit the registers of a wave.
MAX_HEAD = 256


def problem_refusal(attention: Attention, largest: int, target: Target) -> Refusal | None:
    """Why the family has no schedule for an attention; None where it may have one.

    largest: bytes of its largest input or result.
    """
    if attention.score != "f32":
        return Refusal(f"scores of {attention.score}")
    if base_unit(attention, target) is None:
        return Refusal(f"{target.name}: no instruction for {attention.element}")
    if max(attention.D, attention.E) > MAX_HEAD:
        return Refusal(f"heads of {max(attention.D, attention.E)} are larger than {MAX_HEAD}")
    if attention.batch > MAX_BATCH:
        return Refusal(f"{attention.batch} heads are more than {MAX_BATCH}")
    if largest > MAX_BYTES:
        return Refusal(f"a tensor of {largest} bytes is more than 31-bit offsets reach")
    return None


def base_unit(attention: Attention, target: Target) -> Unit | None:
    """The matrix instruction for both products, else a unit of vector instructions, or None."""
    unit = unit_for(target, attention.element, "f32")
    if unit is None or unit.kind != "fma":
        return unit
    plain = plain_unit(attention.element)
    return plain if plain.lanes == target.wave_size else None


def schedule_refusal(
    attention: Attention,
    schedule: AttentionSchedule,
    shapes: list[TileShape],
    unit: Unit,
    target: Target,
) -> Refusal | None:
    """Why a schedule is illegal on a chip; None where it is legal. shapes: its tiles."""
    threads = schedule.waves * target.wave_size
    if schedule.overlap and target.matrix != "mfma":
        return Refusal("WMMA takes the vector units' place")
    if schedule.is_cut and (attention.causal, attention.earliest) != (None, None):
        return Refusal("queries of one block that see different keys")
    if schedule.waves % schedule.splits or schedule.wave_keys % block_keys(unit):
        return Refusal(
            f"{schedule.keys} keys in {schedule.splits} parts for {schedule.waves} waves"
        )
    for shape in shapes:
        if shape.rows * shape.length % (threads * unit.chunk):
            return Refusal(f"{threads} threads for {shape.rows} rows of {shape.length} in LDS")
        if shape.block()[0] * emit.element_bytes(unit.element) < 8:
            return Refusal(f"{threads} threads would write less than 8 bytes of LDS at a time")
    used = lds_bytes(attention, schedule, shapes, unit, target)
    if used > min(target.lds_bytes, 64 << 10):
        return Refusal(f"{used} bytes of LDS")
    count = registers(attention, schedule, shapes, unit, target)
    # Some registers of a SIMD are kept for uses that the estimate leaves out.
    simd_waves = ceil_div(schedule.waves, 4)
    limit = min(target.gpu.usable_vgprs, (target.gpu.lane_vgprs - 32) // simd_waves)
    return Refusal(f"about {count} registers") if count > limit * target.register_share else None


def lds_bytes(
    attention: Attention,
    schedule: AttentionSchedule,
    shapes: Sequence[TileShape],
    unit: Unit,
    target: Target,
) -> int:
    """Bytes of LDS that a work-group takes."""
    sizes = [shape.elements() for shape in shapes]
    if schedule.lean:
        sizes = [max(sizes[:2]), sizes[2]]
    tiles = sum(sizes) * emit.element_bytes(unit.element)
    columns = ceil_div(attention.E, unit.columns)
    return max(tiles, merge_bytes(schedule, columns, unit, target))


def registers(
    attention: Attention,
    schedule: AttentionSchedule,
    shapes: list[TileShape],
    unit: Unit,
    target: Target,
) -> int:
    """About how many vector registers a thread needs."""
    size = emit.element_bytes(unit.element)
    threads = schedule.waves * target.wave_size
    lane_chunks = unit.lane_chunks
    depth = ceil_div(attention.D, step_depth(unit)) * lane_chunks * 4
    scores = schedule.wave_keys // unit.columns * unit.values
    values = ceil_div(attention.E, unit.columns) * unit.values
    if unit.kind in PLAIN:
        scores *= 3  # and the shares of other lanes
    # Shares of narrow types reuse registers of the scores. Prefetched vectors need registers
    # for addresses too, and for bounds at the end; so do extras.
    prefetched = sum(shape.rows * shape.length for shape in shapes[:2]) * size // 4 // threads
    prefetched = prefetched * 2 if attention.N % schedule.keys else prefetched * 3 // 2
    extras = sum(
        (1 if source.row.stride == 0 else schedule.tiles)
        * (scores * emit.element_bytes(source.element) // 4 + 4)
        for source in attention.sources
        if isinstance(source, Matrix)
    )
    each = depth + scores + values + 8
    if schedule.overlap:
        each += scores + scores * lane_chunks * size // 4
    operands = 8 * lane_chunks * read_columns(unit, schedule.tiles)
    if unit.kind in PLAIN:
        operands = 8 * reads_in_flight(schedule.tiles)
    if schedule.lean:
        # While keys or values are moved, no scores are live.
        most = max(shape.rows * shape.length for shape in shapes) * size // 4 // threads
        moving = schedule.tiles * (values + 8) + most * 5 // 4
        operands += 16 * lane_chunks
        return max(moving, schedule.tiles * (each - depth) + extras + operands) + 16
    return schedule.tiles * each + prefetched + extras + operands + 16
