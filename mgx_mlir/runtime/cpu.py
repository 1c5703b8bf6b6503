"""Runs plans on the host's cores: code objects loaded from memory, steps given to a pool.

The native part (`native/cpu_executor.cpp`) holds the threads; this part turns a plan into
its table of steps and pointers, once for each context, and fills in the caller's tensors.
"""

from __future__ import annotations

import _ctypes
import ctypes
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.errors import ArtifactError, CompilerError, UsageError
from mgx_mlir.runtime.binding import (
    BoundCopy,
    BoundLaunch,
    Place,
    Repeat,
    Section,
    arena_bytes,
    bind,
    check_trusted,
    decisions,
)
from mgx_mlir.runtime.control import Machine, run_parts
from mgx_mlir.runtime.memory import check_memory, host_bytes
from mgx_mlir.runtime.shared_object import open_native

_ALIGNMENT = 64
_INTERFACE = 1


class _NativeStep(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("extent", ctypes.c_int64),
        ("first_argument", ctypes.c_int64),
    )


# What launches make of weights alone: by the code's hash, the function, and the weights' keys.
Kept: TypeAlias = dict[tuple[str, str, tuple[str, ...]], np.ndarray]

_STEP_BYTES = ctypes.sizeof(_NativeStep)


@cache
def _native() -> ctypes.CDLL:
    # Kernels call libm without naming it.
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    library = open_native("cpu", _INTERFACE)
    library.mgx_cpu_run.restype = ctypes.c_int
    library.mgx_cpu_run.argtypes = (
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_int,
    )
    return library


_serial = itertools.count()


class CodeLibrary:
    """A shared object loaded from its bytes; unloaded when nothing refers to it."""

    def __init__(self, code: CodeObject) -> None:
        """Raises ArtifactError for code that nothing vouches for, or that does not load."""
        check_trusted(code)
        _native()
        descriptor = os.memfd_create("mgx-kernel", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(code.data)
            self._library = ctypes.CDLL(_unique_path(descriptor), mode=os.RTLD_NOW)
        except OSError as error:
            raise ArtifactError(f"a code object for {code.arch} does not load: {error}") from error
        finally:
            os.close(descriptor)
        weakref.finalize(self, _ctypes.dlclose, self._library._handle)

    def address(self, function: str) -> int:
        """The address of the function. Raises ArtifactError when there is none of that name."""
        try:
            symbol = getattr(self._library, function)
        except AttributeError as error:
            raise ArtifactError(f"a code object has no function '{function}'") from error
        return ctypes.cast(symbol, ctypes.c_void_p).value or 0


_shared: weakref.WeakValueDictionary[str, CodeLibrary] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def _library(code: CodeObject) -> CodeLibrary:
    """The code object's library; the same for equal bytes."""
    with _sharing:
        library = _shared.get(code.sha256)
        if library is None:
            library = _shared[code.sha256] = CodeLibrary(code)
        return library


def _unique_path(descriptor: int) -> str:
    """A path of the open file that was never used before.

    The loader takes a path that it has seen for the same file, and descriptors recur; so
    the path spells a serial number, in parts that the file system ignores.
    """
    bits = "".join("./" if bit == "0" else ".//" for bit in f"{next(_serial):b}")
    return f"/proc/self/fd/{bits}{descriptor}"


def _aligned(size: int) -> tuple[np.ndarray, int]:
    """Memory, and the address of `size` bytes in it that a vector's loads suit."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    base = memory.ctypes.data
    return memory, base + -base % _ALIGNMENT


class _Context:
    """The state of one run: the arena, and the table of pointers into it."""

    def __init__(self, executor: CpuExecutor) -> None:
        self._executor = executor
        self.memory, base = _aligned(executor.arena_bytes + executor.scratch_bytes)
        self.pointers = executor.fixed.copy()
        self.pointers[executor.in_arena] += np.uint64(base)
        # The same memory, whose elements Python sets in less time.
        self.entries = memoryview(self.pointers)
        self._table = self.pointers.ctypes.data

    def section(self, section: Section) -> None:
        """Runs the section's steps."""
        executor = self._executor
        count = section.end - section.first
        first = executor.native_steps_address + section.first * _STEP_BYTES
        error = _native().mgx_cpu_run(first, count, self._table, executor.threads)
        if error:
            raise CompilerError(f"the CPU executor failed: {os.strerror(error)}")

    def number(self, place: Place, size: int) -> int:
        """The integer of `size` bytes at a place: a count or a condition."""
        address = int(self.pointers[self._executor.decisions[place]])
        return int.from_bytes(ctypes.string_at(address, size), sys.byteorder, signed=True)

    def row(self, loop: Repeat, number: int) -> None:
        """Points the copies that fill the loop's rows to the row of that number."""
        for step in loop.rows:
            native = self._executor.native_steps[step]
            target = native.first_argument + 1
            whole = self.pointers[self._executor.wholes[step]]
            self.pointers[target] = whole + np.uint64(number * native.extent)


class CpuExecutor:
    """A plan and its code objects, ready to run. Any number of threads may run it at once."""

    def __init__(
        self,
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Mapping[str, np.ndarray],
        threads: int,
        kept: Kept | None = None,
    ) -> None:
        """Loads the code objects. Weights are pointed to, never copied.

        `kept` has what executors of equal weights made of these, and takes what this one makes.
        Raises ArtifactError where plan, code objects and weights do not fit together.
        """
        if threads < 1:
            raise UsageError(f"a program runs on at least one thread, not {threads}")
        self.threads = threads
        self._weights = {
            b.key: _weight(weights, b.key, b.bytes) for b in plan.buffers if b.kind == "weight"
        }
        self._libraries = [_library(code) for code in code_objects]
        self.arena_bytes = arena_bytes(plan)
        self._steps: list[_NativeStep] = []
        self._bases: list[int] = []
        self._arena_entries: list[int] = []
        self._entries: dict[tuple[str, int], list[int]] = {}
        # The numbers of pointers to counts and conditions, and to tensors whose rows are filled.
        self.decisions: dict[Place, int] = {}
        self.wholes: dict[int, int] = {}
        bound = bind(plan, code_objects, keeps=True)
        self.scratch_bytes = bound.scratch_bytes
        self.memory_bytes = self.arena_bytes + bound.scratch_bytes + bound.kept_bytes
        check_memory(plan, self.memory_bytes, host_bytes(), "this machine")
        # The address of each kept place, by its index, and what owns the memory.
        self._kept: dict[int, int] = {}
        self._made: Kept = {}
        shared = {} if kept is None else kept
        once = [launch for launch in bound.once if self._keep(launch, code_objects, shared)]
        # The step of the plan that each launch and copy belongs to.
        self.launches = [step.step for step in bound.steps]
        self._parts = bound.parts
        for step in bound.steps:
            self._add(step)
        for launch in once:
            self._add(launch)
        for number, step in enumerate(bound.steps):
            if isinstance(step, BoundCopy) and step.is_row:
                self.wholes[number] = self._point(step.places[1])
        for place in decisions(bound.parts):
            self.decisions[place] = self._point(place)
        given = [("input", n) for n in range(len(plan.inputs))]
        given += [("output", n) for n in range(len(plan.outputs))]
        # The numbers of the pointers to each input, then to each output.
        self._given = [self._entries.get(tensor, []) for tensor in given]
        self.native_steps = (_NativeStep * len(self._steps))(*self._steps)
        self.native_steps_address = ctypes.addressof(self.native_steps)
        self.fixed = np.array(self._bases, np.uint64)
        self.in_arena = np.array(self._arena_entries, np.intp)
        self._idle: list[_Context] = []
        self._lock = threading.Lock()
        if once:
            context = _Context(self)
            context.section(Section(len(bound.steps), len(self._steps)))
            self._idle.append(context)
        shared.update(self._made)

    def run(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        observed: Callable[[Machine], Machine] | None = None,
    ) -> None:
        """Computes the outputs, in place. The arrays fit the plan and are contiguous.

        `observed` gives the machine that does the work, by way of the executor's own.
        """
        with self._lock:
            context = self._idle.pop() if self._idle else None
        context = context or _Context(self)
        entries = context.entries
        for array, numbers in zip((*inputs, *outputs), self._given, strict=True):
            address = _address(array)
            for number in numbers:
                entries[number] = address
        run_parts(self._parts, observed(context) if observed else context)
        with self._lock:
            self._idle.append(context)

    def _keep(self, launch: BoundLaunch, code: Sequence[CodeObject], kept: Kept) -> bool:
        """Finds or makes the memory that a launch fills; whether the launch has to run."""
        (place,) = (p for p in launch.places if p.kind == "kept")
        weights = tuple(p.key for p in launch.places if p.kind == "weight")
        key = code[launch.kernel].sha256, launch.launch.function, weights
        memory = kept.get(key)
        self._made[key] = np.empty(place.bytes + _ALIGNMENT, np.uint8) if memory is None else memory
        base = self._made[key].ctypes.data
        self._kept[place.index] = base + -base % _ALIGNMENT
        return memory is None

    def _add(self, step: BoundLaunch | BoundCopy) -> None:
        first = len(self._bases)
        if isinstance(step, BoundCopy):
            self._steps.append(_NativeStep(None, step.bytes, first))
        else:
            function = self._libraries[step.kernel].address(step.launch.function)
            self._steps.append(_NativeStep(function, step.launch.grid[0], first))
        for place in step.places:
            self._point(place)

    def _point(self, place: Place) -> int:
        """Adds a pointer to a place; returns its number among all."""
        base = 0
        if place.kind in ("arena", "scratch"):
            self._arena_entries.append(len(self._bases))
            base = place.index + (self.arena_bytes if place.kind == "scratch" else 0)
        elif place.kind == "kept":
            base = self._kept[place.index]
        elif place.kind == "size":
            base = place.index
        elif place.kind == "weight":
            base = self._weights[place.key].ctypes.data
        else:
            entries = self._entries.setdefault((place.kind, place.index), [])
            entries.append(len(self._bases))
        self._bases.append(base)
        return len(self._bases) - 1


_address_of, _element_of = ctypes.addressof, ctypes.c_char.from_buffer


def _address(array: np.ndarray) -> int:
    """The address of a contiguous array's elements; `ctypes.data` takes twice the time."""
    if not array.flags.writeable:
        return array.ctypes.data
    try:
        return _address_of(_element_of(array))
    except (TypeError, ValueError):  # empty, or of a type that buffers cannot name
        return array.ctypes.data


def _weight(weights: Mapping[str, np.ndarray], key: str, size: int) -> np.ndarray:
    if key not in weights:
        raise ArtifactError(f"the plan needs weight '{key}', which is missing")
    array = weights[key]
    if array.nbytes != size:
        raise ArtifactError(f"weight '{key}' has {array.nbytes} bytes; the plan says {size}")
    # A computed weight may be a view, and a file may hold one anywhere; kernels want
    # whole elements in row-major order. An array of that form is not copied.
    return np.require(array, requirements=("C", "A"))
