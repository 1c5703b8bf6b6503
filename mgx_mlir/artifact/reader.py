"""A `.mgx` file read without trusting it.

libmgx checks every number, offset, size and hash (libmgx/src/artifact.cpp), so that a file that is
cut short, damaged or made to harm gives ArtifactError and nothing else. What is here only makes
values of what is sound.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np

from mgx_mlir.artifact import library
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.contents import Contents, PortableKernel
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.parts import Parts
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.signature import Signature
from mgx_mlir.artifact.weights import Weight, chunks_of
from mgx_mlir.artifact.writer import HEADER
from mgx_mlir.errors import ArtifactError

Made = TypeVar("Made", bound=Contents)

_REPAIR = "compile the model again, or fetch the file again"


def open_file(path: Path, allow_absolute: bool, make: Callable[..., Made]) -> Made:
    """Maps `path` and reads it. See Artifact.open."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
        raise ArtifactError(f"{path} is no regular file, which artifacts are mapped from; copy it")
    try:
        with path.open("rb") as stream:
            if path.stat().st_size < HEADER.size:
                raise ArtifactError(f"{path} is no artifact: it is too short; {_REPAIR}")
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be opened: {error.strerror or error}") from error
    try:
        return parse(memoryview(mapped), path.absolute().parent, allow_absolute, make)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def parse(
    data: memoryview, folder: Path | None, allow_absolute: bool, make: Callable[..., Made]
) -> Made:
    """The artifact in `data`, built by `make`. Weights outside of it are looked up from `folder`.

    libmgx checks it first, so that what is read here is sound. Raises ArtifactError with the fault
    and the next step.
    """
    _check(data, folder, allow_absolute)
    try:
        return _made(data, folder, make)
    except (RecursionError, ValueError) as error:
        raise ArtifactError(f"damaged: {error}; {_REPAIR}") from error


def _made(data: memoryview, folder: Path | None, make: Callable[..., Made]) -> Made:
    size = HEADER.unpack_from(data)[4]
    manifest = json.loads(bytes(data[HEADER.size : HEADER.size + size]))
    reader = _Reader(data, manifest["sections"], folder)
    return make(
        name=manifest["name"],
        plan=Plan.of_checked(manifest["plan"]),
        kernels=tuple(map(reader.kernel, manifest["kernels"])),
        weights={record["key"]: reader.weight(record) for record in manifest["weights"]},
        options=manifest["options"],
        pipelines=tuple(map(tuple, manifest["pipelines"])),
        code_objects={
            arch: tuple(map(reader.code_object, records))
            for arch, records in manifest["code_objects"].items()
        },
        producer=manifest["producer"],
        signatures=tuple(
            Signature(one["key"], one["code"], one["value"])
            for one in manifest.get("signatures", ())
        ),
        schedules={
            arch: tuple(None if one is None else Tuned.from_json(one) for one in found)
            for arch, found in manifest.get("schedules", {}).items()
        },
        parts=reader.parts(manifest.get("parts")),
    )


def _check(data: memoryview, folder: Path | None, allow_absolute: bool) -> None:
    """Raises ArtifactError where libmgx does not take the bytes for an artifact."""
    if data.nbytes < HEADER.size:
        raise ArtifactError(f"no artifact: it is too short; {_REPAIR}")
    options = library.made(
        library.OpenOptions,
        allow_absolute=allow_absolute,
        borrow=1,
        folder=None if folder is None else os.fsencode(folder),
    )
    address = np.frombuffer(data, np.uint8).ctypes.data
    library.Handle(
        "mgx_artifact_open_memory", "mgx_artifact_release", address, data.nbytes,
        ctypes.byref(options),
    )  # fmt: skip


@dataclass(frozen=True)
class _Reader:
    data: memoryview
    sections: list[Any]
    folder: Path | None
    # The bytes of sections: however often they are named, they take memory once.
    known: dict[int, bytes] = field(default_factory=dict)

    def section(self, record: Any) -> memoryview:
        found = self.sections[record["section"]]
        return self.data[found["offset"] : found["offset"] + found["bytes"]]

    def bytes_of(self, record: Any) -> bytes:
        number: int = record["section"]
        if number not in self.known:
            self.known[number] = bytes(self.section(record))
        return self.known[number]

    def kernel(self, record: Any) -> PortableKernel:
        return PortableKernel(
            record["name"],
            self.bytes_of(record),
            tuple(record["features"]),
            tuple(record["nodes"]),
            tuple(record["dialect"]),
            from_file=True,
        )

    def code_object(self, record: Any) -> CodeObject:
        return replace(CodeObject.from_json(record, self.bytes_of(record)), trusted=False)

    def parts(self, record: Any) -> Parts | None:
        return None if record is None else Parts.of_checked(record, self.bytes_of(record))

    def weight(self, record: Any) -> Weight:
        key, dtype = record["key"], numpy_dtype(record["dtype"])
        shape, sha256 = tuple(record["shape"]), record["sha256"]
        if "file" in record:
            assert self.folder is not None
            place = (self.folder / PurePosixPath(record["file"]), record["offset"])
            order = tuple(record.get("order", ()))
            return SavedWeight(key, dtype, shape, *place, order=order, recorded=sha256)
        if record.get("splat") is True:
            # It takes no memory, however large its shape is.
            element = np.frombuffer(self.bytes_of(record), dtype).reshape(())
            return SavedWeight(
                key, dtype, shape, data=np.broadcast_to(element, shape), recorded=sha256
            )
        content = self.section(record)
        array = np.frombuffer(content, dtype) if content.nbytes else np.zeros(0, dtype)
        return SavedWeight(key, dtype, shape, data=array.reshape(shape), recorded=sha256)


@dataclass(frozen=True)
class SavedWeight(Weight):
    """A weight of an artifact: its bytes are checked against `recorded` at first use."""

    recorded: str = ""

    @cached_property
    def sha256(self) -> str:  # type: ignore[override]
        """The recorded hash, in hexadecimal; `array` makes sure that it is true."""
        return self.recorded

    def array(self) -> np.ndarray:
        """The weight, checked. Raises ArtifactError where its bytes are not those saved."""
        if self.order:
            return self._checked()  # a copy, which lives as long as its reader needs it
        return self._mapped_once

    @cached_property
    def _mapped_once(self) -> np.ndarray:
        return self._checked()

    def _checked(self) -> np.ndarray:
        if self.file is not None and self.file.stat().st_size < self.offset + self.nbytes:
            raise ArtifactError(
                f"weight '{self.key}' needs bytes {self.offset} to {self.offset + self.nbytes} of "
                f"{self.file}, which is shorter; {_REPAIR}"
            )
        array = super().array()
        digest = hashlib.sha256()
        for chunk in chunks_of(array):
            digest.update(chunk)
        if digest.hexdigest() != self.recorded:
            raise ArtifactError(
                f"weight '{self.key}' does not have the recorded hash: its bytes have changed; "
                f"{_REPAIR}"
            )
        return array
