"""The host plan of a program: buffers, and the steps that fill them. Pure data.

The runtime needs nothing else of the compiler's work than a plan, code objects and
weights. A plan is stored as JSON in the artifact; `Plan.from_json` accepts hostile input
and answers with ArtifactError. In a plan for any sizes, numbers below 0 refer to formulas (see
mgx_mlir.artifact.formulas); plan_binding.py binds it to some sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mgx_mlir.artifact.interface import ITEM_BYTES
from mgx_mlir.artifact.json_reader import MAX_BYTES, Reader
from mgx_mlir.artifact.steps import (
    CONDITION_BYTES,
    ENDLESS,
    MAX_DEPTH,
    MAX_LOOP_ITERATIONS,
    TRIPS_BYTES,
    AnyStep,
    Branch,
    Loop,
    Row,
    Step,
    bodies,
    called,
    named_buffers,
    read_steps,
    steps_json,
    walk,
)
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.arithmetic import Symbol, symbols
from mgx_mlir.sizes.parser import parse

if TYPE_CHECKING:
    from mgx_mlir.artifact.code_object import CodeObject

__all__ = [
    "CONDITION_BYTES",
    "DTYPES",
    "ENDLESS",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_LOOP_ITERATIONS",
    "TRIPS_BYTES",
    "AnyStep",
    "Branch",
    "Buffer",
    "Loop",
    "Plan",
    "Row",
    "Step",
    "TensorSpec",
    "bodies",
    "named_buffers",
    "renumbered",
    "walk",
]

DTYPES = frozenset(row.numpy for row in ELEMENTS)
# Kernels read vectors of so many bytes: what `mgx-plan-memory` aligns every tensor to.
ARENA_ALIGNMENT = 16


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name, its numpy (or ml_dtypes) type name, its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of a tensor whose sizes are known; -1 where one is a formula."""
        if any(size < 0 for size in self.shape):
            return -1
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Buffer:
    """The memory of a step's argument.

    kind 'arena': `bytes` from `offset` of the program's arena. 'input' and 'output': the
    caller's tensor number `index`. 'weight': the weight called `key`.
    """

    kind: str
    bytes: int
    offset: int = 0
    index: int = 0
    key: str = ""

    def overlaps(self, other: Buffer) -> bool:
        """Whether the two share bytes, where their sizes are known."""
        if self.kind != other.kind or not self.bytes or not other.bytes:
            return False
        if self.kind == "arena":
            return (
                self.offset < other.offset + other.bytes and other.offset < self.offset + self.bytes
            )
        return (self.index, self.key) == (other.index, other.key)


@dataclass(frozen=True)
class Plan:
    """A program's inputs, outputs, buffers and steps, and the size of its arena in bytes.

    With `dims`, the symbols of the inputs' sizes, shapes and the bytes of buffers may be one of
    `formulas`; the offset of a buffer in the arena is then the number of a tensor. `programs`
    are plans for some sizes, by symbol, which take precedence; where this one has no steps, there
    are no others. `in_place` are outputs, by number, that the caller may give the memory of an
    input, with its number: their kernel alone reads the input, and nothing else writes the output.
    `limits` are inputs of one integer, by number, and their greatest value, which may be a formula.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    buffers: tuple[Buffer, ...]
    steps: tuple[AnyStep, ...]
    dims: tuple[Symbol, ...] = ()
    formulas: tuple[str, ...] = ()
    programs: tuple[tuple[Mapping[str, int], Plan], ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    limits: tuple[tuple[int, int], ...] = ()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """This plan, and those for some sizes."""
        return self, *(plan for _, plan in self.programs)

    def work(self) -> Iterator[Step | Row]:
        """The kernels and copies in the order of the plan, those of each body once."""
        return (step for step in walk(self.steps) if isinstance(step, Step | Row))

    @property
    def step_count(self) -> int:
        """Kernels plus copies, those of each body once."""
        return sum(1 for _ in self.work())

    def launches(self, code_objects: Sequence[CodeObject]) -> int:
        """The number of launches and copies for a device: all launches of each code object.

        Split sums, packing and sorting are launches of their own; copies of no bytes are left out.
        """
        count = 0
        for step in self.work():
            if isinstance(step, Step) and step.kernel >= 0:
                count += len(code_objects[step.kernel].launches)
            else:
                source = step.source if isinstance(step, Row) else step.arguments[0]
                count += self.buffers[source].bytes != 0
        return count

    @property
    def has_control_flow(self) -> bool:
        """Whether there is a branch or a loop."""
        return any(isinstance(step, Branch | Loop) for step in self.steps)

    def to_json(self, *, counts: bool = True) -> dict[str, Any]:
        """The plan as JSON values; default fields are left out.

        Without `counts`, fields that do not affect the results are left out too: the form that
        the content hash covers.
        """

        def buffer(b: Buffer) -> dict[str, Any]:
            where: dict[str, Any] = {"kind": b.kind, "bytes": b.bytes}
            if b.kind == "arena":
                return where | {"offset": b.offset}
            return where | ({"key": b.key} if b.kind == "weight" else {"index": b.index})

        programs = [
            {"sizes": dict(sizes), "plan": plan.to_json(counts=counts)}
            for sizes, plan in self.programs
        ]
        return {
            "inputs": [_spec_json(s) for s in self.inputs],
            "outputs": [_spec_json(s) for s in self.outputs],
            "arena_bytes": self.arena_bytes,
            "buffers": [buffer(b) for b in self.buffers],
            "steps": steps_json(self.steps, counts),
            **({"dims": [_dim_json(d) for d in self.dims]} if self.dims else {}),
            **({"formulas": list(self.formulas)} if self.dims else {}),
            **({"programs": programs} if programs else {}),
            **({"in_place": [list(pair) for pair in self.in_place]} if self.in_place else {}),
            **({"limits": [list(pair) for pair in self.limits]} if self.limits else {}),
        }

    @staticmethod
    def from_json(value: Any) -> Plan:
        """The plan in JSON values. Raises ArtifactError where anything is out of range."""
        reader = Reader("plan")
        dims, formulas = _symbolic(reader, value)
        reader.low = -len(formulas)
        plan = Plan(
            tuple(_spec(reader, v) for v in reader.list(value, "inputs")),
            tuple(_spec(reader, v) for v in reader.list(value, "outputs")),
            reader.integer(value, "arena_bytes"),
            tuple(_buffer(reader, v) for v in reader.list(value, "buffers")),
            read_steps(reader, value, "steps", 0),
            dims,
            formulas,
            _programs(reader, value, dims),
            _pairs(reader, value, "in_place"),
            _pairs(reader, value, "limits", reader.low),
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Raises ArtifactError when a buffer or a step points out of range."""
        tensors = {"input": self.inputs, "output": self.outputs}
        for number, b in enumerate(self.buffers):
            if b.kind == "arena" and not self.dims and b.offset + b.bytes > self.arena_bytes:
                raise ArtifactError(f"plan: buffer {number} ends beyond the arena")
            if b.kind == "arena" and not self.dims and b.bytes and b.offset % ARENA_ALIGNMENT:
                raise ArtifactError(
                    f"plan: buffer {number} lies at {b.offset}, which is misaligned"
                )
            specs = tensors.get(b.kind)
            if specs is None:
                continue
            if b.index >= len(specs):
                raise ArtifactError(f"plan: buffer {number} names {b.kind} {b.index} of none")
            size = specs[b.index].nbytes  # formulas are checked once they are bound
            if size >= 0 and b.bytes >= 0 and size != b.bytes:
                raise ArtifactError(
                    f"plan: buffer {number} has {b.bytes} bytes of {b.kind} "
                    f"'{specs[b.index].name:.80}', which has {size}"
                )
        for output, source in self.in_place:
            if output >= len(self.outputs) or source >= len(self.inputs):
                raise ArtifactError(f"plan: output {output} in the place of input {source} of none")
        for number, _ in self.limits:
            if number >= len(self.inputs):
                raise ArtifactError(f"plan: a limit of input {number} of none")
            spec = self.inputs[number]
            if spec.dtype not in _INTEGERS or any(n != 1 for n in spec.shape):
                raise ArtifactError(f"plan: a limit of input '{spec.name}', which is no integer")
        self._check_steps(self.steps, False)

    def _check_steps(self, steps: Sequence[AnyStep], in_loop: bool) -> None:
        for step in steps:
            used = named_buffers(step)
            if any(not 0 <= number < len(self.buffers) for number in used):
                raise ArtifactError(f"{called(step)} names a buffer that does not exist")
            sizes = [self.buffers[number].bytes for number in used]
            if isinstance(step, Step):
                self._check_copy(step)
            elif isinstance(step, Row):
                self._check_row(step, in_loop)
            elif isinstance(step, Branch) and sizes != [CONDITION_BYTES]:
                raise ArtifactError(f"{called(step)} has a condition of {sizes[0]} bytes")
            elif isinstance(step, Loop) and sizes != [
                TRIPS_BYTES, CONDITION_BYTES, CONDITION_BYTES,
            ]:  # fmt: skip
                raise ArtifactError(f"{called(step)} has a count or a condition of a wrong size")
            for inner in bodies(step):
                self._check_steps(inner, isinstance(step, Loop))

    def _check_copy(self, step: Step) -> None:
        if step.kernel >= 0:
            return  # see fit.py
        if len(step.arguments) != 2:
            raise ArtifactError(f"{called(step)} is a copy without source and target")
        source, target = (self.buffers[number] for number in step.arguments)
        if source.bytes != target.bytes:
            raise ArtifactError(f"{called(step)} copies between buffers of two sizes")
        if target.kind not in WRITABLE:
            raise ArtifactError(f"{called(step)} copies into a buffer of kind '{target.kind}'")
        self._check_apart(step, source, target)

    def _check_apart(self, step: AnyStep, source: Buffer, target: Buffer) -> None:
        if not self.dims and source.overlaps(target):
            raise ArtifactError(f"{called(step)} copies memory to a part of itself")

    def _check_row(self, step: Row, in_loop: bool) -> None:
        if not in_loop:
            raise ArtifactError(f"{called(step)} fills a row outside of a loop")
        source, target = self.buffers[step.source], self.buffers[step.target]
        known = source.bytes >= 0 and target.bytes >= 0  # formulas are checked once they are bound
        whole = target.bytes % source.bytes == 0 if source.bytes else not target.bytes
        whole = whole or not known
        if target.kind not in WRITABLE or not whole:
            raise ArtifactError(f"{called(step)} fills rows of a buffer that has none of its size")
        self._check_apart(step, source, target)


def renumbered(plan: Plan, numbers: Sequence[int] | Mapping[int, int]) -> Plan:
    """The plan, and those for some sizes, renumbered: kernel k becomes `numbers[k]`."""

    def one(step: AnyStep) -> AnyStep:
        if isinstance(step, Step):
            return step if step.kernel < 0 else replace(step, kernel=numbers[step.kernel])
        if isinstance(step, Branch):
            return replace(step, then=all_of(step.then), otherwise=all_of(step.otherwise))
        return replace(step, body=all_of(step.body)) if isinstance(step, Loop) else step

    def all_of(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
        return tuple(one(step) for step in steps)

    programs = tuple((sizes, renumbered(inner, numbers)) for sizes, inner in plan.programs)
    return replace(plan, steps=all_of(plan.steps), programs=programs)


WRITABLE = ("arena", "output")
_INTEGERS = ("int32", "int64")


def _dim_json(dim: Symbol) -> dict[str, Any]:
    high = {} if dim.high is None else {"max": dim.high}
    optimals = {"optimals": list(dim.optimals)} if dim.optimals else {}
    return {"name": dim.name, "min": dim.low, **high, **optimals}


def _symbolic(reader: Reader, value: Any) -> tuple[tuple[Symbol, ...], tuple[str, ...]]:
    """The dims and formulas of a plan in JSON; none of a static plan."""
    if "dims" not in value:
        return (), ()
    dims = []
    for entry in reader.list(value, "dims"):
        low = reader.integer(entry, "min")
        high = reader.integer(entry, "max", low) if "max" in entry else None
        optimals = reader.integers(entry, "optimals") if "optimals" in entry else ()
        dims.append(Symbol(reader.text(entry, "name"), low, high, optimals))
    formulas = reader.list(value, "formulas")
    known = {dim.name: dim for dim in dims}
    for text in formulas:
        try:
            if {s.name for s in symbols(parse(text, known))} <= known.keys():
                continue
        except (TypeError, ValueError):
            pass
        raise ArtifactError(f"plan: {text!r:.80} is not a formula of its dims")
    return tuple(dims), tuple(formulas)


def _programs(
    reader: Reader, value: Any, dims: Sequence[Symbol]
) -> tuple[tuple[Mapping[str, int], Plan], ...]:
    if not dims or "programs" not in value:
        return ()
    found = []
    for entry in reader.list(value, "programs"):
        sizes, names = reader.field(entry, "sizes", dict), {dim.name for dim in dims}
        if set(sizes) != names:
            raise ArtifactError("plan: a program for some sizes has other symbols than the plan")
        known = {name: reader.bounded(size, "sizes", 1) for name, size in sizes.items()}
        plan = Plan.from_json(reader.field(entry, "plan", dict))
        if plan.dims:
            raise ArtifactError("plan: a program for some sizes has a plan for any")
        found.append((known, plan))
    return tuple(found)


def _pairs(reader: Reader, value: Any, key: str, low: int = 0) -> tuple[tuple[int, int], ...]:
    """Pairs of numbers, of which the second are at least `low`."""
    found = []
    for pair in reader.list(value, key) if key in value else []:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ArtifactError(f"plan: '{key}' holds other than pairs of numbers")
        found.append((reader.bounded(pair[0], key), reader.bounded(pair[1], key, low)))
    return tuple(found)


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _spec(reader: Reader, value: Any) -> TensorSpec:
    dtype = reader.text(value, "dtype")
    if dtype not in DTYPES:
        raise ArtifactError(f"plan: '{dtype}' is not an element type")
    shape = reader.integers(value, "shape", reader.low)
    return TensorSpec(reader.text(value, "name"), dtype, shape)


def _buffer(reader: Reader, value: Any) -> Buffer:
    kind, size = reader.text(value, "kind"), reader.integer(value, "bytes", reader.low)
    if kind == "arena":
        return Buffer(kind, size, offset=reader.integer(value, "offset"))
    if kind == "weight":
        return Buffer(kind, size, key=reader.text(value, "key"))
    if kind in ("input", "output"):
        return Buffer(kind, size, index=reader.integer(value, "index"))
    raise ArtifactError(f"plan: '{kind}' is not a kind of buffer")
