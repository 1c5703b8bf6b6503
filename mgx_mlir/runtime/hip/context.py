"""An execution context: the state of one run of a program on the device."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np

from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.binding import Place, Repeat, Section
from mgx_mlir.runtime.control import Machine, run_parts
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.graph import RunGraph
from mgx_mlir.runtime.hip.library import call, direct, hip_python, release
from mgx_mlir.runtime.hip.memory import DeviceMemory, HostMemory
from mgx_mlir.runtime.hip.prepared import Prepared, PreparedCopy, Tensor
from mgx_mlir.runtime.hip.streams import Streams
from mgx_mlir.runtime.hip.submit import ParallelSection, Submission

logger = logging.getLogger("mgx_mlir.hip")
_NON_BLOCKING = 1
# A copy that fills a row has another target at each trip: to change its node takes the host as
# long as this many launches (measured on the emulated device, whose calls cost next to nothing).
_ROW_LAUNCHES = 4


class Context:
    """A stream, an arena, packed arguments and graphs. One run at a time uses it.

    Runs may follow each other on different streams without a wait on the host:
    each begins after the event that the one before left in `last`. Each section of the
    program between two decisions is a graph of its own.
    """

    def __init__(self, prepared: Prepared, graph: bool) -> None:
        """Allocates everything of a fixed size. Raises DeviceError. Its device is current."""
        self._prepared = prepared
        self._graph_wanted = graph
        self._graphs: dict[Section, RunGraph] = {}
        self._staging: DeviceMemory | None = None
        self._addresses: dict[Tensor, int] = {}
        # Values of the run's inputs that the host has, and the stream of the run.
        self._known: dict[Tensor, np.ndarray] = {}
        self._run_stream: Any = None
        self.stream: Any = None
        self.last: Event | None = None
        size = prepared.memory_bytes
        self._memory = DeviceMemory(prepared.ordinal, size, "a program's arena and scratch")
        self.arguments = prepared.arguments.copy()
        self.arguments[prepared.in_arena] += np.uint64(self._memory.address)
        self.submission = Submission(prepared.steps, self.arguments)
        self._parallel: dict[Section, ParallelSection] = {}
        self._streams: Streams | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._decision = HostMemory(8, "conditions") if prepared.decisions else None
        self.stream = int(call("hipStreamCreateWithFlags", _NON_BLOCKING))
        if prepared.counts:  # counters begin with 0, and kernels leave them so
            first, count = self._memory.address + prepared.arena_bytes, size - prepared.arena_bytes
            call("hipMemsetAsync", first, 0, count, self.stream, purpose="counters")
            call("hipStreamSynchronize", self.stream)

    def staging(self, tensor: Tensor) -> int:
        """The address of the staging memory of a host tensor; allocated at the first use."""
        if self._staging is None:
            prepared = self._prepared
            self._staging = DeviceMemory(
                prepared.ordinal, prepared.staging_bytes, "copies of a program's inputs and outputs"
            )
        return self._staging.address + self._prepared.staging[tensor]

    def point(self, tensor: Tensor, address: int, value: np.ndarray | None = None) -> None:
        """Makes every argument that is this tensor point to `address`.

        `value` is its content, where the host knows it.
        """
        if value is None:
            self._known.pop(tensor, None)
        else:
            self._known[tensor] = value
        if self._addresses.get(tensor) == address:
            return
        self._addresses[tensor] = address
        self.arguments[self._prepared.entries.get(tensor, [])] = address
        self._outdate(self._prepared.touching.get(tensor, ()))

    def begin(self, stream: Any) -> None:
        """The stream's next work waits for the context's last run."""
        if self.last is not None:
            self.last.hold(stream)

    def launch(self, stream: Any, machine: Machine | None = None) -> None:
        """Gives the stream the whole run; waits for it only where the device decides.

        `machine` takes the sections instead of the context. Raises DeviceError naming the
        kernel that failed.
        """
        self._run_stream = stream
        run_parts(self._prepared.parts, machine or self)

    def section(self, section: Section) -> None:
        """Gives the run's stream the steps of a section, as a graph where that is wanted."""
        stream = self._run_stream
        graph = self._graphs.get(section)
        if (graph is None or graph.stale) and self._graph_wanted and self._pays(section):
            graph = self._current_graph(section)
        if graph is not None:
            graph.launch(stream)
            return
        if section in self._prepared.schedules:
            self._on_streams(section, stream)
        else:
            self.submission.submit(section.first, section.end, stream)

    def _pays(self, section: Section) -> bool:
        """Whether a graph takes less time of the host than the section's launches."""
        rows = sum(section.first <= step < section.end for step in self._prepared.wholes)
        return section.end - section.first > 1 + _ROW_LAUNCHES * rows

    def _on_streams(self, section: Section, stream: Any) -> None:
        """Gives the steps of a section to several streams, which the run's stream waits for."""
        parallel = self._parallel.get(section)
        if self._streams is None:
            self._streams = Streams()
        if parallel is None:
            schedule = self._prepared.schedules[section]
            parallel = ParallelSection(self._prepared.steps, section.first, schedule)
            self._streams.make(parallel.streams, parallel.events)
            self._parallel[section] = parallel
        self.submission.submit_parallel(parallel, *self._streams.handles(stream))

    def number(self, place: Place, size: int) -> int:
        """The integer of `size` bytes of a count or a condition; waits for it if need be."""
        known = self._value(place)
        if known is not None:
            return int.from_bytes(known.tobytes()[:size], sys.byteorder, signed=True)
        assert self._decision is not None
        address = int(self.arguments[self._prepared.decisions[place]])
        kind = hip_python().hipMemcpyKind.hipMemcpyDeviceToHost
        target = self._decision.address
        call("hipMemcpyAsync", target, address, size, kind, self._run_stream, purpose="a condition")
        call("hipStreamSynchronize", self._run_stream)
        return self._decision.integer(size)

    def _value(self, place: Place) -> np.ndarray | None:
        """The content of a place, where the host knows it."""
        known = self._prepared.known.get(place)
        return self._known.get((place.kind, place.index)) if known is None else known

    def decides(self) -> bool:
        """Whether the run, whose inputs are pointed to, waits for a decision of the device."""
        return any(self._value(place) is None for place in self._prepared.decisions)

    def worker(self) -> Executor:
        """The thread that waits in place of the caller's."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "mgx-run")
        return self._worker

    def row(self, loop: Repeat, number: int) -> None:
        """Points the copies that fill the loop's rows to the row of that number."""
        prepared = self._prepared
        for step in loop.rows:
            copy = prepared.steps[step]
            assert isinstance(copy, PreparedCopy)
            whole = self.arguments[prepared.wholes[step]]
            self.arguments[copy.first + 1] = whole + np.uint64(number * copy.bytes)
        self._outdate(loop.rows)

    def _outdate(self, steps: Iterable[int]) -> None:
        """The arguments of steps have changed: their graphs' nodes are stale."""
        for section, graph in self._graphs.items():
            graph.stale.update(s for s in steps if section.first <= s < section.end)

    def _current_graph(self, section: Section) -> RunGraph | None:
        """The section's graph, built or brought up to date; None where that fails."""
        graph = self._graphs.get(section)
        parameters = self.submission.parameters
        try:
            if graph is None:
                steps = self._prepared.steps[section.first : section.end]
                graph = RunGraph(
                    steps, section.first, self._order(section), self.arguments, parameters
                )
                self._graphs[section] = graph
            elif graph.stale:
                graph.update(self.arguments, parameters)
        except DeviceError as error:
            self._graphs, self._graph_wanted = {}, False
            logger.warning("no HIP graph, kernels are launched one by one: %s", str(error))
            return None
        return graph

    def _order(self, section: Section) -> Sequence[Sequence[int]]:
        """For each step of a section the indices, in the section, of those that it waits for."""
        schedule = self._prepared.schedules.get(section)
        if schedule is not None:
            return schedule.before
        return [range(max(n - 1, 0), n) for n in range(section.end - section.first)]

    def wait(self) -> None:
        """Blocks until the context's work is done. Raises DeviceError if it failed."""
        if self.last is not None:
            last, self.last = self.last, None
            last.wait()
        if self.stream is not None:
            direct("hipStreamSynchronize", self.stream)

    def close(self) -> None:
        """Frees everything, after work that is under way, whether that succeeds or not."""
        try:
            self.wait()
            if self._streams is not None:
                self._streams.wait()
        except DeviceError as error:
            logger.info("while closing an execution context: %s", str(error))
        self._graphs = {}
        if self._worker is not None:
            self._worker.shutdown(wait=False)
        if self._streams is not None:
            self._streams.close()
        stream, self.stream = self.stream, None
        if stream is not None:
            release("hipStreamDestroy", stream)
        self._memory.free()
        if self._staging is not None:
            self._staging.free()
        if self._decision is not None:
            self._decision.free()

    def __del__(self) -> None:
        if hasattr(self, "_memory") and self.stream is not None and not sys.is_finalizing():
            self.close()
