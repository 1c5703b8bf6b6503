"""Quantizers inside of a model: what one rounding before them moves by a whole step.

Where the inputs of a quantizer are computed, their last bits are open, and an element beside a tie
goes to either side of it: a step in the result is no fault then, nor is what follows from it.
"""

from __future__ import annotations

import onnx
from onnx import helper

from mgx_mlir.importer import structure

# The numbers before quantizers are multiplied with others that differ from 1 by at most this: the
# roundings of a sum of some thousand products in f32.
_NOISE = 2.0**-17
_QUANTIZERS = ("DynamicQuantizeLinear", "QuantizeLinear")
# Larger models are not copied.
_MOST_BYTES = 1 << 30


def with_noise(model: onnx.ModelProto, seed: int) -> onnx.ModelProto | None:
    """A copy whose quantizers get computed numbers with noise; None where none computes them.

    The scale and the zero point of a DynamicQuantizeLinear are those without noise.
    """
    made = {name for node in model.graph.node for name in node.output}
    inner = [node for node in model.graph.node if _is_quantizer(node) and node.input[0] in made]
    if not inner or model.ByteSize() > _MOST_BYTES:
        return None
    taken = made | {name for node in model.graph.node for name in structure.uses_of(node)}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = []
    for number, node in enumerate(copy.graph.node):
        if not _is_quantizer(node) or node.input[0] not in made:
            nodes.append(node)
            continue
        noise, noisy, codes = (_unused(f"{part}_{number}", taken) for part in ("n", "x", "q"))
        nodes += [
            helper.make_node("RandomUniformLike", [node.input[0]], [noise], low=1 - _NOISE,
                             high=1 + _NOISE, seed=float(1000 * seed + number)),
            helper.make_node("Mul", [node.input[0], noise], [noisy]),
        ]  # fmt: skip
        if node.op_type == "QuantizeLinear":
            node.input[0] = noisy
            nodes.append(node)
            continue
        result, scale, zero = node.output
        node.output[0] = codes
        quantize = helper.make_node("QuantizeLinear", [noisy, scale, zero], [result])
        nodes += [node, quantize]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(kept)
    return copy


def _is_quantizer(node: onnx.NodeProto) -> bool:
    # Without a scale and a zero point, a DynamicQuantizeLinear has nothing to share.
    whole = node.op_type != "DynamicQuantizeLinear" or (len(node.output) == 3 and all(node.output))
    return node.op_type in _QUANTIZERS and whole


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
