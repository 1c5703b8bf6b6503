"""The result of finalizing: the bytes of one kernel for one chip, and how to launch it.

These records are pure data: picklable, comparable, with a JSON form that leaves the bytes
out. Nothing here needs MLIR, LLVM or a device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mgx_mlir.artifact.interface import Interface

ArgumentKind = Literal["input", "output", "scratch", "size", "counters"]
ARGUMENT_KINDS: tuple[ArgumentKind, ...] = ("input", "output", "scratch", "size", "counters")
# The most work-groups in one dimension (HIP counts them in 32 bits), and threads in one of them.
MOST_GROUPS = (1 << 32) - 1
MOST_THREADS = 1024


@dataclass(frozen=True)
class Argument:
    """One pointer, or size, that a function takes.

    `index` counts the kernel's inputs or outputs; for scratch it is the byte offset in the
    kernel's scratch memory (a multiple of 256), for a size its value, for counters how many there
    are: 32-bit integers that are 0 before a launch, and after it.
    """

    kind: ArgumentKind
    index: int

    def to_json(self) -> list[Any]:
        return [self.kind, self.index]

    @classmethod
    def from_json(cls, value: Any, formulas: int = 0) -> Argument:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, list) or len(value) != 2 or value[0] not in ARGUMENT_KINDS:
            raise ValueError(f"an argument is [kind, index], got {value!r:.80}")
        return cls(value[0], _count(value[1], "argument index", -formulas))


@dataclass(frozen=True)
class Launch:
    """One function of a code object, run once. `grid` counts blocks, `block` threads.

    The launches of a code object run one after another, each seeing what the ones before
    it stored. An output is never the same memory as an input or as another output.

    `kept` bytes of its one scratch argument depend on its inputs alone, and no other launch writes
    them: where these are weights, an executor may run it once and keep them.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    kept: int = 0

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "function": self.function,
            "grid": list(self.grid),
            "block": list(self.block),
            "arguments": [argument.to_json() for argument in self.arguments],
        }
        return value | ({"kept": self.kept} if self.kept else {})

    @classmethod
    def from_json(cls, value: Any, formulas: int = 0) -> Launch:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, dict) or not isinstance(value.get("function"), str):
            raise ValueError(f"a launch is an object with a function name, got {value!r:.80}")
        if not isinstance(value.get("arguments"), list):
            raise ValueError(f"launch of {value['function']!r:.80} has no list of arguments")
        return cls(
            value["function"],
            _dimensions(value.get("grid"), "grid", formulas, MOST_GROUPS),
            _dimensions(value.get("block"), "block", most=MOST_THREADS),
            tuple(Argument.from_json(argument, formulas) for argument in value["arguments"]),
            _count(value.get("kept", 0), "kept"),
        )


@dataclass(frozen=True)
class Resident:
    """Launches of a plan's neighbouring steps as one launch of a resident kernel (docs/codegen.md).

    The steps are `steps` of the plan's own from number `first` on. `bodies` are the functions in
    the code: the number of a launch, and the kernels that have this code there. `phases` are the
    steps' launches in order: a body's number, and whether all work-groups wait for each other.
    """

    first: int
    steps: int
    bodies: tuple[tuple[int, ...], ...]
    phases: tuple[tuple[int, int], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "steps": self.steps,
            "bodies": [list(body) for body in self.bodies],
            "phases": [list(phase) for phase in self.phases],
        }

    @classmethod
    def from_json(cls, value: Any) -> Resident:
        """Reads `to_json`'s form, which libmgx has checked."""
        bodies, phases = (tuple(map(tuple, value[name])) for name in ("bodies", "phases"))
        return cls(value["first"], value["steps"], bodies, phases)


@dataclass(frozen=True)
class CodeObject:
    """A kernel finalized for one target.

    `arch` is the target's name, `data` an ELF file (an AMDGPU code object, or a shared
    object of the host), `scratch_bytes` the device memory that the launches share between
    them, `stats` figures by function name (registers, LDS bytes, spills, ...), `why` the
    chosen schedule, or why a generator refused the kernel, in words, `interface` the memory
    that the functions read and write.

    A kernel with symbolic sizes has `formulas`, which its numbers below 0 refer to (see
    formulas.py): those of the grids, of scratch, of the interface and of arguments. `bound` gives
    the values for a launch. That of a `resident` kernel is no kernel's of the plan: its one launch
    has the arguments of the launches in it.

    Bytes read from an artifact are not `trusted` until something vouches for them (trust.py); the
    host refuses to load them.
    """

    arch: str
    data: bytes = field(repr=False)
    launches: tuple[Launch, ...]
    scratch_bytes: int
    stats: Mapping[str, Mapping[str, int]]
    why: str = ""
    interface: Interface | None = None
    formulas: tuple[str, ...] = ()
    resident: Resident | None = None
    trusted: bool = field(default=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        kept = tuple(launch for launch in self.launches if 0 not in launch.grid)
        object.__setattr__(self, "launches", kept)  # one of no work-groups does nothing

    @property
    def sha256(self) -> str:
        """The hash of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Everything but the bytes, for which it gives size and hash."""
        value = {
            "arch": self.arch,
            "bytes": len(self.data),
            "sha256": self.sha256,
            "scratch_bytes": self.scratch_bytes,
            "launches": [launch.to_json() for launch in self.launches],
            "stats": {name: dict(figures) for name, figures in self.stats.items()},
        }
        value |= {"why": self.why} if self.why else {}
        value |= {"formulas": list(self.formulas)} if self.formulas else {}
        value |= {"resident": self.resident.to_json()} if self.resident else {}
        return value | ({"interface": self.interface.to_json()} if self.interface else {})

    @classmethod
    def from_json(cls, value: Any, data: bytes) -> CodeObject:
        """Reads `to_json`'s form beside its bytes; ValueError where they do not agree."""
        if not isinstance(value, dict) or not isinstance(value.get("arch"), str):
            raise ValueError(f"a code object is an object with an arch, got {value!r:.80}")
        if value.get("bytes") != len(data):
            raise ValueError(f"code object of {value.get('bytes')!r} bytes, found {len(data)}")
        if value.get("sha256") != hashlib.sha256(data).hexdigest():
            raise ValueError("the code object's bytes do not have the recorded sha256")
        if not isinstance(value.get("launches"), list):
            raise ValueError("the code object has no list of launches")
        if not isinstance(value.get("why", ""), str):
            raise ValueError(f"a code object's reason is text, got {value['why']!r:.80}")
        formulas = value.get("formulas", [])
        if not isinstance(formulas, list) or not all(isinstance(f, str) for f in formulas):
            raise ValueError(f"a code object's formulas are texts, got {formulas!r:.80}")
        least = -len(formulas)
        return cls(
            value["arch"],
            data,
            tuple(Launch.from_json(launch, len(formulas)) for launch in value["launches"]),
            _count(value.get("scratch_bytes"), "scratch_bytes", least),
            _stats(value.get("stats")),
            value.get("why", ""),
            Interface.from_json(value["interface"], len(formulas))
            if "interface" in value
            else None,
            tuple(formulas),
            Resident.from_json(value["resident"]) if "resident" in value else None,
        )


def _count(value: Any, what: str, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 63:
        raise ValueError(f"{what} is a number from {least} to 2^63 - 1, got {value!r:.80}")
    return value


def _dimensions(
    value: Any, what: str, formulas: int = 0, most: int = MOST_GROUPS
) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"{what} is three numbers, got {value!r:.80}")
    x, y, z = (_count(size, what, -formulas) for size in value)
    if 0 in (x, y, z) or max(x, y, z) > most:
        raise ValueError(f"{what} has sizes from 1 to {most}, got {value!r:.80}")
    return x, y, z


def _stats(value: Any) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        raise ValueError(f"stats are an object, got {value!r:.80}")
    for name, figures in value.items():
        if not isinstance(figures, dict) or not all(type(n) is int for n in figures.values()):
            raise ValueError(f"stats of {name!r:.80} are numbers by name, got {figures!r:.80}")
    return value
