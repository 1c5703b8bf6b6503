"""Gradient (ai.onnx.preview.training): written out as ONNX nodes, by reverse accumulation.

    y = Mul(x, x); dy_dx = Gradient<xs = ["x"], y = "y">(x)

becomes the nodes of y again, at the point that Gradient reads, and after them the nodes that
carry the derivative of y's sum back to x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TypeProto, helper, numpy_helper

from mgx_mlir import advice
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import structure

DOMAIN = "ai.onnx.preview.training"


def expand(
    model: onnx.ModelProto, opset: int, types_of: Callable[[onnx.ModelProto], dict[str, TypeProto]]
) -> None:
    """Replaces every Gradient in place. `types_of` gives the types of a graph's values.

    Raises UnsupportedError naming a node whose derivative is not known.
    """
    graph = model.graph
    places = [i for i, node in enumerate(graph.node) if _is_gradient(node)]
    if not places:
        return
    types = types_of(model)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    nodes: list[NodeProto] = []
    for index, node in enumerate(kept):
        nodes += _Expansion(graph, node, types, opset).run() if index in places else [node]
    del graph.node[:]
    graph.node.extend(nodes)


def _is_gradient(node: NodeProto) -> bool:
    return node.op_type == "Gradient" and node.domain == DOMAIN


class _Expansion:
    """One Gradient. Values of the nodes that are computed again are called NODE/NAME."""

    def __init__(
        self, graph: GraphProto, node: NodeProto, types: dict[str, TypeProto], opset: int
    ) -> None:
        self.node = node
        self.types = types
        self.opset = opset
        self.producers = {n: other for other in graph.node for n in other.output if n}
        self.nodes: list[NodeProto] = []
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.xs = [name.decode() for name in attributes.get("xs", [])]
        names = self.xs + [name.decode() for name in attributes.get("zs", [])]
        self.y = attributes.get("y", b"").decode()
        if len(names) != len(node.input):
            raise ModelError(
                f"{structure.display_name(node)} names {len(names)} variables and has "
                f"{len(node.input)} inputs"
            )
        if self.y not in types:
            raise ModelError(f"{structure.display_name(node)}: nothing computes y = '{self.y}'")
        # From the names in the model to those of the values at the point.
        self.renamed = dict(zip(names, node.input, strict=True))

    def run(self) -> list[NodeProto]:
        again = self._path()
        for other in again:
            copy = NodeProto()
            copy.CopyFrom(other)
            copy.name = f"{self.node.name}/{other.name}"
            results = {n: f"{self.node.name}/{n}" for n in other.output if n}
            self.renamed |= {n: r for n, r in results.items() if n not in self.renamed}
            copy.input[:] = [self.renamed.get(n, n) for n in other.input]
            copy.output[:] = [results.get(n, n) for n in other.output]
            self.nodes.append(copy)
        number = self.types[self.y].tensor_type.elem_type
        one = np.ones(1, helper.tensor_dtype_to_np_dtype(number))
        shape = self.op("Shape", self.renamed.get(self.y, self.y))
        ones = self.op("ConstantOfShape", shape, value=numpy_helper.from_array(one))
        sums = {self.y: ones}
        for other in reversed(again):
            self._carry(other, sums)
        for name, result in zip(self.xs, self.node.output, strict=True):
            x = self.renamed[name]
            made = sums.get(name) or self.op("Sub", x, x)  # y does not depend on it
            self.nodes.append(helper.make_node("Identity", [made], [result], f"{result}/last"))
        return self.nodes

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; its result."""
        name = f"{self.node.name}/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def _path(self) -> list[NodeProto]:
        """The nodes between the variables and y, in order."""
        order = list({id(node): node for node in self.producers.values()}.values())
        moving = set(self.renamed)
        for node in order:
            if not moving.isdisjoint(structure.uses_of(node)):
                moving |= {n for n in node.output if n not in self.renamed}
        wanted, path = {self.y}, []
        for node in reversed(order):
            results = [n for n in node.output if n in moving and n not in self.renamed]
            if not wanted.isdisjoint(results):
                wanted |= structure.uses_of(node)
                path.append(node)
        return path[::-1]

    def _carry(self, node: NodeProto, sums: dict[str, str]) -> None:
        """Adds the contributions of a node's result to the derivatives of its inputs."""
        if node.output[0] not in sums:
            return
        rule = _RULES.get(node.op_type) if not node.domain else None
        if rule is None:
            raise UnsupportedError(
                f"{structure.display_name(self.node)}: the derivative of "
                f"{structure.display_name(node)} is not known"
            )
        at = [self.renamed.get(n, n) for n in node.input]
        result = self.renamed[node.output[0]]
        for name, part in zip(
            node.input, rule(self, sums[node.output[0]], result, at), strict=False
        ):
            part = self._summed(part, name, node.output[0])
            sums[name] = self.op("Add", sums[name], part) if name in sums else part

    def _summed(self, part: str, name: str, result: str) -> str:
        """A contribution in the shape of the input that was broadcast."""
        have, want = (self._sizes(n) for n in (result, name))
        if have == want:
            return part
        missing = len(have) - len(want)
        axes = [i for i in range(len(have)) if i < missing or want[i - missing] != have[i]]
        if self.opset >= 13:
            constant = numpy_helper.from_array(np.array(axes, np.int64))
            part = self.op("ReduceSum", part, self.op("Constant", value=constant), keepdims=1)
        else:
            part = self.op("ReduceSum", part, axes=axes, keepdims=1)
        return self.op("Reshape", part, self.op("Shape", self.renamed.get(name, name)))

    def _sizes(self, name: str) -> list[int]:
        type_ = self.types.get(name, TypeProto()).tensor_type
        if not type_.HasField("shape") or any(not d.HasField("dim_value") for d in type_.shape.dim):
            raise OpenError(
                f"{structure.display_name(self.node)}: the size of '{name}' is not known; "
                f"{advice.GIVE_SIZES}"
            )
        return [d.dim_value for d in type_.shape.dim]


# Maps the derivative by a node's result (g), the result and the inputs to those by the inputs.
_Rule = Callable[[_Expansion, str, str, Sequence[str]], list[str]]


def _unary(rule: Callable[[_Expansion, str, str, str], str]) -> _Rule:
    return lambda e, g, y, inputs: [rule(e, g, y, inputs[0])]


def _quotient(e: _Expansion, g: str, y: str, inputs: Sequence[str]) -> list[str]:
    part = e.op("Div", g, inputs[1])
    return [part, e.op("Neg", e.op("Mul", part, y))]


_RULES: dict[str, _Rule] = {
    "Abs": _unary(lambda e, g, y, x: e.op("Mul", g, e.op("Sign", x))),
    "Add": lambda e, g, y, inputs: [g, g],
    "Cos": _unary(lambda e, g, y, x: e.op("Neg", e.op("Mul", g, e.op("Sin", x)))),
    "Div": _quotient,
    "Exp": _unary(lambda e, g, y, x: e.op("Mul", g, y)),
    "Identity": _unary(lambda e, g, y, x: g),
    "Log": _unary(lambda e, g, y, x: e.op("Div", g, x)),
    "Mul": lambda e, g, y, inputs: [e.op("Mul", g, inputs[1]), e.op("Mul", g, inputs[0])],
    "Neg": _unary(lambda e, g, y, x: e.op("Neg", g)),
    "Relu": _unary(lambda e, g, y, x: e.op("Mul", g, e.op("Sign", y))),
    "Sigmoid": _unary(
        lambda e, g, y, x: e.op("Mul", g, e.op("Sub", y, e.op("Mul", y, y))),
    ),
    "Sin": _unary(lambda e, g, y, x: e.op("Mul", g, e.op("Cos", x))),
    "Sqrt": _unary(lambda e, g, y, x: e.op("Div", g, e.op("Add", y, y))),
    "Sub": lambda e, g, y, inputs: [g, e.op("Neg", g)],
    "Tanh": _unary(lambda e, g, y, x: e.op("Sub", g, e.op("Mul", g, e.op("Mul", y, y)))),
}
