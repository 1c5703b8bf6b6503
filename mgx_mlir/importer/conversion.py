"""The walk over a model's nodes that makes the mgx program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from mlir import ir
from onnx import GraphProto, NodeProto, TypeProto

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import Edge, ModelError, OpenError, Unsupported, UnsupportedError
from mgx_mlir.importer import (
    budget,
    element_types,
    emit,
    folding,
    prepare,
    registry,
    structure,
    tensor_data,
    tensors,
)
from mgx_mlir.importer.definitions import function_body, refused_type, resolve
from mgx_mlir.importer.node import Node, substitute
from mgx_mlir.importer.scope import Scope
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.importer.values import CONSTANT_ELEMENTS, Constants, UnavailableError, Value
from mgx_mlir.rewriting import shape_values as shape_values
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, Size, symbols
from mgx_mlir.sizes.cases import UnknownError
from mgx_mlir.text import of_verifier

# A placeholder for results of nodes that could not be converted.
_UNAVAILABLE = Value("<unavailable>")


@dataclass(frozen=True)
class Limits:
    """The trips of loops that state none, and sizes of symbols, as `like` gives them."""

    max_loop_iterations: int
    like: Mapping[str, int]


class Conversion:
    """Converts graphs at the current insertion point and collects the unsupported nodes.

    `symbols` are the names of the inputs' dimensions.
    """

    def __init__(
        self,
        constants: Constants,
        inferred: Mapping[str, TypeProto],
        symbols: frozenset[str],
        limits: Limits,
    ) -> None:
        self.constants = constants
        self.max_loop_iterations = limits.max_loop_iterations
        self.like = limits.like
        self.symbols = symbols
        self.unsupported: list[Unsupported] = []
        # The greatest sizes of symbols that the model's own constants leave.
        self.limits: dict[str, int] = {}
        # Numbers that the sizes of a run leave at 0 or more, or there is no run.
        self.required: dict[str, None] = {}
        # The greatest values of inputs that hold one integer, by number: formulas.
        self.value_limits: dict[int, str] = {}
        # Dimensions that have to be equal.
        self.equations: list[tuple[Dim, Dim]] = []
        # Dimensions that are taken to be equal to others, which a run checks.
        self.same: dict[str, Dim] = {}
        # Nodes whose definitions do not take the types of their inputs.
        self.mistyped: list[str] = []
        # How many nodes were converted, and the loops that would be too many if written out.
        self.converted = 0
        self.kept_loops: set[tuple[str, ...]] = set()
        # How many trips the loops around make, by symbols of the trip that a run is in, and values
        # that are formulas of these (see trips).
        self.trips: dict[str, Number] = {}
        self.counters: dict[ir.Value, np.ndarray] = {}
        self._inferred = inferred
        self._sizes: dict[ir.Value, np.ndarray | None] = {}
        # Placeholders for results of refused nodes, and values computed from them.
        self._guessed: set[Value] = set()

    def graph(self, graph: GraphProto, scope: Scope) -> list[Value]:
        """Converts a graph whose inputs `scope` defines. Returns its outputs."""
        for tensor in graph.initializer:
            if tensor.name not in scope.values:
                scope.values[tensor.name] = self._initializer(tensor)
        for node in graph.node:
            self._convert(node, scope)
        return [scope.find(v.name) or _UNAVAILABLE for v in graph.output]

    def subgraph(self, node: Node, name: str, arguments: Sequence[Value]) -> list[ir.Value]:
        """Converts a node's graph attribute at the insertion point. Returns its outputs."""
        return [self.constants.materialise(v) for v in self.inline(node, name, arguments)]

    def inline(self, node: Node, name: str, arguments: Sequence[Value]) -> list[Value]:
        """As `subgraph`; known values of the outputs stay known."""
        graph: GraphProto = node.attribute(name)
        if len(graph.input) != len(arguments):
            raise ModelError(
                f"{structure.display_name(node.proto)}: its {name} takes {len(graph.input)} "
                f"inputs and gets {len(arguments)}"
            )
        outer = node.scope
        names = used_names(graph)
        scope = Scope(outer.opsets, names, outer, outer.function, outer.operator)
        for value, argument in zip(graph.input, arguments, strict=True):
            scope.values[value.name] = argument
        outputs = self.graph(graph, scope)
        if any(v is _UNAVAILABLE for v in outputs):
            raise UnavailableError
        return outputs

    def sizes_in(self, value: Value, of_trips: bool = False) -> np.ndarray | None:
        """The elements of a small tensor of numbers, where they follow from the inputs' sizes.

        An array of ints and sizes, of Fractions and Ratios too for floats; None where only a run
        knows. of_trips: they may be formulas of the numbers of trips too.
        """
        if value in self._guessed:
            return None
        if value.known is not None:
            return shape_values.constants(value.known)
        found = self._sizes_in(value.tensor) if value.tensor is not None else None
        if found is None or of_trips or self.trips.keys().isdisjoint(shape_values.names(found)):
            return found
        return None

    def forget_sizes(self) -> None:
        """Forgets the sizes found, some of values that are erased."""
        self._sizes.clear()

    def _sizes_in(self, tensor: ir.Value) -> np.ndarray | None:
        stack = [tensor]  # chains may be longer than Python's stack is deep
        while stack:
            value = stack[-1]
            left = [v for v in _operands(value) if v not in self._sizes]
            if left and value not in self._sizes:
                stack += left
                continue
            stack.pop()
            if value not in self._sizes:
                self._sizes[value] = self._computed_sizes(value)
        return self._sizes[tensor]

    def _computed_sizes(self, value: ir.Value) -> np.ndarray | None:
        """As `_sizes_in`, where the sizes in the operands are known."""
        operands = _operands(value)
        if isinstance(value.owner, ir.Block) or len(value.owner.operation.results) != 1:
            return self.counters.get(value)
        values = [self._sizes[operand] for operand in operands]
        sizes = [symbolic.sizes_of(operand.type, tensors.symbols()) for operand in operands]
        with shape_values.assuming(self._assume):
            return shape_values.value_of(value.owner.operation.opview, values, sizes)

    def _assume(self, size: Size) -> None:
        if any(symbol.name in self.trips for symbol in symbols(size)):
            raise UnknownError
        self.required[str(size)] = None

    def inferred_dims(self, name: str, scope: Scope) -> tuple[Dim, ...] | None:
        """The dimensions that onnx's inference found for a value of the main graph."""
        if scope.outer is not None or scope.function or name not in self._inferred:
            return None
        tensor = self._inferred[name].tensor_type
        if not tensor.HasField("shape"):
            return None
        dims = dims_of_proto(tensor.shape)
        return tuple(None if self._is_made_up(dim) else dim for dim in dims)

    def _is_made_up(self, dim: Dim) -> bool:
        """Whether onnx's inference gave a dimension a name that no size of an input has."""
        made_up = isinstance(dim, str) and dim.startswith(prepare.MADE_UP)
        return made_up and dim not in self.symbols

    def _initializer(self, tensor: onnx.TensorProto) -> Value:
        try:
            array = tensor_data.small_array(tensor, tensor.name)
        except UnsupportedError as error:
            self._refuse(tensor.name, "initialiser", f"{error} are not supported")
            return _UNAVAILABLE
        if array.size <= CONSTANT_ELEMENTS:
            return Value(tensor.name, array=array)
        weight = Weight(tensor.name, array.dtype, array.shape, data=array)
        return Value(tensor.name, weight=weight)

    def _convert(self, proto: NodeProto, scope: Scope) -> None:
        self.converted += 1
        inputs = [scope.find(name) if name else None for name in proto.input]
        results: list[Value] = []
        guessed = any(value in self._guessed for value in inputs)
        if not any(value is _UNAVAILABLE for value in inputs):
            with Edge(f"importing {structure.display_name(proto)}"):
                results = self._converted(proto, inputs, scope, guessed)
        if guessed:
            self._guessed.update(results)
        for index, name in enumerate(proto.output):
            if name:
                scope.values[name] = results[index] if index < len(results) else _UNAVAILABLE

    def _converted(
        self, proto: NodeProto, inputs: Sequence[Value | None], scope: Scope, guessed: bool
    ) -> list[Value]:
        """The node's results. A refusal is noted; a fault names the node.

        `guessed`: an input is a placeholder for a refused node's result, which may be the reason.
        """
        name = scope.function or proto.name
        try:
            with ir.Location.name(name):
                return self._results(proto, inputs, scope)
        except UnavailableError:
            return []
        except UnsupportedError as error:
            if isinstance(error, tensors.UnequalError) and not guessed:
                self.equations.append(error.pair)
            operator, reason = structure.operator_name(proto), str(error)
            if scope.operator:
                operator, reason = scope.operator, f"in its body, {operator}: {reason}"
            if not guessed or not isinstance(error, OpenError):
                self._refuse(name, operator, reason, isinstance(error, OpenError))
            return self._stand_ins(proto, scope)
        except ModelError as error:
            if guessed:
                return []
            raise ModelError(f"{structure.display_name(proto)}: {error}") from error
        except (ir.MLIRError, ArithmeticError, IndexError, ValueError) as error:
            # Converters rely on ranks and counts that onnx's inference does not look at.
            if guessed:
                return []
            raise ModelError(
                f"{structure.display_name(proto)}: {_reason(error)}; its inputs are "
                f"{', '.join(map(_described, inputs)) or 'none'}"
            ) from error

    def _results(
        self, proto: NodeProto, inputs: Sequence[Value | None], scope: Scope
    ) -> list[Value]:
        opset = scope.opsets.get(proto.domain)
        row, schema = resolve(proto, opset)
        if all(v is None or v.known is not None for v in inputs) and opset is not None:
            arrays = [v.known if v else None for v in inputs]
            folded = folding.fold(proto, arrays, opset)
            if folded is not None:
                pairs = zip(proto.output, folded, strict=True)
                return [Value(name, array=array) for name, array in pairs]
        node = Node(proto, schema, inputs, self, scope)
        if row.converter is None:
            registry.check(node)
            return self._expand(node, scope.opsets[""])
        made = row.converter(node)
        if schema is not None and (said := refused_type(schema, inputs)):
            self.mistyped.append(f"{structure.display_name(proto)}: {said}")
        unread = node.unread()
        if unread:
            raise UnsupportedError("not supported: " + ", ".join(unread))
        if schema is None and node.surplus():
            raise ModelError(
                f"it has {len(inputs)} inputs; input {node.surplus()[0]} is none of it"
            )
        return self._finish(node, made)

    def _finish(self, node: Node, made: object) -> list[Value]:
        """The converter's results as values; says where a wanted one is missing."""
        listed = list(made) if isinstance(made, list | tuple | ir.OpResultList) else [made]
        results = []
        for index, name in enumerate(node.proto.output):
            result = listed[index] if index < len(listed) else None
            if result is None:
                if node.wanted(index):
                    raise UnsupportedError(f"its result {index} ('{name}') is used")
                results.append(_UNAVAILABLE)
            elif isinstance(result, Value):
                results.append(result)
            elif isinstance(result, np.ndarray | np.generic):
                results.append(Value(name, array=np.asarray(result)))
            else:
                assert isinstance(result, ir.Value)
                self._refine(result, name, node.scope)
                results.append(_of_tensor(name, self._renamed(result)))
            _check_size(results[-1])
        return results

    def _refine(self, result: ir.Value, name: str, scope: Scope) -> None:
        """Adds the dimensions that onnx's inference knows of a result to its type."""
        known = tensors.dims(result)
        if None in known:
            known = tensors.name_dims(result)
        if None not in known:
            return
        inferred = self.inferred_dims(name, scope)
        if inferred is not None and len(inferred) == len(known):
            merged = [i if k is None else k for k, i in zip(known, inferred, strict=True)]
            result.set_type(tensors.tensor_type(tensors.element(result), merged))

    def _renamed(self, result: ir.Value) -> ir.Value:
        """A result whose dimensions are called as those they are taken to be equal to."""
        have = tensors.dims(result)
        wanted = list(have)
        for place, dim in enumerate(have):
            while (other := self.same.get(str(wanted[place]))) is not None:
                wanted[place] = other
            if wanted[place] != dim:
                given, size = tensors.size(dim), tensors.size(wanted[place])
                assert given is not None and size is not None
                self.required |= dict.fromkeys((str(given - size), str(size - given)))
        return emit.reshape(result, wanted)

    def _expand(self, node: Node, opset: int) -> list[Value]:
        """Converts the body that a node's definition gives it."""
        assert node.schema is not None
        function = function_body(node, node.schema, opset)
        attributes = {
            name: declared.default_value
            for name, declared in node.schema.attributes.items()
            if declared.default_value.name
        }
        attributes |= {a.name: a for a in node.proto.attribute}
        opsets = {"": opset} | {o.domain: o.version for o in function.opset_import}
        used = frozenset(n for inner in function.node for n in inner.input)
        outermost = node.scope.function or node.name
        operator = node.scope.operator or structure.operator_name(node.proto)
        scope = Scope(opsets, used | set(function.output), None, outermost, operator)
        formal = list(function.input)
        given = [*node.inputs, *[None] * (len(formal) - len(node.inputs))]
        scope.values = dict(zip(formal, given, strict=False))
        for inner in function.node:
            self._convert(substitute(inner, attributes), scope)
        results = []
        for index, name in enumerate(function.output):
            # Bodies leave out results that the node does not ask for.
            value = scope.values.get(name) or _UNAVAILABLE
            asked = index < len(node.proto.output) and bool(node.proto.output[index])
            if asked and value is _UNAVAILABLE:
                raise UnavailableError
            results.append(value)
        return results

    def _stand_ins(self, proto: NodeProto, scope: Scope) -> list[Value]:
        """Constants of the right types, so that later nodes can still be looked at."""
        results = []
        for name in proto.output:
            dims = self.inferred_dims(name, scope) if name else None
            value = _UNAVAILABLE
            if dims is not None and all(isinstance(d, int) for d in dims):
                try:
                    element = element_types.of_onnx(self._inferred[name].tensor_type.elem_type)
                    sizes = [d for d in dims if isinstance(d, int)]
                    value = Value(name, tensor=emit.filled(np.zeros((), element.numpy), sizes))
                except UnsupportedError:
                    pass
            results.append(value)
        self._guessed.update(results)
        return results

    def _refuse(self, node: str, operator: str, reason: str, is_open: bool = False) -> None:
        self._sizes.clear()  # values of a refused body are gone, and others come in their place
        entry = Unsupported(node, operator, reason, is_open)
        if entry not in self.unsupported:
            self.unsupported.append(entry)


def _reason(error: Exception) -> str:
    """The words of a verifier; Python's own say nothing of a model."""
    if isinstance(error, ir.MLIRError):
        return of_verifier(str(error))
    return "its inputs have ranks, sizes or attributes that the operator does not take"


def _described(value: Value | None) -> str:
    """An input as messages show it: 'x' float32[2, 3]."""
    if value is None:
        return "absent"
    if value.items is not None:
        return f"the sequence '{value.name}'"
    return f"'{value.name}' {value.dtype}{tensors.show(value.dims)}"


def _of_tensor(name: str, result: ir.Value) -> Value:
    """A result; one without elements is a constant, which no kernel has to make."""
    dims = tensors.dims(result)
    sizes = [size for size in dims if isinstance(size, int)]
    if 0 in sizes and len(sizes) == len(dims):
        return Value(name, array=np.zeros(sizes, emit.numpy_type(result)))
    return Value(name, tensor=result)


def _check_size(value: Value) -> None:
    """Raises ModelError where a result is larger than any machine holds."""
    if value is not _UNAVAILABLE and value.items is None:
        budget.check_size(value.name, value.dims, value.dtype.itemsize * 8)


def _operands(value: ir.Value) -> list[ir.Value]:
    """The operands of the op that makes the value, where that is its only result."""
    owner = value.owner
    if isinstance(owner, ir.Block) or len(owner.operation.results) != 1:
        return []
    return list(owner.operation.operands)


def used_names(graph: GraphProto) -> frozenset[str]:
    """Every name that a graph's nodes, their subgraphs or its outputs read."""
    return frozenset(_names(graph))


def _names(graph: GraphProto) -> Iterable[str]:
    yield from (v.name for v in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in structure.subgraphs(node):
            yield from _names(inner)


def dims_of_proto(shape: onnx.TensorShapeProto) -> tuple[Dim, ...]:
    """The dimensions of a declared shape."""
    return tuple(
        d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in shape.dim
    )
