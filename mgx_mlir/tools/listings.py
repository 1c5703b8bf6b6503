"""The program of a model in forms for people and for other programs, printed or written."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx
from mlir import ir
from onnx import helper

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.rewriting.graph import Graph, main_function, node_name, value_names
from mgx_mlir.tools.console import write_bytes

# Longer texts of attributes, those of constants mostly, are cut.
_LONGEST = 200


@dataclass(frozen=True)
class _Line:
    """An op of the program: the names of its results and operands, and its attributes' texts.

    `values` are the results.
    """

    results: list[str]
    op: str
    operands: list[str]
    values: list[ir.Value]
    attributes: dict[str, str]
    node: str

    @property
    def types(self) -> list[str]:
        """The types of the results."""
        return [str(value.type) for value in self.values]


def write(graph: Graph, form: str, output: Path | None) -> None:
    """Writes the program in one of FORMS to a file, or to standard output.

    Raises UsageError for bytes that a terminal would show.
    """
    made = FORMS[form](graph)
    if output is not None:
        write_atomically(output, made if isinstance(made, bytes) else made.encode())
    elif isinstance(made, str):
        print(made, end="")
    else:
        write_bytes(made)


def _lines(graph: Graph) -> tuple[dict[str, str], list[_Line]]:
    """The types of the inputs by name, and the ops of @main in order; the last one returns."""
    main = main_function(graph.module)
    block = main.regions[0].blocks[0]
    names = value_names(main, "arg_attrs", len(block.arguments))
    known: dict[ir.Value, str] = dict(zip(block.arguments, names, strict=True))
    inputs = {name: str(value.type) for value, name in known.items()}
    lines = []
    for op in block.operations:
        operands = [known[value] for value in op.operands]
        first = len(known) - len(inputs)
        known |= {value: f"%{first + place}" for place, value in enumerate(op.results)}
        lines.append(
            _Line(
                [known[value] for value in op.results],
                op.operation.name,
                operands,
                list(op.results),
                {name: _cut(str(op.attributes[name])) for name in op.attributes},
                node_name(op),
            )
        )
    return inputs, lines


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _brief(graph: Graph) -> str:
    inputs, lines = _lines(graph)
    texts = [f"{name} = input : {type_}" for name, type_ in inputs.items()]
    for line in lines:
        made = f"{', '.join(line.results)} = " if line.results else ""
        types = f" : {', '.join(line.types)}" if line.types else ""
        texts.append(f"{made}{line.op}({', '.join(line.operands)}){types}")
    return "\n".join(texts) + "\n"


def _graphviz(graph: Graph, *, brief: bool = False) -> str:
    inputs, lines = _lines(graph)
    made = {name: f"input{place}" for place, name in enumerate(inputs)}
    texts = ["digraph {", "  node [shape=box];"]
    for name, type_ in inputs.items():
        shown = (name,) if brief else (name, type_)
        texts.append(f"  {made[name]} [shape=ellipse, label={_label(*shown)}];")
    for place, line in enumerate(lines):
        own = f"op{place}"
        shown = (line.op.removeprefix("mgx."), *(() if brief else line.types))
        texts.append(f"  {own} [label={_label(*shown)}];")
        texts += [f"  {made[operand]} -> {own};" for operand in line.operands]
        made |= dict.fromkeys(line.results, own)
    return "\n".join([*texts, "}"]) + "\n"


def _label(*lines: str) -> str:
    """A quoted string of DOT; a backslash would begin an escape there."""
    text = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n") + '"'


def _netron(graph: Graph) -> bytes:
    """An ONNX model, which Netron opens: a node of the domain mgx for each op."""
    main = main_function(graph.module)
    given: list[ir.Value] = list(main.regions[0].blocks[0].arguments)
    inputs = dict(zip(value_names(main, "arg_attrs", len(given)), given, strict=True))
    *lines, end = _lines(graph)[1]
    nodes = [
        helper.make_node(
            line.op.removeprefix("mgx."), line.operands, line.results, line.node, domain="mgx",
            **line.attributes,
        )
        for line in lines
    ]  # fmt: skip
    made = dict(inputs)
    for line in lines:
        made |= dict(zip(line.results, line.values, strict=True))
    outputs = {name: made.pop(name) for name in end.operands if name not in inputs}
    infos = {name: _info(name, value) for name, value in {**made, **outputs}.items()}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            graph.name or "main",
            [infos[name] for name in inputs],
            [infos[name] for name in outputs],
            value_info=[infos[name] for name in made if name not in inputs],
        ),
        opset_imports=[helper.make_opsetid("mgx", 1)],
        producer_name="mgx-mlir",
    )
    return bytes(model.SerializeToString(deterministic=True))


def _info(name: str, value: ir.Value) -> onnx.ValueInfoProto:
    dims = [d if isinstance(d, int) else d and d.name for d in dims_of(value.type)]
    kind = helper.np_dtype_to_tensor_dtype(mgx.numpy_dtype(value.type))
    return helper.make_tensor_value_info(name, kind, dims)


def _python(graph: Graph) -> str:
    from mgx_mlir.migraphx.program import program

    return str(program(graph).to_py())


def _json(graph: Graph) -> str:
    from mgx_mlir.migraphx.json_form import to_json

    return to_json(graph)


def _program(graph: Graph) -> bytes:
    from mgx_mlir.migraphx import program, save_buffer

    return bytes(save_buffer(program(graph)))


def _bytecode(graph: Graph) -> bytes:
    stream = io.BytesIO()
    graph.module.operation.write_bytecode(stream)
    return stream.getvalue()


def _text(graph: Graph, *, locations: bool = False) -> str:
    return str(graph.module.operation.get_asm(enable_debug_info=locations)) + "\n"


FORMS: dict[str, Callable[[Graph], str | bytes]] = {
    "brief": _brief,
    "emit-bytecode": _bytecode,
    "graphviz": _graphviz,
    "graphviz-brief": partial(_graphviz, brief=True),
    "json": _json,
    "locations": partial(_text, locations=True),
    "netron": _netron,
    "program": _program,
    "py": _python,
    "text": _text,
}
