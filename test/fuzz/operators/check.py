"""Compares what a target computes with onnxruntime and onnx's reference evaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import mgx_mlir
from mgx_mlir.errors import UserError
from test.fuzz.operators import (  # noqa: F401  (each enters its operators)
    contributed,
    elementwise,
    images,
    indexing,
    microsoft,
    movement,
    products,
    quantized,
    reductions,
    windows,
)
from test.fuzz.operators.disputes import disputed
from test.fuzz.operators.draw import BF16, FLOATS8, Array, is_float
from test.fuzz.operators.form import OPERATORS, Case, draw_case

__all__ = ["OPERATORS", "compare", "draw_case"]

# Operators whose integers are rounded sums of floats.
_ROUNDED = {
    "QLinearConv",
    "QLinearMatMul",
    "Resize",
    *(f"com.microsoft.QLinear{k}" for k in ("Add", "Concat", "GlobalAveragePool", "LeakyRelu")),
    *(f"com.microsoft.QLinear{k}" for k in ("Mul", "Sigmoid", "AveragePool", "Conv", "Softmax")),
    *(f"com.microsoft.Q{k}" for k in ("LinearWhere", "Gemm")),
}
# Relative errors that rounding explains, by the size of the type.
_TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-5}

onnxruntime.set_default_logger_severity(4)


def _by_onnxruntime(case: Case) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, case.feeds))


def _by_onnx(case: Case) -> list[Array]:
    return list(ReferenceEvaluator(case.model).run(None, case.feeds))


_REFERENCES: tuple[tuple[str, Callable[[Case], list[Array]]], ...] = (
    ("onnxruntime", _by_onnxruntime),
    ("onnx", _by_onnx),
)


def compare(case: Case, target: str, is_open: bool = False) -> tuple[str, str]:
    """The outcome and what is to be said about it: `ok`, `no reference`, `refused`, `FAIL`.

    is_open: the sizes of inputs are symbolic, equal ones by one name; those of 1 stay given. The
    program then runs with other sizes too, where a reference and a program of these do.
    """
    wanted, said = _wanted(case)
    model = _opened(case.model) if is_open else case.model
    try:
        program = mgx_mlir.Model(model.SerializeToString(), target=target)
    except UserError as error:
        return ("FAIL", f"refused: {str(error)[:300]}") if wanted else ("refused", said)
    outcome, wrong = _compared(program, case, wanted, said)
    if outcome != "ok":
        return outcome, wrong
    for other in _of_other_sizes(case) if is_open else ():
        if others := _wanted(other)[0]:
            outcome, wrong = _compared(program, other, others, "")
            if outcome != "ok" and _runs(other, target):
                sizes = ", ".join(f"{name} {list(a.shape)}" for name, a in other.feeds.items())
                return outcome, f"with {sizes}: {wrong}"
    return "ok", ""


def _wanted(case: Case) -> tuple[dict[str, list[Array]], str]:
    """The results of each reference, and why others have none."""
    wanted: dict[str, list[Array]] = {}
    said = ""
    empty = any(size == 0 for array in case.feeds.values() for size in array.shape)
    for name, run in _REFERENCES:
        if disputed(case, name):
            continue
        if empty and case.resized and name == "onnxruntime":
            continue  # it may end the process
        try:
            with np.errstate(all="ignore"):
                wanted[name] = run(case)
        except Exception as error:  # whatever a reference raises, it has no result
            said += f"{name}: {type(error).__name__}: {str(error)[:120]}; "
    return wanted, said


def _compared(
    program: mgx_mlir.Model, case: Case, wanted: dict[str, list[Array]], said: str
) -> tuple[str, str]:
    try:
        found = program.run(case.feeds)
    except UserError as error:
        return ("FAIL", f"refused: {str(error)[:300]}") if wanted else ("refused", said)
    if not wanted:
        return "no reference", said
    wrong = ""
    for name, arrays in wanted.items():
        for output, array in zip(case.outputs, arrays, strict=True):
            loose = case.operator in _ROUNDED
            if array is not None and (problem := difference(array, found[output], loose)):
                wrong += f"{output} beside {name}: {problem}; "
    return ("FAIL", wrong) if wrong else ("ok", "")


def _runs(case: Case, target: str) -> bool:
    """Whether a program of the sizes that are fed has a result."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.input:
        shape = case.feeds[value.name].shape
        for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            dim.dim_value = size
    try:
        mgx_mlir.Model(model.SerializeToString(), target=target).run(case.feeds)
    except UserError:
        return False
    return True


def _of_other_sizes(case: Case) -> Iterator[Case]:
    """The case with all symbolic sizes larger, and with each alone larger, 1 and 0."""
    sizes = sorted({size for array in case.feeds.values() for size in array.shape} - {1})
    changes: list[dict[int, int]] = [{size: 2 * size + 1 for size in sizes}]
    changes += [{size: new} for size in sizes for new in (size + 3, 1, 0) if new != size]
    model = onnx.ModelProto()
    model.CopyFrom(_opened(case.model))
    for change in changes:
        feeds = {
            name: np.resize(array, [{n: n, **change}[n] for n in array.shape])
            for name, array in case.feeds.items()
        }
        yield dataclasses.replace(case, model=model, feeds=feeds, resized=True)


def _opened(model: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for value in found.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value != 1:
                dim.dim_param = f"n{dim.dim_value}"
    for value in found.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del found.graph.value_info[:]
    return found


def difference(wanted: Array, found: Array, loose: bool = False) -> str:
    """How an array differs from the one wanted; "" where it does not.

    Loose integers are sums of floats that were rounded, which may be off by one.
    """
    wanted, found = np.asarray(wanted), np.asarray(found)
    if wanted.shape != found.shape:
        return f"shape {list(found.shape)}, not {list(wanted.shape)}"
    if found.dtype in FLOATS8 and wanted.dtype == np.uint8:
        wanted = wanted.view(found.dtype)  # onnxruntime has no type of numpy's for it
    if wanted.dtype != found.dtype:
        return f"{found.dtype}, not {wanted.dtype}"
    if wanted.dtype in FLOATS8:
        bits = wanted.view(np.uint8) == found.view(np.uint8)
        nan = np.isnan(wanted.astype(np.float32)) & np.isnan(found.astype(np.float32))
        return _differing(wanted, found, ~(bits | nan))
    if not is_float(wanted.dtype):
        where = np.asarray(wanted != found)
        if loose and wanted.size and wanted.dtype.kind in "iu":
            where &= np.abs(wanted.astype(np.int64) - found.astype(np.int64)) > 1
        return _differing(wanted, found, where)
    return _differing(wanted, found, _beyond_rounding(wanted, found))


def _beyond_rounding(wanted: Array, found: Array) -> Array:
    """Where two arrays of floats differ by more than rounding explains. NaN equals NaN."""
    share = 6e-2 if wanted.dtype == BF16 else _TOLERANCE[wanted.dtype.itemsize]
    exact, given = wanted.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(exact)
    size = np.abs(np.where(finite, exact, 0))
    most = float(size.max(initial=0))
    limits = float(ml_dtypes.finfo(wanted.dtype).max)
    ends = [
        np.where(np.isinf(a) | (np.abs(a) > 0.9 * limits), np.sign(a), 0) for a in (exact, given)
    ]
    limit = np.where(finite, share * (size + 0.2 * min(most, 10)) + 1e-7, 0)
    equal = (exact == given) | (np.isnan(exact) & np.isnan(given))
    with np.errstate(all="ignore"):
        close = np.abs(exact - given) <= limit
        rounded = (ends[0] != 0) & (ends[0] == ends[1])
    return np.asarray(~(equal | close | rounded))


def _differing(wanted: Array, found: Array, where: Array) -> str:
    if not where.any():
        return ""
    some = np.flatnonzero(where.reshape(-1))[:4]
    given, right = found.reshape(-1)[some].tolist(), wanted.reshape(-1)[some].tolist()
    return f"{int(where.sum())} of {wanted.size} differ: {given}, not {right}"
