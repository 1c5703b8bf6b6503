"""Inputs and outputs of a model beside their declared types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from mgx_mlir.errors import UsageError
from mgx_mlir.models.host.values import normal, show, type_of
from mgx_mlir.runtime.arrays import host_array, scalar_of

# Name, element type and shape of each input of a run.
Form = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]


def form_of(inputs: Any) -> Form | None:
    """The form of inputs; None where one is no array of numbers, which its form does not tell."""
    if type(inputs) is not dict:
        return None
    if any(type(a) is not np.ndarray or a.dtype.hasobject for a in inputs.values()):
        return None
    return tuple((name, a.dtype, a.shape) for name, a in inputs.items())


def taken(name: str, value: Any, declared: onnx.TypeProto | None) -> Any:
    """An input's value in the form of the host. A list for a tensor is one of its elements."""
    element = declared.tensor_type.elem_type if declared is not None else 0
    if not element or not isinstance(value, bool | int | float | list | tuple):
        found = normal(value, f"input '{name}'")
        is_scalar = element and declared is not None and _is_number(declared.tensor_type)
        return scalar_of(found) if is_scalar and isinstance(found, np.ndarray) else found
    dtype = None
    if element != onnx.TensorProto.STRING:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    return normal(host_array(value, f"input '{name}'", dtype))


def _is_number(declared: onnx.TypeProto.Tensor) -> bool:
    """Whether a tensor is declared without dimensions."""
    return declared.HasField("shape") and not declared.shape.dim


def check_type(name: str, value: Any, declared: onnx.TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "optional_type":
        if value is not None:
            check_type(name, value, declared.optional_type.elem_type)
    elif kind == "sequence_type":
        if not isinstance(value, list):
            raise UsageError(f"input '{name}' is a sequence; got {show(value)}")
        for item in value:
            check_type(name, item, declared.sequence_type.elem_type)
    elif kind == "map_type":
        _check_map(name, value, declared.map_type)
    elif kind == "tensor_type":
        _check_tensor(name, value, declared.tensor_type)


def _check_map(name: str, value: Any, declared: onnx.TypeProto.Map) -> None:
    kinds = [onnx.TensorProto.DataType.Name(n).lower() for n in _map_types(declared)]
    if not isinstance(value, dict):
        raise UsageError(f"input '{name}' is a map; got {show(value)}")
    for pair in value.items():
        for item, kind in zip(pair, kinds, strict=True):
            wanted: Any = str if kind == "string" else (int, np.integer)
            if kind in ("float", "double"):
                wanted = (int, float, np.number)
            if not isinstance(item, wanted):
                raise UsageError(
                    f"input '{name}' is a map from {kinds[0]} to {kinds[1]}; got {item!r}"
                )


def _map_types(declared: onnx.TypeProto.Map) -> tuple[int, int]:
    """The element types of the keys and of the values."""
    return declared.key_type, declared.value_type.tensor_type.elem_type


def conformed(value: Any, declared: onnx.TypeProto) -> Any:
    """The value with the numbers of its maps in the types that are declared."""
    kind = declared.WhichOneof("value")
    if kind == "sequence_type" and isinstance(value, list):
        return [conformed(item, declared.sequence_type.elem_type) for item in value]
    if kind == "optional_type" and value is not None:
        return conformed(value, declared.optional_type.elem_type)
    if kind != "map_type":
        return value
    number = _map_types(declared.map_type)[1]
    if number == onnx.TensorProto.STRING:
        return value
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return {key: dtype.type(item) for key, item in value.items()}


def _check_tensor(name: str, value: Any, declared: onnx.TypeProto.Tensor) -> None:
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    fits = isinstance(value, np.ndarray)
    fits = fits and type_of(value).tensor_type.elem_type == declared.elem_type
    if fits and declared.HasField("shape"):
        fits = len(sizes) == value.ndim and all(
            n in (None, m) for n, m in zip(sizes, value.shape, strict=True)
        )
    if not fits:
        kind = "string"
        if declared.elem_type != onnx.TensorProto.STRING:
            kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(declared.elem_type)).name
        shown = [d.dim_param or d.dim_value or "?" for d in declared.shape.dim]
        text = f"{kind}[{', '.join(map(str, shown))}]"
        raise UsageError(f"input '{name}' is {text}; got {show(value)}")
