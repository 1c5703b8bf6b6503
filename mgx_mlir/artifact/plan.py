"""The host plan of a program: buffers, and the steps that fill them. Pure data.

The runtime needs nothing else of the compiler's work than a plan, code objects and
weights. A plan is stored as JSON in the artifact; `Plan.from_json` accepts hostile input
and answers with ArtifactError. In a plan for any sizes, numbers below 0 refer to formulas (see
mgx_mlir.artifact.formulas); plan_binding.py binds it to some sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mgx_mlir.artifact import library
from mgx_mlir.artifact.interface import ITEM_BYTES
from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.artifact.steps import (
    CONDITION_BYTES,
    ENDLESS,
    MAX_LOOP_ITERATIONS,
    TRIPS_BYTES,
    AnyStep,
    Branch,
    Loop,
    Row,
    Step,
    bodies,
    named_buffers,
    read_steps,
    steps_json,
    walk,
)
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.arithmetic import Symbol

if TYPE_CHECKING:
    from mgx_mlir.artifact.code_object import CodeObject

__all__ = [
    "CONDITION_BYTES",
    "DTYPES",
    "ENDLESS",
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
        A resident of steps is one launch.
        """
        count = sum(one.resident is not None for one in code_objects)
        chained = {
            id(step)
            for one in code_objects
            if one.resident is not None
            for step in self.steps[one.resident.first : one.resident.first + one.resident.steps]
        }
        for step in self.work():
            if id(step) in chained:
                continue
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
        _check(value)
        return Plan.of_checked(value)

    @staticmethod
    def of_checked(value: Any) -> Plan:
        """The plan in JSON values that libmgx has checked."""
        return Plan(
            tuple(map(_spec, value["inputs"])),
            tuple(map(_spec, value["outputs"])),
            value["arena_bytes"],
            tuple(map(_buffer, value["buffers"])),
            read_steps(value["steps"]),
            tuple(map(_dim, value.get("dims", ()))),
            tuple(value["formulas"]) if "dims" in value else (),
            tuple(
                (one["sizes"], Plan.of_checked(one["plan"]))
                for one in (value.get("programs", ()) if "dims" in value else ())
            ),
            tuple(map(tuple, value.get("in_place", ()))),
            tuple(map(tuple, value.get("limits", ()))),
        )

    def check(self) -> None:
        """Raises ArtifactError when a buffer or a step points out of range."""
        _check(self.to_json())


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


def _dim_json(dim: Symbol) -> dict[str, Any]:
    high = {} if dim.high is None else {"max": dim.high}
    optimals = {"optimals": list(dim.optimals)} if dim.optimals else {}
    return {"name": dim.name, "min": dim.low, **high, **optimals}


def _check(value: Any) -> None:
    """Raises ArtifactError where JSON values are no plan, by libmgx."""
    try:
        text = canonical_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"plan: {error}") from error
    assembly = library.made(library.Assembly, plan=text)
    library.call("mgx_artifact_check", byref(assembly), 0)


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _dim(value: Any) -> Symbol:
    return Symbol(value["name"], value["min"], value.get("max"), tuple(value.get("optimals", ())))


def _spec(value: Any) -> TensorSpec:
    return TensorSpec(value["name"], value["dtype"], tuple(value["shape"]))


def _buffer(value: Any) -> Buffer:
    """Any other field belongs to a buffer of another kind."""
    kind, size = value["kind"], value["bytes"]
    if kind == "arena":
        return Buffer(kind, size, offset=value["offset"])
    if kind == "weight":
        return Buffer(kind, size, key=value["key"])
    return Buffer(kind, size, index=value["index"])
