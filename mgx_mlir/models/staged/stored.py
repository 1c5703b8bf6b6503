"""Artifacts of models in parts: made from a staged graph, and read back as one.

The stored model is prepared: its functions are inlined, its sizes bound. Writing partitions the
model as it is stored, so that numbers of nodes mean the same when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import GraphProto, TypeProto, helper

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.parts import Part, Parts
from mgx_mlir.artifact.plan import Plan, renumbered
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.compiler import CompileOptions, KernelTable
from mgx_mlir.errors import ArtifactError, ModelError, UnsupportedError, UsageError
from mgx_mlir.importer import io_types, loading, prepare, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.models.host.values import is_tensor, type_text
from mgx_mlir.models.staged.compilation import Compilation, Record
from mgx_mlir.models.staged.graph import StagedGraph


def prepared(
    source: Source,
    options: CompileOptions,
    values: Mapping[str, Any],
    refused: UnsupportedError | None = None,
) -> Source:
    """The model as it is partitioned: checked, with sizes, and names of nodes that differ.

    `values` are some or all inputs. Raises ModelError, or `refused` where there is one.
    """
    source = source.copy()
    shapeless = {
        v.name: v
        for v in source.model.graph.input
        if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape")
    }
    dims = {n: values[n].shape for n in shapeless if is_tensor(values.get(n))}
    prepare.prepare(source, {**options.input_dims, **dims}, options.dim_params, options.default_dim)
    for value in source.model.graph.input:
        if value.name in shapeless:
            value.type.tensor_type.ClearField("shape")
    name_apart(source.model.graph, set())
    try:
        prepare.check(source.model)
    except ModelError as error:  # onnx's library may not know unsupported operators either
        raise refused or error from error
    return source


def name_apart(graph: GraphProto, taken: set[str]) -> None:
    """Gives nodes of equal names, in whatever graph, names of their own."""
    for node in graph.node:
        name = node.name
        number = 0
        while node.name in taken:
            number += 1
            node.name = f"{name}_{number}"
        taken.add(node.name)
        for inner in structure.subgraphs(node):
            name_apart(inner, taken)


def compile_parts(
    model: loading.AnySource,
    options: CompileOptions | None,
    record: Record,
    refused: UnsupportedError,
) -> Artifact:
    """The artifact of a model that runs in parts.

    Raises `refused` where there are nodes that neither compile nor run on the host, and where the
    host runs none: then only a run shows how to compile the model.
    """
    options = options or CompileOptions()
    source = prepare.fix_inputs(loading.load(model), options.input_values)
    source = io_types.change_types(source, options.io)
    options, stated = replace(options, io={}), options
    source = prepared(source, options, {}, refused)
    data = _stored_bytes(source)
    stored = prepared(
        _read(data, source.inputs, source.weights, source.name), CompileOptions(), {}, refused
    )
    compilation = Compilation("cpu", options, {}, record=record)
    try:
        graph = StagedGraph(stored, prepare.infer(stored.model), compilation)
    except UnsupportedError as error:
        raise refused from error
    if graph.survey().lacking or not graph.host_nodes:
        raise refused
    merged = _Merged(record)
    graphs = {place: merged.graph(place, steps) for place, steps in record.graphs.items()}
    kept = merged.kept(stored)
    return Artifact(
        name=source.name,
        plan=Plan((), (), 0, (), ()),
        kernels=tuple(merged.table.kernels),
        weights=merged.weights,
        options=stated.to_json(),
        pipelines=tuple(dict.fromkeys(p for a in merged.artifacts for p in a.pipelines)),
        parts=Parts(data, source.inputs, kept, graphs, _signature(stored)),
        sources=source.files,
    )


def read_source(artifact: Artifact) -> tuple[Source, CompileOptions]:
    """The model of an artifact in parts, and the options that its parts compile with.

    Raises ArtifactError where the stored model is not sound.
    """
    parts = artifact.parts
    assert parts is not None
    weights = {
        name: replace(artifact.weights[key], key=name) for name, key in parts.weights.items()
    }
    given: dict[str, Any] = {
        n: v for n, v in artifact.options.items() if type(v) is _OPTIONS.get(n)
    }
    lists = [v for v in given.values() if isinstance(v, list)]
    if not all(isinstance(name, str) for names in lists for name in names):
        raise ArtifactError("damaged: its options name passes and nodes by other than text")
    try:
        options = CompileOptions(**given)
        return _read(parts.model, parts.inputs, weights, artifact.name), options
    except (ModelError, UnsupportedError, UsageError) as error:
        raise ArtifactError(f"the model in the artifact is damaged: {error}") from error


# The options of an artifact by which its parts compile, beside those of its inputs.
_OPTIONS = {"floats": str, "keep": list, "disable": list, "exact": bool,
            "max_loop_iterations": int}  # fmt: skip


class _Compiled(Weight):
    """A weight that only compiled segments have."""

    def array(self) -> np.ndarray:
        raise ArtifactError(
            f"weight '{self.key}' is there in compiled segments alone, and the inputs have other "
            "sizes than these; compile the model for these sizes too"
        )


def _read(data: bytes, inputs: tuple[str, ...], weights: Mapping[str, Weight], name: str) -> Source:
    """The stored model with its weights; those that are not given are compiled in."""
    source = loading.load(data)
    declared = {v.name: v.type for v in source.model.graph.input}
    if not {*inputs, *weights} <= declared.keys():
        raise ModelError("it lacks inputs or weights that the artifact names")
    found = dict(source.weights)
    for weight in declared.keys() - found.keys() - {*inputs}:
        tensor = declared[weight].tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        given = weights.get(weight) or _Compiled(weight, dtype, shape)
        if (given.dtype, tuple(given.shape)) != (dtype, shape):
            raise ModelError(f"weight '{weight:.80}' is not of the type that it declares")
        found[weight] = given
    return Source(source.model, found, inputs, name)


def _stored_bytes(source: Source) -> bytes:
    """The model without large weights; initialisers are no inputs, descriptions are left out."""
    model = source.copy().model
    initializers = {t.name for t in model.graph.initializer}
    kept = [v for v in model.graph.input if v.name not in initializers]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for node in structure.all_nodes(model.graph):
        node.doc_string = ""
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _signature(source: Source) -> str:
    """Inputs and outputs for people."""
    types: dict[str, TypeProto] = prepare.infer(source.model)
    graph: GraphProto = source.model.graph
    inputs = [f"{name}: {type_text(types[name])}" for name in source.inputs]
    outputs = [f"{v.name}: {type_text(types.get(v.name, v.type))}" for v in graph.output]
    return f"{', '.join(inputs)} -> {', '.join(outputs)}"


@dataclass
class _Merged:
    """The programs of all segments, with one list of kernels and one set of weights."""

    record: Record

    def __post_init__(self) -> None:
        self.table = KernelTable(self.record.version)
        self.weights: dict[str, Weight] = {}
        self.artifacts: list[Artifact] = []

    def graph(self, place: str, steps: tuple[Part, ...]) -> tuple[Part, ...]:
        """The steps with the plans of those that are compiled."""
        return tuple(
            replace(part, plans=(self._plan(self.record.artifacts[place, part.nodes]),))
            if (place, part.nodes) in self.record.artifacts
            else part
            for part in steps
        )

    def _plan(self, artifact: Artifact) -> Plan:
        number = len(self.artifacts)
        self.artifacts.append(artifact)
        numbers = [self.table.add(_named(k, number)) for k in artifact.kernels]
        keys = {key: self._key(weight) for key, weight in artifact.weights.items()}
        return _with_keys(renumbered(artifact.plan, numbers), keys)

    def _key(self, weight: Weight) -> str:
        """The key of a weight, its own unless another weight has it."""
        key, number = weight.key, 0
        while not _same(self.weights.setdefault(key, replace(weight, key=key)), weight):
            number += 1
            key = f"{weight.key}.{number}"
        return key

    def kept(self, source: Source) -> dict[str, str]:
        """The weights that the host, or a segment without a program, reads: keys by name."""
        names = sorted(self.record.read & source.weights.keys())
        return {name: self._key(source.weights[name]) for name in names}


def _same(one: Weight, other: Weight) -> bool:
    one_place, place = (
        (one.file, one.offset, id(one.data)),
        (other.file, other.offset, id(other.data)),
    )
    same_type = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same_type and (one_place == place or one.sha256 == other.sha256)


def _named(kernel: PortableKernel, segment: int) -> PortableKernel:
    return replace(kernel, name=f"s{segment}_{kernel.name}")


def _with_keys(plan: Plan, keys: Mapping[str, str]) -> Plan:
    buffers = tuple(replace(b, key=keys[b.key]) if b.kind == "weight" else b for b in plan.buffers)
    programs = tuple((sizes, _with_keys(inner, keys)) for sizes, inner in plan.programs)
    return replace(plan, buffers=buffers, programs=programs)
