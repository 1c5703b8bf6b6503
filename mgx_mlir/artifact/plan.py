"""The host plan of a program: buffers, and the steps that fill them. Pure data.

The runtime needs nothing else of the compiler's work than a plan, code objects and
weights. A plan is stored as JSON in the artifact; `Plan.from_json` accepts hostile input
and answers with ArtifactError. In a plan for any sizes, numbers below 0 refer to formulas (see
mgx_mlir.artifact.formulas); plan_binding.py binds it to some sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.arithmetic import Symbol, symbols
from mgx_mlir.sizes.parser import parse

if TYPE_CHECKING:
    from mgx_mlir.artifact.code_object import CodeObject

MAX_BYTES = 1 << 46
# Control flow deeper than this is refused.
MAX_DEPTH = 64
# A condition is one byte, a number of trips an int64.
CONDITION_BYTES = 1
TRIPS_BYTES = 8
# A loop of so many trips, or more, states no number of its own: some exporters write 2^63 - 1.
ENDLESS = 1 << 62
# The trips after which a loop without a number of its own is an error, by default.
MAX_LOOP_ITERATIONS = 1 << 16
DTYPES = frozenset(
    "bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float16 "
    "bfloat16 float32 float64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
    "float8_e8m0fnu float4_e2m1fn".split()
)


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name, its numpy (or ml_dtypes) type name, its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


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


@dataclass(frozen=True)
class Step:
    """`kernel` >= 0 launches that kernel on `arguments` (inputs, then outputs).

    `kernel` -1 copies buffer `arguments[0]` to buffer `arguments[1]`. `node` names the
    ONNX nodes that the step comes from. `flops` counts its arithmetic operations.
    """

    kernel: int
    arguments: tuple[int, ...]
    node: str = ""
    flops: int = 0


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


@dataclass(frozen=True)
class Plan:
    """A program's inputs, outputs, buffers and steps, and the size of its arena in bytes.

    With `dims`, the symbols of the inputs' sizes, shapes and the bytes of buffers may be one of
    `formulas`; the offset of a buffer in the arena is then the number of a tensor. `programs`
    are plans for some sizes, by symbol, which take precedence; where this one has no steps, there
    are no others. `in_place` are outputs, by number, that the caller may give the memory of an
    input, with its number: their kernel alone reads the input, and nothing else writes the output.
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
            "steps": _steps_json(self.steps, counts),
            **({"dims": [_dim_json(d) for d in self.dims]} if self.dims else {}),
            **({"formulas": list(self.formulas)} if self.dims else {}),
            **({"programs": programs} if programs else {}),
            **({"in_place": [list(pair) for pair in self.in_place]} if self.in_place else {}),
        }

    @staticmethod
    def from_json(value: Any) -> Plan:
        """The plan in JSON values. Raises ArtifactError where anything is out of range."""
        reader = _Reader("plan")
        dims, formulas = _symbolic(reader, value)
        reader.low = -len(formulas)
        plan = Plan(
            tuple(_spec(reader, v) for v in reader.list(value, "inputs")),
            tuple(_spec(reader, v) for v in reader.list(value, "outputs")),
            reader.integer(value, "arena_bytes"),
            tuple(_buffer(reader, v) for v in reader.list(value, "buffers")),
            _steps(reader, value, "steps", 0),
            dims,
            formulas,
            _programs(reader, value, dims),
            _in_place(reader, value),
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Raises ArtifactError when a buffer or a step points out of range."""
        limits = {"input": len(self.inputs), "output": len(self.outputs)}
        for number, b in enumerate(self.buffers):
            if b.kind == "arena" and not self.dims and b.offset + b.bytes > self.arena_bytes:
                raise ArtifactError(f"plan: buffer {number} ends beyond the arena")
            if b.kind in limits and b.index >= limits[b.kind]:
                raise ArtifactError(f"plan: buffer {number} names {b.kind} {b.index} of none")
        for output, source in self.in_place:
            if output >= len(self.outputs) or source >= len(self.inputs):
                raise ArtifactError(f"plan: output {output} in the place of input {source} of none")
        self._check_steps(self.steps, False)

    def _check_steps(self, steps: Sequence[AnyStep], in_loop: bool) -> None:
        for step in steps:
            if self.dims and not isinstance(step, Step):
                raise ArtifactError(f"{_called(step)} stands in a plan for any sizes")
            used = named_buffers(step)
            if any(not 0 <= number < len(self.buffers) for number in used):
                raise ArtifactError(f"{_called(step)} names a buffer that does not exist")
            sizes = [self.buffers[number].bytes for number in used]
            if isinstance(step, Step):
                self._check_copy(step)
            elif isinstance(step, Row):
                self._check_row(step, in_loop)
            elif isinstance(step, Branch) and sizes != [CONDITION_BYTES]:
                raise ArtifactError(f"{_called(step)} has a condition of {sizes[0]} bytes")
            elif isinstance(step, Loop) and sizes != [
                TRIPS_BYTES, CONDITION_BYTES, CONDITION_BYTES,
            ]:  # fmt: skip
                raise ArtifactError(f"{_called(step)} has a count or a condition of a wrong size")
            for inner in bodies(step):
                self._check_steps(inner, isinstance(step, Loop))

    def _check_copy(self, step: Step) -> None:
        if step.kernel >= 0:
            return
        if len(step.arguments) != 2:
            raise ArtifactError(f"{_called(step)} is a copy without source and target")
        source, target = (self.buffers[number] for number in step.arguments)
        if source.bytes != target.bytes:
            raise ArtifactError(f"{_called(step)} copies between buffers of two sizes")
        if target.kind not in _WRITABLE:
            raise ArtifactError(f"{_called(step)} copies into a buffer of kind '{target.kind}'")

    def _check_row(self, step: Row, in_loop: bool) -> None:
        if not in_loop:
            raise ArtifactError(f"{_called(step)} fills a row outside of a loop")
        source, target = self.buffers[step.source], self.buffers[step.target]
        whole = target.bytes % source.bytes == 0 if source.bytes else not target.bytes
        if target.kind not in _WRITABLE or not whole:
            raise ArtifactError(f"{_called(step)} fills rows of a buffer that has none of its size")


def renumbered(plan: Plan, numbers: Sequence[int]) -> Plan:
    """The plan with its kernels renumbered: kernel k becomes `numbers[k]`."""

    def one(step: AnyStep) -> AnyStep:
        if isinstance(step, Step):
            return step if step.kernel < 0 else replace(step, kernel=numbers[step.kernel])
        if isinstance(step, Branch):
            return replace(step, then=all_of(step.then), otherwise=all_of(step.otherwise))
        return replace(step, body=all_of(step.body)) if isinstance(step, Loop) else step

    def all_of(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
        return tuple(one(step) for step in steps)

    return replace(plan, steps=all_of(plan.steps))


_WRITABLE = ("arena", "output")


def named_buffers(step: AnyStep) -> tuple[int, ...]:
    """The numbers of the buffers that a step names, without the steps of its bodies."""
    if isinstance(step, Step):
        return step.arguments
    if isinstance(step, Row):
        return step.source, step.target
    if isinstance(step, Branch):
        return (step.condition,)
    return step.trips, step.condition, step.again


def _called(step: AnyStep) -> str:
    return f"plan: the {type(step).__name__.lower()} of '{step.node:.200}'"


class _Reader:
    """Typed access to JSON values, with ArtifactError for anything unexpected."""

    def __init__(self, what: str) -> None:
        self.what = what
        # Numbers below 0 refer to formulas.
        self.low = 0

    def field(self, value: Any, name: str, kind: type) -> Any:
        if not isinstance(value, dict) or type(value.get(name)) is not kind:
            raise ArtifactError(f"{self.what}: '{name}' is missing or not a {kind.__name__}")
        return value[name]

    def list(self, value: Any, name: str) -> list[Any]:
        result: list[Any] = self.field(value, name, list)
        return result

    def text(self, value: Any, name: str) -> str:
        result: str = self.field(value, name, str)
        return result

    def integer(self, value: Any, name: str, low: int = 0, high: int = MAX_BYTES) -> int:
        number: int = self.field(value, name, int)
        return self.bounded(number, name, low, high)

    def integers(self, value: Any, name: str, low: int = 0) -> tuple[int, ...]:
        return tuple(self.bounded(v, name, low) for v in self.list(value, name))

    def bounded(self, number: Any, name: str, low: int = 0, high: int = MAX_BYTES) -> int:
        if type(number) is not int or not low <= number <= high:
            raise ArtifactError(f"{self.what}: '{name}' holds {number!r}, which is out of range")
        return number


def _dim_json(dim: Symbol) -> dict[str, Any]:
    high = {} if dim.high is None else {"max": dim.high}
    optimals = {"optimals": list(dim.optimals)} if dim.optimals else {}
    return {"name": dim.name, "min": dim.low, **high, **optimals}


def _symbolic(reader: _Reader, value: Any) -> tuple[tuple[Symbol, ...], tuple[str, ...]]:
    """The dims and formulas of a plan in JSON; none of a static plan."""
    if "dims" not in value:
        return (), ()
    dims = []
    for entry in reader.list(value, "dims"):
        low = reader.integer(entry, "min", 1)
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
    reader: _Reader, value: Any, dims: Sequence[Symbol]
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


def _in_place(reader: _Reader, value: Any) -> tuple[tuple[int, int], ...]:
    pairs = reader.list(value, "in_place") if "in_place" in value else []
    found = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ArtifactError("plan: 'in_place' holds other than pairs of numbers")
        output, source = (reader.bounded(number, "in_place") for number in pair)
        found.append((output, source))
    return tuple(found)


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _spec(reader: _Reader, value: Any) -> TensorSpec:
    dtype = reader.text(value, "dtype")
    if dtype not in DTYPES:
        raise ArtifactError(f"plan: '{dtype}' is not an element type")
    shape = reader.integers(value, "shape", reader.low)
    return TensorSpec(reader.text(value, "name"), dtype, shape)


def _buffer(reader: _Reader, value: Any) -> Buffer:
    kind, size = reader.text(value, "kind"), reader.integer(value, "bytes", reader.low)
    if kind == "arena":
        return Buffer(kind, size, offset=reader.integer(value, "offset"))
    if kind == "weight":
        return Buffer(kind, size, key=reader.text(value, "key"))
    if kind in ("input", "output"):
        return Buffer(kind, size, index=reader.integer(value, "index"))
    raise ArtifactError(f"plan: '{kind}' is not a kind of buffer")


def _steps_json(steps: Sequence[AnyStep], counts: bool) -> list[dict[str, Any]]:
    def one(s: AnyStep) -> dict[str, Any]:
        if isinstance(s, Step):
            work = {"flops": s.flops} if s.flops and counts else {}
            return {"kernel": s.kernel, "arguments": list(s.arguments)} | work
        if isinstance(s, Row):
            return {"row": [s.source, s.target]}
        if isinstance(s, Branch):
            then, otherwise = (_steps_json(body, counts) for body in (s.then, s.otherwise))
            return {"if": s.condition, "then": then, "else": otherwise}
        conditions = {"condition": s.condition, "again": s.again}
        limit = {"most": s.most} if s.most else {}
        return {"loop": s.trips, **conditions, **limit, "body": _steps_json(s.body, counts)}

    return [one(s) | {"node": s.node} for s in steps]


def _steps(reader: _Reader, value: Any, name: str, depth: int) -> tuple[AnyStep, ...]:
    if depth > MAX_DEPTH:
        raise ArtifactError(f"plan: control flow is more than {MAX_DEPTH} levels deep")
    return tuple(_step(reader, v, depth) for v in reader.list(value, name))


def _step(reader: _Reader, value: Any, depth: int) -> AnyStep:
    node = reader.text(value, "node")
    if "if" in value:
        then, otherwise = (_steps(reader, value, name, depth + 1) for name in ("then", "else"))
        return Branch(reader.integer(value, "if"), then, otherwise, node)
    if "loop" in value:
        trips, condition = reader.integer(value, "loop"), reader.integer(value, "condition")
        again = reader.integer(value, "again")
        most = reader.integer(value, "most", high=ENDLESS) if "most" in value else 0
        body = _steps(reader, value, "body", depth + 1)
        return Loop(trips, condition, again, body, node, most)
    if "row" in value:
        places = reader.integers(value, "row")
        if len(places) != 2:
            raise ArtifactError("plan: 'row' holds no source and target")
        return Row(places[0], places[1], node)
    flops = reader.integer(value, "flops", high=1 << 62) if "flops" in value else 0
    kernel = reader.integer(value, "kernel", low=-1)
    return Step(kernel, reader.integers(value, "arguments"), node, flops)
