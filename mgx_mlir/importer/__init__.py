"""ONNX models to mgx programs."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from mlir import ir
from mlir.dialects import func

from mgx_mlir.advice import OpenDim, sizes
from mgx_mlir.artifact.plan import MAX_LOOP_ITERATIONS
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import context, mgx
from mgx_mlir.errors import (
    CompilerError,
    Edge,
    ModelError,
    OpenError,
    Unsupported,
    UnsupportedError,
)
from mgx_mlir.importer import (
    bounds,
    budget,
    element_types,
    io_types,
    loading,
    prepare,
    structure,
    symbols,
    tensors,
)
from mgx_mlir.importer.conversion import Conversion, Limits, dims_of_proto, used_names
from mgx_mlir.importer.definitions import resolve
from mgx_mlir.importer.registry import Operator, operators
from mgx_mlir.importer.scope import Scope
from mgx_mlir.importer.tensors import Dim, dims_of_type, tensor_type
from mgx_mlir.importer.values import Constants, Value
from mgx_mlir.rewriting import symbolic
from mgx_mlir.rewriting.graph import (
    Graph,
    open_dims,
    required_numbers,
    set_required_numbers,
    set_signature,
    set_value_limits,
    set_value_names,
)
from mgx_mlir.sizes.arithmetic import alone
from mgx_mlir.sizes.range import Given, Range

__all__ = ["CheckReport", "Operator", "Unsupported", "check_model", "operators", "parse_onnx"]

_log = logging.getLogger(__name__)

Model: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | loading.Source"


@dataclass(frozen=True)
class CheckReport:
    """The contents of a model: nodes by operator, and those that cannot be imported.

    `nodes` counts those of inner graphs too. `open_dims` are the inputs' dimensions without a
    size. A model without refusals need not compile: `mgx_mlir.check` does the rest.
    """

    name: str
    nodes: int
    operators: dict[str, int]
    unsupported: tuple[Unsupported, ...]
    open_dims: tuple[OpenDim, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether every node can be imported."""
        return not self.unsupported

    def error(self) -> UnsupportedError:
        """The refusal: the nodes that no size helps, or else the nodes that ask for sizes."""
        never = tuple(entry for entry in self.unsupported if not entry.open)
        if never or not self.open_dims:
            shown = replace(self, unsupported=never or self.unsupported)
            return UnsupportedError(str(shown), entries=shown.unsupported)
        text = f"{self}\n{sizes(self.open_dims)}"
        return OpenError(text, entries=self.unsupported)

    def __str__(self) -> str:
        if self.supported:
            return f"{self.name}: all {self.nodes} nodes are supported"
        lines = "".join(f"\n  {entry}" for entry in self.unsupported)
        count = len({entry.node for entry in self.unsupported if entry.is_node})
        of = f"{count} of {self.nodes} nodes" if count else "it"
        return f"{self.name}: {of} cannot be compiled:{lines}"


@Edge("importing the model")
def parse_onnx(
    model: Model,
    *,
    input_dims: Mapping[str, Sequence[int | Range]] | None = None,
    dim_params: Mapping[str, Given] | None = None,
    default_dim: int | Range | None = None,
    input_values: Mapping[str, np.ndarray] | None = None,
    io: Mapping[str, str] | None = None,
    external_data_folder: str | os.PathLike[str] | None = None,
    max_loop_iterations: int = MAX_LOOP_ITERATIONS,
    like: Mapping[str, Sequence[int]] | None = None,
    least: int = 1,
) -> Graph:
    """Imports an ONNX model, given as a path, as bytes or as a ModelProto.

    `input_dims` gives the sizes of an input, `dim_params` the size of every dimension of a
    name, `default_dim` that of every dimension still unknown. Dimensions that stay unknown
    are symbolic; a Range bounds the sizes of one, and the others begin at `least`: where that is
    0 and a node does not take it, at 1. Inputs that `input_values`
    gives become constants, and `io` gives inputs and outputs other types (io_types.change).
    A loop that states no number of trips fails after `max_loop_iterations`. `like` gives sizes of
    inputs: where sizes choose between branches that one program cannot hold, it holds the branch
    of these. Weights stay in the model's file, and in those of its external data.

    Raises ModelError where the model is malformed, UnsupportedError naming every node
    that is not supported, UsageError where the sizes contradict the model.
    """
    read = partial(
        examine,
        model,
        input_dims=input_dims,
        dim_params=dim_params,
        default_dim=default_dim,
        input_values=input_values,
        io=io,
        external_data_folder=external_data_folder,
        max_loop_iterations=max_loop_iterations,
        like=like,
    )
    graph = _graph_of(*read(least=least))
    if least < 1:
        graph.from_one = lambda: _graph_of(*read(least=1))
    return graph


def _graph_of(graph: Graph | None, report: CheckReport) -> Graph:
    if graph is None:
        raise report.error()
    return graph


def check_model(model: Model, **arguments: Any) -> CheckReport:
    """The nodes of a model that cannot be imported, with a reason for each.

    Takes the arguments of `parse_onnx`. Raises ModelError where the model is malformed.
    """
    return examine(model, **arguments)[1]


@Edge("checking the model")
def examine(
    model: Model,
    *,
    input_dims: Mapping[str, Sequence[int | Range]] | None = None,
    dim_params: Mapping[str, Given] | None = None,
    default_dim: int | Range | None = None,
    input_values: Mapping[str, np.ndarray] | None = None,
    io: Mapping[str, str] | None = None,
    external_data_folder: str | os.PathLike[str] | None = None,
    max_loop_iterations: int = MAX_LOOP_ITERATIONS,
    like: Mapping[str, Sequence[int]] | None = None,
    least: int = 1,
) -> tuple[Graph | None, CheckReport]:
    """The graph that `parse_onnx` gives, or None, and the nodes that cannot be imported.

    Raises ModelError where the model is malformed.
    """
    folder = Path(external_data_folder) if external_data_folder is not None else None
    source = prepare.fix_inputs(loading.load(model, folder), input_values or {})
    source = io_types.change_types(source, io or {})
    ranges = prepare.prepare(source, input_dims or {}, dim_params or {}, default_dim)
    symbols.write_formulas(source.model, source.inputs, ranges)
    opsets = prepare.opsets(source.model)
    unsupported = _survey(source.model.graph, opsets)
    try:
        prepare.check(source.model)
    except ModelError:
        if not unsupported:  # onnx's library may not know unsupported operators either
            raise
        return None, _report(source, unsupported)
    limits = Limits(max_loop_iterations, symbols.sizes_like(source.model, like or {}))
    if least < 1:
        copy = source.copy()
        found = _converted(copy, opsets, unsupported, ranges, limits, least)
        if found[0] is not None and not _needs_empty(found[0]):
            return found
    return _converted(source, opsets, unsupported, ranges, limits, 1)


def _needs_empty(graph: Graph) -> bool:
    """Whether no run whose sizes are 1 or more gives the numbers that a program requires."""
    with graph.module.context:
        return any(symbolic.named(text, {}) < 0 for text in required_numbers(graph.main))


def _converted(
    source: loading.Source,
    opsets: Mapping[str, int],
    unsupported: Sequence[Unsupported],
    given: Mapping[str, Range],
    limits: Limits,
    least: int,
) -> tuple[Graph | None, CheckReport]:
    """As `examine`, of a model that is prepared; symbols without a range begin at `least`."""
    same: dict[str, Dim] = {}
    ranges = {**symbols.plain(source.model, source.inputs, Range(least)), **given}
    while True:
        inferred = prepare.infer(source.model)
        with context() as made, ir.Location.unknown(), tensors.within(ranges):
            made.dialects["func"]  # loads it
            converter = _Program(source, inferred, opsets, ranges, limits)
            converter.conversion.same = same
            found = converter.convert()
            found_open = open_dims(converter.names, converter.block.arguments)
            entries = [*unsupported, *(entry for entry in found if entry not in unsupported)]
            if not entries:
                return converter.finish(), _report(source, entries, found_open)
            equations = converter.conversion.equations
        if symbols.equate(source.model, source.inputs, equations, given):
            same.clear()
        elif not symbols.assume_equal(source.model, source.inputs, equations, same):
            return None, _report(source, entries, found_open)


def _report(
    source: loading.Source, unsupported: Sequence[Unsupported], dims: tuple[OpenDim, ...] = ()
) -> CheckReport:
    nodes = [*structure.all_nodes(source.model.graph)]
    by_operator = Counter(structure.operator_name(n) for n in nodes)
    counts = dict(sorted(by_operator.items()))
    return CheckReport(source.name, len(nodes), counts, tuple(unsupported), dims)


@lru_cache(1 << 10)
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _survey(graph: onnx.GraphProto, opsets: Mapping[str, int]) -> list[Unsupported]:
    """Nodes whose operator is not supported at all, subgraphs' nodes among them."""
    found = []
    for node in graph.node:
        try:
            resolve(node, opsets.get(node.domain))
        except UnsupportedError as error:
            name = structure.operator_name(node)
            found.append(Unsupported(node.name, name, str(error)))
        for inner in structure.subgraphs(node):
            found += _survey(inner, opsets)
    return found


class _Program:
    """The module under construction: `main`, its arguments and its results."""

    def __init__(
        self,
        source: loading.Source,
        inferred: Mapping[str, onnx.TypeProto],
        opsets: Mapping[str, int],
        ranges: Mapping[str, Range],
        limits: Limits,
    ) -> None:
        self.source = source
        self.ranges = ranges
        self.graph = source.model.graph
        self.module = ir.Module.create()
        self.weights = WeightStore()
        self.refused: list[Unsupported] = []
        self.scope = Scope(opsets, used_names(self.graph))
        types = self._inputs()
        with ir.InsertionPoint(self.module.body):
            self.main = func.FuncOp("main", (list(types.values()), []))
        self.names = list(types)
        self.block = self.main.add_entry_block()
        for name, argument in zip(self.names, self.block.arguments, strict=True):
            self.scope.values[name] = Value(name, tensor=argument)
        for name, weight in source.weights.items():
            self.scope.values[name] = Value(name, weight=weight)
        self.constants = Constants(self.block, self.weights)
        sizes = [d for a in self.block.arguments for d in dims_of_type(a.type)]
        symbols = frozenset(d for d in sizes if isinstance(d, str))
        self.conversion = Conversion(self.constants, inferred, symbols, limits)
        self.outputs: list[Value] = []

    def convert(self) -> list[Unsupported]:
        """Converts every node. Returns the unsupported ones."""
        if self.refused:
            return self.refused
        with ir.InsertionPoint(self.block):
            self.outputs = self.conversion.graph(self.graph, self.scope)
        sequences = [v.name for v in self.outputs if v.items is not None]
        reason = "outputs that are sequences are not supported"
        return [
            *self.conversion.unsupported,
            *(Unsupported(n, "output", reason) for n in sequences),
        ]

    def finish(self) -> Graph:
        """The verified graph."""
        with ir.InsertionPoint(self.block):
            func.ReturnOp([self.constants.materialise(v) for v in self.outputs])
        bounds.lower(self.main, self.conversion.limits)
        self._compare_outputs()
        set_signature(self.main)
        set_required_numbers(self.main, list(self.conversion.required))
        set_value_limits(self.main, self.conversion.value_limits)
        set_value_names(self.main, "arg_attrs", self.names)
        set_value_names(self.main, "res_attrs", [v.name for v in self.graph.output])
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            if self.conversion.mistyped:
                raise ModelError(self.conversion.mistyped[0]) from error
            message = f"{self.source.name}: the imported program is wrong: {error}"
            raise CompilerError(message) from error
        self.weights.files = self.source.files
        return Graph(self.module, self.weights, self.source.name)

    def _compare_outputs(self) -> None:
        """Warns where a result has other sizes than the model declares for it."""
        for declared, value in zip(self.graph.output, self.outputs, strict=True):
            tensor = declared.type.tensor_type
            stated, made = dims_of_proto(tensor.shape), value.dims
            pairs = zip(stated, made, strict=False)
            fits = len(stated) == len(made) and all(
                a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int)
            )
            if tensor.HasField("shape") and not fits:
                _warn_once(
                    f"{self.source.name}: output '{declared.name}' is {tensors.show(made)}, and "
                    f"the model declares {tensors.show(stated)}"
                )

    def _with_ranges(self, dims: Sequence[Dim]) -> list[int | mgx.DimAttr | str | None]:
        """The dimensions with the bounds of those that have some."""
        found: list[int | mgx.DimAttr | str | None] = []
        for dim in dims:
            symbol = alone(tensors.size(dim)) if isinstance(dim, str) else None
            given = None if symbol is None else self.ranges.get(symbol.name)
            if isinstance(dim, str) and given is not None:
                found.append(mgx.DimAttr.get(dim, given.low, given.high, given.optimals))
            else:
                found.append(dim)
        return found

    def _inputs(self) -> dict[str, ir.Type]:
        types: dict[str, ir.Type] = {}
        declared = {v.name: v for v in self.graph.input}
        for name in self.source.inputs:
            value = declared[name]
            kind = value.type.WhichOneof("value")
            try:
                if kind is None:
                    raise ModelError(f"input '{name}' declares no type")
                if kind != "tensor_type":
                    raise UnsupportedError(f"inputs of {kind.removesuffix('_type')} type")
                budget.check_type(name, value.type)
                tensor = value.type.tensor_type
                element = element_types.of_onnx(tensor.elem_type)
                dims = dims_of_proto(tensor.shape)
                plain = tensor_type(mgx.element_type(element.numpy), dims)
                types[name] = mgx.tensor_type(self._with_ranges(dims), plain.element_type)
            except UnsupportedError as error:
                reason = f"{error} are not supported"
                self.refused.append(Unsupported(name, "input", reason))
        return types
