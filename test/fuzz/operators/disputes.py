"""Where a reference departs from ONNX's specification, or where that leaves a result open.

A row says which reference is not asked, for which cases of an operator, and why.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from test.fuzz.operators.draw import BF16, F16, F64, Type, is_float
from test.fuzz.operators.form import Case

Row = tuple[str, str, Callable[[Case], bool], str]


def _old(before: int) -> Callable[[Case], bool]:
    return lambda case: case.opset < before


def _always(case: Case) -> bool:
    return True


def _reversed_or_short(case: Case) -> bool:
    return case.attribute("direction", "forward") != "forward" or case.array(4) is not None


def _integers(case: Case) -> bool:
    array = case.array(0)
    return array is not None and array.dtype.kind in "iub"


def _rank(case: Case) -> int:
    array = case.array(0)
    return 0 if array is None else array.ndim


def _whole(case: Case) -> bool:
    """Whether each mean is one of a single element."""
    array = case.array(0)
    assert array is not None
    return all(array.shape[axis] == 1 for axis in case.attribute("axes", [0, 2, 3]))


def _nearest_corners(case: Case) -> bool:
    aligned = case.attribute("coordinate_transformation_mode") == "align_corners"
    return aligned and case.attribute("mode", "nearest") == "nearest"


def _sparse(case: Case) -> bool:
    """Whether a window with automatic padding has a smaller extent than its stride."""
    lengths = case.attribute("kernel_shape")
    if lengths is None:
        weights = case.array(1)
        assert weights is not None
        lengths = weights.shape[2:]
    ones = [1] * len(lengths)
    strides, dilations = case.attribute("strides", ones), case.attribute("dilations", ones)
    extents = [(n - 1) * d + 1 for n, d in zip(lengths, dilations, strict=True)]
    same = str(case.attribute("auto_pad")).startswith("SAME")
    return same and any(e < s for e, s in zip(extents, strides, strict=True))


def _backwards_to_the_end(case: Case) -> bool:
    """Whether a slice with a negative step ends at the largest integer, which is its start."""
    ends, steps = case.array(2), case.array(4)
    most = np.iinfo(np.int64).max
    return ends is not None and steps is not None and bool(((ends == most) & (steps < 0)).any())


def _region_of_same_size(case: Case) -> bool:
    if case.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return False
    shapes = [value.type.tensor_type.shape.dim for value in case.model.graph.output]
    values = case.array(0)
    assert values is not None
    pairs = zip(values.shape[2:], shapes[0][2:], strict=False)
    return any(had == now.dim_value for had, now in pairs)


def _ends_by_scales(case: Case) -> bool:
    modes = ("align_corners", "pytorch_half_pixel")
    stated = case.attribute("coordinate_transformation_mode") in modes
    return stated and case.array(2) is not None


def _nearest_half_pixels(case: Case) -> bool:
    """Whether nearest pixels may be those before the first or after the last."""
    stated = str(case.attribute("coordinate_transformation_mode")).startswith("half_pixel")
    cut = case.attribute("nearest_mode") in ("floor", "ceil")
    return stated and cut and case.attribute("mode", "nearest") == "nearest"


def _padded_and_rounded_up(case: Case) -> bool:
    return case.attribute("ceil_mode") == 1 and any(case.attribute("pads") or [])


def _resized(case: Case) -> bool:
    return case.resized


def _masked_in_f16(case: Case) -> bool:
    return _typed(F16)(case) and (case.array(3) is not None or case.attribute("is_causal") == 1)


def _causal_past(case: Case) -> bool:
    """Whether causal queries follow a past, and there are more or fewer of them than new keys."""
    q, k, past = (case.array(n) for n in (0, 1, 4))
    if case.attribute("is_causal") != 1 or q is None or k is None or past is None:
        return False
    return q.shape[-2] != k.shape[-2]


def _unbounded(case: Case) -> bool:
    """Whether there is an infinity, or NaN among f64."""
    array = case.array(0)
    if array is None:
        return False
    return bool(np.isinf(array.astype(np.float64)).any()) or (_typed(F64)(case) and _nan(case))


def _region_by_scales(case: Case) -> bool:
    mode = case.attribute("coordinate_transformation_mode")
    return mode == "tf_crop_and_resize" and case.array(2) is not None


def _nan(case: Case) -> bool:
    array = case.array(0)
    return array is not None and is_float(array.dtype) and bool(np.isnan(array).any())


def _odd(case: Case) -> bool:
    array = case.array(0)
    return array is not None and not bool(np.isfinite(array.astype(np.float64)).all())


def _typed(dtype: Type) -> Callable[[Case], bool]:
    def found(case: Case) -> bool:
        array = case.array(0)
        return array is not None and array.dtype == dtype

    return found


def _same(case: Case) -> bool:
    return str(case.attribute("auto_pad")).startswith("SAME")


def _grouped_bias(case: Case) -> bool:
    return case.attribute("group", 1) > 1 and case.array(2) is not None


def _starts_before(case: Case) -> bool:
    """Whether a slice goes backwards from before the first element."""
    values, starts, axes, steps = (case.array(k) for k in (0, 1, 3, 4))
    if values is None or starts is None or axes is None or steps is None:
        return False
    pairs = zip(starts.tolist(), axes.tolist(), steps.tolist(), strict=True)
    return any(step < 0 and start < -values.shape[axis] for start, axis, step in pairs)


def _bent(case: Case) -> bool:
    return case.attribute("mode") in ("cubic", "bicubic") and (
        case.attribute("padding_mode") in ("border", "reflection")
    )


def _whole_mean_of_none(case: Case) -> bool:
    array = case.array(0)
    return array is not None and array.size == 0 and _integers(case)


_CROPPED = "crops by a negative padding; ONNX asks for as many windows, which need none"
_LOGS = (
    "ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare ReduceL1 ReduceL2"
)
_SUMS = f"LayerNormalization RMSNormalization Mean Sum CumSum CumProd {_LOGS}"
_ENDS = "ArgMax ArgMin MaxPool ReduceMax ReduceMin"
_POOLS = "AveragePool LpPool MaxPool"
_GQA = "com.microsoft.GroupQueryAttention"
_RNN = "RNN GRU LSTM"
_ROWS_OF_2 = "before opset 13 the axes from `axis` on are one row; the evaluator takes one axis"

ROWS: tuple[Row, ...] = (
    (_SUMS, "onnx", _typed(BF16), "rounds every sum to bfloat16"),
    ("Gelu", "onnx", _typed(BF16), "rounds 1 + erf(x), which may be 0, to bfloat16"),
    ("Sum Mean", "onnx", _typed(F16), "rounds every sum to float16, which may overflow"),
    (_ENDS, "onnxruntime", _nan, "whether NaN is the largest depends on its place"),
    ("LpPool", "onnx", lambda c: c.attribute("ceil_mode") == 1, "divides by elements it cut off"),
    ("RoiAlign", "onnx", _old(16), "takes half_pixel for granted"),
    ("Shrink", "onnxruntime", _typed(F64), "computes f64 in f32"),
    ("Unique", "onnx", lambda c: not c.attribute("sorted", 1), "takes parts along axis 0"),
    ("Resize", "onnx", _ends_by_scales, "takes size * scale, which is no size, for the length"),
    ("Resize", "onnx", _nearest_half_pixels, "reads other pixels at the ends"),
    ("Resize", "onnx", _region_by_scales, "divides by a size that is no whole number"),
    ("Resize", "onnx", _nearest_corners, "halves are rounded by the last bits of other formulas"),
    ("BatchNormalization", "onnx", _old(14), "takes momentum for a training step"),
    ("GlobalMaxPool", "onnx", lambda c: _rank(c) != 4, "keeps no dimension, or repeats one"),
    ("Attention", "onnxruntime", _masked_in_f16, "adds its masks in f16"),
    ("Attention", "onnxruntime", _causal_past, "lets a causal query see keys that come after it"),
    (_GQA, "onnxruntime", _resized, "a longer past than total_sequence_length is kept by nobody"),
    ("com.microsoft.QLinearAveragePool", "onnxruntime", _resized, "small images end the process"),
    ("com.microsoft.Inverse", "onnxruntime", _resized, "the matrices may have no inverse"),
    ("Hardmax", "onnxruntime", _odd, "NaN is the largest or not by its place"),
    ("LogSoftmax Softmax", "onnxruntime", _unbounded, "a row with NaN or infinity is not NaN"),
    ("Sign", "onnxruntime", lambda c: _typed(F16)(c) and _nan(c), "gives 0 for NaN"),
    ("GridSample", "onnx", _bent, "moves the place itself into the image, not the pixels around"),
    ("Hardmax Softmax LogSoftmax", "onnx", _old(13), _ROWS_OF_2),
    ("LRN", "onnx", _always, "sums squares for as many channels as there are images"),
    ("LayerNormalization", "onnx", lambda c: len(c.outputs) > 1, "ignores stash_type for Mean"),
    ("LpNormalization", "onnx", lambda c: c.attribute("p") == 1, "sums without absolute values"),
    ("MaxPool", "onnx", _nan, "leaves NaN out with ceil_mode alone"),
    ("MaxPool", "onnx", _padded_and_rounded_up, "rounds up by another formula, or not at all"),
    ("MaxPool", "onnx", lambda c: len(c.outputs) > 1, "counts Indices with another row's length"),
    (_POOLS, "onnx", _same, "counts windows of automatic padding by another formula"),
    (_POOLS + " Conv", "onnxruntime", _sparse, _CROPPED),
    ("ConvTranspose", "onnxruntime", _sparse, "has fewer elements than input * stride"),
    ("ConvTranspose", "onnx", _grouped_bias, "adds the first group's bias to all groups"),
    ("ConvTranspose", "onnx", _same, "pads by floor division of negative amounts"),
    ("MeanVarianceNormalization", "onnxruntime", _whole, "NaN where rounding makes a variance < 0"),
    ("MaxUnpool", "onnxruntime", lambda c: c.array(2) is not None, "indices are of output_shape"),
    ("NonZero", "onnxruntime", lambda c: _rank(c) == 0, "ONNX gives [0, N] for a scalar"),
    ("ReduceSumSquare ReduceProd ReduceL1", "onnx", _integers, "gives the wider type of numpy"),
    ("Resize", "onnxruntime", _integers, "cuts integers off; ONNX's evaluator rounds them"),
    ("ReduceMean", "onnx", _whole_mean_of_none, "gives NaN as an integer, where onnxruntime has 0"),
    ("ReduceProd", "onnxruntime", _integers, "does not wrap around"),
    ("Resize", "onnxruntime", _region_of_same_size, "leaves out the region of sizes that stay"),
    ("Slice", "onnxruntime", _backwards_to_the_end, "takes the largest end for the first element"),
    ("ScatterElements ScatterND", "onnx", _nan, "whether NaN is the larger depends on the order"),
    ("Unsqueeze", "onnx", _old(13), "counts negative axes without the new ones"),
    ("Slice", "onnx", _starts_before, "numpy begins before the first element; ONNX clamps to it"),
    (_RNN, "onnx", _reversed_or_short, "ignores direction and sequence_lens"),
)


def disputed(case: Case, reference: str) -> str:
    """Why this reference is not asked; "" where it is."""
    for operators, name, where, reason in ROWS:
        if name == reference and case.operator in operators.split() and where(case):
            return reason
    return ""
