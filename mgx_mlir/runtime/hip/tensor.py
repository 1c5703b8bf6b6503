"""Tensors in device memory, which programs take and give without a copy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.arrays import detached, device_of
from mgx_mlir.runtime.dlpack import CPU, ROCM, Imported, export_capsule
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.library import call, hip_python
from mgx_mlir.runtime.hip.memory import DeviceMemory
from mgx_mlir.runtime.hip.outputs import OutputMemory, OutputPool


class DeviceTensor:
    """A row-major tensor on device `ordinal` at `address`; `dtype` is its numpy type.

    Speaks DLPack, so that other libraries use it in place.
    """

    def __init__(
        self, owner: object, address: int, shape: tuple[int, ...], dtype: np.dtype, ordinal: int
    ) -> None:
        """`owner` keeps the memory alive."""
        self._owner = owner
        self._ready: Event | None = None
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.ordinal = ordinal
        self.nbytes = math.prod(shape) * dtype.itemsize

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: Any, ordinal: int = 0) -> DeviceTensor:
        """A tensor in memory of its own, not initialised. Raises DeviceError."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        memory = DeviceMemory(ordinal, size, f"a tensor {kind.name}{list(shape)}")
        return DeviceTensor(memory, memory.address, tuple(shape), kind, ordinal)

    @staticmethod
    def of_pool(
        pool: OutputPool, shape: tuple[int, ...], dtype: np.dtype, ordinal: int,
        hold: Callable[[Event], object],
    ) -> DeviceTensor:  # fmt: skip
        """A tensor for a result, written after the events that `hold` gets. Raises DeviceError."""
        size = math.prod(shape) * dtype.itemsize
        memory = pool.take(size, f"a tensor {dtype.name}{list(shape)}", hold)
        return DeviceTensor(memory, memory.address, shape, dtype, ordinal)

    @staticmethod
    def from_numpy(array: np.ndarray, ordinal: int = 0) -> DeviceTensor:
        """A copy of an array on the device. Raises DeviceError."""
        hip = hip_python()
        tensor = DeviceTensor.empty(array.shape, array.dtype, ordinal)
        source = np.ascontiguousarray(array)
        kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
        if tensor.nbytes:
            with Current(ordinal):
                call("hipMemcpy", tensor.address, source.ctypes.data, tensor.nbytes, kind)
                call("hipStreamSynchronize", None)
        return tensor

    def numpy(self, columns: int | None = None) -> np.ndarray:
        """A copy on the host, after the run that writes the tensor. Raises DeviceError.

        `columns`: how many of the last dimension are copied, from the first on; None for all.
        """
        hip = hip_python()
        shape = self.shape if columns is None else (*self.shape[:-1], columns)
        array = np.empty(shape, self.dtype)
        self.wait()
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        if array.nbytes:
            rows = 1 if shape == self.shape else math.prod(self.shape[:-1])
            with Current(self.ordinal):
                for row in range(rows):
                    to = array.ctypes.data + row * (array.nbytes // rows)
                    source = self.address + row * (self.nbytes // rows)
                    call("hipMemcpy", to, source, array.nbytes // rows, kind)
        return array

    def is_ready(self, ordinal: int) -> bool:
        """Whether runs on that device take the tensor as it is: no stream writes it still."""
        ready = self._ready is None and self.ordinal == ordinal
        return ready and not self.address % self.dtype.itemsize

    def written_by(self, event: Event | None) -> None:
        """The tensor holds its value after the event; None: now."""
        self._ready = event

    def is_written(self) -> bool:
        """Whether the tensor holds its value, or the work that writes it failed."""
        ready = self._ready
        return ready is None or ready.done()

    def wait(self) -> None:
        """Blocks until the tensor holds its value."""
        if self._ready is not None:
            self._ready.wait()
            self._ready = None

    def used_until(self, event: Event | None) -> None:
        """A run that was given to a stream reads or writes the tensor until the event."""
        if event is not None and isinstance(self._owner, OutputMemory):
            self._owner.used_until(event)

    def hold(self, stream: Any) -> None:
        """The stream's next work waits until the tensor holds its value."""
        if self._ready is not None:
            with Current(self.ordinal):
                self._ready.hold(stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (ROCM, self.ordinal)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule that the consumer's `stream` may use: a handle, None for the default, -1."""
        if dl_device is not None and tuple(dl_device) == (CPU, 0):
            return self.numpy().__dlpack__()
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a device tensor is given where it lies; copy it with numpy()")
        if stream != -1:
            self.hold(stream)
        if isinstance(self._owner, OutputMemory):
            self._owner.share()
        where = self.__dlpack_device__()
        return export_capsule(self.address, where, self.dtype.name, self.shape, self)

    def __reduce__(self) -> Any:
        raise UsageError(f"{self!r} is memory of this process; pickle its numpy()")

    def __repr__(self) -> str:
        shape = list(self.shape)
        return f"DeviceTensor({self.dtype.name}{shape} on device {self.ordinal})"


def device_tensor(value: Any, what: str, ordinal: int, stream: Any) -> DeviceTensor | None:
    """`value` as a tensor of device `ordinal`, ready for `stream`; None where it is on the host.

    Raises UsageError for a tensor of another device, or one that is not row-major.
    """
    if isinstance(value, DeviceTensor):
        found = value
    elif (device_of(value, what) or (CPU, 0))[0] != ROCM:
        return None
    else:
        # The stream 0 of DLPack is ambiguous; None is the default stream.
        tensor = Imported(detached(value).__dlpack__(stream=int(stream) or None))
        if not tensor.contiguous:
            raise UsageError(f"{what} is not contiguous in row-major order")
        dtype = numpy_dtype(tensor.dtype)
        found = DeviceTensor(tensor, tensor.address, tensor.shape, dtype, tensor.device[1])
    if found.ordinal != ordinal:
        raise UsageError(
            f"{what} is on device {found.ordinal}; the program runs on device {ordinal}"
        )
    if found.address % found.dtype.itemsize:
        raise UsageError(f"{what} is not aligned to its elements")
    found.hold(stream)
    return found
