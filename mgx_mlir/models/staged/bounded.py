"""Nodes whose data decide the size of their results, in two halves.

    NonZero(x)  ->  most, count = mgx.bounded.NonZero(x)      compiles: room for all elements
                    mgx.bounded.Cut(most, count)              the host: the counted elements

The first half is part of an island. Only the counted elements along its last dimension leave
the device.
"""

from __future__ import annotations

import onnx
from onnx import NodeProto, helper

from mgx_mlir.importer import structure
from mgx_mlir.importer.converters.bounded import DOMAIN

# The operators, and the dimension of the result whose size the data decide.
_AXES = {"Compress": 0, "NonMaxSuppression": 0, "NonZero": 1}
_AS_FAST = ("NonMaxSuppression", "NonZero")
CUT = "Cut"


def split(model: onnx.ModelProto, whole: bool = True) -> dict[str, str]:
    """Splits the nodes of a graph; gives the name of each tensor with room, by its count's.

    whole: all such nodes, else only those that a CPU computes as fast in a program.
    """
    found: dict[str, str] = {}
    nodes: list[NodeProto] = []
    graph = model.graph
    known = {tensor.name for tensor in graph.initializer}
    known |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        compiles = node.op_type == "Compress" and node.input[1] in known
        kinds = _AXES if whole else _AS_FAST
        if node.domain or node.op_type not in kinds or compiles:
            nodes.append(node)
            continue
        (result,) = node.output
        most, count = f"{result}/most", f"{result}/count"
        found[count] = most
        first = NodeProto(name=f"{node.name}/most", op_type=node.op_type, domain=DOMAIN)
        first.input.extend(node.input)
        first.output.extend([most, count])
        first.attribute.extend(node.attribute)
        stated = [a.i for a in node.attribute if a.name == "axis"]
        axis = (*stated, _AXES[node.op_type])[0]
        cut = helper.make_node(
            CUT, [most, count], [result], node.name, domain=DOMAIN, axis=axis, of=node.op_type
        )
        nodes += [first, cut]
    if found:
        del graph.node[:]
        graph.node.extend(nodes)
        if all(opset.domain != DOMAIN for opset in model.opset_import):
            model.opset_import.add(domain=DOMAIN, version=1)
    return found


def is_first_half(node: NodeProto) -> bool:
    """Whether a node is a first half, which can compile."""
    return node.domain == DOMAIN and node.op_type != CUT


def operator_name(node: NodeProto) -> str:
    """The operator of a node as the model has it: a second half has that of the whole node."""
    if (node.domain, node.op_type) == (DOMAIN, CUT):
        return next(a.s.decode() for a in node.attribute if a.name == "of")
    return structure.operator_name(node)


def first_halves(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with first halves alone, whose results are the model's."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    halves = split(copy)
    if not halves:
        return model
    nodes = [n for n in copy.graph.node if (n.domain, n.op_type) != (DOMAIN, CUT)]
    made = {name for node in nodes for name in node.output}
    outputs = [v for v in copy.graph.output if v.name in made]
    outputs += [onnx.ValueInfoProto(name=n) for pair in halves.items() for n in pair]
    for field, values in ((copy.graph.node, nodes), (copy.graph.output, outputs)):
        del field[:]
        field.extend(values)
    return copy
