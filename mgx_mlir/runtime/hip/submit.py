"""Lists of launches and copies, given to HIP with one call from Python.

The functions are hip-python's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from mgx_mlir.runtime.binding import StreamSchedule
from mgx_mlir.runtime.hip.library import failure, function_address, hip_python
from mgx_mlir.runtime.hip.prepared import PreparedCopy, PreparedLaunch
from mgx_mlir.runtime.shared_object import open_native

_INTERFACE = 1
LAUNCH, COPY, RECORD, WAIT = range(4)
_CALLS = ("hipModuleLaunchKernel", "hipMemcpyAsync", "hipEventRecord", "hipStreamWaitEvent")


class _Functions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("launch", "copy", "record", "wait"))


class NativeStep(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("stream", ctypes.c_int32),
        ("handle", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("first", ctypes.c_int64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
    )


STEP_BYTES = ctypes.sizeof(NativeStep)


@cache
def _native() -> Any:
    library = open_native("launch", _INTERFACE)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    submit = library.mgx_hip_submit
    submit.restype = ctypes.c_int
    submit.argtypes = (pointer, pointer, number, *[pointer] * 5)
    return submit


@cache
def _functions() -> _Functions:
    names = ("hipModuleLaunchKernel", "hipMemcpyAsync", "hipEventRecord", "hipStreamWaitEvent")
    return _Functions(*map(function_address, names))


class Submission:
    """Steps in the form that HIP takes; `submit` gives any part of them to a stream."""

    def __init__(
        self, steps: Sequence[PreparedLaunch | PreparedCopy], arguments: np.ndarray
    ) -> None:
        """`arguments` is the table of addresses; it is read at each `submit`."""
        self._steps = steps
        self._table = (NativeStep * max(len(steps), 1))(*map(native_step, steps))
        # HIP takes the address of each argument's value.
        start, count = int(arguments.ctypes.data), max(len(arguments), 1)
        pointers = np.arange(start, start + 8 * count, 8, dtype=np.uint64)
        self._kept = (arguments, pointers)
        self._arguments, self._pointers = start, int(pointers.ctypes.data)
        self._functions = ctypes.addressof(_functions())
        self._first = ctypes.addressof(self._table)
        self._streams = (ctypes.c_void_p * 1)()
        self._failed = ctypes.c_int64()
        self._failed_address = ctypes.addressof(self._failed)
        self._call = _native()

    def parameters(self, step: PreparedLaunch) -> int:
        """The address of the launch's array of pointers to arguments."""
        return self._pointers + 8 * step.first

    def submit(self, first: int, end: int, stream: int) -> None:
        """Gives a stream the steps from number `first` to `end`.

        Raises DeviceError naming the call and the kernel.
        """
        self._streams[0] = stream
        status = self._submit(self._first + first * STEP_BYTES, end - first, self._streams, None)
        if status:
            step = self._steps[first + self._failed.value]
            kind = COPY if isinstance(step, PreparedCopy) else LAUNCH
            raise failure(hip_python().hipError_t(status), _CALLS[kind], step.name)

    def submit_parallel(self, section: ParallelSection, streams: Any, events: Any) -> None:
        """Gives several streams the steps of a section; the first then waits for the others.

        `streams` and `events` are C arrays of handles. Raises DeviceError as `submit`.
        """
        status = self._submit(section.address, len(section.table), streams, events)
        if status:
            failed = self._failed.value
            call, name = _CALLS[section.table[failed].kind], section.names[failed]
            raise failure(hip_python().hipError_t(status), call, name)

    def _submit(self, steps: int, count: int, streams: Any, events: Any) -> int:
        status: int = self._call(
            self._functions,
            steps,
            count,
            self._arguments,
            self._pointers,
            streams,
            events,
            self._failed_address,
        )
        return status


class ParallelSection:
    """The steps of a section, by a schedule, with the events between its streams.

    `streams` and `events` are how many there are; stream 0 is the run's own.
    """

    def __init__(
        self,
        steps: Sequence[PreparedLaunch | PreparedCopy],
        first: int,
        schedule: StreamSchedule,
    ) -> None:
        """`steps` are all of the program; those of the schedule begin with number `first`."""
        self.streams = max(schedule.streams) + 1
        self.names: list[str] = []
        self._made: list[NativeStep] = []
        self.events = 0
        fork = self._record(0)
        for stream in range(1, self.streams):
            self._wait(stream, fork)
        crossing = {
            number
            for own, waits in zip(schedule.streams, schedule.before, strict=True)
            for number in waits
            if schedule.streams[number] != own
        }
        recorded: dict[int, int] = {}
        for number, (stream, waits) in enumerate(
            zip(schedule.streams, schedule.before, strict=True)
        ):
            for other in waits:
                if schedule.streams[other] != stream:
                    self._wait(stream, recorded[other])
            step = steps[first + number]
            native = native_step(step)
            native.stream = stream
            self._add(native, step.name)
            if number in crossing:
                recorded[number] = self._record(stream)
        for stream in range(1, self.streams):
            self._wait(0, self._record(stream))
        self.table = (NativeStep * len(self._made))(*self._made)
        self.address = ctypes.addressof(self.table)

    def _add(self, step: NativeStep, name: str) -> None:
        self._made.append(step)
        self.names.append(name)

    def _record(self, stream: int) -> int:
        """An event after the stream's work so far."""
        self._add(NativeStep(RECORD, stream, self.events), "")
        self.events += 1
        return self.events - 1

    def _wait(self, stream: int, event: int) -> None:
        self._add(NativeStep(WAIT, stream, event), "")


def native_step(step: PreparedLaunch | PreparedCopy) -> NativeStep:
    """The step as HIP takes it, in stream 0."""
    if isinstance(step, PreparedCopy):
        return NativeStep(COPY, 0, 0, step.bytes, step.first)
    return NativeStep(LAUNCH, 0, int(step.function), 0, step.first, step.grid, step.block)
