"""The logits of the last rows alone: the hidden state is cut before the last product."""

from __future__ import annotations

from collections import Counter

from onnx import GraphProto, NodeProto, TensorProto, helper

from mgx_mlir.importer.loading import Source
from mgx_mlir.importer.structure import subgraphs

# The input that is added. How many rows it has is how many logits each sequence gets; its
# elements are not read. A step of one token has one row, and then the cut is the whole.
ROWS = "last_rows"

# Operators that compute each row by itself whose other inputs are constants of one row.
_ROWS = frozenset({"Add", "Cast", "Clip", "DequantizeLinear", "Div", "Identity", "Mul",
                   "QuantizeLinear", "Sub", "Tanh"})  # fmt: skip
_PRODUCTS = frozenset({"MatMul", "MatMulNBits"})
_CONVERSIONS = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})


def cut(source: Source, logits: str) -> bool:
    """Adds the input ROWS to a decoder's graph; False, and no change, where no place is found.

    Sound, because nothing between the cut and the logits reads two rows: a product with a
    constant, and work on each element.
    """
    graph = source.model.graph
    if any(logits in node.input for node in graph.node) or _of_one_row(graph, logits):
        return False
    reader = _reader(source, logits)
    if reader is None:
        return False
    value = reader.input[0]
    reader.input[0] = f"{value}/last"
    _slice(graph, value)
    graph.input.append(helper.make_tensor_value_info(ROWS, TensorProto.UINT8, [f"{ROWS}/count"]))
    source.inputs += (ROWS,)
    for output in graph.output:
        if output.name == logits:
            output.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return True


def _of_one_row(graph: GraphProto, logits: str) -> bool:
    """Whether the model gives the last row itself, or no rows (batch, rows, vocabulary)."""
    (value,) = [v for v in graph.output if v.name == logits]
    dims = value.type.tensor_type.shape.dim
    return len(dims) != 3 or dims[1].dim_value == 1


def _reader(source: Source, logits: str) -> NodeProto | None:
    """The product that makes the logits, or the conversion before it, whose input to cut."""
    graph = source.model.graph
    makers = {name: node for node in graph.node for name in node.output}
    uses = Counter(name for node in graph.node for name in node.input)
    constants, flat = _constants(source)
    node = makers.get(logits)
    while node is not None and node.op_type in _ROWS:
        others = [name for name in node.input if name and name not in flat]
        if len(others) != 1 or uses[others[0]] != 1:
            return None
        node = makers.get(others[0])
    if node is None or node.op_type not in _PRODUCTS or node.input[0] in constants:
        return None
    if not constants.issuperset(filter(None, node.input[1:])):
        return None
    # Conversions before the product stay beside it.
    while (above := makers.get(node.input[0])) is not None and above.op_type in _CONVERSIONS:
        if uses[above.output[0]] != 1 or not flat.issuperset(filter(None, above.input[1:])):
            break
        node = above
    return node


def _constants(source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """The values that no input changes, and those of them with one dimension at most."""
    graph = source.model.graph
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for value in graph.input:
        if value.name in source.weights:
            ranks[value.name] = len(value.type.tensor_type.shape.dim)
    for name in source.defaults:  # a caller may replace them
        ranks.pop(name, None)
    constants = set(ranks)
    flat = {name for name, rank in ranks.items() if rank <= 1}
    for node in graph.node:
        if node.op_type.startswith("Random") or any(subgraphs(node)):
            continue
        if not constants.issuperset(filter(None, node.input)):
            continue
        constants.update(node.output)
        tensors = [a.t for a in node.attribute if a.name == "value"]
        converted = node.op_type in ("Cast", "Identity") and node.input[0] in flat
        if converted or (node.op_type == "Constant" and all(len(t.dims) < 2 for t in tensors)):
            flat.update(node.output)
    return frozenset(constants), frozenset(flat)


def _slice(graph: GraphProto, value: str) -> None:
    """Adds the last rows of (batch, rows, width): as many as ROWS has elements."""
    name = f"{value}/last"
    for part, number in (("axis", 1), ("end", 1 << 62)):
        tensor = helper.make_tensor(f"{name}/{part}", TensorProto.INT64, [1], [number])
        graph.initializer.append(tensor)
    inputs = [value, f"{name}/start", f"{name}/end", f"{name}/axis"]
    graph.node.extend([
        helper.make_node("Shape", [ROWS], [f"{name}/count"], f"{name}/count"),
        helper.make_node("Neg", [f"{name}/count"], [f"{name}/start"], f"{name}/start"),
        helper.make_node("Slice", inputs, [name], name),
    ])  # fmt: skip
