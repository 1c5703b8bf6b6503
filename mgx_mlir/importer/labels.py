"""Classifiers whose labels are strings: they give numbers, and the host names them.

label, scores = TreeEnsembleClassifier<classlabels_strings = [a, b]>(x)
number, scores = TreeEnsembleClassifier<classlabels_int64s = [0, 1]>(x)     compiles
label = CategoryMapper<cats_int64s = [0, 1], cats_strings = [a, b]>(number)
"""

from __future__ import annotations

from onnx import GraphProto, NodeProto, helper

from mgx_mlir.importer import structure

DOMAIN = "ai.onnx.ml"
# The operators that compile, and the attribute of labels that are numbers.
_NUMBERS = {"LinearClassifier": "classlabels_ints", "TreeEnsembleClassifier": "classlabels_int64s"}
_STRINGS = "classlabels_strings"


def split(graph: GraphProto) -> None:
    """Replaces such nodes, in place, also in the graphs of nodes."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in structure.subgraphs(node):
            split(inner)
        nodes.append(node)
        labels = next((list(a.strings) for a in node.attribute if a.name == _STRINGS), [])
        if node.domain != DOMAIN or node.op_type not in _NUMBERS or not labels:
            continue
        kept = [a for a in node.attribute if a.name != _STRINGS]
        numbers = list(range(len(labels)))
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(_NUMBERS[node.op_type], numbers)])
        if not node.output[0]:
            continue
        label, number = node.output[0], f"{node.output[0]}/number"
        node.output[0] = number
        table = {"cats_int64s": numbers, "cats_strings": labels}
        name = f"{node.name}/labels"
        nodes.append(
            helper.make_node("CategoryMapper", [number], [label], name, domain=DOMAIN, **table)
        )
    if len(nodes) != len(graph.node):
        kept_nodes = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del graph.node[:]
        graph.node.extend(kept_nodes)
