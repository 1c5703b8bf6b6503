"""Partitions a graph into islands, which compile, and nodes that the host runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, helper

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import ArtifactError
from mgx_mlir.importer import element_types, structure
from mgx_mlir.importer.loading import Source

# Values known without running: an initialiser, a weight by reference, a Constant node.
Known: TypeAlias = "TensorProto | Weight | NodeProto"

# Operators that exporters compute sizes with, from the results of Shape and Size and constants.
_ON_SHAPES = frozenset(
    "Abs Add And Cast Ceil Clip Concat ConstantOfShape Div Equal Expand Flatten Floor Gather "
    "Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pow ReduceMax "
    "ReduceMin ReduceProd ReduceSum Reshape Round Sign Slice Split Sqrt Squeeze Sub Sum Tile "
    "Transpose Unsqueeze Where".split()
)
# The inputs of operators that decide the sizes of results.
_SIZES = {
    "CenterCropPad": (1,), "Col2Im": (1, 2), "ConstantOfShape": (0,), "Expand": (1,), "Loop": (0,),
    "MaxUnpool": (2,), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "ReduceMax": (1,),
    "ReduceMean": (1,), "ReduceMin": (1,), "ReduceSum": (1,), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,),
    "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Nodes that run together: an island, or one node of the host.

    `nodes` are numbers in the graph; those that compute sizes may be in several islands.
    `inputs` are the values that it reads, without those that are known; `outputs` those that
    something else reads; `dead` those that nothing reads afterwards.
    """

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    on_host: bool
    dead: tuple[str, ...] = ()


def known_values(source: Source) -> dict[str, Known]:
    """The values of a graph that are known without running it."""
    graph = source.model.graph
    known: dict[str, Known] = {tensor.name: tensor for tensor in graph.initializer}
    known |= source.weights
    known |= {n.output[0]: n for n in graph.node if n.op_type == "Constant" and not n.domain}
    return known


def partition(
    graph: GraphProto, known: Collection[str], host: Collection[int], cuts: Collection[int]
) -> list[Step]:
    """The steps, in order: as few islands as possible.

    `host` are the nodes that the host runs. A node of `cuts` is in a later island than the
    nodes that it depends on, so that it sees their results.
    """
    needed = _needed(graph, known)
    chains = _shape_chains(graph, known)
    levels: dict[str, int] = {}
    groups: dict[tuple[int, bool, int], list[int]] = {}
    for index in needed:
        node = graph.node[index]
        on_host = index in host
        after = [levels[n] for n in structure.uses_of(node) if n in levels]
        level = max(after, default=0)
        if index in cuts and not on_host:
            level += 1
        # Only a later island sees a result of the host.
        levels |= dict.fromkeys(node.output, level + on_host)
        groups.setdefault((level, on_host, index if on_host else 0), []).append(index)
    ordered = [
        group if on_host else _with_sizes(graph, group, chains)
        for (_, on_host, _), group in sorted(groups.items())
    ]
    return steps_of(graph, known, ordered, host)


def _shape_chains(graph: GraphProto, known: Collection[str]) -> dict[str, int]:
    """The values that are arithmetic on shapes and constants, and windows that only have a shape;
    their nodes."""
    chains: dict[str, int] = {}
    shaped = {node.input[0] for node in graph.node if node.op_type == "Shape"}
    for index, node in enumerate(graph.node):
        window = node.op_type == "Slice" and all(n in known for n in node.input[1:] if n)
        if window and not shaped.isdisjoint(node.output):
            chains[node.output[0]] = index
            continue
        follows = node.op_type in _ON_SHAPES
        follows = follows and all(n in chains or n in known for n in node.input if n)
        if not node.domain and (follows or node.op_type in ("Shape", "Size")):
            chains |= dict.fromkeys(node.output, index)
    return chains


def _with_sizes(graph: GraphProto, group: list[int], chains: Mapping[str, int]) -> list[int]:
    """An island with copies of the nodes that compute its sizes in an island before.

    So its sizes follow from those of its inputs, and one program serves all of them.
    """
    made = {name: i for i in group for name in graph.node[i].output}
    nodes = [graph.node[i] for i in group]
    wanted = [n for node in nodes for n in _sizes_read(node)]
    copied: set[int] = set()
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        index = made.get(name, chains.get(name))
        if index is None or name in seen:
            continue
        seen.add(name)
        node = graph.node[index]
        if name not in made:
            copied.add(index)
        if node.op_type in ("Shape", *_ON_SHAPES):
            wanted += node.input
    return sorted({*group, *copied})


def _sizes_read(node: NodeProto) -> list[str]:
    """The inputs of a node that decide the sizes of its results."""
    places = _SIZES.get(node.op_type, ()) if not node.domain else ()
    return [node.input[i] for i in places if i < len(node.input) and node.input[i]]


def _needed(graph: GraphProto, known: Collection[str]) -> list[int]:
    """The nodes that the outputs depend on, in order, without those that are known."""
    wanted = {value.name for value in graph.output}
    found = []
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if wanted.isdisjoint(node.output) or node.output[0] in known:
            continue
        wanted |= structure.uses_of(node)
        found.append(index)
    return found[::-1]


def stored_steps(
    graph: GraphProto,
    known: Collection[str],
    groups: Sequence[Sequence[int]],
    host: Collection[int],
) -> list[Step]:
    """The steps of groups of nodes that an artifact names.

    Raises ArtifactError where they are no steps of the graph: a node is missing, or out of order.
    """
    made = {v.name for v in graph.input} | {"", *known}
    chains = {*_shape_chains(graph, known).values()}
    done: set[int] = set()
    for group in groups:
        if len({*group}) != len(group):
            raise ArtifactError(f"nodes {list(group)} of a step are not distinct")
        for index in group:
            if index >= len(graph.node) or (index in done and index not in chains):
                raise ArtifactError(f"node {index} of {len(graph.node)} is in no step, or in two")
            if not structure.uses_of(graph.node[index]) <= made:
                raise ArtifactError(f"node {index} runs before the nodes that it reads")
            if index in host and len(group) > 1:
                raise ArtifactError(f"node {index} is the host's, and in a segment")
            made.update(graph.node[index].output)
            done.add(index)
    if not made >= {v.name for v in graph.output}:
        raise ArtifactError("nodes that results need are in no step")
    return steps_of(graph, known, groups, host)


def steps_of(
    graph: GraphProto,
    known: Collection[str],
    groups: Sequence[Sequence[int]],
    host: Collection[int],
) -> list[Step]:
    """The steps of groups of nodes, in order. Each group is an island, or one node of the host."""
    reads = [[n for i in g for n in sorted(structure.uses_of(graph.node[i]))] for g in groups]
    wanted = {value.name for value in graph.output}
    steps = []
    for group, read in zip(reversed(groups), reversed(reads), strict=True):
        made = [n for i in group for n in graph.node[i].output if n]
        inputs = [n for n in dict.fromkeys(read) if n not in made and n not in known]
        outputs = [n for n in dict.fromkeys(made) if n in wanted]
        dead = [n for n in inputs if n not in wanted]
        wanted |= set(inputs)
        on_host = group[0] in host
        steps.append(Step(tuple(group), tuple(inputs), tuple(outputs), on_host, tuple(dead)))
    return steps[::-1]


def source_of(
    source: Source,
    nodes: Iterable[NodeProto],
    inputs: Mapping[str, TypeProto],
    outputs: Iterable[onnx.ValueInfoProto],
    known: Mapping[str, Known],
    name: str,
) -> Source:
    """A model of some nodes, with inputs of these types, and the values of `known` they read."""
    graph = GraphProto(name=name)
    kept = [*nodes]
    outputs = list(outputs)
    read = {n for node in kept for n in structure.uses_of(node)} | {v.name for v in outputs}
    read -= {n for node in kept for n in node.output} | inputs.keys()
    graph.input.extend(onnx.ValueInfoProto(name=n, type=t) for n, t in inputs.items())
    weights: dict[str, Weight] = {}
    for value in sorted(read & known.keys()):
        entry = known[value]
        if isinstance(entry, Weight):
            weights[value] = entry
            number = element_types.of_numpy(np.dtype(entry.dtype)).onnx
            graph.input.append(helper.make_tensor_value_info(value, number, entry.shape))
        elif isinstance(entry, NodeProto):
            graph.node.append(entry)
        else:
            graph.initializer.append(entry)
    graph.node.extend(kept)
    graph.output.extend(outputs)
    model = onnx.ModelProto(ir_version=source.model.ir_version, graph=graph)
    model.opset_import.extend(source.model.opset_import)
    return Source(model, weights, tuple(inputs), name)
