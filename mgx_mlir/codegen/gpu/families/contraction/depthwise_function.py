"""The function of a convolution of one channel a group, with channels last (see depthwise)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import math as math_dialect

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.access import vector_width
from mgx_mlir.codegen.gpu.builders.function import (
    Dimensions,
    gpu_module,
    grid_of,
    linear_block,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.depthwise import (
    Depthwise,
    DepthwiseSchedule,
    Step,
    prefetch_distance,
    steps,
)
from mgx_mlir.codegen.gpu.families.contraction.direct import Dimension
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue, stored_vector
from mgx_mlir.codegen.gpu.families.contraction.function import (
    add_function,
    buffers_of,
    parameters_of,
)
from mgx_mlir.codegen.problem.match import Operand
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import ceil_div


def generate_depthwise(
    depthwise: Depthwise,
    schedule: DepthwiseSchedule,
    sizes: tuple[Sequence[int], Sequence[int]],
    name: str,
) -> GpuProgram:
    """The function `<name>_0`.

    sizes: elements of each input and of each result. Needs an active MLIR context and location.
    """
    parameters = parameters_of(depthwise.match, sizes)
    module, functions = gpu_module()
    grid = grid_of(ceil_div(depthwise.threads(schedule), schedule.threads))

    def body(pointers: Sequence[ir.Value], _: ir.Value | None) -> None:
        inputs, outputs = buffers_of(depthwise.match, pointers)
        block = emit.mul(linear_block(grid), schedule.threads)
        thread = emit.add(block, thread_number(schedule.threads))
        _emit(depthwise, schedule, inputs, outputs, grid, thread)

    threads = schedule.threads
    launch = add_function(functions, f"{name}_0", parameters, threads, grid, body, is_vectors=True)
    return GpuProgram(module, (launch,), 0, 32)


def _emit(
    depthwise: Depthwise,
    schedule: DepthwiseSchedule,
    inputs: Mapping[int, ir.Value],
    outputs: Sequence[ir.Value],
    grid: Dimensions,
    thread: Index,
) -> None:
    """Emits the work of thread number `thread` of all; `inputs` and `outputs` are raw buffers."""
    match, problem = depthwise.match, depthwise.match.problem
    total, lanes = depthwise.threads(schedule), schedule.lanes
    inside: list[ir.Value] = []
    if math.prod(grid) * schedule.threads != total:
        inside.append(emit.compare("slt", thread, total))
    *dims, chunks = depthwise.counts(schedule)
    channel = emit.mul(emit.rem(thread, chunks), lanes)
    rest = emit.div(thread, chunks)
    starts: list[Index] = []  # the thread's first pixel, by dimension
    each = [1] * (len(dims) - 2) + [schedule.rows, schedule.width]
    for count, size in reversed(list(zip(dims, each, strict=True))):
        starts.insert(0, emit.mul(emit.rem(rest, count), size))
        rest = emit.div(rest, count)
    zero = emit.constant(0, problem.accumulator, lanes)
    sums = [[zero] * schedule.width for _ in range(schedule.rows)]
    assert match.place is not None
    epilogue = Epilogue(match, match.place, inputs, outputs)
    epilogue.prepare(rest, channel, lanes)
    read = _Reader(depthwise, schedule, inputs, starts, rest, channel, inside)
    rows, early = steps(depthwise, schedule), prefetch_distance(depthwise, schedule)
    for number in range(-early, len(rows)):
        # LLVM would wait for each read where it is used.
        if number + early < len(rows):
            read.start_step(rows[number + early])
        fence()
        if number >= 0:
            read.multiply(rows[number], sums)
    *_, (_, _, height, _, _, _, _), (_, _, width, _, _, _, _) = depthwise.geometry
    for i, j in itertools.product(range(schedule.rows), range(schedule.width)):
        y, x = emit.add(starts[-2], i), emit.add(starts[-1], j)
        conditions = list(inside)
        if height % schedule.rows:
            conditions.append(emit.compare("slt", y, height))
        if width % schedule.width:
            conditions.append(emit.compare("slt", x, width))
        pixel: Index = 0
        for start, dim in zip([*starts[:-2], y, x], depthwise.geometry, strict=True):
            pixel = emit.add(emit.mul(pixel, dim[2]), start)
        epilogue(sums[i][j], rest, pixel, channel, conditions, False)


class _Reader:
    """A thread's reads: pixels of its windows, and elements of the filter, each once."""

    def __init__(
        self,
        depthwise: Depthwise,
        schedule: DepthwiseSchedule,
        inputs: Mapping[int, ir.Value],
        starts: Sequence[Index],
        image: Index,
        channel: Index,
        inside: Sequence[ir.Value],
    ) -> None:
        self.depthwise, self.schedule, self.inputs = depthwise, schedule, inputs
        self.starts, self.channel, self.inside = starts, channel, inside
        view, geometry = depthwise.image, depthwise.geometry
        self.start = view.start(image)
        steps = [Axis.of((dim[0], dim[1])) for dim in geometry]
        self.width = vector_width(
            depthwise.channel, *steps, view.batch, offset=view.offset, limit=schedule.lanes
        )
        # Vectors as they lie in memory: of the filters by tap, and of rows of pixels by their
        # distance from the first window's column.
        self._taps: dict[int, ir.Value] = {}
        self._pixels: dict[Step, dict[int, ir.Value]] = {}

    def start_step(self, step: Step) -> None:
        """Reads a step's pixels, and the elements of the filter that no step before it read."""
        depthwise, schedule = self.depthwise, self.schedule
        (_, stride, _, taps, move, dilation, _) = dim = depthwise.geometry[-1]
        for _, first in step.users:
            for tap in range(first, first + taps):
                if tap not in self._taps:
                    self._taps[tap] = self._tap(tap)
        place, conditions = self.start, list(self.inside)
        each = [1] * (len(self.starts) - 2) + [schedule.rows]
        for start, distance, outer, count in zip(
            self.starts[:-1], [*step.plane, step.row], depthwise.geometry[:-1], each, strict=True
        ):
            at, condition = self._along(outer, start, distance, count)
            conditions += condition
            place = emit.add(place, emit.mul(at, outer[1]))
        found = {}
        for j, s in itertools.product(range(schedule.width), range(taps)):
            distance = j * move + s * dilation
            if distance not in found:
                at, condition = self._along(dim, self.starts[-1], distance, schedule.width)
                at = emit.add(place, emit.mul(at, stride))
                found[distance] = self._pixel(at, [*conditions, *condition])
        self._pixels[step] = found

    def multiply(self, step: Step, sums: list[list[ir.Value]]) -> None:
        """Adds the products of a row of pixels to the results' sums, row by row."""
        _, _, _, taps, move, dilation, _ = self.depthwise.geometry[-1]
        pixels = self._pixels.pop(step)
        if not self.schedule.mixed:
            pixels = {at: self._converted(x) for at, x in pixels.items()}
        for i, first in step.users:
            for s in range(taps):
                w = self._taps[first + s]
                if not self.schedule.mixed:
                    w = self._converted(w)
                for j in range(self.schedule.width):
                    sums[i][j] = self._sum(pixels[j * move + s * dilation], w, sums[i][j])

    def _sum(self, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
        if not self.schedule.mixed:
            return emit.multiply_add(x, w, total, self.depthwise.match.problem.accumulator)
        return memory.joined(
            [
                math_dialect.fma(
                    self._converted(memory.element(x, n)),
                    self._converted(memory.element(w, n)),
                    memory.element(total, n),
                )
                for n in range(self.schedule.lanes)
            ]
        )

    def _tap(self, number: int) -> ir.Value:
        """Element `number` of the filters of the thread's channels."""
        taps = self.depthwise.filter
        source = Operand(
            taps.argument, taps.element, taps.offset, taps.batch, taps.row, taps.column
        )
        buffer = self.inputs[taps.argument]
        return stored_vector(buffer, source, 0, number, self.channel, self.schedule.lanes)

    def _along(
        self, dim: Dimension, start: Index, move: int, count: int
    ) -> tuple[Index, list[ir.Value]]:
        """A coordinate along a dimension, and the conditions for it to lie in the image.

        count: results of a thread along it, from `start` on.
        """
        size, _, outputs, window, step, dilation, pad = dim
        at = emit.add(emit.mul(start, step), move - pad)
        last = (ceil_div(outputs, count) * count - 1) * step + (window - 1) * dilation - pad
        return at, [emit.compare("ult", at, size)] if pad or last >= size else []

    def _pixel(self, place: Index, conditions: Sequence[ir.Value]) -> ir.Value:
        image, lanes = self.depthwise.image, self.schedule.lanes
        buffer, size = self.inputs[image.argument], emit.element_bytes(image.element)
        elements: list[ir.Value] = []
        for first in range(0, lanes, self.width):
            offset = self.depthwise.channel.offset(emit.add(self.channel, first))
            at = memory.guarded(emit.add(place, offset), conditions, size)
            x = memory.load(buffer, at, self.width)
            if self.width == lanes:
                return x
            elements += [memory.element(x, i) for i in range(self.width)]
        return memory.joined(elements)

    def _converted(self, x: ir.Value) -> ir.Value:
        problem = self.depthwise.match.problem
        return emit.convert(x, self.depthwise.image.element, problem.accumulator)
