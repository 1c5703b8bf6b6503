"""An execution context: what one run of a program has for itself on the device."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.graph import RunGraph
from mgx_mlir.runtime.hip.library import (
    call,
    failure,
    hip_python,
    no_extra,
    pointer_list,
    release,
)
from mgx_mlir.runtime.hip.memory import DeviceMemory
from mgx_mlir.runtime.hip.prepared import Prepared, PreparedCopy, PreparedLaunch, Tensor

logger = logging.getLogger("mgx_mlir.hip")
_NON_BLOCKING = 1


class Context:
    """A stream, an arena, packed arguments and a graph. One run at a time uses it.

    Runs may follow each other on different streams without anybody waiting on the host:
    each begins after the event that the one before left in `last`.
    """

    def __init__(self, prepared: Prepared, graph: bool) -> None:
        """Allocates everything of a fixed size. Raises DeviceError. Its device is current."""
        self._prepared = prepared
        self._graph_wanted = graph and len(prepared.steps) > 1
        self._graph: RunGraph | None = None
        self._staging: DeviceMemory | None = None
        self._addresses: dict[Tensor, int] = {}
        self.stream: Any = None
        self.last: Event | None = None
        size = prepared.memory_bytes
        self._memory = DeviceMemory(prepared.ordinal, size, "a program's arena and scratch")
        self.arguments = prepared.arguments.copy()
        self.arguments[prepared.in_arena] += np.uint64(self._memory.address)
        # HIP takes the address of each argument's value.
        count = max(len(self.arguments), 1)
        start = self.arguments.ctypes.data
        self._pointers = np.uint64(start) + np.arange(0, 8 * count, 8, dtype=np.uint64)
        self._first_pointer = int(self._pointers.ctypes.data)
        self._lists = {
            step.first: pointer_list(self.parameters(step))
            for step in prepared.steps
            if isinstance(step, PreparedLaunch)
        }
        self.stream = call("hipStreamCreateWithFlags", _NON_BLOCKING)

    def staging(self, tensor: Tensor) -> int:
        """Where a tensor of the host is copied through; allocated at the first use."""
        if self._staging is None:
            prepared = self._prepared
            self._staging = DeviceMemory(
                prepared.ordinal, prepared.staging_bytes, "copies of a program's inputs and outputs"
            )
        return self._staging.address + self._prepared.staging[tensor]

    def point(self, tensor: Tensor, address: int) -> None:
        """Makes every argument that is this tensor point to `address`."""
        if self._addresses.get(tensor) == address:
            return
        self._addresses[tensor] = address
        self.arguments[self._prepared.entries.get(tensor, [])] = address
        if self._graph is not None:
            self._graph.stale.update(self._prepared.touching.get(tensor, ()))

    def begin(self, stream: Any) -> None:
        """The stream's next work waits for the context's last run."""
        if self.last is not None:
            self.last.hold(stream)

    def launch(self, stream: Any) -> None:
        """Gives the stream all steps. Raises DeviceError naming the kernel that failed."""
        if self._graph_wanted:
            self._update_graph()
        if self._graph is not None:
            self._graph.launch(stream)
            return
        self.launch_steps(self._prepared.steps, stream)

    def launch_steps(self, steps: Sequence[PreparedLaunch | PreparedCopy], stream: Any) -> None:
        """Gives the stream some steps, one by one. Raises DeviceError naming the kernel."""
        launch_kernel, extra = hip_python().hipModuleLaunchKernel, no_extra()
        for step in steps:
            if isinstance(step, PreparedCopy):
                self._copy(step, stream)
                continue
            (status,) = launch_kernel(*step.shape, stream, self._lists[step.first], extra)
            if status:
                raise failure(status, "hipModuleLaunchKernel", step.name)

    def parameters(self, step: PreparedLaunch) -> int:
        """The address of the launch's array of pointers to arguments."""
        return self._first_pointer + 8 * step.first

    def _copy(self, step: PreparedCopy, stream: Any) -> None:
        hip = hip_python()
        source, target = (int(a) for a in self.arguments[step.first : step.first + 2])
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToDevice
        call("hipMemcpyAsync", target, source, step.bytes, kind, stream)

    def _update_graph(self) -> None:
        """Builds the graph, or brings its pointers up to date; without it where that fails."""
        try:
            if self._graph is None:
                self._graph = RunGraph(self._prepared.steps, self.arguments, self.parameters)
            else:
                self._graph.update(self.arguments, self.parameters)
        except DeviceError as error:
            self._graph, self._graph_wanted = None, False
            logger.warning("no HIP graph, kernels are launched one by one: %s", str(error))

    def wait(self) -> None:
        """Blocks until the context's work is done. Raises DeviceError if it failed."""
        if self.last is not None:
            last, self.last = self.last, None
            last.wait()
        if self.stream is not None:
            call("hipStreamSynchronize", self.stream)

    def close(self) -> None:
        """Frees everything, after work that is under way, whether that succeeds or not."""
        try:
            self.wait()
        except DeviceError as error:
            logger.info("while closing an execution context: %s", str(error))
        self._graph = None
        stream, self.stream = self.stream, None
        if stream is not None:
            release("hipStreamDestroy", stream)
        self._memory.free()
        if self._staging is not None:
            self._staging.free()

    def __del__(self) -> None:
        if hasattr(self, "_memory") and self.stream is not None and not sys.is_finalizing():
            self.close()
