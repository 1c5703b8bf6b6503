"""The table of ONNX operators, derived from the converters in `converters/`.

A converter is a function from a Node to its results. The decorator names the ONNX
operator, the versions of its definition that the converter understands, and the mgx ops
that it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx.defs

from mgx_mlir.scan import import_modules

if TYPE_CHECKING:
    from mgx_mlir.importer.node import Node

Converter = Callable[["Node"], Any]

# Operators whose meaning onnx's library writes out as simpler ones, depending on the types
# of the inputs. Operators with one fixed body need no mention.
EXPANDED: tuple[str, ...] = (
    "Attention",
    "CausalConvWithState",
    "CenterCropPad",
    "FlexAttention",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
)

# Operators that models hold beyond the opsets that define them: those that onnxruntime's
# optimiser writes, whatever the model's opset is, and those that its own standard withdrew.
BEYOND_OPSETS = ("GroupNormalization", "LayerNormalization")

# Domains whose operators onnx's library may expand.
STANDARD = ("", "ai.onnx.ml", "ai.onnx.preview")


@dataclass(frozen=True)
class Operator:
    """One row: an ONNX operator and how it is imported.

    `versions` are the oldest and the newest version of its definition (the opset that
    introduced it) that the converter understands. `to` names mgx ops; it is empty where
    onnx's library expands the operator.
    """

    domain: str
    name: str
    versions: tuple[int, int]
    to: tuple[str, ...]
    converter: Converter | None = None

    @property
    def expanded(self) -> bool:
        """Whether the operator is replaced by the function body in its definition."""
        return self.converter is None


_REGISTERED: dict[tuple[str, str], Operator] = {}


def operator(
    name: str, versions: tuple[int, int], to: str, domain: str = ""
) -> Callable[[Converter], Converter]:
    """Registers a converter. `to` names the mgx ops it makes, separated by spaces."""

    def register(converter: Converter) -> Converter:
        key = (domain, name)
        assert key not in _REGISTERED, f"two converters for {key}"
        _REGISTERED[key] = Operator(domain, name, versions, tuple(to.split()), converter)
        return converter

    return register


_CHECKS: dict[str, Callable[[Node], None]] = {}


def checked(*names: str) -> Callable[[Callable[[Node], None]], Callable[[Node], None]]:
    """Registers a check of nodes whose operators onnx's library expands; it runs before that."""

    def register(check: Callable[[Node], None]) -> Callable[[Node], None]:
        _CHECKS.update(dict.fromkeys(names, check))
        return check

    return register


def check(node: Node) -> None:
    """Raises ModelError where the inputs of an expanded node do not fit."""
    if not node.proto.domain and node.op_type in _CHECKS:
        _CHECKS[node.op_type](node)


@cache
def _definitions() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    """All versions of each operator's definition in onnx's library, which copies them anew."""
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


@cache
def history(name: str) -> tuple[onnx.defs.OpSchema, ...]:
    """The definitions of an operator of ONNX's own domain, the oldest first."""
    found = _definitions().get(("", name), [])
    return tuple(sorted(found, key=lambda schema: int(schema.since_version)))


def is_listed(row: Operator) -> bool:
    """Whether onnx's library holds definitions of the operator."""
    return onnx.defs.has(row.name, row.domain)


def is_extra(name: str, opset: int) -> bool:
    """Whether an operator is known here, and onnx's library does not take it in that opset."""
    row = find("", name)
    if row is None or not is_listed(row):
        return row is not None
    try:
        return onnx.defs.get_schema(name, opset).deprecated and name in BEYOND_OPSETS
    except onnx.defs.SchemaError:
        return name in BEYOND_OPSETS


def definition(domain: str, name: str, opset: int) -> onnx.defs.OpSchema | None:
    """The definition of an operator in an opset; None where there is none."""
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        if domain or name not in BEYOND_OPSETS:
            return None
        return min(_definitions()[domain, name], key=lambda schema: schema.since_version)


def find(domain: str, name: str) -> Operator | None:
    """The row of an operator, or None."""
    return _converters().get((domain, name)) or _table().get((domain, name))


def domains() -> set[str]:
    """The domains whose operators can be imported."""
    return {domain for domain, _ in _converters()} | set(STANDARD)


def operators() -> Sequence[Operator]:
    """Every operator that can be imported, by domain and name."""
    return [row for _, row in sorted(_table().items())]


@cache
def _converters() -> dict[tuple[str, str], Operator]:
    """The operators that have converters. The others are found in all of onnx's definitions."""
    import_modules("mgx_mlir.importer.converters")
    return _REGISTERED


@cache
def _table() -> dict[tuple[str, str], Operator]:
    table = dict(_converters())
    schemas = [s for s in onnx.defs.get_all_schemas() if s.domain in STANDARD and not s.deprecated]
    found = True
    while found:  # bodies hold operators that have bodies
        found = False
        for schema in schemas:
            key = (schema.domain, schema.name)
            if key not in table and _is_expandable(schema, table):
                versions = (_first_version(*key), schema.since_version)
                table[key] = Operator(schema.domain, schema.name, versions, ())
                found = True
    return table


def _is_expandable(schema: onnx.defs.OpSchema, table: dict[tuple[str, str], Operator]) -> bool:
    if schema.name in EXPANDED:
        return True
    if not schema.has_function:
        return False
    return all((n.domain, n.op_type) in table for n in schema.function_body.node)


def _first_version(domain: str, name: str) -> int:
    """The oldest definition of an operator that has a function body."""
    return min(
        schema.since_version
        for schema in _definitions()[domain, name]
        if schema.has_function or schema.has_context_dependent_function
    )
