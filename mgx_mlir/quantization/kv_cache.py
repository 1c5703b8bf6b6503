"""Caches of keys and values in fp8: decoders whose past entries and new ones a Concat joins.

    past -> Concat(past, new) -> present, readers
    past (fp8) -> Concat(Cast(past), rounded new) -> readers, Cast -> present (fp8)

ONNX joins no tensors of fp8. E4M3 has the scale 1 here: entries beyond 448 become 448. Caches of
GroupQueryAttention become its quantized ones.
"""

from __future__ import annotations

from onnx import GraphProto, NodeProto, TensorProto, helper

from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer.loading import Source
from mgx_mlir.importer.structure import display_name, fresh, uses_of
from mgx_mlir.text import name_text

FP8 = TensorProto.FLOAT8E4M3FN


def with_fp8_cache(source: Source) -> Source:
    """A copy of a model whose caches, inputs and outputs alike, are fp8.

    A cache is an f32 input that a Concat alone reads, whose result is an output, or one of
    GroupQueryAttention. Raises UsageError for a model without such, UnsupportedError for a past
    input that something else reads.
    """
    source = source.copy()
    graph = source.model.graph
    grouped = _group(graph)
    joined = _joined(graph, bool(grouped))
    outputs = {name: past for past, names in joined.items() for name in names}
    taken = {name for node in graph.node for name in (*node.input, *node.output, node.name)}
    for value in (*graph.input, *graph.output):
        if value.name in joined or value.name in outputs or value.name in grouped:
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


def _group(graph: GraphProto) -> set[str]:
    """The caches of GroupQueryAttention, past and present, which get the scale 1."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    readers = _readers(graph)
    found: set[str] = set()
    scale = fresh("cache/scale", {*kinds, *readers, *(t.name for t in graph.initializer)})
    for node in graph.node:
        pasts, presents = list(node.input[3:5]), list(node.output[1:3])
        if node.op_type != "GroupQueryAttention" or not all(pasts) or not pasts:
            continue
        if any(kinds.get(past) != TensorProto.FLOAT for past in pasts):
            continue
        copies = [n for name in presents for n in readers.get(name, ())]
        others = [n for past in pasts for n in readers[past] if n is not node]
        others += [n for n in copies if n.op_type != "Identity"]
        if others:
            raise UnsupportedError(
                f"a cache of {display_name(node)} is read by {display_name(others[0])} too"
            )
        found |= {*pasts, *presents, *(name for n in copies for name in n.output)}
        node.input.extend([""] * (14 - len(node.input)))
        node.input[12], node.input[13] = scale, scale
        forms = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR",
                 "kv_cache_bit_width": 8}  # fmt: skip
        kept = [a for a in node.attribute if a.name not in forms]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(helper.make_attribute(n, a) for n, a in forms.items())
    if found:
        graph.initializer.append(helper.make_tensor(scale, TensorProto.FLOAT, [1], [1.0]))
    return found


def _readers(graph: GraphProto) -> dict[str, list[NodeProto]]:
    """The nodes that read a value, in their bodies too, by its name."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in uses_of(node):
            readers.setdefault(name, []).append(node)
    return readers


def _joined(graph: GraphProto, optional: bool) -> dict[str, list[str]]:
    """The caches, and the outputs that each one's Concat makes, or an Identity after it."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    pasts = [name for name, kind in kinds.items() if kind == TensorProto.FLOAT]
    outputs = {value.name for value in graph.output}
    readers = _readers(graph)
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
        if "past" in past and nodes and nodes[0].op_type != "GroupQueryAttention":
            raise UnsupportedError(
                f"the cache '{name_text(past)}' is read by {nodes[0].op_type}; caches of fp8 are "
                "those that a Concat alone joins with new entries"
            )
    if not found and not optional:
        raise UsageError(
            "the model has no cache: no f32 input is joined with new entries by a Concat whose "
            "result is an output, or is one of GroupQueryAttention"
        )
    return found
