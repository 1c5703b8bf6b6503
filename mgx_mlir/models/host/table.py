"""The table of operators that the host runs, derived from the files of this package.

An evaluator is a function from a Call to a result, or a list of results; NotImplemented leaves a
form of the operator to onnx's reference. The decorator names
the operator and why the host runs it. Operators that onnx's own reference evaluates well are
rows without a function here.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx.defs
from onnx import NodeProto, helper

from mgx_mlir.errors import ModelError
from mgx_mlir.scan import import_modules

# A result of more elements is a fault of the model's, or an attack.
MAX_ELEMENTS = 1 << 30


def check_size(name: str, sizes: Sequence[int]) -> None:
    """Raises ModelError where the value of that name would have an impossible size."""
    if min(sizes, default=0) < 0 or math.prod(sizes) > MAX_ELEMENTS:
        raise ModelError(
            f"'{name}' would have the size {list(sizes)}; at most {MAX_ELEMENTS} elements are "
            "possible"
        )


class Kind(enum.Enum):
    """Why the host runs an operator; the value is the reason as messages show it."""

    STRINGS = "strings have no form in a compiled program"
    SEQUENCES = "sequences, optionals and maps have no form in a compiled program"
    DATA = "the data decide the size of its results"
    RANDOM = "random numbers are drawn by the host"
    IMAGES = "image files are decoded by the host"
    CLASSICAL = "an operator of classical machine learning"
    CONTROL = "control flow over values that a compiled program cannot hold"
    SIZES = "values that are known only when the model runs decide the size of its results"


@dataclass
class Call:
    """One evaluation of a node. Absent optional inputs are None, as are empty optionals.

    `draw` gives a generator of random numbers for a seed, or for the model's where it is None.
    """

    node: NodeProto
    version: int
    inputs: list[Any]
    draw: Callable[[int | None], np.random.RandomState]
    _attributes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._attributes = {a.name: helper.get_attribute_value(a) for a in self.node.attribute}

    def given(self, index: int) -> bool:
        """Whether input number `index` is present."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def array(self, index: int) -> np.ndarray:
        """Input number `index`, a tensor. Raises ModelError where it is none."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, np.ndarray):
            raise ModelError(f"its input {index} is no tensor")
        return value

    def sequence(self, index: int = 0) -> list[Any]:
        """Input number `index`, a sequence. Raises ModelError where it is none."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, list):
            raise ModelError(f"its input {index} is no sequence")
        return value

    def map(self, index: int = 0) -> dict[Any, Any]:
        """Input number `index`, a map. Raises ModelError where it is none."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, dict):
            raise ModelError(f"its input {index} is no map")
        return value

    def scalar(self, index: int, default: Any) -> Any:
        """The single element of an optional input."""
        return self.array(index).reshape(-1)[0] if self.given(index) else default

    def size(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The size of the first result. Raises ModelError where it is absurdly large."""
        check_size(self.node.output[0], sizes)
        return tuple(sizes)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value or that of its definition, else `default`. Strings are str."""
        value = self._attributes.get(name)
        if value is None:
            value = _declared(self.node.domain, self.node.op_type, self.version).get(name, default)
        if isinstance(value, list):
            return [_text(item) for item in value]
        return _text(value)


Evaluator = Callable[[Call], Any]


@dataclass(frozen=True)
class HostOperator:
    """One row: an operator, why the host runs it, and how; None is onnx's reference."""

    domain: str
    name: str
    kind: Kind
    evaluate: Evaluator | None = None

    @property
    def compiles_for_values(self) -> bool:
        """Whether the operator compiles once the values of its small inputs are known.

        Each branch of an If compiles without its condition, for any sizes.
        """
        return self.kind is Kind.SIZES or (self.kind is Kind.CONTROL and self.name != "If")


_REGISTERED: dict[tuple[str, str], HostOperator] = {}

# Operators that onnx's reference evaluates, by reason.
_BY_REFERENCE: dict[Kind, str] = {
    Kind.STRINGS: "StringConcat StringSplit TfIdfVectorizer",
    Kind.SIZES: "CenterCropPad EyeLike OneHot Pad TopK",
}
# Run by the host itself (mgx_mlir.models.staged.control), with bodies that are compiled.
_CONTROL = "If Loop Scan SequenceMap"
# Operators that onnx's reference evaluates on tensors of strings as on others.
_ON_STRINGS = frozenset(
    """Cast CastLike Compress Concat Constant Equal Expand Flatten Gather GatherElements GatherND
    Identity Pad Reshape ScatterElements ScatterND Shape Size Slice Split Squeeze Tile Transpose
    Unsqueeze Where""".split()
)


def host_operator(name: str, kind: Kind, domain: str = "") -> Callable[[Evaluator], Evaluator]:
    """Registers an evaluator."""

    def register(evaluate: Evaluator) -> Evaluator:
        assert (domain, name) not in _REGISTERED, f"two evaluators for {name}"
        _REGISTERED[domain, name] = HostOperator(domain, name, kind, evaluate)
        return evaluate

    return register


def find(domain: str, name: str, *, strings: bool = False) -> HostOperator | None:
    """The row of an operator, or None. `strings`: it has tensors of strings."""
    row = _table().get((domain, name))
    if row is None and strings and not domain and name in _ON_STRINGS:
        return HostOperator(domain, name, Kind.STRINGS)
    return row


def rows() -> list[HostOperator]:
    """Every operator that the host runs, by domain and name."""
    return [row for _, row in sorted(_table().items())]


@cache
def _table() -> dict[tuple[str, str], HostOperator]:
    import_modules("mgx_mlir.models.host")
    table = dict(_REGISTERED)
    listed = [(kind, "", names) for kind, names in _BY_REFERENCE.items()]
    listed += [(Kind.STRINGS, "ai.onnx.ml", "ArrayFeatureExtractor"), (Kind.CONTROL, "", _CONTROL)]
    for kind, domain, names in listed:
        for name in names.split():
            assert (domain, name) not in table, f"{name} is listed twice"
            table[domain, name] = HostOperator(domain, name, kind)
    return table


@cache
def _declared(domain: str, name: str, version: int) -> dict[str, Any]:
    """The defaults of the operator's definition."""
    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {
        key: helper.get_attribute_value(a.default_value)
        for key, a in schema.attributes.items()
        if a.default_value.name
    }


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
