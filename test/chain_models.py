"""Models to cut into stages."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper, parser


def model(text: str, weights: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """A graph in ONNX's text, which names its weights without declaring them."""
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["": 17]> {text}')
    random = np.random.default_rng(5)
    for name, shape in weights.items():
        array = random.standard_normal(shape, np.float32) * np.float32(0.1)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def layers(widths: Sequence[int], rows: str = "b") -> onnx.ModelProto:
    """Products with tanh between them, as many columns as `widths` says."""
    nodes, value = "", "x"
    for number, _ in enumerate(widths[1:]):
        result = "y" if number == len(widths) - 2 else f"h{number}"
        nodes += f"p{number} = MatMul({value}, w{number}) {result} = Tanh(p{number}) "
        value = result
    return model(
        f"g (float[{rows}, {widths[0]}] x) => (float[{rows}, {widths[-1]}] y) {{ {nodes} }}",
        {f"w{n}": pair for n, pair in enumerate(itertools.pairwise(widths))},
    )


def skipping() -> onnx.ModelProto:
    """Three layers; the last one adds what the first one gave, and gives two outputs."""
    return model(
        "g (float[b, 32] x) => (float[b, 32] y, float[b, 32] first) {"
        " p = MatMul(x, w0) first = Tanh(p) q = MatMul(first, w1) r = Tanh(q)"
        " s = MatMul(r, w2) t = Tanh(s) y = Add(t, first) }",
        {f"w{n}": (32, 32) for n in range(3)},
    )


def folded_rows() -> onnx.ModelProto:
    """Rows of two dimensions become one between the layers, and two again at the end."""
    return model(
        "g (float[b, s, 16] x) => (float[b, s, 16] y) {"
        " shape = Shape(x) c = Constant<value_ints = [-1, 16]>() a = Reshape(x, c)"
        " p = MatMul(a, w0) q = Tanh(p) r = MatMul(q, w1) t = Tanh(r) y = Reshape(t, shape) }",
        {"w0": (16, 16), "w1": (16, 16)},
    )


def joined() -> onnx.ModelProto:
    """A concat of three results, which are computed into its memory."""
    return model(
        "g (float[1, 64] x) => (float[1, 64] y) { p = MatMul(x, w0) a = Tanh(p) q = MatMul(a, w1)"
        " b = Tanh(q) r = MatMul(b, w2) c = Tanh(r) d = Concat<axis = 1>(a, b, c)"
        " e = MatMul(d, w3) y = Tanh(e) }",
        {"w0": (64, 64), "w1": (64, 64), "w2": (64, 64), "w3": (192, 64)},
    )
