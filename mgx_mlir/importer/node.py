"""A node as its converter sees it: attributes with their defaults, inputs, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
import onnx.defs
from mlir import ir
from mlir.dialects import func
from onnx import AttributeProto, NodeProto, helper

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, Unsupported, UnsupportedError
from mgx_mlir.importer import tensors
from mgx_mlir.importer.scope import Scope
from mgx_mlir.importer.structure import WITHOUT_EFFECT
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.importer.values import Constants, Value
from mgx_mlir.rewriting.queries import definition
from mgx_mlir.rewriting.shape_values import Ratio
from mgx_mlir.sizes.arithmetic import Number, Size, symbols
from mgx_mlir.sizes.cases import Case, plain


class Importing(Protocol):
    """The conversion of a model, as far as its nodes ask it (see conversion.Conversion)."""

    constants: Constants
    converted: int
    counters: dict[ir.Value, np.ndarray]
    equations: list[tuple[Dim, Dim]]
    kept_loops: set[tuple[str, ...]]
    like: Mapping[str, int]
    limits: dict[str, int]
    required: dict[str, None]
    max_loop_iterations: int
    symbols: frozenset[str]
    trips: dict[str, Number]
    unsupported: list[Unsupported]
    value_limits: dict[int, str]

    def forget_sizes(self) -> None: ...
    def inferred_dims(self, name: str, scope: Scope) -> tuple[Dim, ...] | None: ...
    def inline(self, node: Node, name: str, arguments: Sequence[Value]) -> list[Value]: ...
    def sizes_in(self, value: Value, of_trips: bool = False) -> np.ndarray | None: ...
    def subgraph(self, node: Node, name: str, arguments: Sequence[Value]) -> list[ir.Value]: ...


class Node:
    """One node. `version` is the opset that introduced its definition.

    `schema` is that definition, None for operators of other domains than ONNX's.

    Every attribute must be read: `unread` lists the others, so that none is ignored.
    """

    def __init__(
        self,
        proto: NodeProto,
        schema: onnx.defs.OpSchema | None,
        inputs: Sequence[Value | None],
        conversion: Importing,
        scope: Scope,
    ) -> None:
        self.proto = proto
        self.schema = schema
        self.version: int = schema.since_version if schema else 1
        self._declared = schema.attributes if schema else {}
        self.name: str = proto.name
        self.op_type: str = proto.op_type
        self.inputs = list(inputs)
        self.conversion = conversion
        self.scope = scope
        self._attributes = {a.name: a for a in proto.attribute}
        self._read: set[str] = set()
        self._asked: set[int] = set()

    @property
    def constants(self) -> Constants:
        """Makes constants of the program."""
        return self.conversion.constants

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value, or that of its definition, or `default`. Strings are str."""
        self._read.add(name)
        declared = self._declared.get(name)
        if name in self._attributes:
            stated = self._attributes[name]
            if declared is not None and stated.type != int(declared.type.value):
                raise ModelError(f"its attribute {name} is not of type {declared.type.name}")
            return _plain(helper.get_attribute_value(stated))
        if declared is not None and declared.required and default is None:
            raise ModelError(f"its attribute {name} is missing")
        if declared is None or not declared.default_value.name:
            return default
        return _plain(helper.get_attribute_value(declared.default_value))

    def required(self, name: str) -> Any:
        """The attribute's value. Raises ModelError where the node does not state it."""
        value = self.attribute(name)
        if value is None:
            raise ModelError(f"its attribute {name} is missing")
        return value

    def choice(self, name: str, *allowed: Any, default: Any = None) -> Any:
        """The attribute's value. Raises ModelError where it is none of those allowed."""
        value = self.attribute(name, default)
        if value not in allowed:
            listed = ", ".join(str(a) for a in allowed if a not in ("", None))
            raise ModelError(f"{name} = {value}; {listed} are defined")
        return value

    def only(self, name: str, value: Any) -> None:
        """Raises UnsupportedError where the attribute is stated and not this value."""
        stated = self.attribute(name, value)
        if stated != value:
            raise UnsupportedError(f"{name} = {stated}; {value} is supported")

    def has_attribute(self, name: str) -> bool:
        """Whether the node states the attribute itself."""
        return name in self._attributes

    def unread(self) -> list[str]:
        """Attributes, with values other than the default, that the converter did not read."""
        found = []
        for name, attribute in self._attributes.items():
            if name in self._read or name in WITHOUT_EFFECT:
                continue
            declared = self._declared.get(name)
            value = _plain(helper.get_attribute_value(attribute))
            if declared is not None and declared.default_value.name:
                default = _plain(helper.get_attribute_value(declared.default_value))
                if value == default:
                    continue
            shown = value if isinstance(value, int | float | str | list) else "..."
            found.append(f"{name} = {shown}")
        return found

    def surplus(self) -> list[int]:
        """Inputs that are present, and that the converter did not ask for."""
        return [i for i, v in enumerate(self.inputs) if v is not None and i not in self._asked]

    def ignore(self, *indices: int) -> None:
        """Says that inputs have no influence on the results of an inference."""
        self._asked.update(indices)

    def given(self, index: int) -> bool:
        """Whether input number `index` is present."""
        self._asked.add(index)
        return index < len(self.inputs) and self.inputs[index] is not None

    def wanted(self, index: int) -> bool:
        """Whether something can read result number `index`."""
        outputs = self.proto.output
        return index < len(outputs) and outputs[index] in self.scope.used - {""}

    def value(self, index: int) -> Value:
        """Input number `index`. Raises ModelError where it is absent."""
        self._asked.add(index)
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise ModelError(f"its input {index} is absent")
        return value

    def tensor(self, index: int) -> ir.Value:
        """Input number `index` as an operand."""
        return self.constants.materialise(self.value(index))

    def optional(self, index: int) -> ir.Value | None:
        """Input number `index` as an operand, or None where it is absent."""
        return self.tensor(index) if self.given(index) else None

    def make(self, array: np.ndarray) -> ir.Value:
        """An operand of an array that the converter computed."""
        return self.constants.materialise(Value(self.name, array=array))

    def tensors(self) -> list[ir.Value]:
        """All inputs as operands."""
        return [self.tensor(i) for i in range(len(self.inputs))]

    def known(self, index: int) -> np.ndarray | None:
        """The elements of an input, where it is present and known, or follows from sizes."""
        if not self.given(index):
            return None
        value = self.value(index)
        if value.known is not None:
            return value.known
        found = self.conversion.sizes_in(value)
        if found is None or any(
            isinstance(part, Size | Ratio | Case) for part in found.reshape(-1)
        ):
            return None
        return found.astype(value.dtype)

    def constant(self, index: int, what: str) -> np.ndarray:
        """The elements of an input. Raises UnsupportedError where they are not known."""
        array = self.known(index)
        if array is None:
            raise OpenError(f"{what} is computed when the model runs; it must be constant")
        return array

    def integers(self, index: int, what: str) -> list[int]:
        """The elements of a constant input, as ints."""
        return [int(i) for i in self.constant(index, what).reshape(-1)]

    def sizes(self, index: int) -> list[Number] | None:
        """The elements of an input that holds sizes: ints, and formulas of the inputs' symbols.

        None where only a run knows them.
        """
        found = self.cases(index)
        return None if found is None else [plain(size) for size in found]

    def cases(self, index: int) -> list[Any] | None:
        """As `sizes`, with a Case where an unproven comparison of sizes decides."""
        found = self.conversion.sizes_in(self.value(index))
        return None if found is None else list(found.reshape(-1))

    def require(self, number: Number) -> None:
        """Says that this is 0 or more, for whatever sizes a run has.

        Raises OpenError where a size of it is not one of the inputs.
        """
        if not isinstance(number, Size) or number >= 0:
            return
        known = {
            one.name for dim in self.conversion.symbols for one in symbols(tensors.size(dim) or 0)
        }
        if not {one.name for one in symbols(number)} <= known:
            raise OpenError(f"whether {number} is 0 or more is known only when the model runs")
        self.conversion.required[str(number)] = None

    def require_some(self, size: Number | None) -> None:
        """Says that a size is not 0: what the node makes of nothing is defined nowhere."""
        if size == 0:
            raise ModelError("its image is empty")
        if size is not None:
            self.require(size - 1)

    def at_most(self, index: int, most: Number) -> None:
        """Says that an input of one integer is at most this, in a run that gives it itself.

        A run checks the input of the model that is it, as it is or converted.
        """
        value = self.tensor(index)
        op = definition(value)
        while op is not None and (isinstance(op, mgx.ConvertOp) or mgx.is_view(op)):
            value = op.operands[0]
            op = definition(value)
        owner = value.owner
        if not isinstance(owner, ir.Block) or not isinstance(owner.owner, func.FuncOp):
            return
        if tensors.element_name(value) in ("i32", "i64") and {*tensors.dims(value)} <= {1}:
            self.conversion.value_limits[ir.BlockArgument(value).arg_number] = str(most)

    def declares(self, name: str) -> bool:
        """Whether the node's operator has an attribute of that name, in this version."""
        return name in self._declared

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """The attribute as an axis of input `index`, counted from the front."""
        return tensors.axis_in(int(self.attribute(name)), len(self.value(index).dims))

    def axes(self, name: str, index: int, ranks: int) -> list[int] | None:
        """Axes that are an attribute or, in newer versions, input `index`; None where absent."""
        if self.given(index):
            axes = self.integers(index, name)
        else:
            stated = self.attribute(name)
            if stated is None:
                return None
            axes = [stated] if isinstance(stated, int) else list(stated)
        return [tensors.axis_in(a, ranks) for a in axes]

    def computed_dims(self, index: int = 0) -> tuple[Dim, ...] | None:
        """The dimensions of a result, by onnx's inference: sizes and symbols of the inputs.

        None where it found none, or a dimension that only the running model knows.
        """
        found = self.conversion.inferred_dims(self.proto.output[index], self.scope)
        known = self.conversion.symbols
        if found is None or not all(isinstance(d, int) or d in known for d in found):
            return None
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return [_plain(v) for v in value]
    return value


def substitute(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function's body with references to the function's attributes replaced."""
    result = NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            result.attribute.append(_substitute_graphs(attribute, attributes))
        elif attribute.ref_attr_name in attributes:
            given = AttributeProto()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name
            result.attribute.append(given)
    return result


def _substitute_graphs(
    attribute: AttributeProto, attributes: Mapping[str, AttributeProto]
) -> AttributeProto:
    if attribute.type != AttributeProto.GRAPH:
        return attribute
    result = AttributeProto()
    result.CopyFrom(attribute)
    nodes = [substitute(n, attributes) for n in attribute.g.node]
    del result.g.node[:]
    result.g.node.extend(nodes)
    return result
