"""The models of the self-test: each kernel family in each type, sizes given and symbolic.

In a case's text `T` is the type. Inputs that begin with `w` are weights; those with `i` are indices
below 4, those with `c` conditions. A case is one model, of a kernel or of few.
"""

# ruff: noqa: E501 (a row of the table is a line)
from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper, parser

FLOATS = ("f32", "f16", "bf16")
_ONNX = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "i8": "int8"}
_NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
_OPSET = 22
_INPUT = re.compile(r"(\w+)\[([\w,]+)\] (\w+)")
# Indices are below.
_INDICES = 4


@dataclass(frozen=True)
class Form:
    """A case without its type: `text` are inputs, an arrow, results and nodes."""

    name: str
    family: str
    text: str
    sizes: Mapping[str, int]
    types: tuple[str, ...] = FLOATS


@dataclass(frozen=True)
class Case:
    """A form in a type; `symbolic`: one program for any sizes."""

    form: Form
    type: str
    symbolic: bool

    @property
    def name(self) -> str:
        sizes = "any sizes" if self.symbolic else "given sizes"
        return f"{self.form.family}: {self.form.name}, {self.type}, {sizes}"

    def model(self, type_: str = "") -> onnx.ModelProto:
        """The model, in another type if one is named."""
        text = self.form.text.replace("T[", f"{_ONNX[type_ or self.type]}[")
        inputs, rest = text.split("=>", 1)
        results, nodes = rest.split(":", 1)
        made = parser.parse_model(
            f'<ir_version: 10, opset_import: ["": {_OPSET}]> '
            f"g ({inputs.strip()}) => ({results.strip()}) {{ {nodes.strip()} }}"
        )
        graph = made.graph
        held = self.arrays()
        for value in [v for v in graph.input if v.name.startswith("w")]:
            array = held[value.name].astype(np.float32) if type_ == "f32" else held[value.name]
            graph.initializer.append(numpy_helper.from_array(array, value.name))
        kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in graph.input]
        del graph.input[:]
        graph.input.extend(value for value in kept if not value.name.startswith("w"))
        return made

    def arrays(self) -> dict[str, np.ndarray]:
        """All inputs and weights, the same for the same form and type."""
        random = np.random.default_rng(zlib.crc32(f"{self.form.name} {self.type}".encode()))
        found = {}
        for kind, dims, name in _INPUT.findall(self.form.text.split("=>")[0]):
            shape = [self.form.sizes.get(d) or int(d) for d in dims.split(",")]
            found[name] = _values(random, name, shape, _NUMPY[self.type] if kind == "T" else kind)
        return found

    def inputs(self) -> dict[str, np.ndarray]:
        return {n: a for n, a in self.arrays().items() if not n.startswith("w")}


def _values(random: np.random.Generator, name: str, shape: list[int], kind: Any) -> np.ndarray:
    if name.startswith("c"):
        return random.random(shape) < 0.5
    if name.startswith("i"):
        return random.integers(0, _INDICES, shape)
    if kind is np.int8:
        return random.integers(-20, 21, shape).astype(np.int8)
    scale = 1.0
    if name.startswith("w") and len(shape) > 1:
        scale = float(np.prod(shape[1:] if len(shape) > 2 else shape[:1])) ** -0.5
    return np.asarray((random.normal(size=shape) * scale).astype(kind))


_ALL = (*FLOATS, "i8")
_MATRIX = {"m": 48, "k": 96, "n": 80}
_IMAGE = {"b": 2, "h": 14, "x": 18}
_ROWS = {"m": 24, "k": 200}

FORMS = (
    # Products
    Form("rows by weights", "product", "T[m,96] a, T[96,80] w => T[m,80] y: y = MatMul(a, w)", {"m": 48}),
    Form("a bias and a Gelu", "product", "T[m,96] a, T[96,64] w, T[64] wb => T[m,64] y: p = MatMul(a, w) s = Add(p, wb) y = Gelu(s)", {"m": 33}),
    Form("one row", "product", "T[m,256] a, T[256,128] w => T[m,128] y: y = MatMul(a, w)", {"m": 1}),
    Form("many rows", "product", "T[m,64] a, T[64,64] w => T[m,64] y: p = MatMul(a, w) y = Relu(p)", {"m": 320}),
    Form("two activations", "product", "T[m,k] a, T[k,n] e => T[m,n] y: y = MatMul(a, e)", _MATRIX),
    Form("a batch", "product", "T[b,m,40] a, T[b,40,n] e => T[b,m,n] y: y = MatMul(a, e)", {"b": 3, "m": 20, "n": 36}),
    Form("transposed", "product", "T[k,m] a, T[48,k] e => T[m,48] y: y = Gemm <transA = 1, transB = 1> (a, e)", {"m": 40, "k": 56}),
    Form("a long sum", "product", "T[m,2048] a, T[2048,32] w => T[m,32] y: y = MatMul(a, w)", {"m": 16}),
    Form("bytes", "product", "T[m,96] a, T[96,80] w => int32[m,80] y: y = MatMulInteger(a, w)", {"m": 48}, ("i8",)),
    Form("bytes of one row", "product", "T[m,256] a, T[256,64] w => int32[m,64] y: y = MatMulInteger(a, w)", {"m": 1}, ("i8",)),
    # Convolutions
    Form("3x3", "convolution", "T[b,16,h,x] a, T[24,16,3,3] w => y: y = Conv <pads = [1,1,1,1]> (a, w)", _IMAGE),
    Form("1x1", "convolution", "T[b,32,h,x] a, T[48,32,1,1] w, T[48] wb => y: p = Conv(a, w, wb) y = Relu(p)", _IMAGE),
    Form("strided", "convolution", "T[b,16,h,x] a, T[32,16,3,3] w => y: y = Conv <strides = [2,2], pads = [1,1,1,1]> (a, w)", _IMAGE),
    Form("a first layer", "convolution", "T[b,3,h,x] a, T[16,3,7,7] w => y: y = Conv <strides = [2,2], pads = [3,3,3,3]> (a, w)", {"b": 1, "h": 32, "x": 40}),
    Form("depthwise", "convolution", "T[b,24,h,x] a, T[24,1,3,3] w => y: y = Conv <group = 24, pads = [1,1,1,1]> (a, w)", _IMAGE),
    Form("grouped", "convolution", "T[b,16,h,x] a, T[32,8,3,3] w => y: y = Conv <group = 2> (a, w)", _IMAGE),
    Form("of one dimension", "convolution", "T[b,16,t] a, T[24,16,5] w => y: y = Conv <pads = [2,2]> (a, w)", {"b": 2, "t": 50}),
    Form("dilated", "convolution", "T[b,8,h,x] a, T[16,8,3,3] w => y: y = Conv <dilations = [2,2]> (a, w)", _IMAGE),
    Form("transposed", "convolution", "T[b,8,h,x] a, T[8,12,4,4] w => y: y = ConvTranspose <strides = [2,2], pads = [1,1,1,1]> (a, w)", _IMAGE),
    Form("bytes", "convolution", "T[b,16,h,x] a, T[24,16,3,3] w => int32[b,24,p,q] y: y = ConvInteger(a, w)", _IMAGE, ("i8",)),
    # Attention
    Form("all keys", "attention", "T[b,4,s,32] q, T[b,4,s,32] k, T[b,4,s,32] v => y: t = Transpose <perm = [0,1,3,2]> (k) p = MatMul(q, t) r = Softmax <axis = -1> (p) y = MatMul(r, v)", {"b": 1, "s": 40}),
    Form("wide heads", "attention", "T[b,2,s,80] q, T[b,2,s,80] k, T[b,2,s,80] v => y: t = Transpose <perm = [0,1,3,2]> (k) p = MatMul(q, t) r = Softmax <axis = -1> (p) y = MatMul(r, v)", {"b": 1, "s": 24}),
    Form("one query", "attention", "T[b,4,1,64] q, T[b,4,s,64] k, T[b,4,s,64] v => y: t = Transpose <perm = [0,1,3,2]> (k) p = MatMul(q, t) r = Softmax <axis = -1> (p) y = MatMul(r, v)", {"b": 1, "s": 70}),
    # Rows
    Form("Softmax", "rows", "T[m,k] a => T[m,k] y: y = Softmax <axis = -1> (a)", _ROWS),
    Form("LayerNormalization", "rows", "T[m,200] a, T[200] ws, T[200] wb => T[m,200] y: y = LayerNormalization(a, ws, wb)", {"m": 24}),
    Form("a mean of squares", "rows", "T[m,k] a => y: s = Mul(a, a) y = ReduceMean <keepdims = 1> (s)", _ROWS),
    Form("sums of columns", "rows", "T[m,k] a => y: x = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (a, x)", _ROWS),
    Form("a maximum", "rows", "T[m,k] a => y: x = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (a, x)", _ROWS, _ALL),
    Form("ArgMax", "rows", "T[m,k] a => int64[m] y: y = ArgMax <axis = 1, keepdims = 0> (a)", _ROWS),
    Form("InstanceNormalization", "rows", "T[b,8,h,x] a, T[8] ws, T[8] wb => y: y = InstanceNormalization(a, ws, wb)", _IMAGE),
    Form("a mean of images", "rows", "T[b,8,h,x] a => y: y = GlobalAveragePool(a)", _IMAGE),
    Form("a running sum", "rows", "T[m,k] a => y: x = Constant <value_int = 1> () y = CumSum(a, x)", {"m": 8, "k": 60}),
    # Elements
    Form("a sum", "elements", "T[m,k] a, T[m,k] e => T[m,k] y: y = Add(a, e)", _ROWS, _ALL),
    Form("a chain", "elements", "T[m,k] a, T[k] e => T[m,k] y: s = Add(a, e) t = Tanh(s) g = Sigmoid(t) y = Mul(g, a)", _ROWS),
    Form("Exp and Log", "elements", "T[m,k] a => T[m,k] y: s = Exp(a) o = Add(s, s) y = Log(o)", _ROWS),
    Form("a choice", "elements", "bool[m,k] c, T[m,k] a, T[m,k] e => T[m,k] y: y = Where(c, a, e)", _ROWS, _ALL),
    Form("a clip", "elements", "T[m,k] a => T[m,k] y: n = Neg(a) y = Max(n, a)", _ROWS, _ALL),
    Form("Erf", "elements", "T[m,k] a => T[m,k] y: s = Erf(a) p = Abs(s) y = Sqrt(p)", _ROWS),
    Form("Cast", "elements", "T[m,k] a => float[m,k] y: y = Cast <to = 1> (a)", _ROWS, _ALL),
    # Movement
    Form("Transpose", "movement", "T[b,m,k] a => T[k,b,m] y: y = Transpose <perm = [2,0,1]> (a)", {"b": 3, "m": 20, "k": 36}, _ALL),
    Form("Concat", "movement", "T[m,k] a, T[m,n] e => y: y = Concat <axis = 1> (a, e)", {"m": 12, "k": 30, "n": 17}, _ALL),
    Form("Gather", "movement", "T[64,k] a, int64[n] i => y: y = Gather <axis = 0> (a, i)", {"k": 40, "n": 9}, _ALL),
    Form("GatherElements", "movement", "T[m,k] a, int64[m,k] i => y: y = GatherElements <axis = 1> (a, i)", {"m": 6, "k": 12}, _ALL),
    Form("Pad", "movement", "T[m,k] a => y: p = Constant <value_ints = [1,2,3,0]> () y = Pad(a, p)", {"m": 12, "k": 33}, _ALL),
    Form("Slice", "movement", "T[m,k] a => y: s = Constant <value_ints = [1]> () e = Constant <value_ints = [9223372036854775807]> () x = Constant <value_ints = [1]> () t = Constant <value_ints = [2]> () y = Slice(a, s, e, x, t)", {"m": 12, "k": 33}, _ALL),
    Form("Tile", "movement", "T[m,k] a => y: r = Constant <value_ints = [2,3]> () y = Tile(a, r)", {"m": 6, "k": 10}, _ALL),
    Form("DepthToSpace", "movement", "T[b,16,h,x] a => y: y = DepthToSpace <blocksize = 2> (a)", _IMAGE, _ALL),
    Form("ScatterElements", "scatter", "T[m,k] a, int64[m,2] i, T[m,2] e => y: y = ScatterElements <axis = 1, reduction = \"max\"> (a, i, e)", {"m": 6, "k": 12}),
    Form("ScatterND", "scatter", "T[8,k] a, int64[1,1] i, T[1,k] e => y: y = ScatterND(a, i, e)", {"k": 12}, _ALL),
    # Windows and images
    Form("MaxPool", "windows", "T[b,8,h,x] a => y: y = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (a)", _IMAGE, _ALL),
    Form("AveragePool", "windows", "T[b,8,h,x] a => y: y = AveragePool <kernel_shape = [2,2], strides = [2,2]> (a)", _IMAGE),
    Form("LRN", "windows", "T[b,8,h,x] a => y: y = LRN <size = 5> (a)", _IMAGE),
    Form("Resize, nearest", "resize", "T[b,4,h,x] a => y: s = Constant <value_floats = [1.0,1.0,2.0,2.0]> () y = Resize <mode = \"nearest\"> (a, , s)", _IMAGE),
    Form("Resize, linear", "resize", "T[b,4,h,x] a => y: s = Constant <value_floats = [1.0,1.0,1.5,2.0]> () y = Resize <mode = \"linear\"> (a, , s)", _IMAGE),
    Form("TopK", "selection", "T[m,k] a => y, j: n = Constant <value_ints = [5]> () y, j = TopK <axis = 1> (a, n)", {"m": 6, "k": 90}),
    # Loops
    Form("LSTM", "scan", "T[t,b,16] a, T[1,64,16] w, T[1,64,16] wr => y: y = LSTM <hidden_size = 16> (a, w, wr)", {"t": 6, "b": 2}),
    Form("GRU", "scan", "T[t,b,16] a, T[1,48,16] w, T[1,48,16] wr => y: y = GRU <hidden_size = 16> (a, w, wr)", {"t": 6, "b": 2}),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Every form in each of its types, with given and with symbolic sizes."""
    for form in FORMS:
        for type_ in form.types:
            for symbolic in (False, True):
                yield Case(form, type_, symbolic)
