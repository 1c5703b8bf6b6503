"""MIGraphX's operators, as ops of mgx: names, attributes, and what differs.

An operator that is not in this file is the mgx op of the same name, with the same attributes.
The functions here have MIGraphX's attribute names as parameters.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.errors import UsageError
from mgx_mlir.importer import emit
from mgx_mlir.importer.converters.shapes import resolve
from mgx_mlir.importer.tensors import dims as dims_by_name
from mgx_mlir.migraphx import attributes, by_onnx, composed, windows
from mgx_mlir.migraphx.shape import Numbered, dtype_of, dynamic_dimension, type_name, type_t
from mgx_mlir.migraphx.tensors import dim_of, rank_of, sizes_of, sizes_together
from mgx_mlir.rewriting.queries import element_type

Made: TypeAlias = ir.Value | Sequence[ir.Value]
# A size, or one with bounds and a name.
Size: TypeAlias = int | dynamic_dimension


class pooling_mode(Numbered):
    """The kinds of `pooling`."""

    average, max, lpnorm = range(3)


class rnn_direction(Numbered):
    """The directions of recurrent layers."""

    forward, reverse, bidirectional = range(3)


class op:
    """An operator: its name and its attributes. Raises UsageError for an unknown name.

    `op("convolution", padding=[1, 1], stride=[2, 2])`
    """

    pooling_mode = pooling_mode
    rnn_direction = rnn_direction

    def __init__(self, name: str, **attributes: Any) -> None:
        if name not in names():
            said = f"is not here: {REFUSED[name]}" if name in REFUSED else advice(name, names())
            raise UsageError(f"MIGraphX's operator '{name}' {said}")
        self._name = name
        self.attributes = MappingProxyType(attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(op, self._name, **self.attributes), ()

    def name(self) -> str:
        """The operator's name."""
        return self._name

    def values(self) -> dict[str, Any]:
        """All attributes, those with defaults too; enums' values are numbers."""
        known = {} if self._name.startswith("@") else defaults(self._name)
        found = {n: v for n, v in known.items() if v is not None} | dict(self.attributes)
        return {n: numbered(self._name, n, v) for n, v in found.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, op):
            return NotImplemented
        return self._name == other._name and self.attributes == other.attributes

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self._name}[{given}]" if given else self._name


def builtin(name: str, **attributes: Any) -> op:
    """The operator of an instruction that there is, also of those that nobody builds by name."""
    made = op.__new__(op)
    made._name, made.attributes = name, MappingProxyType(attributes)
    return made


def numbered(operator: str, name: str, value: Any) -> Any:
    """An attribute's value as a program's file has it: a number for an enum's."""
    kind = pooling_mode if (operator, name) in _POOLS else _KINDS.get(name)
    if isinstance(value, str) and kind is type_t:
        value = type_name(dtype_of(value))
    if kind is not None and value in kind.__members__:
        value = kind[value]
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


_POOLS = (("pooling", "mode"), ("roialign", "mode"))
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("dtype", "out_type", "output_type", "target_type"), type_t),
    "direction": rnn_direction,
}


def build(operator: op, operands: Sequence[ir.Value]) -> Made:
    """The op at the insertion point. Raises UsageError where attributes or operands do not fit."""
    name, given = operator.name(), dict(operator.attributes)
    if name.startswith("reduce_") and not list(given.get("axes", ())):
        given["axes"] = list(range(rank_of(operands[0]))) if operands else []
    return applied(op(name, **attributes.DEFAULTS.get(name, {}) | given), _function(name), operands)


def applied(operator: Any, function: Callable[..., Made], operands: Sequence[ir.Value]) -> Made:
    """What the function of an op or a macro builds. Raises UsageError as `build`."""
    signature = inspect.signature(function)
    known = [
        name
        for name, p in signature.parameters.items()
        if p.kind is p.KEYWORD_ONLY or p.default is not p.empty
    ]
    positional = [n for n in signature.parameters if n not in attributes.PLACES]
    for name in operator.attributes:
        if name not in {*known, *positional[len(operands) :]} or name in ("results", "loc", "ip"):
            raise UsageError(f"{operator.name()} has no attribute '{name}'; {_listed(positional)}")
    try:
        made: Made = function(*operands, **plain(operator.attributes))
    except (ir.MLIRError, TypeError, ValueError, IndexError, AttributeError) as error:
        types = ", ".join(str(x.type) for x in operands)
        said = str(error).rpartition("<locals>.")[2]
        raise UsageError(f"{operator!r} on ({types}): {said}") from error
    return made


def names() -> frozenset[str]:
    """The operators there are."""
    return (
        frozenset(_OWN)
        | {name.removeprefix("mgx.") for name in mgx.OPS - _INTERNAL}
        | {*_CONTROL, *by_onnx.NAMES, *by_onnx.LAST_STATES}
    )


def defaults(name: str) -> dict[str, Any]:
    """The attributes of an operator with their defaults; None where there is none."""
    if name in by_onnx.NAMES:
        return dict.fromkeys(by_onnx.attributes_of(name))
    if name in by_onnx.LAST_STATES or name in _CONTROL:
        return dict(_CONTROL.get(name, {}))
    return attributes.of_function(_function(name)) if name in _OWN else attributes.of_op(name)


_CONTROL: dict[str, dict[str, Any]] = {
    "get_tuple_elem": {"index": 0}, "if": {}, "loop": {"max_iterations": 10},
}  # fmt: skip
# Ops whose bodies or symbols a caller does not write, and control flow, which modules build.
_INTERNAL = frozenset(
    f"mgx.{name}"
    for name in (
        "attention", "code_object", "fused_reduce", "if", "kernel", "launch", "literal", "loop",
        "pointwise", "return", "suppress", "yield",
    )
)  # fmt: skip


def _function(name: str) -> Callable[..., Made]:
    own = _OWN.get(name)
    if own is not None:
        return own
    found: Callable[..., Made] | None = getattr(mgx, name, None)
    return found if found is not None else getattr(mgx, name + "_")


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with the names of enum's values."""
    return {n: v.name if isinstance(v, enum.Enum) else v for n, v in attributes.items()}


def advice(name: str, known: Any) -> str:
    """The advice for an unknown name: a similar one, or all that there are."""
    close = get_close_matches(name, known, 1)
    return f"is not here; did you mean '{close[0]}'?" if close else f"is not here; {_listed(known)}"


def _listed(known: Any) -> str:
    return f"there are: {', '.join(sorted(known)) or 'none'}"


# Views, and attributes that are types of results -----------------------------------------


def _reshape(x: ir.Value, *, dims: Sequence[Size]) -> ir.Value:
    sizes, wanted = sizes_of(x), list(map(dim_of, dims))
    if -1 in wanted and not ir.RankedTensorType(x.type).has_static_shape:
        return emit.reshape(x, resolve(dims_by_name(x), wanted, False))
    return mgx.reshape(x, [sizes[i] if n == 0 else n for i, n in enumerate(wanted)])


def _multibroadcast(*xs: ir.Value, out_lens: Sequence[Size] = ()) -> ir.Value:
    """x in the shape given, or in that of all operands together."""
    dims = list(map(dim_of, out_lens)) or sizes_together(*map(sizes_of, xs))
    return mgx.multibroadcast(xs[0], dims)


def _broadcast(*xs: ir.Value, axis: int = 0, out_lens: Sequence[Size] = ()) -> ir.Value:
    dims = list(map(dim_of, out_lens)) or sizes_of(xs[1])
    return mgx.broadcast(xs[0], dims, axis)


def _scalar(x: ir.Value, *, scalar_bcst_dims: Sequence[int]) -> ir.Value:
    return mgx.multibroadcast(mgx.reshape(x, []), list(scalar_bcst_dims))


def _convert(x: ir.Value, *, target_type: Any = "half", saturate: bool | None = None) -> ir.Value:
    return mgx.convert(x, dtype_of(target_type), saturate=saturate)


def _bit_cast(x: ir.Value, *, target_type: Any) -> ir.Value:
    return mgx.bit_cast(x, dtype_of(target_type))


def _quantizelinear(
    *xs: ir.Value, out_type: Any = None, saturate: bool | None = None, precision: Any = None
) -> ir.Value:
    to, divided = (None if t is None else dtype_of(t) for t in (out_type, precision))
    return mgx.quantizelinear(*xs, to=to, saturate=saturate, precision=divided)


def _pad(
    x: ir.Value, *, pads: Sequence[int], value: float = 0.0, mode: str | int = "constant"
) -> ir.Value:
    rank = rank_of(x)
    if len(pads) != 2 * rank:
        raise ValueError(f"{len(pads)} pads for {rank} dimensions; each has one before, one after")
    kinds = ("constant", "reflect", "edge")
    kind = (kinds[mode] if isinstance(mode, int) else mode).removesuffix("_pad")
    return mgx.pad(x, pads[:rank], pads[rank:], value=float(value), mode=mgx.PadMode[kind])


def _slice(
    x: ir.Value, *, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]
) -> ir.Value:
    found = [a % rank_of(x) for a in axes]
    sizes = [sizes_of(x)[a] for a in found]
    if not all(isinstance(size, int) for size in sizes):
        raise ValueError(f"axes {list(axes)} have open sizes, where nothing is cut off")

    def within(numbers: Sequence[int]) -> list[int]:
        return [min(max(n + s if n < 0 else n, 0), s) for n, s in zip(numbers, sizes, strict=True)]

    first = within(starts)
    last = [max(a, b) for a, b in zip(first, within(ends), strict=True)]
    return mgx.slice(x, found, first, last)


def _concat(*xs: ir.Value, axis: int = 0) -> ir.Value:
    return mgx.concat(list(xs), axis)


def _resize(
    *xs: ir.Value,
    scales: Sequence[float] = (),
    sizes: Sequence[Size] = (),
    mode: str = "nearest",
    nearest_mode: str = "floor",
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    extrapolation_value: float = 0.0,
    roi: Sequence[float] = (),
) -> ir.Value:
    """x in other sizes; a second operand, a literal, has the sizes, or the scales if of floats."""
    x, *given = xs
    for value in given:
        made = None if isinstance(value.owner, ir.Block) else value.owner.opview
        if not isinstance(made, mgx.ConstantOp):
            raise ValueError("the sizes or scales are to be a literal")
        found = constant_array(made)
        scales, sizes = (found.tolist(), ()) if found.dtype.kind == "f" else ((), found.tolist())
    shape = sizes_of(x)
    dims = list(map(dim_of, sizes)) or [
        n if s == 1 else int(n * s) for n, s in zip(shape, scales, strict=True)
    ]
    return mgx.resize(
        x,
        dims,
        list(scales) or None,
        mode=mgx.ResizeMode[mode],
        nearest_mode=mgx.NearestMode[nearest_mode],
        coordinate_mode=mgx.CoordinateMode[coordinate_transformation_mode or "half_pixel"],
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        antialias=bool(antialias),
        extrapolation_value=extrapolation_value,
        roi=list(roi) or None,
    )


def _topk(x: ir.Value, *, k: int = 1, axis: int = 0, largest: bool = True) -> Made:
    return mgx.topk(x, k, axis, largest=bool(largest))


def _unpack_int4(x: ir.Value, *, axis: int = -1) -> ir.Value:
    """Each byte's two numbers along a dimension, low bits first, in the bytes' type."""
    order = [*range(rank_of(x))]
    order[axis], order[-1] = order[-1], order[axis]
    element = element_type(x)
    packed = mgx.bit_cast(mgx.transpose(x, order), np.uint8)
    found = mgx.unpack(packed, "uint4" if "u" in str(element) else "int4")
    return mgx.transpose(mgx.convert(found, element), order)


def _undefined() -> ir.Value:
    return mgx.constant(np.zeros((), np.float32))


# Truth values: MIGraphX keeps the operands' type where mgx has i1 ------------------------


def _is_bool(x: ir.Value) -> bool:
    return str(element_type(x)) == "i1"


def _as_bool(x: ir.Value) -> ir.Value:
    return x if _is_bool(x) else mgx.convert(x, np.bool_)


def _compared(build: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    def compare(a: ir.Value, b: ir.Value) -> ir.Value:
        found = build(a, b)
        return found if _is_bool(a) else mgx.convert(found, element_type(a))

    return compare


def _logical(build: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    def logical(*xs: ir.Value) -> ir.Value:
        found = build(*map(_as_bool, xs))
        return found if _is_bool(xs[0]) else mgx.convert(found, element_type(xs[0]))

    return logical


def _where(condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return mgx.where(_as_bool(condition), a, b)


# The operators of MIGraphX that cannot be here, and why.
REFUSED = {
    "dynamic_range": "the data decide its size; mgx_mlir.Model runs ONNX's Range",
    "random_seed": "equal inputs give equal results; pass the seed of random_uniform as an input",
    "unique": "the data decide its size; mgx_mlir.Model runs ONNX's Unique",
}
_OWN: dict[str, Callable[..., Made]] = {
    **composed.TABLE,
    "bit_cast": _bit_cast,
    "broadcast": _broadcast,
    "concat": _concat,
    "convert": _convert,
    "convolution": windows.convolution_like(mgx.convolution),
    "convolution_backwards": windows.convolution_backwards,
    "equal": _compared(mgx.equal),
    "greater": _compared(mgx.greater),
    "less": _compared(mgx.less),
    "logical_and": _logical(mgx.logical_and),
    "logical_or": _logical(mgx.logical_or),
    "logical_xor": _logical(mgx.logical_xor),
    "multibroadcast": _multibroadcast,
    "not": _logical(mgx.not_),
    "pad": _pad,
    "pooling": windows.pooling,
    "quant_convolution": windows.convolution_like(mgx.quant_convolution),
    "quantizelinear": _quantizelinear,
    "reshape": _reshape,
    "reshape_lazy": _reshape,
    "resize": _resize,
    "scalar": _scalar,
    "slice": _slice,
    "topk": _topk,
    "undefined": _undefined,
    "unpack_int4": _unpack_int4,
    "where": _where,
}
