"""The host plan of a program: buffers, and the steps that fill them. Pure data.

The runtime needs nothing else of the compiler's work than a plan, code objects and
weights. A plan is stored as JSON in the artifact; `Plan.from_json` accepts hostile input
and answers with ArtifactError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgx_mlir.errors import ArtifactError

MAX_BYTES = 1 << 46
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
    """Where a step's argument lies.

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
    ONNX nodes that the step comes from.
    """

    kernel: int
    arguments: tuple[int, ...]
    node: str = ""


@dataclass(frozen=True)
class Plan:
    """A program's inputs, outputs, buffers and steps, and the size of its arena in bytes."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    @property
    def launches(self) -> int:
        """Steps of one run: kernels plus copies."""
        return len(self.steps)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values; default fields are left out."""

        def buffer(b: Buffer) -> dict[str, Any]:
            where: dict[str, Any] = {"kind": b.kind, "bytes": b.bytes}
            if b.kind == "arena":
                return where | {"offset": b.offset}
            return where | ({"key": b.key} if b.kind == "weight" else {"index": b.index})

        return {
            "inputs": [_spec_json(s) for s in self.inputs],
            "outputs": [_spec_json(s) for s in self.outputs],
            "arena_bytes": self.arena_bytes,
            "buffers": [buffer(b) for b in self.buffers],
            "steps": [
                {"kernel": s.kernel, "arguments": list(s.arguments), "node": s.node}
                for s in self.steps
            ],
        }

    @staticmethod
    def from_json(value: Any) -> Plan:
        """The plan in JSON values. Raises ArtifactError where anything is out of range."""
        reader = _Reader("plan")
        plan = Plan(
            tuple(_spec(reader, v) for v in reader.list(value, "inputs")),
            tuple(_spec(reader, v) for v in reader.list(value, "outputs")),
            reader.integer(value, "arena_bytes"),
            tuple(_buffer(reader, v) for v in reader.list(value, "buffers")),
            tuple(_step(reader, v) for v in reader.list(value, "steps")),
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Raises ArtifactError when a buffer or a step points outside of what there is."""
        limits = {"input": len(self.inputs), "output": len(self.outputs)}
        for number, b in enumerate(self.buffers):
            if b.kind == "arena" and b.offset + b.bytes > self.arena_bytes:
                raise ArtifactError(f"plan: buffer {number} ends beyond the arena")
            if b.kind in limits and b.index >= limits[b.kind]:
                raise ArtifactError(f"plan: buffer {number} names {b.kind} {b.index} of none")
        for number, s in enumerate(self.steps):
            if any(a >= len(self.buffers) for a in s.arguments):
                raise ArtifactError(f"plan: step {number} names a buffer that does not exist")
            if s.kernel < 0 and len(s.arguments) != 2:
                raise ArtifactError(f"plan: step {number} is a copy without source and target")


class _Reader:
    """Typed access to JSON values, with ArtifactError for anything unexpected."""

    def __init__(self, what: str) -> None:
        self.what = what

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

    def integer(self, value: Any, name: str, low: int = 0) -> int:
        number: int = self.field(value, name, int)
        return self.bounded(number, name, low)

    def integers(self, value: Any, name: str) -> tuple[int, ...]:
        return tuple(self.bounded(v, name) for v in self.list(value, name))

    def bounded(self, number: Any, name: str, low: int = 0) -> int:
        if type(number) is not int or not low <= number <= MAX_BYTES:
            raise ArtifactError(f"{self.what}: '{name}' holds {number!r}, which is out of range")
        return number


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _spec(reader: _Reader, value: Any) -> TensorSpec:
    dtype = reader.text(value, "dtype")
    if dtype not in DTYPES:
        raise ArtifactError(f"plan: '{dtype}' is not an element type")
    return TensorSpec(reader.text(value, "name"), dtype, reader.integers(value, "shape"))


def _buffer(reader: _Reader, value: Any) -> Buffer:
    kind, size = reader.text(value, "kind"), reader.integer(value, "bytes")
    if kind == "arena":
        return Buffer(kind, size, offset=reader.integer(value, "offset"))
    if kind == "weight":
        return Buffer(kind, size, key=reader.text(value, "key"))
    if kind in ("input", "output"):
        return Buffer(kind, size, index=reader.integer(value, "index"))
    raise ArtifactError(f"plan: '{kind}' is not a kind of buffer")


def _step(reader: _Reader, value: Any) -> Step:
    return Step(
        reader.integer(value, "kernel", low=-1),
        reader.integers(value, "arguments"),
        reader.text(value, "node"),
    )
