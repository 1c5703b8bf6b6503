"""The clocks of resident kernels, for `benchmarks.priced_net`.

Each body of the kernel is launched alone, with as many work-groups as stay, and the emulated device
prices its code: the registers and LDS of the whole kernel say how many a compute unit holds. Phases
that do not wait for each other are on other compute units, as far as there are some. A barrier
takes the clocks that waves wait in it, by the latencies of the emulated device's model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# The emulated device's model (emulator/engine/probe.cpp): clocks until memory answers vectors, and
# scalars.
MEMORY_CLOCKS, SCALAR_CLOCKS = 500, 200
# Clocks of the `s_sleep` between two looks at a barrier.
SLEEP_CLOCKS = 64
# Bytes of memory that each pointer of a body gets at least.
_LEAST_BYTES, _WORD = 4096, 8


def barrier_clocks(target: Any, past_l2: bool) -> float:
    """Clocks from the last store before a barrier to the first instruction after it.

    The stores reach memory, while the next phase's words come, which are in the clocks of the
    phase; dies with L2 caches of their own write these back, unless all stores went past them; the
    last work-group counts there and looks; another one that looked just before that looks again.
    With these words and a write-back it is 2,064 on gfx942, 0.98 us; Kog measured 0.9 us on an
    MI300X between words that each have one writer, and 7.8 us with one counter for all (2026).
    """
    written_back = target.gpu.past_l2 > 0 and not past_l2
    return float(MEMORY_CLOCKS * (3 + written_back) + SLEEP_CLOCKS - SCALAR_CLOCKS)


@dataclass(frozen=True)
class Phase:
    """A launch inside of a resident kernel.

    clocks: of a compute unit that has a part of it; units: how many have; bytes: from and to
    memory.
    """

    waits: bool
    clocks: float
    units: int
    bytes: float


def clocks_of(phases: Sequence[Phase], target: Any, barrier: float) -> list[float]:
    """The clocks that each phase adds to those of its kernel. barrier: those of one."""
    found: list[float] = []
    busy, moved, at, before = [0.0] * target.compute_units, 0.0, 0, 0.0
    for phase in phases:
        wait = 0.0
        if phase.waits:
            wait, busy, moved, at, before = barrier, [0.0] * len(busy), 0.0, 0, 0.0
        for unit in range(at, at + phase.units):
            busy[unit % len(busy)] += phase.clocks
        at += phase.units
        moved += phase.bytes
        now = max(*busy, moved / target.memory_bytes_a_clock)
        found.append(wait + now - before)
        before = now
    return found


class Kernel:
    """A resident kernel whose bodies are launched on the process's emulated device."""

    def __init__(self, code: Any, launches: Sequence[Any], target: Any) -> None:
        """launches: those of the kernel's bodies, with the bytes of each of their arguments."""
        from mgx_mlir.runtime.hip.library import call

        (self._launch,) = code.launches
        self._stats = code.stats[self._launch.function]
        self._words = self._stats["kernarg_bytes"] // _WORD
        self._bodies, self._units = launches, target.compute_units
        self._module = call("hipModuleLoadData", code.data)
        self._function = call("hipModuleGetFunction", self._module, self._launch.function.encode())
        threads = self._launch.block[0]
        held = call(
            "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", self._function, threads, 0
        )
        self.barrier = barrier_clocks(target, bool(self._stats["past_l2"]))
        self.groups = min(self._launch.grid[0], held * self._units)
        self.entry = 0.0  # clocks before the first phase
        self.clocks = cache(self._clocks)

    def _clocks(self, body: int) -> tuple[float, int]:
        """The clocks of a body on a compute unit that has a part of it, and how many have."""
        launch, sizes = self._bodies[body]
        x, y, z = launch.grid
        tiles = -(-x * y * z // self._stats[f"together_{body}"])
        # As many as have equal parts: the first one, which is priced, has a whole part each time.
        groups = -(-tiles // -(-tiles // min(self.groups, tiles)))
        once, twice = (self._run(groups, phases, body, sizes) for phases in (1, 2))
        self.entry = max(self.entry, 2 * once - twice)
        return twice - once, min(groups, self._units)

    def _run(self, groups: int, phases: int, body: int, sizes: Sequence[tuple[int, int]]) -> float:
        """The clocks of a launch of phases of one body. sizes: bytes of a pointer, or 0 and a
        number."""
        from mgx_mlir import emulator
        from mgx_mlir.runtime.hip.library import call

        memory = [call("hipMalloc", 4 * groups)]
        phase = [2 * body]
        call("hipMemset", memory[0], 0, 4 * groups)
        for size, number in sizes:
            if size:
                memory.append(call("hipMalloc", max(size, _LEAST_BYTES)))
                call("hipMemset", memory[-1], 0, max(size, _LEAST_BYTES))
            phase.append(int(memory[-1]) if size else number)
        words = [int(memory[0]), phases, groups, *phase * phases]
        words += [0] * (self._words - len(words))
        values = [ctypes.c_uint64(word) for word in words]
        threads = self._launch.block[0]
        emulator.reset_profile()
        call(
            "hipModuleLaunchKernel", self._function, groups, 1, 1, threads, 1, 1, 0, 0,
            [ctypes.addressof(value) for value in values], None,
        )  # fmt: skip
        call("hipDeviceSynchronize")
        (record,) = emulator.profile()["kernels"]
        for pointer in memory:
            call("hipFree", pointer)
        clocks: float = record["last"]["unit_clocks"]
        return clocks
