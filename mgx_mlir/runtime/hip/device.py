"""The devices of the HIP library, and which of them runs a target's programs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

from mgx_mlir import emulator
from mgx_mlir.artifact.library import DeviceOptions, Handle, made
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import DeviceError, TargetError, UsageError
from mgx_mlir.runtime.hip.library import call, current_device, library_kind, opened_path

_adding = threading.Lock()


@dataclass(frozen=True)
class Machine:
    """The figures of a device for estimates: bytes and operations a second, and its units."""

    bytes_per_second: float
    flops_per_second: float
    compute_units: int


@dataclass(frozen=True)
class Device:
    """One device. `chip` is its target's name, `target_id` HIP's (gfx942:sramecc+:xnack-).

    Sizes are in bytes.
    """

    ordinal: int
    chip: str
    target_id: str
    product: str
    memory_bytes: int
    compute_units: int
    lds_bytes: int
    wave_size: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int

    @property
    def machine(self) -> Machine:
        """The rates for estimates of time: two memory transfers, 256 FMAs of a unit, each clock."""
        transfers = 2e3 * self.memory_clock_khz * self.memory_bus_bits / 8
        flops = 512e3 * self.clock_khz * self.compute_units
        return Machine(max(transfers, 1e9), max(flops, 1e9), max(self.compute_units, 1))

    @property
    def handle(self) -> Handle:
        """The device of libmgx, which uses the HIP library of this process. Raises DeviceError."""
        return _handle(self.ordinal)

    def __str__(self) -> str:
        return f"device {self.ordinal}: {self.chip} ({self.product})"


@cache
def _handle(ordinal: int) -> Handle:
    options = made(DeviceOptions, hip_library=opened_path().encode())
    name = f"hip:{ordinal}".encode()
    return Handle("mgx_device_open", "mgx_device_release", name, ctypes.byref(options))


def devices() -> tuple[Device, ...]:
    """Every device, by ordinal. Raises DeviceError, also where there is none."""
    return tuple(device(ordinal) for ordinal in range(call("hipGetDeviceCount")))


def device(ordinal: int) -> Device:
    """The device of that number. Raises DeviceError where there is none."""
    properties: Any = call(
        "hipGetDeviceProperties", ordinal, purpose=f"there is no device {ordinal}"
    )
    target_id = _text(properties.gcnArchName)
    return Device(
        ordinal,
        target_id.partition(":")[0],
        target_id,
        _text(properties.name),
        int(properties.totalGlobalMem),
        int(properties.multiProcessorCount),
        int(properties.sharedMemPerBlock),
        int(properties.warpSize),
        int(properties.clockRate),
        int(properties.memoryClockRate),
        int(properties.memoryBusWidth),
    )


def device_for(target: Target, ordinal: int | None = None) -> Device:
    """The first device of the target's chip, or the device `ordinal` if it is one.

    The emulated library gets a device of a chip that it has none of, unless `ordinal` asks for
    another one. Raises TargetError with the devices that there are.
    """
    with _adding:  # two threads add one device
        found = devices()
        for candidate in found:
            if candidate.chip == target.name and ordinal in (None, candidate.ordinal):
                return candidate
        reason = ""
        if ordinal is None and library_kind() == "emulated":
            try:
                return device(emulator.add_device(target.name))
            except UsageError as error:
                reason = f"; {error}"
    raise TargetError(_no_device(target, ordinal, found) + reason)


def _no_device(target: Target, ordinal: int | None, found: Sequence[Device]) -> str:
    listed = "; ".join(map(str, found)) or "none"
    which = "no device is" if ordinal is None else f"device {ordinal} is not"
    return f"{which} a {target.name}; there are: {listed}"


def _text(value: Any) -> str:
    return bytes(value).split(b"\0")[0].decode() if isinstance(value, bytes) else str(value)


class Current:
    """`with Current(n):` makes device n the thread's current one, and the old one afterwards."""

    __slots__ = ("_before", "_ordinal")

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._before = ordinal

    def __enter__(self) -> None:
        self._before = current_device()
        if self._before != self._ordinal:
            call("hipSetDevice", self._ordinal)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before != self._ordinal:
            try:
                call("hipSetDevice", self._before)
            except DeviceError:
                # The error that is on its way, if any, is the one that matters.
                if kind is None:
                    raise
