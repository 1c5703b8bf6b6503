"""The nodes and constants that a quantized model gets beside those of the f32 model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.importer import element_types
from mgx_mlir.importer.loading import SMALL_ELEMENTS, Source
from mgx_mlir.quantization.network import Network, fresh

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
    a boolean input of `source`; `switches` gives those of each product.
    """

    source: Source
    taken: set[str]
    with_switches: bool
    jobs: list[Job] = field(default_factory=list)
    small: list[TensorProto] = field(default_factory=list)
    after: dict[str, list[NodeProto]] = field(default_factory=dict)
    before: dict[str, list[NodeProto]] = field(default_factory=dict)
    switches: dict[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(network: Network, with_switches: bool) -> Parts:
        """No parts yet, for a copy of the network's model."""
        taken = {name for n in network.graph.node for name in (*n.input, *n.output, n.name)}
        taken |= {t.name for t in network.graph.initializer}
        taken |= {v.name for v in (*network.graph.input, *network.graph.output)}
        return Parts(network.source.copy(), taken, with_switches)

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

    def node(
        self, kind: str, inputs: Sequence[str], output: str, **attributes: int | str
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
