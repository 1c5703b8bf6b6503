"""The steps of a program as one HIP graph, replayed with one call.

Built from the plan, node by node: nothing is captured, so no stream is ever left in a
state that it could not be used in. The pointers that change are parameters of nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgx_mlir.runtime.hip.library import call, direct, hip_python, release
from mgx_mlir.runtime.hip.prepared import PreparedCopy, PreparedLaunch

_HINT = "without a graph (graph=False) the kernel at fault is named"
Parameters = Callable[[PreparedLaunch], int]


class RunGraph:
    """An executable graph of steps, each of which runs after those that it waits for.

    `stale` holds the numbers of steps whose arguments changed since the last update;
    numbers count from `first`.
    """

    def __init__(
        self,
        steps: Sequence[PreparedLaunch | PreparedCopy],
        first: int,
        before: Sequence[Sequence[int]],
        arguments: np.ndarray,
        parameters: Parameters,
    ) -> None:
        """`before`: for each step the indices among `steps` of those that it waits for.

        Raises DeviceError, having destroyed the graph."""
        self.stale: set[int] = set()
        self._first = first
        self._steps = steps
        self._executable: Any = None
        self._nodes: list[int] = []
        self._graph = call("hipGraphCreate", 0)
        for step, waits in zip(steps, before, strict=True):
            # The nodes before, as a C array of handles.
            nodes = np.array([self._nodes[number] for number in waits], np.uint64)
            place = (self._graph, nodes.ctypes.data if nodes.size else None, nodes.size)
            if isinstance(step, PreparedLaunch):
                node = call(
                    "hipGraphAddKernelNode",
                    *place,
                    _kernel_parameters(step, parameters),
                    kernel=step.name,
                )
            else:
                node = call(
                    "hipGraphAddMemcpyNode1D",
                    *place,
                    *_copy_parameters(step, arguments),
                    kernel=step.name,
                )
            self._nodes.append(int(node))
        self._executable = call("hipGraphInstantiateWithFlags", self._graph, 0)
        self._handle = int(self._executable)

    def update(self, arguments: np.ndarray, parameters: Parameters) -> None:
        """Gives the stale nodes their new arguments; runs under way keep the old ones.

        Raises DeviceError, after which the graph must not be launched.
        """
        for number in sorted(self.stale):
            step, node = self._steps[number - self._first], self._nodes[number - self._first]
            if isinstance(step, PreparedLaunch):
                call(
                    "hipGraphExecKernelNodeSetParams",
                    self._executable,
                    node,
                    _kernel_parameters(step, parameters),
                    kernel=step.name,
                )
            else:
                target, source, size, kind = _copy_parameters(step, arguments)
                direct(
                    "hipGraphExecMemcpyNodeSetParams1D",
                    self._handle, node, target, source, size, int(kind),
                    kernel=step.name,
                )  # fmt: skip
        self.stale.clear()

    def launch(self, stream: int) -> None:
        """Gives the stream one run. Raises DeviceError."""
        direct("hipGraphLaunch", self._handle, stream, purpose=_HINT)

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if getattr(self, "_executable", None) is not None:
            release("hipGraphExecDestroy", self._executable)
        if getattr(self, "_graph", None) is not None:
            release("hipGraphDestroy", self._graph)


def _kernel_parameters(step: PreparedLaunch, parameters: Parameters) -> Any:
    hip = hip_python()
    found = hip.hipKernelNodeParams()
    found.func = int(step.function)
    found.gridDim.x, found.gridDim.y, found.gridDim.z = step.grid
    found.blockDim.x, found.blockDim.y, found.blockDim.z = step.block
    found.sharedMemBytes = 0
    found.kernelParams = parameters(step)
    found.extra = None
    return found


def _copy_parameters(step: PreparedCopy, arguments: np.ndarray) -> tuple[Any, ...]:
    source, target = arguments[step.first : step.first + 2].tolist()
    return target, source, step.bytes, hip_python().hipMemcpyKind.hipMemcpyDeviceToDevice
