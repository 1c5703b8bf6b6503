"""libmgx by its C interface, for tests: the structs of mgx.h, and a program with Python's names."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mgx_mlir
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.library import ProgramInfo, Tensor, made
from mgx_mlir.elements import ELEMENTS

KINDS = {1: "Usage", 2: "Artifact", 3: "Target", 4: "Resource", 5: "Device", 6: "Model", 7: "User",
         8: "Internal"}  # fmt: skip
ROWS = {row.onnx: row for row in ELEMENTS}


class LibraryError(Exception):
    """An mgx_error: its kind by name, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


def _struct(kind: str, /, **fields: Any) -> type[ctypes.Structure]:
    return type(
        kind, (ctypes.Structure,), {"_fields_": [("struct_bytes", c_size_t), *fields.items()]}
    )


OpenOptions = _struct("OpenOptions", allow_absolute=c_int32, borrow=c_int32)
ArtifactInfo = _struct(
    "ArtifactInfo", name=c_char_p, producer=c_char_p, content_hash=c_char_p,
    host_operators=c_char_p, targets=c_size_t, inputs=c_size_t, outputs=c_size_t,
    dimensions=c_size_t,
)  # fmt: skip
TensorInfo = _struct(
    "TensorInfo", name=c_char_p, type=c_int32, rank=c_uint32, sizes=POINTER(c_int64),
    texts=POINTER(c_char_p), may_share=c_int32,
)  # fmt: skip
DimensionInfo = _struct("DimensionInfo", name=c_char_p, least=c_int64, most=c_int64)
DeviceOptions = _struct("DeviceOptions", hip_library=c_char_p)
DeviceInfo = _struct(
    "DeviceInfo", name=c_char_p, target=c_char_p, is_gpu=c_int32, number=c_int32, threads=c_int32,
    memory_bytes=c_uint64,
)  # fmt: skip
ProgramOptions = _struct(
    "ProgramOptions", trust_code=c_int32, graph=c_int32, trusted_keys=POINTER(c_char_p),
    trusted_key_count=c_size_t, cache_dir=c_char_p, kept_sizes=c_int32,
)  # fmt: skip
RunOptions = _struct("RunOptions", stream=c_void_p, on_stream=c_int32)
Sizes = _struct("Sizes", workspace_bytes=c_uint64, launches=c_uint64)
ProfileRow = _struct(
    "ProfileRow", nodes=c_char_p, function=c_char_p, seconds=ctypes.c_double, bytes=c_uint64,
    operations=c_uint64,
)  # fmt: skip
ProfileFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(ProfileRow))


@cache
def library() -> ctypes.CDLL:
    """The library that the package holds, or that of LIBMGX_UNDER_TEST, such as a sanitized one."""
    own = Path(mgx_mlir.__path__[0]) / "_native/libmgx.so"
    found = ctypes.CDLL(os.environ.get("LIBMGX_UNDER_TEST") or str(own))
    for name in ("mgx_version", "mgx_error_text", "mgx_artifact_target"):
        getattr(found, name).restype = c_char_p
    for name in ("mgx_error_text", "mgx_error_kind_of", "mgx_error_release", "mgx_device_release",
                 "mgx_artifact_release", "mgx_program_release"):  # fmt: skip
        getattr(found, name).argtypes = [c_void_p]
    return found


def call(name: str, *arguments: Any) -> None:
    """Calls a function that can fail; raises LibraryError."""
    function = getattr(library(), name)
    function.restype = c_void_p
    if error := function(*arguments):
        kind = KINDS[library().mgx_error_kind_of(error)]
        text = library().mgx_error_text(error).decode()
        library().mgx_error_release(error)
        raise LibraryError(kind, text)


class Handle:
    """An object of the library, released with this one."""

    release = ""

    def __init__(self) -> None:
        self.handle = c_void_p()

    def __del__(self) -> None:
        if self.handle:
            getattr(library(), self.release)(self.handle)


class Device(Handle):
    release = "mgx_device_release"

    def __init__(self, name: str, hip_library: str | None = None) -> None:
        super().__init__()
        options = made(DeviceOptions, hip_library=hip_library and hip_library.encode())
        call("mgx_device_open", name.encode(), byref(options), byref(self.handle))

    @property
    def info(self) -> Any:
        info = made(DeviceInfo)
        call("mgx_device_get_info", self.handle, byref(info))
        return info


class Artifact(Handle):
    release = "mgx_artifact_release"

    def __init__(self, source: bytes | str | os.PathLike[str], **options: int) -> None:
        super().__init__()
        given = byref(made(OpenOptions, **options))
        if isinstance(source, bytes):
            call(
                "mgx_artifact_open_memory", source, c_size_t(len(source)), given, byref(self.handle)
            )
        else:
            call("mgx_artifact_open", os.fspath(source).encode(), given, byref(self.handle))

    @property
    def info(self) -> Any:
        info = made(ArtifactInfo)
        call("mgx_artifact_get_info", self.handle, byref(info))
        return info

    def tensors(self, direction: int) -> list[Any]:
        count = self.info.outputs if direction else self.info.inputs
        found = [made(TensorInfo) for _ in range(count)]
        for number, info in enumerate(found):
            call("mgx_artifact_tensor", self.handle, direction, c_size_t(number), byref(info))
        return found

    def dimension(self, number: int) -> Any:
        info = made(DimensionInfo)
        call("mgx_artifact_dimension", self.handle, c_size_t(number), byref(info))
        return info

    @property
    def targets(self) -> list[str]:
        return [
            library().mgx_artifact_target(self.handle, c_size_t(number)).decode()
            for number in range(self.info.targets)
        ]


def tensor(array: np.ndarray) -> Tensor:
    """An array of numpy as a tensor."""
    sizes = (c_int64 * array.ndim)(*array.shape)
    return Tensor(array.ctypes.data, sizes, array.ndim, 0, 1, 0, array.nbytes)


def tensors(arrays: Sequence[np.ndarray]) -> Any:
    return (Tensor * len(arrays))(*map(tensor, arrays))


class Program(Handle):
    release = "mgx_program_release"

    def __init__(self, artifact: Artifact, device: Device, **options: Any) -> None:
        super().__init__()
        self.artifact = artifact
        keys = [str(key).encode() for key in options.pop("trusted_keys", ())]
        if keys:
            options |= {"trusted_keys": (c_char_p * len(keys))(*keys)}
            options |= {"trusted_key_count": len(keys)}
        given = made(ProgramOptions, **options)
        call("mgx_program_create", artifact.handle, device.handle, byref(given), byref(self.handle))
        self.inputs, self.outputs = (
            [(t.name.decode(), numpy_dtype(ROWS[t.type].numpy)) for t in artifact.tensors(way)]
            for way in (0, 1)
        )

    def arrays(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(inputs[name], order="C") for name, _ in self.inputs]

    def shapes(self, given: Any) -> list[tuple[int, ...]]:
        """The outputs' shapes for some inputs."""
        rooms = [(c_int64 * 64)() for _ in self.outputs]
        found = (Tensor * len(rooms))(*(Tensor(sizes=room) for room in rooms))
        count = c_size_t(len(rooms))
        call("mgx_program_sizes", self.handle, given, c_size_t(len(given)), found, count, None)
        return [tuple(room[: t.rank]) for room, t in zip(rooms, found, strict=True)]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        arrays = self.arrays(inputs)
        given = tensors(arrays)
        results = [
            np.full(shape, 7, np.uint8).astype(dtype)
            for shape, (_, dtype) in zip(self.shapes(given), self.outputs, strict=True)
        ]
        self.run_on(given, tensors(results))
        return {name: array for (name, _), array in zip(self.outputs, results, strict=True)}

    def run_on(self, given: Any, taken: Any, options: Any = None) -> None:
        sizes = c_size_t(len(given)), c_size_t(len(taken))
        call("mgx_run", self.handle, given, sizes[0], taken, sizes[1], options and byref(options))

    @property
    def info(self) -> Any:
        info = made(ProgramInfo)
        call("mgx_program_get_info", self.handle, byref(info))
        return info
