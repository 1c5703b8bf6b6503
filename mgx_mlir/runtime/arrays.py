"""The one door for arrays: what callers give as tensors becomes arrays of numpy on the host.

Arrays of numpy pass as they are, whatever their layout, and other libraries' tensors are used in
place, by DLPack (torch, JAX, CuPy), else by numpy's own protocols. Python's numbers and lists have
no element type: they take the wanted one where it holds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgx_mlir.errors import MgxError, UsageError
from mgx_mlir.runtime.dlpack import HOST, import_tensor

_WAYS = "give a numpy array, a tensor on the host, or a list of numbers"


def host_array(value: Any, what: str, dtype: np.dtype | None = None) -> np.ndarray:
    """`value` as an array in the machine's byte order, without a copy where that is possible.

    `what` names it in errors; `dtype` is the type of Python's own numbers. Raises UsageError.
    """
    array = value if type(value) is np.ndarray else _taken(value, what, dtype)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def scalar_of(array: np.ndarray) -> np.ndarray:
    """What is given for a scalar: an array of one element is that element, as in onnxruntime."""
    return array.reshape(()) if array.ndim and array.size == 1 else array


def host_output(value: Any, what: str) -> np.ndarray:
    """The memory of a caller's array or tensor, to write into. Raises UsageError."""
    if type(value) is not np.ndarray:
        value = _writable(value, what)
    if not value.dtype.isnative:
        raise UsageError(f"{what} is to be written in another byte order than this machine's")
    return value


def device_of(value: Any, what: str) -> tuple[int, int] | None:
    """DLPack's kind and number of the device where a tensor lies; None for other values."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None or isinstance(value, np.ndarray | np.generic):
        return None
    try:
        kind, number = ask()
        return int(kind), int(number)
    except Exception as error:  # the library of the tensor raises whatever it likes
        raise _untaken(value, what, error) from error


def detached(value: Any) -> Any:
    """A tensor without the record of how it was computed, by which torch gives its elements."""
    if getattr(value, "requires_grad", False) is True and hasattr(value, "detach"):
        return value.detach()
    return value


def _taken(value: Any, what: str, dtype: np.dtype | None) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise UsageError(f"{what} has masked elements, which have no value; fill them")
        return np.asarray(value)
    if isinstance(value, bool | int | float | list | tuple):
        return _of_python(value, what, dtype)
    if device_of(value, what) is not None:
        return _of_dlpack(value, what)
    array = _of_numpy(value, what)
    if array.dtype.kind == "O" and not array.ndim:  # numpy takes anything for one object
        raise UsageError(f"{what} is a {type(value).__name__}, which is no array; {_WAYS}")
    return array


def _of_python(value: Any, what: str, dtype: np.dtype | None) -> np.ndarray:
    array = _of_numpy(value, what)
    kind = array.dtype.kind
    if dtype is None or array.dtype == dtype or kind in "SU":
        return array
    integral = "int" in dtype.name
    fits = not array.size or kind == "b" or (kind in "iu" and dtype.kind != "b")
    fits = fits or (kind == "f" and dtype.kind != "b" and not integral)
    made = array.astype(dtype) if fits else array
    if not fits or (integral and array.size and not (made.astype(array.dtype) == array).all()):
        held = "objects" if kind == "O" else array.dtype.name
        raise UsageError(f"{what} is {dtype.name}, which does not hold the {held} of a list")
    return made


def _of_numpy(value: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except MgxError:
        raise
    except Exception as error:  # the value's own conversion
        raise _untaken(value, what, error) from error


def _of_dlpack(value: Any, what: str) -> np.ndarray:
    device = device_of(value, what)
    if device is not None and device[0] not in HOST:
        raise UsageError(
            f"{what} is on another device (DLPack's {device[0]}, number {device[1]}); copy it to "
            "the host first, as by .cpu() or .numpy()"
        )
    try:
        return import_tensor(detached(value)).numpy()
    except Exception as error:  # a form that DLPack does not have, or its library not give
        refused = error
    try:
        array = np.asarray(detached(value))
    except Exception:
        raise _untaken(value, what, refused) from refused
    if array.dtype.kind == "O":
        raise _untaken(value, what, refused) from refused
    return array


def _writable(value: Any, what: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if getattr(value, "requires_grad", False) is True:
        raise UsageError(
            f"{what} is to be written into a tensor with requires_grad, whose gradient would be "
            "wrong; give tensor.detach()"
        )
    device = device_of(value, what)
    if device is not None and device[0] in HOST:
        try:
            return import_tensor(value).numpy()
        except Exception as error:
            raise _untaken(value, what, error) from error
    if device is not None:
        return _of_dlpack(value, what)  # says where it lies
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError):
        pass
    if hasattr(value, "__array_interface__"):
        return _of_numpy(value, what)
    raise UsageError(
        f"{what} is to be written into a {type(value).__name__}; give a numpy array, or a tensor "
        "on the host"
    )


def _untaken(value: Any, what: str, error: Exception) -> UsageError:
    said = " ".join(str(error).split())[:300]
    return UsageError(
        f"{what}, a {type(value).__name__}, cannot be taken as an array "
        f"({type(error).__name__}: {said}); {_WAYS}"
    )
