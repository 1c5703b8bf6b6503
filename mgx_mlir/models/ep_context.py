"""Models for onnxruntime's execution provider: compiled parts as EPContext nodes.

    x -> [Conv, Relu, ..., MatMul] -> NonMaxSuppression -> ...
    x -> EPContext<an artifact> -> NonMaxSuppression -> ...

An artifact has code for any number of targets and serves all sizes that the model's inputs leave
open. The other nodes stay as they are, for the providers of the host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer import structure
from mgx_mlir.models.islands import Island, Islands
from mgx_mlir.version import __version__

# The provider's name: nodes whose `source` it is are its own.
PROVIDER = "MGXExecutionProvider"
DOMAIN = "com.microsoft"
# protobuf reads no larger messages.
MOST_BYTES = (1 << 31) - (1 << 20)
# The list of parts that the provider reads, and its first line.
LIST, HEADING = "islands.txt", "mgx-islands 1"


def context_model(found: Islands, files: Mapping[int, str] | None = None) -> ModelProto:
    """The model with a node for each part that holds its artifact, or names the file of it.

    `files` are the names of files by the part's number, relative to the model's folder. Raises
    UnsupportedError where nothing compiles, UsageError where the model would be larger than
    2 GB.
    """
    if not found.islands:
        raise UnsupportedError(f"no node of the model compiles\n{found}")
    model = ModelProto()
    model.CopyFrom(found.source.model)
    covered = {node for island in found.islands for node in island.nodes}
    graph = model.graph
    kept = [node for i, node in enumerate(graph.node) if i not in covered]
    held = [b"" if files else island.artifact.to_bytes() for island in found.islands]
    if sum(map(len, held)) > MOST_BYTES:
        raise UsageError("the artifacts have more than 2 GB, which no ONNX file holds: --beside")
    for number, (island, data) in enumerate(zip(found.islands, held, strict=True)):
        place = data if files is None else files[number].encode()
        kept.append(_node(number, island, place, files is None))
    nodes = _sorted(_needed(kept, {v.name for v in graph.output}))
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    _keep_read(graph, found)
    _state_types(graph, found.types)
    if all(entry.domain != DOMAIN for entry in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=1)
    if model.ByteSize() > MOST_BYTES:
        raise UsageError("the model has more than 2 GB, which no ONNX file holds: --beside")
    return model


def save_context_model(found: Islands, path: Path, beside: bool) -> list[Path]:
    """Writes the model to `path` and, with `beside`, the artifacts to files of its folder."""
    names = {i: f"{path.stem}_{i}.mgx" for i in range(len(found.islands))} if beside else None
    model = context_model(found, names)
    written = []
    for number, name in (names or {}).items():
        written.append(path.with_name(name))
        found.islands[number].artifact.save(written[-1])
    write_atomically(path, model.SerializeToString(deterministic=True))
    return [path, *written]


def save_islands(found: Islands, folder: Path) -> None:
    """Writes the artifacts, and the list of them with the numbers of their nodes, to a folder."""
    lines = [HEADING]
    for number, island in enumerate(found.islands):
        name = f"{number}.mgx"
        island.artifact.save(folder / name)
        lines.append(" ".join([name, *map(str, island.nodes)]))
    write_atomically(folder / LIST, "".join(f"{line}\n" for line in lines).encode())


def _node(number: int, island: Island, place: bytes, embedded: bool) -> NodeProto:
    name = f"mgx_{number}"
    return helper.make_node(
        "EPContext",
        island.inputs,
        island.outputs,
        name=name,
        domain=DOMAIN,
        main_context=1,
        embed_mode=int(embedded),
        ep_cache_context=place,
        ep_sdk_version=__version__,
        hardware_architecture=",".join(_targets(island.artifact)),
        partition_name=name,
        source=PROVIDER,
    )


def _targets(artifact: Artifact) -> list[str]:
    return sorted(artifact.code_objects)


def _needed(nodes: list[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """The nodes that results depend on."""
    producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    wanted, found = [producer[n] for n in outputs if n in producer], set()
    while wanted:
        index = wanted.pop()
        if index not in found:
            found.add(index)
            wanted += [producer[n] for n in structure.uses_of(nodes[index]) if n in producer]
    return [node for i, node in enumerate(nodes) if i in found]


def _sorted(nodes: list[NodeProto]) -> list[NodeProto]:
    """The nodes, each after those that it depends on."""
    left = {i: structure.uses_of(node) for i, node in enumerate(nodes)}
    unmade = {name for node in nodes for name in node.output if name}
    order: list[NodeProto] = []
    while left:
        ready = [i for i, read in left.items() if not read & unmade]
        assert ready, "parts depend on each other"
        for index in ready:
            del left[index]
            unmade -= {*nodes[index].output}
            order.append(nodes[index])
    return order


def _keep_read(graph: GraphProto, found: Islands) -> None:
    """Leaves the inputs, and the constants that the other nodes and the results read.

    A constant that a caller of the model may replace is one, as artifacts have it.
    """
    read = {n for node in graph.node for n in structure.uses_of(node)}
    read |= {v.name for v in graph.output}
    weights = found.source.weights
    inputs = [v for v in graph.input if v.name in found.source.inputs]
    constants = [t for t in graph.initializer if t.name in read]
    constants += [
        numpy_helper.from_array(weight.array(), name)
        for name, weight in sorted(weights.items())
        if name in read
    ]
    inputs = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in inputs]
    constants = [onnx.TensorProto.FromString(t.SerializeToString()) for t in constants]
    del graph.input[:], graph.initializer[:], graph.sparse_initializer[:]
    graph.input.extend(inputs)
    graph.initializer.extend(constants)


def _state_types(graph: GraphProto, types: Mapping[str, TypeProto]) -> None:
    """States the types of results, as onnxruntime infers none for EPContext."""
    del graph.value_info[:]
    outputs = {v.name for v in graph.output}
    for node in graph.node:
        for name in node.output:
            if name in types and name not in outputs:
                graph.value_info.add(name=name, type=types[name])


def output_folder(path: str) -> Path:
    """The folder that an option names. Raises UsageError where there is none."""
    folder = Path(path)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{folder} is no folder that can be written to; make it")
    return folder
