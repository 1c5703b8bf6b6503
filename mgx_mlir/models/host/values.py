"""Values of the host, and their ONNX types."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401 (numpy knows its types by name then)
import numpy as np
from onnx import TensorShapeProto, TypeProto, helper

from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.arrays import host_array

# The element types of tensors that have no form on a target.
_STRING, _COMPLEX = 8, (14, 15)


def is_compiled_type(type_: TypeProto) -> bool:
    """Whether values of the type can be those of a compiled program; True where it is unknown."""
    kind = type_.WhichOneof("value")
    if kind is None:
        return True
    return kind == "tensor_type" and type_.tensor_type.elem_type not in (_STRING, *_COMPLEX)


def is_tensor(value: Any) -> bool:
    """Whether the value is a tensor of numbers."""
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUSTcmM"


def normal(value: Any, what: str = "a value") -> Any:
    """The value in the form that this module's package keeps: arrays, and strings as objects.

    Raises UsageError for what is none, where `what` names it.
    """
    if isinstance(value, list | tuple):
        return [normal(item, f"an item of {what}") for item in value]
    if value is None or isinstance(value, dict):
        return value
    array = host_array(np.asarray(value) if isinstance(value, str | bytes) else value, what)
    if array.dtype.kind in "US" or array.dtype.kind == "T":
        return array.astype(object)
    try:
        helper.np_dtype_to_tensor_dtype(array.dtype)
    except ValueError:
        raise UsageError(f"{what} has elements of {array.dtype}, which no model has") from None
    return array


def type_of(value: Any) -> TypeProto:
    """The type of a value, without sizes; an empty list or None has no element type."""
    if isinstance(value, list):
        element = type_of(value[0]) if value else TypeProto(tensor_type=TypeProto.Tensor())
        return TypeProto(sequence_type=TypeProto.Sequence(elem_type=element))
    if isinstance(value, dict):
        return TypeProto(map_type=TypeProto.Map())
    if value is None:
        return TypeProto(optional_type=TypeProto.Optional())
    if value.dtype.kind == "O":
        return helper.make_tensor_type_proto(_STRING, None)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)


def show(value: Any) -> str:
    """A value's kind as messages show it."""
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    if isinstance(value, np.ndarray):
        name = "string" if value.dtype.kind == "O" else value.dtype.name
        return f"{name}{list(value.shape)}"
    return "nothing" if value is None else "a map"


def type_text(type_: TypeProto) -> str:
    """An ONNX type as messages show it: 'float32 batch x 3', 'a sequence of string n'."""
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return f"a sequence of {type_text(type_.sequence_type.elem_type)}"
    if kind == "optional_type":
        return f"an optional {type_text(type_.optional_type.elem_type)}"
    if kind == "map_type":
        return f"a map to {type_text(type_.map_type.value_type)}"
    tensor = type_.tensor_type if kind == "tensor_type" else type_.sparse_tensor_type
    if tensor.elem_type == _STRING:
        name = "string"
    elif tensor.elem_type:
        name = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
    else:
        return "of no known type"
    if not tensor.HasField("shape"):
        return f"{name} of any shape"
    dims = [d.dim_value if d.HasField("dim_value") else _symbol(d) for d in tensor.shape.dim]
    between = "x" if all(isinstance(d, int) for d in dims) else " x "
    return f"{name} {between.join(map(str, dims)) or 'scalar'}"


def _symbol(dim: TensorShapeProto.Dimension) -> str:
    """A dimension's name; '?' where its only name is the one that onnx's inference gave it."""
    return "?" if dim.dim_param.startswith("unk__") else dim.dim_param or "?"
