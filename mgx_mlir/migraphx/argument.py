"""MIGraphX's `argument`: a tensor in memory of the host or of a device."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir._native import _mgx
from mgx_mlir.array_files import read_array
from mgx_mlir.artifact.files import atomic_file
from mgx_mlir.errors import DeviceError, Edge, UsageError
from mgx_mlir.migraphx.shape import shape, type_name

if TYPE_CHECKING:
    from mgx_mlir.runtime.hip.tensor import DeviceTensor

_ROCM = 10  # DLPack's number of devices of HIP


class argument(_mgx.Buffer):
    """A tensor with a `shape`. `data` is anything that numpy or DLPack reads, or a device's tensor.

    It is a buffer, and numpy reads it (`np.array(a)`). Memory of numpy arrays is used in place.
    """

    def __init__(self, data: Any = None, *, like: shape | None = None) -> None:
        super().__init__()
        self._device: DeviceTensor | None = None
        self._array: np.ndarray | None = None
        if is_on_device(data):
            from mgx_mlir.runtime.hip.tensor import device_tensor  # needs hip-python

            _open_device()
            data = device_tensor(data, "the tensor", data.__dlpack_device__()[1], 0)
        if hasattr(data, "address") and hasattr(data, "ordinal"):
            self._device = data
            self._shape = like or shape(type=type_name(data.dtype), lens=data.shape)
            return
        array = np.asarray(data) if hasattr(data, "__array__") else _from_dlpack(data)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        strides = [step // max(array.itemsize, 1) for step in array.strides]
        self._array = array
        self._shape = like or shape(type=type_name(array.dtype), lens=array.shape, strides=strides)

    def get_shape(self) -> shape:
        """The element type, the sizes and the strides."""
        return self._shape

    def data_ptr(self) -> int:
        """The address of the first element, in the host's memory or in the device's."""
        if self._device is not None:
            return self._device.address
        return int(self.numpy().ctypes.data)

    def numpy(self) -> np.ndarray:
        """The elements on the host; those of a device are copied."""
        if self._device is not None:
            return self._device.numpy()
        assert self._array is not None
        return self._array

    def tolist(self) -> list[Any]:
        """The elements as Python numbers, in row-major order."""
        return list(self.numpy().reshape(-1).tolist())

    def save(arg, filename: str) -> None:  # noqa: N805
        """Writes the tensor as .npy, whole or not at all."""
        with atomic_file(Path(filename)) as file:
            np.save(file, arg.numpy(), allow_pickle=False)

    @staticmethod
    def load(filename: str) -> argument:
        """The tensor that `save` wrote. Raises UsageError where the file is none."""
        return argument(read_array(filename))

    def value(self) -> Any:
        """The tensor as a program takes it: a row-major array, or the device's tensor."""
        if self._device is not None:
            return self._device
        return np.ascontiguousarray(self.numpy()).reshape(self.numpy().shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy() if dtype is None else self.numpy().astype(dtype)
        return array.copy() if copy else array

    def __reduce__(self) -> tuple[Any, ...]:
        return _shaped, (self.numpy(), self._shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, argument):
            return NotImplemented
        same = self._shape.lens() == other._shape.lens()
        same = same and self._shape.type() == other._shape.type()
        return same and bool(np.array_equal(self.numpy(), other.numpy()))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"argument({self._shape!r})\n{self.numpy()}"


@Edge("making an argument")
def generate_argument(s: shape, seed: int = 0) -> argument:
    """Random elements, the same for the same seed: floats from -1 to 1, integers from 0 to 15."""
    random = np.random.default_rng(seed)
    kind = s.type_string()
    if kind == "bool_type":
        return _shaped(random.integers(0, 2, _sizes(s)).astype(np.bool_), s)
    if "int" in kind:
        return _shaped(random.integers(0, 16, _sizes(s)).astype(s.dtype), s)
    return _shaped(random.uniform(-1, 1, _sizes(s)).astype(s.dtype), s)


@Edge("making an argument")
def fill_argument(s: shape, value: float) -> argument:
    """All elements are `value`."""
    return _shaped(np.full(_sizes(s), value).astype(s.dtype), s)


@Edge("making an argument")
def create_argument(s: shape, values: Sequence[Any]) -> argument:
    """The elements in row-major order. Raises UsageError where their number differs."""
    if len(values) != s.elements():
        raise UsageError(f"{s!r} has {s.elements()} elements, and {len(values)} are given")
    return _shaped(np.array(values).astype(s.dtype).reshape(_sizes(s)), s)


@Edge("making an argument")
def argument_from_pointer(shape: shape, address: int) -> argument:
    """Memory at an address, the host's or a GPU's, as a tensor; the caller keeps it alive."""
    if not isinstance(address, int) or address <= 0:
        raise UsageError(f"there is no memory at {address!r}")
    ordinal = _device_of(address)
    if ordinal is not None:
        from mgx_mlir.runtime.hip.tensor import DeviceTensor  # needs hip-python

        if not shape.standard():
            raise UsageError(f"{shape!r}: a GPU's tensors are row-major; make a copy that is")
        tensor = DeviceTensor(None, address, tuple(shape.lens()), shape.dtype, ordinal)
        return argument(tensor, like=shape)
    raw = (ctypes.c_ubyte * shape.bytes()).from_address(address)
    steps = [step * shape.type_size() for step in shape.strides()]
    return argument(np.ndarray(shape.lens(), shape.dtype, raw, strides=steps), like=shape)


@Edge("making an argument")
def allocate_gpu(s: shape, host: bool = False) -> argument:
    """Memory on the first GPU, not initialised; with `host` memory of the host's.

    Raises DeviceError.
    """
    if host:
        return argument(np.empty(_sizes(s), s.dtype))
    from mgx_mlir.runtime.hip.tensor import DeviceTensor  # needs hip-python

    _open_device()
    return argument(DeviceTensor.empty(tuple(_sizes(s)), s.dtype))


@Edge("making an argument")
def to_gpu(arg: Any, host: bool = False) -> argument:
    """A copy on the first GPU; with `host` in memory of the host's. Raises DeviceError."""
    array = np.array(as_argument(arg).numpy())
    if host:
        return argument(array)
    from mgx_mlir.runtime.hip.tensor import DeviceTensor  # needs hip-python

    _open_device()
    return argument(DeviceTensor.from_numpy(array))


@Edge("copying an argument")
def from_gpu(arg: argument) -> argument:
    """A copy on the host."""
    return argument(np.array(arg.numpy()))


def gpu_sync() -> None:
    """Waits for all work of the first GPU. Raises DeviceError."""
    from mgx_mlir.runtime.hip.device import Current  # needs hip-python
    from mgx_mlir.runtime.hip.library import call

    _open_device()
    with Current(0):
        call("hipDeviceSynchronize")


def as_argument(value: Any) -> argument:
    """An argument as it is; anything else as numpy reads it, or as DLPack gives it."""
    return value if isinstance(value, argument) else argument(value)


def is_on_device(value: Any) -> bool:
    """Whether it is a tensor, of any library that speaks DLPack, in memory of an AMD GPU."""
    return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) == _ROCM


def _from_dlpack(value: Any) -> np.ndarray:
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)


def _device_of(address: int) -> int | None:
    """The number of the GPU whose memory an address is in; None for the host's."""
    if importlib.util.find_spec("hip") is None:
        return None
    from mgx_mlir.runtime.hip.library import DRIVER, call, hip_python, library_kind

    if not library_kind() and not DRIVER.exists():
        return None
    try:
        found = call("hipPointerGetAttributes", address)
    except DeviceError:  # older versions of HIP know the memory alone that HIP allocated
        return None
    kinds = hip_python().hipMemoryType
    on_device = found.type in (kinds.hipMemoryTypeDevice, kinds.hipMemoryTypeManaged)
    return int(found.device) if on_device else None


def _open_device() -> None:
    from mgx_mlir.loader import hip_device
    from mgx_mlir.settings import Settings

    hip_device("gpu", Settings.from_environment())


def _sizes(s: shape) -> list[int]:
    """The sizes. Raises UsageError where they are open."""
    if s.dynamic():
        raise UsageError(f"{s!r} has open sizes; give migraphx.shape(type=..., lens=[...])")
    return s.lens()


def _shaped(array: np.ndarray, s: shape) -> argument:
    """The row-major elements in memory of the shape's strides."""
    if s.standard():
        return argument(array, like=s)
    steps = [step * s.type_size() for step in s.strides()]
    memory = np.zeros(max(s.bytes(), 1), np.uint8)
    found = np.ndarray(s.lens(), s.dtype, memory.data, strides=steps)
    found[...] = array
    return argument(found, like=s)
