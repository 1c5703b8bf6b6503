"""The nodes and constants that a quantized model gets beside those of the f32 model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, helper

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.importer import element_types, prepare, structure
from mgx_mlir.importer.loading import SMALL_ELEMENTS, Source
from mgx_mlir.importer.structure import fresh
from mgx_mlir.quantization.network import Network

Attribute: TypeAlias = int | str | list[int]
# The tensors that a job makes: type and shape by name.
Shapes = dict[str, tuple[np.dtype, tuple[int, ...]]]


@dataclass(frozen=True)
class Job:
    """Constants that are computed when they are written: `compute` gives those of `made`."""

    made: Shapes
    compute: Callable[[], Sequence[np.ndarray]]


def tensor_of(array: np.ndarray, name: str) -> TensorProto:
    """An array as an initialiser; in types too that numpy does not know."""
    kind = element_types.of_numpy(array.dtype)
    raw = element_types.packed(array).tobytes()
    return helper.make_tensor(name, kind.onnx, array.shape, raw, raw=True)


@dataclass
class Parts:
    """New nodes: those `after` the maker of a value, and those `before` a node, by its name.

    `jobs` are large constants, `small` are others. With `with_switches`, each quantized tensor has
    a boolean input of `source`; `switches` gives those of each product. `known` are the names of
    the constants that jobs make, by what they hold.
    """

    source: Source
    taken: set[str]
    with_switches: bool
    jobs: list[Job] = field(default_factory=list)
    small: list[TensorProto] = field(default_factory=list)
    after: dict[str, list[NodeProto]] = field(default_factory=dict)
    before: dict[str, list[NodeProto]] = field(default_factory=dict)
    switches: dict[str, list[str]] = field(default_factory=dict)
    known: dict[Hashable, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(network: Network, with_switches: bool) -> Parts:
        """No parts yet, for a copy of the network's model."""
        taken = {name for n in network.graph.node for name in (*n.input, *n.output, n.name)}
        taken |= {t.name for t in network.graph.initializer}
        taken |= {v.name for v in (*network.graph.input, *network.graph.output)}
        return Parts(network.source.copy(), taken, with_switches)

    def inside(self, body: Network) -> Parts:
        """No parts yet, for a body of the same model: constants that are computed are shared."""
        self.taken |= Parts.of(body, False).taken
        return Parts(body.source.copy(), self.taken, False, self.jobs, known=self.known)

    def computed(
        self, key: Hashable, prefix: str, made: Shapes, compute: Callable[[], Sequence[np.ndarray]]
    ) -> list[str]:
        """The names of constants that `compute` gives, which are made once for a key."""
        if key not in self.known:
            names = [self.fresh(f"{prefix}/{word}") for word in made]
            self.jobs.append(Job(dict(zip(names, made.values(), strict=True)), compute))
            self.known[key] = names
        return self.known[key]

    def fresh(self, name: str) -> str:
        """The name, or one like it that nothing has."""
        return fresh(name, self.taken)

    def constant(self, name: str, array: np.ndarray) -> str:
        """The name of a small constant."""
        found = self.fresh(name)
        self.small.append(tensor_of(array, found))
        return found

    def large(self, name: str, array: np.ndarray) -> str:
        """The name of a constant that is in memory, as large as a weight."""
        found = self.fresh(name)
        array = np.ascontiguousarray(array)
        if array.size <= SMALL_ELEMENTS:
            self.small.append(tensor_of(array, found))
            return found
        self.source.weights[found] = Weight(found, array.dtype, array.shape, data=array)
        kind = element_types.of_numpy(array.dtype).onnx
        value = helper.make_tensor_value_info(found, kind, array.shape)
        self.source.model.graph.input.append(value)
        return found

    def network(self) -> Network:
        """The model with the new nodes after the values that they read, as a network."""
        graph = self.source.model.graph
        graph.initializer.extend(self.small)
        nodes = [node for value in graph.input for node in self.after.get(value.name, ())]
        for node in graph.node:
            nodes.append(node)
            nodes += [new for name in node.output for new in self.after.get(name, ())]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
        return Network.on(self.source)

    def assemble(self, nodes: Sequence[NodeProto]) -> None:
        """Gives the model these nodes, and drops the constants that none of them reads."""
        source, graph = self.source, self.source.model.graph
        read = {name for node in nodes for name in structure.uses_of(node)}
        read |= {value.name for value in graph.output}
        constants = [n.output[0] for n in nodes if n.op_type == "Constant"]
        unread = {*source.weights, *constants, *(t.name for t in graph.initializer)} - read
        kept = [n for n in nodes if n.op_type != "Constant" or n.output[0] not in unread]
        del graph.node[:]
        graph.node.extend(kept)
        initializers = [t for t in graph.initializer if t.name not in unread]
        del graph.initializer[:]
        graph.initializer.extend([*initializers, *self.small])
        inputs = [value for value in graph.input if value.name not in unread]
        del graph.input[:]
        graph.input.extend(inputs)
        source.weights = {n: w for n, w in source.weights.items() if n not in unread}
        source.replaceable -= unread
        domains = {node.domain for node in structure.all_nodes(graph)}
        domains -= prepare.opsets(source.model).keys()
        source.model.opset_import.extend(helper.make_opsetid(d, 1) for d in sorted(domains))

    def node(
        self, kind: str, inputs: Sequence[str], output: str, **attributes: Attribute
    ) -> NodeProto:
        """A node with one result."""
        return helper.make_node(kind, inputs, [output], output, **attributes)

    def switched(self, nodes: list[NodeProto], plain: str, other: str, users: list[str]) -> str:
        """`other`, or with switches the one that the users' switches choose."""
        if not self.with_switches:
            return other
        switch, y = self.fresh(f"{plain}/switch"), self.fresh(f"{plain}/chosen")
        value = helper.make_tensor_value_info(switch, TensorProto.BOOL, [])
        self.source.model.graph.input.append(value)
        self.source.inputs = (*self.source.inputs, switch)
        for user in users:
            self.switches.setdefault(user, []).append(switch)
        nodes.append(self.node("Where", [switch, other, plain], y))
        return y
