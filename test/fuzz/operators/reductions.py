"""Operators along axes: reductions, softmax, sums of beginnings, norms, losses."""

from __future__ import annotations

import numpy as np

from test.fuzz.operators.draw import (
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    NUMBERS,
    PLAIN,
    U8,
    WIDE,
    Draw,
    Fixed,
)
from test.fuzz.operators.form import Form, Input, operator


def _axes(draw: Draw, rank: int) -> tuple[list[Input], dict[str, int]]:
    """Axes as a constant, as an input, as none of them, or left out."""
    chosen = draw.among(("constant",) * 6 + ("none", "input", "left out", "left out"))
    if chosen == "left out":
        return [], {}
    if chosen == "none":
        return [draw.ints([])], {"noop_with_empty_axes": draw.pick(0, 1)}
    return [draw.ints(draw.axes(rank), chosen == "constant")], {}


@operator(*(f"Reduce{k}" for k in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()))
def _reduce(draw: Draw, name: str) -> Form:
    extreme = name in ("ReduceMax", "ReduceMin")
    types = (
        (*FLOATS, *WIDE, I8, U8, BOOL) if extreme else FLOATS if "Log" in name else FLOATS + WIDE
    )
    dtype, shape = draw.among(types), draw.shape(empty=name != "ReduceMean")
    axes, attributes = _axes(draw, len(shape))
    values = draw.array(shape, dtype, special=draw.special and extreme)
    return Form([values, *axes], {"keepdims": draw.pick(0, 1), **attributes})


@operator("ArgMax", "ArgMin")
def _arg(draw: Draw, name: str) -> Form:
    shape = draw.shape(1)
    stated = {"axis": draw.axis(len(shape)), "keepdims": draw.pick(0, 1)}
    if draw.chance(0.5):
        stated["select_last_index"] = draw.pick(0, 1)
    return Form([draw.array(shape, draw.among(NUMBERS))], stated)


@operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(draw: Draw, name: str) -> Form:
    shape = draw.shape(1)
    return Form([draw.array(shape, draw.among(FLOATS))], {"axis": draw.axis(len(shape))})


@operator("CumSum", "CumProd")
def _cumulative(draw: Draw, name: str) -> Form:
    shape = draw.shape(1)
    axis = np.asarray(draw.axis(len(shape)), draw.pick(I32, I64))
    stated = {"exclusive": draw.pick(0, 1), "reverse": draw.pick(0, 1)}
    return Form([draw.array(shape, draw.among(FLOATS + WIDE)), draw.fixed(axis, 0.8)], stated)


@operator("TopK")
def _topk(draw: Draw) -> Form:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    stated = {"axis": axis}
    if draw.chance(0.5):
        stated["largest"] = draw.pick(0, 1)
    values = draw.plain(shape, draw.among(PLAIN + NUMBERS[4:]))
    return Form([values, draw.ints([draw.between(0, shape[axis])], 0.8)], stated, 2)


@operator("BatchNormalization")
def _batch_normalization(draw: Draw) -> Form:
    shape, dtype = draw.shape(2, 5), draw.among(PLAIN)
    rows: list[Input] = [Fixed(draw.plain(shape[1:2], dtype)) for _ in range(3)]
    rows.append(Fixed(draw.positive(shape[1:2], dtype)))
    return Form([draw.plain(shape, dtype), *rows], {"epsilon": draw.pick(1e-5, 1e-3)})


@operator("InstanceNormalization")
def _instance_normalization(draw: Draw) -> Form:
    shape, dtype = draw.shape(3, 5, empty=False), draw.among(PLAIN)
    rows = [draw.plain(shape[1:2], dtype) for _ in range(2)]
    return Form([draw.plain(shape, dtype), *rows], {"epsilon": draw.pick(1e-5, 1e-3)})


@operator("LayerNormalization", "RMSNormalization")
def _layer_normalization(draw: Draw, name: str) -> Form:
    shape, dtype = draw.shape(1, empty=False), draw.among(FLOATS)
    axis = draw.axis(len(shape))
    rows = shape[axis % len(shape) :]
    layer = name == "LayerNormalization"
    bias = [draw.plain(rows, dtype)] if layer and draw.chance(0.6) else []
    stated = {"epsilon": draw.pick(1e-5, 1e-3), "axis": axis}
    outputs = draw.pick(1, 3) if layer else 1
    return Form([draw.plain(shape, dtype), draw.plain(rows, dtype), *bias], stated, outputs)


@operator("GroupNormalization")
def _group_normalization(draw: Draw) -> Form:
    groups, dtype = draw.pick(1, 2, 3), draw.pick(F32, F16)
    channels = groups * draw.pick(1, 2)
    shape = [draw.pick(1, 2), channels, *draw.shape(1, 3, empty=False)]
    rows = [draw.plain([channels], dtype) for _ in range(2)]
    return Form([draw.plain(shape, dtype), *rows], {"num_groups": groups, "epsilon": 1e-4})


@operator("LpNormalization")
def _lp_normalization(draw: Draw) -> Form:
    shape = draw.shape(1)
    values = draw.plain(shape, draw.pick(F32, F64))
    return Form([values], {"axis": draw.axis(len(shape)), "p": draw.pick(1, 2)})


@operator("MeanVarianceNormalization")
def _mean_variance(draw: Draw) -> Form:
    stated = {"axes": draw.axes(4)} if draw.chance(0.5) else {}
    return Form([draw.plain(draw.shape(4, 4, empty=False))], stated)


@operator("LRN")
def _lrn(draw: Draw) -> Form:
    stated = {"size": draw.pick(1, 3, 5), "alpha": draw.pick(1e-4, 0.1)}
    stated |= {"beta": draw.pick(0.75, 0.5), "bias": draw.pick(1.0, 2.0)}
    return Form(
        [draw.plain([draw.pick(1, 2), draw.pick(1, 3, 7), 3, 4], draw.pick(F32, F16))], stated
    )


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(draw: Draw, name: str) -> Form:
    batch, classes, places = draw.pick(1, 3), draw.pick(2, 4), draw.shape(0, 2, empty=False)
    stated = {"reduction": draw.pick("none", "mean", "sum")}
    if draw.chance(0.5):
        stated["ignore_index"] = 1
    wanted = draw.array([batch, *places], draw.pick(I32, I64), 0, classes - 1)
    weights = [draw.positive([classes])] if draw.chance(0.5) else []
    outputs = draw.pick(1, 2) if name == "SoftmaxCrossEntropyLoss" else 1
    return Form([draw.plain([batch, classes, *places]), wanted, *weights], stated, outputs)
