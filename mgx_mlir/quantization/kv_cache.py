"""Caches of keys and values in fp8: decoders whose past entries and new ones a Concat joins.

    past -> Concat(past, new) -> present, readers
    past (fp8) -> Concat(Cast(past), rounded new) -> readers, Cast -> present (fp8)

ONNX joins no tensors of fp8. E4M3 has no scale here: entries beyond 448 become 448.
"""

from __future__ import annotations

from onnx import GraphProto, NodeProto, TensorProto, helper

from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer.loading import Source
from mgx_mlir.quantization.network import fresh
from mgx_mlir.text import name_text

FP8 = TensorProto.FLOAT8E4M3FN


def with_fp8_cache(source: Source) -> Source:
    """A copy of a model whose caches, inputs and outputs alike, are fp8.

    A cache is an f32 input that a Concat alone reads, whose result is an output. Raises UsageError
    for a model without such, UnsupportedError for a past input that something else reads.
    """
    source = source.copy()
    graph = source.model.graph
    joined = _joined(graph)
    outputs = {name: past for past, names in joined.items() for name in names}
    taken = {name for node in graph.node for name in (*node.input, *node.output, node.name)}
    for value in (*graph.input, *graph.output):
        if value.name in joined or value.name in outputs:
            value.type.tensor_type.elem_type = FP8
    nodes: list[NodeProto] = []

    def cast(x: str, to: int, result: str = "") -> str:
        y = result or fresh(f"{x}/{'fp8' if to == FP8 else 'f32'}", taken)
        nodes.append(helper.make_node("Cast", [x], [y], to=to))
        return y

    wide = {name: fresh(f"{name}/f32", taken) for name in outputs}
    for old in graph.node:
        node = NodeProto.FromString(old.SerializeToString())
        if _reads_cache(node, joined):
            node.input[0] = cast(node.input[0], TensorProto.FLOAT)
            for place in range(1, len(node.input)):
                node.input[place] = cast(cast(node.input[place], FP8), TensorProto.FLOAT)
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = wide.get(name, name)
        nodes.append(node)
        for name in old.output:
            if name in wide:
                cast(wide[name], FP8, name)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return source


def _reads_cache(node: NodeProto, joined: dict[str, list[str]]) -> bool:
    return node.op_type == "Concat" and node.input[0] in joined


def _joined(graph: GraphProto) -> dict[str, list[str]]:
    """The caches, and the outputs that each one's Concat makes, or an Identity after it."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    pasts = [name for name, kind in kinds.items() if kind == TensorProto.FLOAT]
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = {}
    for past in pasts:
        nodes = readers.get(past, [])
        if len(nodes) == 1 and nodes[0].op_type == "Concat" and nodes[0].input[0] == past:
            whole = nodes[0].output[0]
            copied = [n.output[0] for n in readers.get(whole, []) if n.op_type == "Identity"]
            made = [name for name in (whole, *copied) if name in outputs]
            if made:
                found[past] = made
                continue
        if "past" in past and nodes:
            raise UnsupportedError(
                f"the cache '{name_text(past)}' is read by {nodes[0].op_type}; caches of fp8 are "
                "those that a Concat alone joins with new entries"
            )
    if not found:
        raise UsageError(
            "the model has no cache: no f32 input is joined with new entries by a Concat whose "
            "result is an output"
        )
    return found
