"""Rare forms that parsers meet: odd types, empty tensors, open sizes, late arguments.

Each is a node and runs of it; dimensions in which the runs differ are open in the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_close, contributed, expected, floats, ints, outputs_of

Arrays = Mapping[str, np.ndarray]
F16, F64, I8, I32, U8 = np.float16, np.float64, np.int8, np.int32, np.uint8


@dataclass(frozen=True)
class Form:
    """A node: its operator, opset, inputs (None: absent), those that are constant, further runs."""

    kind: str
    opset: int
    inputs: Mapping[str, np.ndarray | None]
    constants: Sequence[str] = ()
    runs: Sequence[Arrays] = ()
    outputs: Sequence[type] = (np.float32,)
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
        model, fed = contributed(
            self.kind, self.inputs, self.outputs, self.constants, self.domain, self.opset,
            **self.attributes,
        )  # fmt: skip
        runs = [fed, *(fed | dict(more) for more in self.runs)]
        for value in model.graph.input:
            shapes = [run[value.name].shape for run in runs]
            for place, sizes in enumerate(zip(*shapes, strict=True)):
                if len({*sizes}) > 1:
                    value.type.tensor_type.shape.dim[place].dim_param = f"{value.name}_{place}"
        return model, runs


def of(dtype: type, *shape: int, low: float = -2, high: float = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def x(*shape: int, **others: np.ndarray | None) -> dict[str, np.ndarray | None]:
    return {"x": floats(*shape), **others}


def number(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def node(kind: str, opset: int, inputs: Mapping[str, np.ndarray | None], constants: str = "",
         runs: Sequence[Arrays] = (), outputs: Sequence[type] = (np.float32,), domain: str = "",
         **attributes: Any) -> Form:  # fmt: skip
    return Form(kind, opset, inputs, tuple(constants), runs, outputs, domain, attributes)


def recurrent(kind: str, gates: int, directions: int = 1, **others: np.ndarray) -> Arrays:
    w, r = floats(directions, gates * 6, 4, seed=1), floats(directions, gates * 6, 6, seed=2)
    return {"x": floats(5, 3, 4), "w": w, "r": r, **others}


_U8 = {"xs": number(0.05), "xz": number(3, U8), "ys": number(0.015), "yz": number(16, U8)}
_MICROSOFT = {"domain": "com.microsoft", "outputs": (U8,), "constants": ("xs", "xz", "ys", "yz")}

FORMS: dict[str, Form] = {
    "a scalar": node("Erf", 13, {"x": number(0.5)}),
    "no elements": node("Tanh", 13, x(0, 3)),
    "a product over nothing": node("MatMul", 13, x(3, 0, b=floats(0, 4))),
    "no rows": node("Gemm", 13, {"a": floats(0, 3), "b": floats(3, 4), "c": floats(4)}),
    "a batch of none": node("Conv", 11, x(0, 3, 5, 5, w=floats(2, 3, 3, 3))),
    "a sum over nothing": node("ReduceSum", 11, x(2, 0, 3), axes=[1]),
    "a concat with nothing": node("Concat", 13, {"a": floats(0, 3), "b": floats(2, 3)}, axis=0),
    "no indices": node("Gather", 13, x(4, 5, i=np.zeros(0, np.int64))),
    "no updates": node("ScatterND", 16, x(4, 3, i=np.zeros((0, 1), np.int64), u=floats(0, 3))),
    "a part of nothing": node("Split", 13, x(4, s=ints(4, 0)), "s", outputs=(np.float32,) * 2),
    "none of the largest": node(
        "TopK", 11, x(3, 9, k=ints(0)), "k", outputs=(np.float32, np.int64)
    ),
    "repeated not at all": node("Tile", 13, x(2, 3, r=ints(0, 2)), "r"),
    "f64": node("LogSoftmax", 13, {"x": of(F64, 2, 9)}, outputs=(F64,)),
    "f16": node(
        "GroupNormalization",
        21,
        {"x": of(F16, 1, 4, 3, 3), "s": of(F16, 4), "b": of(F16, 4)},
        outputs=(F16,),
        num_groups=2,
        epsilon=1e-7,
    ),
    "i8": node(
        "Clip",
        12,
        {"x": of(I8, 9, low=-9, high=9), "a": number(-2, I8), "b": number(3, I8)},
        outputs=(I8,),
    ),
    "products of integers": node(
        "MatMul", 13, {"a": of(I32, 2, 3, high=9), "b": of(I32, 3, 4, high=9)}, outputs=(I32,)
    ),
    "a pool of bytes": node(
        "MaxPool",
        12,
        {"x": of(U8, 1, 1, 5, 5, low=0, high=99)},
        outputs=(U8,),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
    ),
    "shrunk bytes": node(
        "Shrink", 9, {"x": of(U8, 9, low=0, high=6)}, outputs=(U8,), lambd=1.5, bias=1.0
    ),
    "a mean of several": node(
        "Mean", 13, {"a": of(F16, 3, 4), "b": of(F16, 4), "c": of(F16, 1, 1)}, outputs=(F16,)
    ),
    "the largest of i64": node("Max", 13, {"a": ints(1, 5, -2), "b": ints(3)}, outputs=(np.int64,)),
    "a window that holds padding": node(
        "AveragePool",
        7,
        x(1, 1, 5, 5),
        kernel_shape=[6, 6],
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        count_include_pad=1,
    ),
    "a scalar bias": node("Gemm", 13, {"a": floats(2, 3), "b": floats(3, 4), "c": number(0.5)}),
    "an index of i32": node(
        "GatherElements", 13, x(3, 4, i=np.array([[0, -1], [2, 1]], I32)), axis=1
    ),
    "an axis of one element": node("CumSum", 14, x(3, 4, a=ints(1)), "a", exclusive=1, reverse=1),
    "a scalar for an axis": node("Unsqueeze", 13, x(3, 2, a=np.array(1)), "a"),
    "diagonals": node("Einsum", 12, x(3, 3, 3), equation="iii->i"),
    "an outer product": node("Einsum", 12, {"a": floats(3), "b": floats(4)}, equation=" i , j "),
    "padding of one axis": node(
        "Pad", 18, x(2, 3, p=ints(2, 1), v=None, a=ints(-1)), "pa", mode="reflect"
    ),
    "padding around": node("Pad", 19, x(2, 3, p=ints(1, 2, 0, 1)), "p", mode="wrap"),
    "padding that takes away": node("Pad", 13, x(4, 5, p=ints(-1, 2, 0, -2)), "p"),
    "an aspect that is kept": node(
        "Resize",
        18,
        x(1, 1, 2, 4, r=None, s=None, z=ints(5, 3)),
        "z",
        axes=[2, 3],
        keep_aspect_ratio_policy="not_smaller",
        mode="linear",
    ),
    "a cut of a region": node(
        "Resize",
        13,
        x(
            1,
            1,
            4,
            4,
            r=np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 0.8], np.float32),
            s=np.array([1, 1, 0.6, 1.6], np.float32),
        ),
        "rs",
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
    ),
    "blocks of scales": node(
        "DequantizeLinear",
        21,
        {"x": of(I8, 2, 4, 6, high=9), "s": of(np.float32, 2, 2, 6)},
        axis=1,
        block_size=2,
    ),
    "a state of its own": node(
        "GRU",
        14,
        recurrent("GRU", 3, 2, b=floats(2, 36), l=np.array([5, 3, 1], I32), h=floats(2, 3, 6)),
        outputs=(np.float32,) * 2,
        hidden_size=6,
        direction="bidirectional",
        linear_before_reset=1,
        clip=1.5,
    ),
    "coupled gates": node(
        "LSTM", 14, recurrent("LSTM", 4), outputs=(np.float32,) * 3, hidden_size=6, input_forget=1
    ),
    "a loss of weights": node(
        "SoftmaxCrossEntropyLoss",
        13,
        {
            "x": floats(2, 3, 4, 5),
            "l": np.ones((2, 4, 5), np.int64),
            "w": of(np.float32, 3, low=0.1),
        },
        ignore_index=2,
        reduction="mean",
    ),
    "bytes to the end": node(
        "QLinearAveragePool",
        13,
        {"x": of(U8, 1, 3, 5, 5, low=0, high=99), **_U8},
        kernel_shape=[3, 3],
        pads=[2, 2, 2, 2],
        count_include_pad=1,
        **_MICROSOFT,
    ),
    "channels last": node(
        "QLinearGlobalAveragePool",
        13,
        {"x": of(U8, 1, 4, 4, 3, low=0, high=99), **_U8},
        channels_last=1,
        **_MICROSOFT,
    ),
    "a cubic grid": node(
        "GridSample",
        20,
        x(1, 2, 4, 5, g=of(np.float32, 1, 3, 4, 2, low=-1.4, high=1.4)),
        mode="cubic",
        padding_mode="reflection",
    ),
    "open: both operands": node(
        "Sub",
        13,
        {"a": floats(2, 1), "b": floats(3)},
        runs=[{"a": floats(4, 1), "b": floats(1)}, {"a": floats(1, 1), "b": floats(5)}],
    ),
    "open: padding by itself": node(
        "MaxPool",
        12,
        x(1, 3, 5, 5),
        kernel_shape=[3, 3],
        auto_pad="SAME_LOWER",
        strides=[2, 2],
        runs=[x(2, 3, 8, 6), x(1, 3, 7, 10)],
    ),
    "open: sizes rounded up": node(
        "AveragePool",
        11,
        x(1, 3, 6, 5),
        kernel_shape=[3, 3],
        ceil_mode=1,
        strides=[2, 2],
        runs=[x(2, 3, 8, 6), x(1, 3, 7, 10)],
    ),
    "open: the last of equal ones": node(
        "ArgMax",
        13,
        {"x": of(I32, 3, 4, 5)},
        outputs=(np.int64,),
        axis=-2,
        select_last_index=1,
        runs=[{"x": of(I32, 1, 4, 9)}],
    ),
    "open: parts of a shape": node(
        "Shape", 15, x(2, 3, 4, 5), outputs=(np.int64,), start=-3, end=-1, runs=[x(1, 3, 9, 1)]
    ),
    "open: boxes": node(
        "RoiAlign",
        16,
        x(2, 3, 8, 8, r=of(np.float32, 4, 4, low=0, high=7).cumsum(1), b=ints(0, 1, 0, 1)),
        output_height=2,
        output_width=2,
        sampling_ratio=2,
        runs=[x(1, 3, 5, 6, r=floats(2, 4), b=ints(0, 0))],
    ),
    "open: reversed beginnings": node(
        "ReverseSequence",
        10,
        x(4, 3, l=ints(4, 3, 2)),
        time_axis=0,
        batch_axis=1,
        runs=[x(2, 1, l=ints(2))],
    ),
    "open: volumes": node(
        "AveragePool",
        11,
        x(2, 3, 5, 5, 5),
        kernel_shape=[3, 3, 3],
        strides=[2, 2, 2],
        pads=[1] * 6,
        runs=[x(1, 3, 6, 4, 7)],
    ),
    "late: starts": node(
        "Slice", 13, x(3, 5, s=ints(1), e=ints(4), a=ints(1)), "ea", runs=[{"s": ints(3)}]
    ),
    "late: steps": node(
        "Slice",
        13,
        x(3, 5, s=ints(0), e=ints(9), a=ints(1), t=ints(2)),
        runs=[{"s": ints(-1), "e": ints(-9), "t": ints(-1)}],
    ),
    "late: parts": node(
        "Split",
        13,
        x(9, 2, s=ints(2, 3, 4)),
        outputs=(np.float32,) * 3,
        runs=[{"s": ints(4, 5, 0)}],
    ),
    "late: axes": node("ReduceL1", 18, x(2, 3, 4, a=ints(1)), runs=[{"a": ints(-1)}]),
    "late: a shape": node("Reshape", 13, x(4, 6, s=ints(3, -1)), runs=[x(2, 6, s=ints(-1, 2))]),
    "late: how many": node(
        "TopK", 11, x(2, 9, k=ints(4)), outputs=(np.float32, np.int64), runs=[{"k": ints(9)}]
    ),
    "late: a range": node(
        "Range",
        11,
        {"a": number(1), "b": number(9), "c": number(2)},
        runs=[{"a": number(9), "b": number(1), "c": number(-3)}],
    ),
    "late: amounts": node("Pad", 13, x(4, 3, p=ints(0, 1, 2, 1)), runs=[{"p": ints(1, 1, 0, 0)}]),
    "late: a diagonal": node(
        "Trilu", 14, x(3, 4, k=np.array(1)), upper=0, runs=[{"k": np.array(-2)}]
    ),
}

INVALID: dict[str, tuple[Form, str]] = {
    "a bias of another rank": (
        node(
            "BatchNormalization",
            15,
            x(2, 3, 4, s=floats(3), b=floats(3, 1), m=floats(3), v=floats(3)),
        ),
        "one shape",
    ),
    "strides of another rank": (
        node("Conv", 11, x(1, 3, 5, w=floats(1, 3, 3)), strides=[1, 1]),
        "strides has 2",
    ),
    "blocks that do not fit": (node("SpaceToDepth", 13, x(2, 2, 4, 5), blocksize=2), "blocks of 2"),
    "groups that do not fit": (
        node("GroupNormalization", 21, x(1, 4, 2, s=floats(4), b=floats(4)), num_groups=3),
        "4 channels in 3 groups",
    ),
    "no steps": (
        node("Slice", 13, x(3, 5, s=ints(0), e=ints(3), a=ints(1), t=ints(0)), "seat"),
        "step",
    ),
    "parts that do not fit": (
        node("Split", 13, x(9, s=ints(2, 3)), "s", outputs=(np.float32,) * 2),
        "9",
    ),
    "another hidden size": (node("GRU", 14, recurrent("GRU", 3), hidden_size=5), "hidden_size = 5"),
    "no such mode": (
        node("RoiAlign", 16, x(1, 3, 8, 8, r=floats(1, 4), b=ints(0)), mode="foo"),
        "mode = foo",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if not form.runs])
def test_a_form_is_imported_as_onnxruntime_runs_it(name: str) -> None:
    model, (fed,) = FORMS[name].made()
    tolerance = {"rtol": 1e-2, "atol": 5e-3} if F16 in FORMS[name].outputs else {}
    assert_close(outputs_of(parse_onnx(model), fed), expected(model, fed), **tolerance)


def _agrees(name: str, target: str, settings: Any = None) -> None:
    model, runs = FORMS[name].made()
    compiled = mgx_mlir.Model(model, target, settings=settings)
    tolerance = {"rtol": 1e-2, "atol": 5e-3} if F16 in FORMS[name].outputs else {}
    for fed in runs:
        assert_close([*compiled.run(fed).values()], expected(model, fed), **tolerance)
    if name.startswith("open"):
        assert compiled.compiled == 1


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.runs])
def test_a_form_of_several_sizes_runs_as_onnxruntime_runs_it(name: str) -> None:
    _agrees(name, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_a_form_runs_on_each_kind_of_target(name: str, target: str) -> None:
    _agrees(name, target)


@pytest.mark.parametrize("name", INVALID)
def test_a_form_without_a_meaning_is_named(name: str) -> None:
    form, message = INVALID[name]
    with pytest.raises(ModelError, match=f"the_{form.kind}.*{message}"):
        parse_onnx(form.made()[0])
