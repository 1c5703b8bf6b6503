"""The memory of caches: the host's, or that of the device that the programs run on."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from mgx_mlir.runtime.program import Program

Shape = tuple[int, ...]
Arrays = Mapping[str, Any]
_NON_BLOCKING = 1


class HostMemory:
    """Arrays of numpy."""

    def zeros(self, count: int, dtype: np.dtype[Any]) -> Any:
        """A vector of zeros."""
        return np.zeros(count, dtype)

    def view(self, vector: Any, first: int, shape: Shape) -> Any:
        """A part of a vector, from an element on, in row-major order."""
        return vector[first : first + math.prod(shape)].reshape(shape)

    def vector(self, tensor: Any) -> Any:
        """A row-major tensor as a vector, without a copy."""
        return tensor.reshape(-1)

    def write(self, vector: Any, first: int, pitch: int, rows: Any) -> None:
        """Writes rows (count, width) from element `first` on, `pitch` elements apart."""
        count, width = rows.shape
        size = vector.itemsize
        target = np.lib.stride_tricks.as_strided(
            vector[first:], (count, width), (pitch * size, size)
        )
        target[...] = rows

    def run(self, program: Program, inputs: Arrays, outputs: Arrays) -> dict[str, Any]:
        """The program's outputs, some written into `outputs`."""
        return program.run(inputs, outputs)


class DeviceMemory:
    """Tensors on device `ordinal`, and the stream that runs and writes are given to."""

    def __init__(self, ordinal: int) -> None:
        from mgx_mlir.runtime.hip.device import Current
        from mgx_mlir.runtime.hip.library import call, release

        self._ordinal = ordinal
        with Current(ordinal):
            self._stream = call("hipStreamCreateWithFlags", _NON_BLOCKING)
        weakref.finalize(self, release, "hipStreamDestroy", self._stream)

    def zeros(self, count: int, dtype: np.dtype[Any]) -> Any:
        """As HostMemory's."""
        from mgx_mlir.runtime.hip.tensor import DeviceTensor

        return DeviceTensor.from_numpy(np.zeros(count, dtype), self._ordinal)

    def view(self, vector: Any, first: int, shape: Shape) -> Any:
        """As HostMemory's."""
        from mgx_mlir.runtime.hip.tensor import DeviceTensor

        address = vector.address + first * vector.dtype.itemsize
        return DeviceTensor(vector, address, shape, vector.dtype, self._ordinal)

    def vector(self, tensor: Any) -> Any:
        """As HostMemory's."""
        return self.view(tensor, 0, (math.prod(tensor.shape),))

    def write(self, vector: Any, first: int, pitch: int, rows: Any) -> None:
        """As HostMemory's; `rows` are on the device too."""
        from mgx_mlir.runtime.hip.device import Current
        from mgx_mlir.runtime.hip.library import call, hip_python

        (count, width), size = rows.shape, rows.dtype.itemsize
        kind = hip_python().hipMemcpyKind.hipMemcpyDeviceToDevice
        to = (vector.address + first * size, pitch * size)
        source = (rows.address, width * size)
        with Current(self._ordinal):
            call("hipMemcpy2DAsync", *to, *source, width * size, count, kind, self._stream)

    def run(self, program: Any, inputs: Arrays, outputs: Arrays) -> dict[str, Any]:
        """As HostMemory's."""
        found: dict[str, Any] = program.run(inputs, outputs, stream=self._stream)
        return found


Memory = HostMemory | DeviceMemory


def memory_for(program: Program | None) -> Memory:
    """The memory that a program reads without a copy; None: a model in parts."""
    device = getattr(program, "device", None)
    return HostMemory() if device is None else DeviceMemory(device.ordinal)
