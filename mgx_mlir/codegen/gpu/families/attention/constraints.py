"""The attentions that the family takes, and their legal schedules. Each refusal says why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Plan:
    """An attention with a schedule, and the instruction of both products, for a chip."""

    attention: Attention
    schedule: AttentionSchedule
    unit: Unit
    target: Target

    @property
    def threads(self) -> int:
        return self.schedule.waves * self.target.wave_size

    @cached_property
    def shapes(self) -> list[TileShape]:
        """The tiles of keys and values that a work-group moves, and of queries if LDS holds
        them."""
        attention, schedule = self.attention, self.schedule
        how = self.unit, self.threads
        keys = TileShape.keys(attention.k, schedule.keys, attention.D, *how)
        found = [keys, TileShape.values(attention.v, schedule.keys, attention.E, *how)]
        if schedule.lean:
            found.append(TileShape.keys(attention.q, schedule.queries, attention.D, *how))
        return found

    @property
    def lds_bytes(self) -> int:
        """Bytes of LDS that a work-group takes."""
        sizes = [shape.elements() for shape in self.shapes]
        if self.schedule.lean:
            sizes = [max(sizes[:2]), sizes[2]]
        tiles = sum(sizes) * emit.element_bytes(self.unit.element)
        columns = ceil_div(self.attention.E, self.unit.columns)
        return max(tiles, merge_bytes(self.schedule, columns, self.unit, self.target))

    @property
    def registers(self) -> int:
        """About how many vector registers a thread needs."""
        attention, schedule, unit = self.attention, self.schedule, self.unit
        size = emit.element_bytes(unit.element)
        lane_chunks = unit.lane_chunks
        depth = ceil_div(attention.D, step_depth(unit)) * lane_chunks * 4
        scores = schedule.wave_keys // unit.columns * unit.values
        values = ceil_div(attention.E, unit.columns) * unit.values
        if unit.kind in PLAIN:
            scores *= 3  # and the shares of other lanes
        # Shares of narrow types reuse registers of the scores. Prefetched vectors need registers
        # for addresses too, and for bounds at the end; so do extras.
        moved = [shape.rows * shape.length * size // 4 for shape in self.shapes]
        prefetched = sum(moved[:2]) // self.threads
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
            moving = schedule.tiles * (values + 8) + max(moved) // self.threads * 5 // 4
            operands += 16 * lane_chunks
            return max(moving, schedule.tiles * (each - depth) + extras + operands) + 16
        return schedule.tiles * each + prefetched + extras + operands + 16

    def refusal(self) -> Refusal | None:
        """Why the schedule is illegal; None where it is legal."""
        attention, schedule, unit, target = self.attention, self.schedule, self.unit, self.target
        if schedule.overlap and target.matrix != "mfma":
            return Refusal("WMMA takes the vector units' place")
        if schedule.is_cut and (attention.causal, attention.earliest) != (None, None):
            return Refusal("queries of one block that see different keys")
        if schedule.waves % schedule.splits or schedule.wave_keys % block_keys(unit):
            return Refusal(
                f"{schedule.keys} keys in {schedule.splits} parts for {schedule.waves} waves"
            )
        for shape in self.shapes:
            where = f"{self.threads} threads for {shape.rows} rows of {shape.length} in LDS"
            if shape.rows * shape.length % (self.threads * unit.chunk):
                return Refusal(where)
            if shape.block()[0] * emit.element_bytes(unit.element) < 8:
                return Refusal(f"{where}: writes of less than 8 bytes")
        if self.lds_bytes > min(target.lds_bytes, 64 << 10):
            return Refusal(f"{self.lds_bytes} bytes of LDS")
        # Some registers of a SIMD are kept for uses that the estimate leaves out.
        simd_waves = ceil_div(schedule.waves, 4)
        limit = min(target.gpu.usable_vgprs, (target.gpu.lane_vgprs - 32) // simd_waves)
        if self.registers > limit * target.register_share:
            return Refusal(f"about {self.registers} registers")
        return None
