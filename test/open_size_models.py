"""Models whose inputs have open sizes, as text, and sizes to run them with."""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import numpy_helper, parser

Sizes = list[dict[str, int]]
SMALL: Sizes = [{"a": 2, "b": 5}, {"a": 1, "b": 4}, {"a": 7, "b": 6}]

# The signature, and the nodes, of small models.
MODELS: dict[str, tuple[str, str]] = {
    "cumulative sum": ("float[a, b] x => y", "y = CumSum(x, one)"),
    "sums of what repeats": (
        "float[a, b] x, float[a, 1] c => y",
        "s = Shape(x) e = Expand(c, s) f = Exp(e) y = ReduceSum(f, one_axis)",
    ),
    "means of what repeats, of given rows": (
        "float[4, b] x, float[4, 1] c => y",
        "s = Shape(x) e = Expand(c, s) f = Exp(e) y = ReduceMean(f, one_axis)",
    ),
    "top k": ("float[a, b] x => y, i", "y, i = TopK <axis = 1> (x, three)"),
    "rows of any length, replaced": (
        "float[8, a] x, float[1, a] u => y",
        "i = Constant <value = int64[1, 1] {3}> () y = ScatterND(x, i, u)",
    ),
    "scatter": ("float[a, b] x, float[a, b] u => y", "y = ScatterElements <axis = 1> (x, k, u)"),
    "reflection": ("float[a, b] x => y", 'y = Pad <mode = "reflect"> (x, pads)'),
    "wrapping": ("float[a, b] x => y", 'y = Pad <mode = "wrap"> (x, pads)'),
    "from the end": ("float[a, b] x => y", "y = Slice(x, minus_three, ends, one_axis)"),
    "windows": (
        "float[a, b] x => y",
        "s = Slice(x, zero_axis, twenty, one_axis) t = Slice(x, minus_twenty, ends, one_axis) "
        "m = ReduceMax <keepdims = 1> (t, one_axis) u = Mul(s, t) y = Add(u, m)",
    ),
    "a window of as many": (
        "float[a, b] x, float[a, 20] u => y",
        "s = Slice(x, zero_axis, twenty, one_axis) y = Add(s, u)",
    ),
    "between": ("float[a, b] x => y", "y = Slice(x, ones, minus_ones, one_axis)"),
    "from and to a place before the first": (
        "float[a, b] x => y, z",
        "y = Slice(x, first, minus_ones, one_axis) z = Slice(x, minus_ones, first, one_axis)",
    ),
    "backwards": ("float[a, b] x => y", "y = Slice(x, minus_ones, first, one_axis, minus_ones)"),
    "backwards from behind the last": (
        "float[a, b] x => y",
        "s = Shape <start = 1, end = 2> (x) y = Slice(x, s, two_axis, one_axis, minus_ones)",
    ),
    "a sum of no columns": (
        "float[a, 5] x => y",
        "s = Slice(x, ends, ends, one_axis) y = ReduceSum(s)",
    ),
    "a part of what is longer": (
        "float[a, b] x => y",
        "s = Shape(x) t = Mul(s, four) o = Expand(one_float, t) y = Slice(o, ones, four, one_axis)",
    ),
    "of another": (
        "float[a, b] x, float[c, b] z => y",
        "s = Shape <start = 0, end = 1> (z) e = Add(s, s) y = Slice(x, s, e, zero_axis)",
    ),
    "resize by scales": ("float[a, 2, b, 4] x => y", "y = Resize(x, , scales)"),
    "resize of more lines than a grid has": (
        "float[a, 2] x => y",
        'd = Constant <value = float[2] {1.0, 2.0}> () y = Resize <mode = "linear"> (x, , d)',
    ),
    "resize to a size": (
        "float[a, 2, b, 4] x, float[a, 2, c, 9] z => y",
        's = Shape(z) y = Resize <mode = "linear", '
        'coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , s)',
    ),
    "a part of one element": (
        "float[a, b] x => y",
        "r = Reshape(x, minus_ones) y = Concat <axis = 0> (r, float_of_one, r)",
    ),
    "windows of an image with its end cut": (
        "float[1, a, b, 7] x => y",
        "made = Abs(x) "
        'y = LpPool <kernel_shape = [3, 1], strides = [2, 1], auto_pad = "SAME_UPPER"> (made)',
    ),
    "blocks of an image": (
        "float[a, 3, b, c] x => y",
        "y = SpaceToDepth <blocksize = 2> (x)",
    ),
    **{
        f"{kind}, rounded up, {kernel} {stride} {pad}": (
            "float[a, 3, b, c] x => y",
            f"y = {kind} <ceil_mode = 1, kernel_shape = [{kernel}, {kernel}], strides = "
            f"[{stride}, {stride}], pads = [{pad}, {pad}, {pad}, {pad}]> (x)",
        )
        for kind in ("MaxPool", "AveragePool")
        for kernel, stride, pad in ((1, 2, 0), (2, 3, 0), (3, 3, 1))
    },
    "long rows apart": ("float[6501, a] x => y", "y = ReduceSum <keepdims = 0> (x, zero_axis)"),
    "a first layer, of every second pixel": (
        "float[a, 3, b, c] x => y",
        "s = Slice(x, zero_axis, ends, three, two_axis) "
        "y = Conv <pads = [1, 1, 1, 1]> (s, first_filters)",
    ),
    "a first layer, channels first": (
        "float[a, 3, b, c] x => y",
        "y = Conv <pads = [1, 0, 1, 0]> (x, first_filters)",
    ),
    "a first layer of one column": (
        "float[a, 3, b, 1] x => y",
        "made = Conv <pads = [1, 1, 1, 1]> (x, first_filters) "
        "y = Transpose <perm = [0, 2, 3, 1]> (made)",
    ),
    "a first layer, padded to whole strides": (
        "float[a, 3, b, c] x => y",
        'y = Conv <auto_pad = "SAME_LOWER", strides = [1, 3]> (x, first_filters)',
    ),
    "windows of many channels": (
        "float[a, b, c, 32] x => y",
        "s = Transpose <perm = [0, 3, 1, 2]> (x) t = Conv <pads = [1, 0, 1, 2]> (s, deep_filters) "
        "y = Transpose <perm = [0, 2, 3, 1]> (t)",
    ),
    "a filter for each of few channels": (
        "float[a, 3, b, c] x => y",
        "made = Conv <pads = [1, 1, 1, 1], strides = [3, 3], group = 3> (x, own_filters) "
        "y = ConvTranspose <strides = [3, 2]> (made, filters)",
    ),
    "channels by a name": (
        "float[a, c, b, d] x => y",
        "y = Conv <pads = [1, 1, 1, 2]> (x, filters)",
    ),
    **{
        f"blocks in the batch, {mode}": (
            "float[a, 3, b, c] x => y",
            "s = Transpose <perm = [1, 0, 2, 3]> (x) t = SpaceToDepth <blocksize = 2> (s) "
            "u = Transpose <perm = [1, 0, 2, 3]> (t) "
            "v = Conv <pads = [1, 1, 1, 1]> (u, first_filters) "
            "w = Transpose <perm = [1, 0, 2, 3]> (v) "
            f'd = DepthToSpace <blocksize = 2, mode = "{mode}"> (w) '
            "y = Transpose <perm = [1, 0, 2, 3]> (d)",
        )
        for mode in ("DCR", "CRD")
    },
    "blocks of channels by a name": (
        "float[a, c, b, 3] x => y",
        "y = DepthToSpace <blocksize = 2> (x)",
    ),
    "an end that may be none": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) r = Mod(s, two_axis) e = Equal(r, zero_axis) n = Not(e) "
        "f = Cast <to = 7> (n) m = Neg(f) p = Mul(r, m) w = Cast <to = 7> (e) "
        "q = Mul(w, int_max) l = Add(p, q) t = Slice(x, zero_axis, l, one_axis) "
        "h = Div(s, two_axis) d = Mul(h, two_axis) z = Expand(one_float, d) y = Add(t, z)",
    ),
    "a choice by a size": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) c = Greater(s, five) n = Where(c, five, s) "
        "t = Slice(x, zero_axis, n, one_axis) l = LessOrEqual(s, five) m = Where(l, five, s) "
        "z = Expand(one_float, m) u = ReduceSum(z) y = Add(t, u)",
    ),
    "deformed windows": (
        "float[c, 2, a, b] x, float[c, 24, a, b] o => y",
        "y = DeformConv <pads = [1, 1, 1, 2]> (x, filters, o)",
    ),
    "deformed windows, weighed": (
        "float[c, 2, a, b] x, float[c, 48, d, 3] o, float[c, 24, d, 3] m => y",
        "y = DeformConv <offset_group = 2, strides = [2, 1]> (x, filters, o, biases, m)",
    ),
    "depth to space": ("float[a, 8, b, 3] x => y", "y = DepthToSpace <blocksize = 2> (x)"),
    "padding by sizes": (
        "float[a, b] x => y",
        "s = Shape(x) n = Neg(s) r = Mod(n, two_three) p = Concat <axis = 0> (first_two, r) "
        "y = Pad(x, p, one_float)",
    ),
    **{
        f"padding by sizes, {mode}": (
            "float[a, b] x => y",
            "s = Shape(x) n = Neg(s) r = Mod(n, two_three) p = Concat <axis = 0> (first_two, r) "
            f'y = Pad <mode = "{mode}"> (x, p)',
        )
        for mode in ("reflect", "edge", "wrap")
    },
    "split": ("float[a, b] x => y, z", "y, z = Split <axis = 1, num_outputs = 2> (x)"),
    "split to sizes": ("float[a, b] x => y, z", "y, z = Split <axis = 1> (x, two_three)"),
    "tiles": ("float[a, b] x => y", "y = Tile(x, two_three)"),
    "einsum": (
        "float[a, 2, b] x, float[b, c] z => y",
        'y = Einsum <equation = "abc,cd->dba"> (x, z)',
    ),
    "einsum of equals": (
        "float[a, b] x, float[c, 3] z => y",
        'y = Einsum <equation = "ij,jk->ik"> (x, z)',
    ),
    **{
        f"a half, rolled by {by}": (
            "float[a, b] x => y",
            "n = Shape <start = 1, end = 2> (x) h = Div(n, two_axis) "
            "p = Slice(x, zero_axis, h, one_axis) e = Shape <start = 1, end = 2> (p) "
            f"s = Mod({by}, e) one_part = Slice(p, zero_axis, s, one_axis) "
            "other = Slice(p, s, e, one_axis) y = Concat <axis = 1> (other, one_part)",
        )
        for by in ("twenty", "minus_three")
    },
    "patches of a side that is a root": (
        "float[a, b, b, 6] x => y",
        "n = Shape <start = 1, end = 2> (x) m = Mul(n, n) f = Cast <to = 1> (m) r = Pow(f, half) "
        "c = Cast <to = 7> (r) s = Concat <axis = 0> (minus_ones, c, c, two_three) "
        'p = Reshape(x, s) y = Einsum <equation = "nhwpc->nchpw"> (p)',
    ),
    "patches of as many as are left": (
        "float[a, 16, 6] x, float[b, c] z => y",
        "n = Shape <start = 0, end = 1> (z) h = Div(n, two_axis) "
        "s = Concat <axis = 0> (minus_ones, h, h, two_three) "
        'p = Reshape(x, s) y = Einsum <equation = "nhwpc->nchpw"> (p)',
    ),
    "reversed sequences": (
        "float[b, a] x => y",
        "s = Shape <start = 1> (x) l = Expand(three, s) "
        "y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, l)",
    ),
    **{
        f"padding of its own, {mode}, {stride}": (
            "float[c, 2, a, b] x => y, z",
            f'y = Conv <auto_pad = "{mode}", strides = [{stride}, {stride}]> (x, filters) '
            f'z = MaxPool <auto_pad = "{mode}", strides = [{stride}, {stride}], '
            "kernel_shape = [3, 4]> (x)",
        )
        for mode, stride in (("SAME_UPPER", 1), ("SAME_UPPER", 2), ("SAME_LOWER", 3))
    },
    **{
        f"samples, {padding}, {corners}": (
            "float[c, 2, a, b] x, float[c, d, 3, 2] z => y",
            f'y = GridSample <padding_mode = "{padding}", align_corners = {corners}> (x, z)',
        )
        for padding, corners in (("zeros", 0), ("border", 1), ("reflection", 0), ("reflection", 1))
    },
    **{
        f"padding of its own, mean, {mode}, {included}": (
            "float[c, 2, a, b] x => y",
            f'y = AveragePool <auto_pad = "{mode}", strides = [2, 3], kernel_shape = [3, 4], '
            f"count_include_pad = {included}> (x)",
        )
        for mode, included in (("SAME_UPPER", 0), ("SAME_LOWER", 1))
    },
    "padding of its own, integers": (
        "float[c, 3, a, b] x => y",
        "e = Exp(x) q = Cast <to = 2> (e) w = Cast <to = 3> (first_filters) "
        "z = Constant <value = uint8 {2}> () "
        'i = ConvInteger <auto_pad = "SAME_LOWER", strides = [1, 3]> (q, w, z) '
        "y = Cast <to = 1> (i)",
    ),
    "two poolings, joined": (
        "float[2, 2, a, b] x => y",
        'm = MaxPool <auto_pad = "SAME_UPPER", strides = [2, 2], kernel_shape = [2, 2]> (x) '
        'n = AveragePool <auto_pad = "SAME_UPPER", strides = [2, 2], kernel_shape = [2, 2]> (x) '
        "y = Concat <axis = 1> (m, n)",
    ),
    "transposed windows": (
        "float[c, 3, a, b] x => y",
        "y = ConvTranspose <strides = [2, 3], dilations = [2, 1], output_padding = [1, 0], "
        "pads = [1, 0, 2, 1]> (x, filters)",
    ),
    "padding of its own, transposed": (
        "float[c, 3, a, b] x => y",
        'y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2, 1]> (x, filters)',
    ),
    "columns to images": (
        "float[a, 8, 6] x => y",
        "y = Col2Im(x, three_four, two_two)",
    ),
    **{
        f"regions, {ratio}, {mode}": (
            "float[c, 2, a, b] x, float[n, 4] r, int64[n] i => y",
            "s = Shape <end = 1> (x) own = Mod(i, s) p = Abs(r) q = CumSum(p, one) "
            f'y = RoiAlign <sampling_ratio = {ratio}, mode = "{mode}", output_height = 2, '
            "output_width = 3, spatial_scale = 2.0> (x, q, own)",
        )
        for ratio, mode in ((0, "avg"), (2, "avg"), (2, "max"))
    },
    "frames": ("float[a, b, 1] x => y", "y = STFT(x, step, , eight)"),
    "frames of a window": ("float[a, b, 1] x => y", "y = STFT <onesided = 0> (x, step, window)"),
    "windows rounded up": (
        "float[c, 2, a, b] x => y, z",
        "y = MaxPool <ceil_mode = 1, strides = [2, 2], kernel_shape = [3, 3]> (x) "
        "z = AveragePool <ceil_mode = 1, strides = [2, 2], kernel_shape = [3, 3], "
        "pads = [1, 1, 1, 1]> (x)",
    ),
    "windows rounded up, the last one behind the image": (
        "float[c, 2, 16, b] x => y",
        "y = MaxPool <ceil_mode = 1, strides = [2, 2], kernel_shape = [1, 2]> (x)",
    ),
    "table cut twice": (
        "float[b, a, a] x => y",
        "s = Shape <start = 1, end = 2> (x) p = Slice(square, zero_axis, s, zero_axis) "
        "q = Slice(p, zero_axis, s, one_axis) y = Add(x, q)",
    ),
    "attention with a table read backwards": (
        "float[c, 2, a, 8] x => y",
        "v = Transpose <perm = [0, 1, 3, 2]> (x) p = MatMul(x, v) "
        "s = Shape <start = 2, end = 3> (x) n = Neg(s) t = Slice(heads, n, ends, two_axis) "
        "q = Add(p, t) r = Softmax(q) y = MatMul(r, x)",
    ),
    "attention of columns": (
        "float[c, 2, 8, a] x => y",
        "q = Transpose <perm = [0, 1, 3, 2]> (x) p = MatMul(q, x) r = Softmax(p) y = MatMul(r, q)",
    ),
    "range of two sizes": (
        "float[a, b] x => i",
        "s = Shape(x) f = Gather(s, zero_index) l = Gather(s, one) g = Neg(f) "
        "i = Range(l, g, minus_two)",
    ),
    "identity of sizes": ("float[a, b] x => y", "y = EyeLike <k = 1> (x)"),
    "counted by nonzero": (
        "float[a, b] x => i",
        "s = Shape <start = 1> (x) o = ConstantOfShape <value = int64[1] {1}> (s) i = NonZero(o)",
    ),
    "the smaller size": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) m = Min(s, five) n = Add(m, five) "
        "y = Slice(wide, m, n, one_axis)",
    ),
    "padding by sizes, as PyTorch writes it": (
        "float[a, b] x => y",
        "s = Shape(x) n = Neg(s) r = Mod(n, two_three) f = Concat <axis = 0> (r, first_two) "
        "g = Reshape(f, two_columns) h = Slice(g, minus_ones, first, zero_axis, minus_ones) "
        "t = Transpose(h) q = Reshape(t, minus_ones) y = Pad(x, q, one_float)",
    ),
    "windows and a bias": (
        "float[c, 2, a] x => y",
        "h = Conv <strides = [4]> (x, long_filters, biases) s = Shape <start = 2> (x) "
        "w = Div(s, four) e = Concat <axis = 0> (ones, w) o = Expand(one_float, e) "
        "y = Add(h, o)",
    ),
    "floats of sizes": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) f = Cast <to = 1> (s) h = Div(f, two_float) u = Ceil(h) "
        "d = Mul(u, two_float) e = Floor(h) g = Cast <to = 7> (d) j = Cast <to = 7> (e) "
        "v = Add(g, j) y = Expand(one_float, v)",
    ),
    "range of floats": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) r = Squeeze(s) l = Cast <to = 1> (r) "
        "y = Range(half, l, one_float)",
    ),
    "padding that cuts": ("float[a, b] x => y", "y = Pad(x, shift)"),
    "windows counted by division": (
        "float[c, 2, a] x => y",
        "h = Conv <strides = [4]> (x, long_filters) s = Shape <start = 2> (x) t = Sub(s, four) "
        "w = Div(t, four) n = Add(w, ones) e = Concat <axis = 0> (ones, n) "
        "o = Expand(one_float, e) y = Add(h, o)",
    ),
    "shape of a constant that is spread": (
        "float[a, b] x => y, i",
        "s = Shape <end = 1> (x) w = Concat <axis = 0> (s, ones, ones) v = Expand(table, w) "
        "p = Shape(v) y = Relu(x) q = ReduceMax <keepdims = 0> (x) r = Cast <to = 7> (q) "
        "g = Mod(r, three_of) i = Gather(p, g)",
    ),
    "equal by the model": ("float[a, b] x, float[c, b] z => y", "y = Add(x, z)"),
    "branches": (
        "float[a, b] x => y",
        "m = ReduceMax <keepdims = 0> (x) c = Greater(m, limit) y = If (c) <"
        "then_branch = t () => (float[a, b] p) { p = Relu(x) },"
        "else_branch = e () => (float[a, b] q) { q = Neg(x) }>",
    ),
    "branches in a loop": (
        "float[a, 4] x, float[4] s => y",
        "n = Shape <end = 1> (x) m = ReduceMax <keepdims = 0> (n) y = Loop (m, , s) <body = step "
        "(int64 i, bool c, float[4] p) => (bool d, float[4] q) { d = Identity(c) "
        "r = Gather(x, i) t = ReduceSum <keepdims = 0> (r) g = Greater(t, zero) q = If (g) <"
        "then_branch = e () => (float[4] u) { u = Add(p, r) },"
        "else_branch = f () => (float[4] v) { w = Sub(p, r) v = Tanh(w) }> }>",
    ),
    "scan of scalars": (
        "float[6] s, float[70, 6] x, float[a] z => y, w, v",
        "y, w = Scan <num_scan_inputs = 1, body = step (float[6] p, float[6] q) => "
        "(float[6] r, float[6] t) { r = Add(p, q) l, m, n = DynamicQuantizeLinear(r) "
        "t = DequantizeLinear(l, m, n) }> (s, x) v = Relu(z)",
    ),
    **{
        f"all in order, {largest}": (
            "float[a, b] x => y, i",
            f"s = Shape <start = 1> (x) y, i = TopK <axis = 1, largest = {largest}> (x, s)",
        )
        for largest in (0, 1)
    },
    "the first rows in order": (
        "float[a, b] x => y, i",
        "s = Shape <end = 1> (x) t = Sub(s, ones) y, i = TopK <axis = 0> (x, t)",
    ),
    **{
        f"spectrum, {inverse}, {onesided}": (
            "float[a, b, 2] x => y",
            f"y = DFT <axis = 1, inverse = {inverse}, onesided = {onesided}> (x)",
        )
        for inverse, onesided in ((0, 0), (1, 0))
    },
    "half a spectrum": ("float[a, b, 1] x => y", "y = DFT <axis = 1, onesided = 1> (x)"),
    "halves and back": (
        "float[1, 1, a, b] x => y",
        "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) "
        "d = Resize(p, , doubled) y = Concat <axis = 1> (x, d)",
    ),
    "the start of a table": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) t = Slice(square, zero_axis, s, one_axis) "
        "r = ReduceMax(t, zero_axis) y = Add(x, r)",
    ),
    "windows in floats": (
        "float[a, b] x => y",
        "s = Shape(x) f = Cast <to = 1> (s) g = Div(f, two_float) h = Add(g, one_float) "
        "c = Ceil(h) i = Cast <to = 7> (c) y = Expand(one_float, i)",
    ),
    "the side of a square": (
        "float[a, 16, b] x => y",
        "s = Shape <start = 1, end = 2> (x) f = Cast <to = 1> (s) r = Pow(f, half) "
        "q = Cast <to = 7> (r) t = Concat <axis = 0> (zero_axis, q, q, minus_ones) "
        "y = Reshape(x, t)",
    ),
    "a corner of an image": (
        "float[1, a, b] x => y",
        "m = MaxPool <kernel_shape = [3]> (x) s = Slice(m, zero_axis, ones, one_axis) "
        "t = Slice(s, zero_axis, ones, two_axis) y = BatchNormalization(t, ones_float, "
        "ones_float, ones_float, ones_float)",
    ),
    "a place among ones": (
        "float[a, b] x => y",
        "s = Shape <start = 1> (x) v = Concat <axis = 0> (ones, s) f = Flatten <axis = 0> (x) "
        "o = OneHot(ones, three_of, v) t = Squeeze(o, zero_axis) y = Expand(one_float, t)",
    ),
    "lines of another": (
        "float[a, b] x, float[c, d] z => y",
        "s = Shape <end = 1> (z) t = Concat <axis = 0> (s, minus_ones) r = Reshape(x, t) "
        "y = Add(r, z)",
    ),
    "scan": (
        "float[b] s, float[a, b] x => y, z",
        "y, z = Scan <num_scan_inputs = 1, body = step (float[b] p, float[b] q) => "
        "(float[b] r, float[b] t) { r = Add(p, q) t = Tanh(r) }> (s, x)",
    ),
}
CONSTANTS = {
    "step": np.int64(3), "eight": np.int64(8), "window": np.hanning(6).astype(np.float32),
    "three_four": np.array([3, 4]), "two_two": np.array([2, 2]),
    "one": np.int64(1), "three": np.array([3]), "pads": np.array([0, 3, 0, 2]),
    "two_three": np.array([2, 3]), "first_two": np.array([0, 2]), "one_float": np.float32(1),
    "float_of_one": np.ones(1, np.float32),
    "deep_filters": np.random.default_rng(5).normal(0, 0.1, (16, 32, 3, 3)).astype(np.float32),
    "first_filters": np.random.default_rng(5).normal(0, 0.2, (32, 3, 3, 3)).astype(np.float32),
    "own_filters": np.random.default_rng(6).normal(size=(3, 1, 3, 3)).astype(np.float32),
    "filters": np.random.default_rng(0).normal(size=(3, 2, 3, 4)).astype(np.float32),
    "twenty": np.array([20]), "minus_twenty": np.array([-20]),
    "int_max": np.array([(1 << 31) - 1]),
    "minus_three": np.array([-3]), "ends": np.array([1 << 40]), "one_axis": np.array([1]),
    "zero_axis": np.array([0]), "ones": np.array([1]), "minus_ones": np.array([-1]),
    "first": np.array([-(1 << 40)]), "limit": np.float32(1.5), "zero": np.float32(0),
    "three_of": np.int64(3),
    "square": np.arange(64, dtype=np.float32).reshape(8, 8), "zero_index": np.int64(0),
    "heads": np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 1, 16), "two_axis": np.array([2]),
    "ones_float": np.ones(1, np.float32),
    "two_float": np.float32(2), "half": np.float32(0.5), "shift": np.array([0, 1, 0, -1]),
    "minus_two": np.int64(-2), "five": np.array([5]), "four": np.array([4]),
    "wide": np.arange(20, dtype=np.float32).reshape(2, 10), "two_columns": np.array([-1, 2]),
    "long_filters": np.ones((3, 2, 4), np.float32), "biases": np.ones(3, np.float32),
    "table": np.ones((1, 3, 4), np.float32),
    "scales": np.array([1, 1, 2, 1.5], np.float32),
    "doubled": np.array([1, 1, 2, 2], np.float32), "k": np.zeros((1, 1), np.int64),
}  # fmt: skip
IMAGES: Sizes = [{"a": 5, "b": 6, "c": 2}, {"a": 8, "b": 7, "c": 1}, {"a": 9, "b": 11, "c": 1}]
SIZES: dict[str, Sizes] = {
    "a first layer, of every second pixel": [{"a": 1, "b": 9, "c": c} for c in (64, 67)],
    "a first layer, channels first": [{"a": 1, "b": 63, "c": c} for c in (64, 67)],
    "a first layer, padded to whole strides": [{"a": 1, "b": 5, "c": c} for c in (24, 26)],
    "a filter for each of few channels": [{"a": 2, "b": 9, "c": 12}, {"a": 1, "b": 5, "c": 7}],
    "channels by a name": [{"a": 1, "b": 5, "c": 2, "d": 7}, {"a": 2, "b": 9, "c": 2, "d": 4}],
    "windows of an image with its end cut": [{"a": 64, "b": 5}, {"a": 3, "b": 6}],
    "windows of many channels": [
        {"a": a, "b": b, "c": c} for a, b, c in ((2, 5, 7), (1, 17, 33), (3, 1, 16), (9, 28, 28))
    ],
    "windows": [{"a": 2, "b": 5}, {"a": 1, "b": 20}, {"a": 3, "b": 77}],
    "a window of as many": [{"a": 2, "b": 20}, {"a": 1, "b": 33}],
    "of another": [{"a": 9, "b": 2, "c": 2}, {"a": 6, "b": 1, "c": 3}],
    "resize of more lines than a grid has": [{"a": 5}, {"a": 262149}],
    "resize to a size": [{"a": 1, "b": 3, "c": 7}, {"a": 2, "b": 6, "c": 4}],
    "split to sizes": [{"a": 2, "b": 5}, {"a": 3, "b": 5}],
    "einsum": [{"a": 2, "b": 3, "c": 4}, {"a": 5, "b": 1, "c": 2}],
    **{n: [{"a": 2, "b": b} for b in (2, 6, 40, 81)] for n in MODELS if n.startswith("a half")},
    "patches of as many as are left": [
        {"a": a, "b": b, "c": 1} for a, b in ((2, 8), (1, 9), (3, 4), (1, 2))
    ],
    "einsum of equals": [{"a": 2, "b": 3, "c": 3}, {"a": 5, "b": 4, "c": 4}],
    **{n: [known | {"d": 3} for known in IMAGES] for n in MODELS if n.startswith("samples")},
    **dict.fromkeys((name for name in MODELS if "padding of" in name or "rounded" in name), IMAGES),
    **{n: [known | {"n": 3} for known in IMAGES] for n in MODELS if n.startswith("regions")},
    **{n: [{"a": 2, "b": 31}, {"a": 1, "b": 8}] for n in MODELS if n.startswith("frames")},
    "transposed windows": IMAGES,
    **{n: IMAGES for n in MODELS if n.startswith("attention")},
    "windows counted by division": [{"a": 9, "c": 2}, {"a": 4, "c": 1}],
    "windows and a bias": [{"a": 9, "c": 2}, {"a": 4, "c": 1}],
    "padding by sizes, reflect": [{"a": 2, "b": 5}, {"a": 4, "b": 7}],
    "columns to images": [{"a": 2}, {"a": 1}],
    **{
        n: [{"a": 1, "b": 4, "c": 6}, {"a": 2, "b": 8, "c": 2}]
        for n in MODELS
        if n.startswith("blocks in the batch")
    },
    "deformed windows": IMAGES,
    "deformed windows, weighed": [
        {"a": 5, "b": 6, "c": 2, "d": 2},
        {"a": 9, "b": 6, "c": 1, "d": 4},
    ],
    "blocks of channels by a name": [{"a": 1, "b": 4, "c": 8}, {"a": 2, "b": 1, "c": 4}],
    "a choice by a size": [{"a": 2, "b": b} for b in (4, 5, 9)],
    "blocks of an image": [{"a": 1, "b": 4, "c": 6}, {"a": 2, "b": 8, "c": 2}],
    "halves and back": [{"a": 4, "b": 6}, {"a": 8, "b": 2}],
    "lines of another": [{"a": 4, "b": 6, "c": 4, "d": 6}, {"a": 3, "b": 2, "c": 3, "d": 2}],
    "equal by the model": [{"a": 2, "b": 5, "c": 2}],
}


def model_of(name: str) -> onnx.ModelProto:
    """One of MODELS, with the constants that it names."""
    signature, nodes = MODELS[name]
    inputs, outputs = signature.split(" => ")
    if name == "scatter":
        nodes = "s = Shape(x) w = Expand(k, s) " + nodes.replace("x, k", "x, w")
    kinds = ", ".join(f"{'int64' if o == 'i' else 'float'} {o}" for o in outputs.split(", "))
    text = f'<ir_version: 8, opset_import: ["" : 19]> g ({inputs}) => ({kinds}) {{ {nodes} }}'
    model = parser.parse_model(text)
    read = set(re.findall(r"\w+", nodes))
    held = [numpy_helper.from_array(v, n) for n, v in CONSTANTS.items() if n in read]
    model.graph.initializer.extend(held)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model
