"""The models of all tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from test.fuzz.hostile import attributes, graphs, protos, sizes

_HEADER = (
    '<ir_version: 10, opset_import: ["": 23, "f": 1, "ai.onnx.preview.training": 1, "far.away": 1]>'
)


@dataclass(frozen=True)
class Row:
    """A model and the words that its refusal holds; '' where it may run as well."""

    name: str
    make: Callable[[], onnx.ModelProto | bytes]
    words: str


def rows() -> list[Row]:
    """Every model, each with a name of its own."""
    found = []
    for number, (inputs, nodes, words, *constants) in enumerate(attributes.ROWS):
        found.append(_of_nodes(f"attribute-{number}", inputs, nodes, words, constants))
    for number, (inputs, nodes, words, constants) in enumerate(sizes.ROWS):
        found.append(_of_nodes(f"size-{number}", inputs, nodes, words, [constants]))
    found += [
        Row(name, lambda text=text: _parsed(text), words) for name, text, words in graphs.ROWS
    ]
    return found + [Row(*row) for row in protos.ROWS]


def _of_nodes(name: str, inputs: str, nodes: str, words: str, constants: Sequence[str]) -> Row:
    operator = re.search(r"= (\w+)", nodes)
    assert operator is not None
    held = " ".join(c for c in constants if c)
    text = f"g ({inputs}) => (y) {f'<{held}>' if held else ''} {{ {nodes} }}"
    return Row(f"{name}-{operator[1]}", lambda: _parsed(text), words)


def _parsed(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f"{_HEADER} {text}")
    for number, node in enumerate(model.graph.node):
        node.name = f"node{number}"
    return model
