"""The steps of a plan: kernels, copies, branches and loops, and their form in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# A condition is one byte, a number of trips an int64.
CONDITION_BYTES = 1
TRIPS_BYTES = 8
# A loop of so many trips, or more, states no number of its own: some exporters write 2^63 - 1.
ENDLESS = 1 << 62
# The trips after which a loop without a number of its own is an error, by default.
MAX_LOOP_ITERATIONS = 1 << 16


@dataclass(frozen=True)
class Step:
    """`kernel` >= 0 launches that kernel on `arguments` (inputs, then outputs).

    `kernel` -1 copies buffer `arguments[0]` to buffer `arguments[1]`. `node` names the
    ONNX nodes that the step comes from. `flops` counts its arithmetic operations; a text is a
    formula of symbolic sizes.
    """

    kernel: int
    arguments: tuple[int, ...]
    node: str = ""
    flops: int | str = 0


@dataclass(frozen=True)
class Row:
    """Copies buffer `source` to a row of buffer `target`, whose rows have the size of `source`.

    The row's number is the trip of the loop whose body holds the step.
    """

    source: int
    target: int
    node: str = ""


@dataclass(frozen=True)
class Branch:
    """Runs the steps `then` where buffer `condition` is true, else those of `otherwise`."""

    condition: int
    then: tuple[AnyStep, ...]
    otherwise: tuple[AnyStep, ...]
    node: str = ""


@dataclass(frozen=True)
class Loop:
    """Runs `body` at most as often as buffer `trips` says, and while a condition holds.

    The byte in buffer `condition` decides before the first trip, that in `again` after each.
    Where rows are filled, there are as many trips as a target has rows. Where `trips` says
    `ENDLESS` or more, another trip after `most` is an error; 0 is no limit.
    """

    trips: int
    condition: int
    again: int
    body: tuple[AnyStep, ...]
    node: str = ""
    most: int = 0


AnyStep: TypeAlias = Step | Row | Branch | Loop


def walk(steps: Sequence[AnyStep]) -> Iterator[AnyStep]:
    """Every step, those inside of branches and loops too, each before the steps in it."""
    for step in steps:
        yield step
        for inner in bodies(step):
            yield from walk(inner)


def bodies(step: AnyStep) -> tuple[tuple[AnyStep, ...], ...]:
    """The lists of steps that a step holds."""
    if isinstance(step, Branch):
        return step.then, step.otherwise
    return (step.body,) if isinstance(step, Loop) else ()


def named_buffers(step: AnyStep) -> tuple[int, ...]:
    """The numbers of the buffers that a step names, without the steps of its bodies."""
    if isinstance(step, Step):
        return step.arguments
    if isinstance(step, Row):
        return step.source, step.target
    if isinstance(step, Branch):
        return (step.condition,)
    return step.trips, step.condition, step.again


def steps_json(steps: Sequence[AnyStep], counts: bool) -> list[dict[str, Any]]:
    """The steps as JSON values; without `counts`, with the fields alone that affect results."""

    def one(s: AnyStep) -> dict[str, Any]:
        if isinstance(s, Step):
            key = "work" if isinstance(s.flops, str) else "flops"
            work = {key: s.flops} if s.flops and counts else {}
            return {"kernel": s.kernel, "arguments": list(s.arguments)} | work
        if isinstance(s, Row):
            return {"row": [s.source, s.target]}
        if isinstance(s, Branch):
            then, otherwise = (steps_json(body, counts) for body in (s.then, s.otherwise))
            return {"if": s.condition, "then": then, "else": otherwise}
        conditions = {"condition": s.condition, "again": s.again}
        limit = {"most": s.most} if s.most else {}
        return {"loop": s.trips, **conditions, **limit, "body": steps_json(s.body, counts)}

    return [one(s) | {"node": s.node} for s in steps]


def read_steps(values: Sequence[Any]) -> tuple[AnyStep, ...]:
    """The steps of JSON values, which are checked."""
    return tuple(map(_step, values))


def _step(value: Any) -> AnyStep:
    node = value["node"]
    if "if" in value:
        return Branch(value["if"], read_steps(value["then"]), read_steps(value["else"]), node)
    if "loop" in value:
        conditions = value["condition"], value["again"]
        return Loop(
            value["loop"], *conditions, read_steps(value["body"]), node, value.get("most", 0)
        )
    if "row" in value:
        source, target = value["row"]
        return Row(source, target, node)
    flops = value.get("work") or value.get("flops", 0)
    return Step(value["kernel"], tuple(value["arguments"]), node, flops)
