"""DLPack: tensors of other libraries used in place, and ours by them.

https://dmlc.github.io/dlpack/latest/python_spec.html; the structs are those of dlpack.h. Tensors
are given in the form without a version, which every library reads, and taken in both.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.shared_object import open_native

_INTERFACE = 1
CPU = 1
ROCM = 10
# Memory that the host reads and writes: its own, and what it shares with CUDA's or ROCm's devices.
HOST = (CPU, 3, 11)

# dlpack.h's DLDataTypeCode, and bits, by the name of the element type.
_TYPES = {row.numpy: (row.dlpack, row.bits) for row in ELEMENTS if row.dlpack is not None}
_NAMES = {code: name for name, code in _TYPES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY = 1

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)
_is_called = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
# The names of capsules before and after somebody took what they hold.
_FRESH = b"dltensor"
_USED = b"used_dltensor"
_FRESH_VERSIONED = b"dltensor_versioned"
_USED_VERSIONED = b"used_dltensor_versioned"

# Capsules handed out and not given back: the struct, the memory it points to, and the owner.
_exported: dict[int, tuple[Any, ...]] = {}


def _forget(address: int) -> None:
    _exported.pop(address, None)


# As a C function; it lives as long as the process, since any library may call it.
_c_forget = _Deleter(_forget)


@cache
def _destructor() -> int | None:
    """The address of a C function for capsules that nobody took."""
    names = ("PyCapsule_IsValid", "PyCapsule_GetPointer", "PyErr_Fetch", "PyErr_Restore")
    functions = [ctypes.cast(_api[name], ctypes.c_void_p).value for name in names]
    library = open_native("dlpack", _INTERFACE)
    library.mgx_dlpack_open((ctypes.c_void_p * len(names))(*functions))
    return ctypes.cast(library.mgx_dlpack_close, ctypes.c_void_p).value


def export_capsule(
    address: int, device: tuple[int, int], dtype: str, shape: tuple[int, ...], owner: object
) -> Any:
    """A capsule of a row-major tensor; `owner` lives until the consumer lets go.

    Raises UsageError for an element type that DLPack cannot name.
    """
    if dtype not in _TYPES:
        raise UsageError(f"DLPack has no element type {dtype}")
    code, bits = _TYPES[dtype]
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    steps = (ctypes.c_int64 * len(shape))(*(math.prod(shape[i + 1 :]) for i in range(len(shape))))
    tensor = _Tensor(address, *device, len(shape), code, bits, 1, sizes, steps, 0)
    managed = _Managed(tensor, None, ctypes.cast(_c_forget, ctypes.c_void_p).value)
    where = ctypes.addressof(managed)
    _exported[where] = (managed, sizes, steps, owner)
    return _new(where, _FRESH, _destructor())


class Imported:
    """A tensor of another library: its address, shape and type; given back at the end.

    `strides` are in elements, None for row-major order.
    """

    def __init__(self, capsule: Any) -> None:
        """Raises UsageError for an element type that has no name here."""
        self._managed: Any = None
        self.read_only = False
        if _is_called(capsule, _FRESH_VERSIONED):
            self._managed = _Versioned.from_address(_pointer(capsule, _FRESH_VERSIONED))
            _rename(capsule, _USED_VERSIONED)
            self.read_only = bool(self._managed.flags & _READ_ONLY)
        else:
            self._managed = _Managed.from_address(_pointer(capsule, _FRESH))
            _rename(capsule, _USED)
        tensor = self._managed.tensor
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = (tensor.device_type, tensor.device_id)
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        kind = (tensor.code, tensor.bits)
        if kind not in _NAMES or tensor.lanes != 1:
            raise UsageError(f"a tensor has DLPack's element type {kind}, which is not supported")
        self.dtype = _NAMES[kind]

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        if self.strides is None or 0 in self.shape:
            return True
        wanted = 1
        for size, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and step != wanted:
                return False
            wanted *= size
        return True

    def numpy(self) -> np.ndarray:
        """The elements of a tensor on the host, in place; the array keeps the tensor alive."""
        dtype = numpy_dtype(self.dtype)
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        steps = self.strides
        if steps is None:
            steps = tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))
        ends = [(size - 1) * step for size, step in zip(self.shape, steps, strict=True)]
        before = -sum(end for end in ends if end < 0)
        count = before + sum(end for end in ends if end > 0) + 1
        item = dtype.itemsize
        buffer = (ctypes.c_byte * (count * item)).from_address(self.address - before * item)
        buffer.tensor = self
        strides = tuple(step * item for step in steps)
        array = np.ndarray(self.shape, dtype, buffer, before * item, strides)
        array.flags.writeable = not self.read_only
        return array

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            _Deleter(managed.deleter)(ctypes.addressof(managed))


def import_tensor(value: Any) -> Imported:
    """A tensor on the host, of a library that knows versions or does not.

    Raises whatever the library does, and UsageError as `Imported`.
    """
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__()
    return Imported(capsule)
