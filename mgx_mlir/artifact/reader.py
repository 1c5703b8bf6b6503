"""A `.mgx` file read without trusting it.

The reader checks every number, offset, size and hash before it uses the described bytes, so
that a file that is cut short, damaged or made to harm gives ArtifactError and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.contents import Contents, PortableKernel
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.parts import Parts
from mgx_mlir.artifact.plan import DTYPES, Plan
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.signature import Signature, canonical_json
from mgx_mlir.artifact.weights import Weight, chunks_of
from mgx_mlir.artifact.writer import ALIGNMENT, HEADER, MAGIC, VERSION, WEIGHT_ALIGNMENT
from mgx_mlir.errors import ArtifactError

MAX_MANIFEST = 1 << 28
# The most dimensions that numpy can hold.
MAX_RANK = 64
MAX_SPLAT = 1 << 36

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

    Raises ArtifactError with the fault and the next step.
    """
    manifest, end = _read_manifest(data)
    sections = _check_sections(data, manifest, end)
    reader = _Reader(data, sections, folder, allow_absolute)
    signatures = _typed({"signatures": [], **manifest}, "signatures", list)
    schedules = _typed({"schedules": {}, **manifest}, "schedules", dict)
    try:
        artifact = make(
            name=_typed(manifest, "name", str),
            plan=Plan.from_json(_typed(manifest, "plan", dict)),
            kernels=tuple(reader.kernel(k) for k in _typed(manifest, "kernels", list)),
            weights=reader.weights(_typed(manifest, "weights", list)),
            options=_typed(manifest, "options", dict),
            pipelines=tuple(_pair(p) for p in _typed(manifest, "pipelines", list)),
            code_objects={
                arch: tuple(reader.code_object(arch, c) for c in _typed(by_arch, arch, list))
                for by_arch in [_typed(manifest, "code_objects", dict)]
                for arch in by_arch
            },
            producer=_typed(manifest, "producer", str),
            signatures=tuple(map(Signature.from_json, signatures)),
            schedules={arch: _schedules(schedules, arch) for arch in schedules},
            parts=reader.parts(manifest),
        )
        if artifact.content_hash != _typed(manifest, "content_hash", str):
            raise ArtifactError("the program does not have the recorded content hash")
        artifact.check_code()
    except (RecursionError, ValueError) as error:
        raise ArtifactError(f"damaged: {error}; {_REPAIR}") from error
    return artifact


def _read_manifest(data: memoryview) -> tuple[dict[str, Any], int]:
    if data.nbytes < HEADER.size:
        raise ArtifactError(f"no artifact: it is too short; {_REPAIR}")
    magic, major, minor, header, size, total, digest = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ArtifactError(
            "no .mgx artifact, or damaged in its first bytes; mgx_mlir.compile takes models"
        )
    if (major, minor) > VERSION or major != VERSION[0]:
        raise ArtifactError(
            f"format version {major}.{minor}; this mgx-mlir reads {VERSION[0]}.0 to "
            f"{VERSION[0]}.{VERSION[1]}: use the version that wrote it or a newer one, or compile "
            "the model again"
        )
    if header != HEADER.size or size > min(MAX_MANIFEST, data.nbytes - HEADER.size):
        raise ArtifactError(f"damaged: its header has impossible sizes; {_REPAIR}")
    if total != data.nbytes:
        raise ArtifactError(
            f"damaged: it should have {total} bytes and has {data.nbytes}; {_REPAIR}"
        )
    text = bytes(data[HEADER.size : HEADER.size + size])
    if hashlib.sha256(text).digest() != digest:
        raise ArtifactError(f"damaged: its manifest does not have the recorded hash; {_REPAIR}")
    try:
        manifest = json.loads(text)
        canonical = isinstance(manifest, dict) and canonical_json(manifest) == text
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"damaged: its manifest is no JSON ({error}); {_REPAIR}") from error
    if not canonical:
        raise ArtifactError(f"damaged: its manifest is not in canonical form; {_REPAIR}")
    return manifest, HEADER.size + size


@dataclass(frozen=True)
class _Section:
    offset: int
    bytes: int
    sha256: str


def _check_sections(data: memoryview, manifest: dict[str, Any], end: int) -> list[_Section]:
    sections = []
    for number, record in enumerate(_typed(manifest, "sections", list)):
        section = _Section(
            _number(record, "offset"), _number(record, "bytes"), _typed(record, "sha256", str)
        )
        inside = end <= section.offset and section.offset + section.bytes <= data.nbytes
        if not inside or section.offset % ALIGNMENT:
            raise ArtifactError(f"damaged: section {number} lies outside of the file; {_REPAIR}")
        end = section.offset + section.bytes
        sections.append(section)
    if end != data.nbytes:
        raise ArtifactError(f"damaged: its sections do not fill the file; {_REPAIR}")
    return sections


@dataclass(frozen=True)
class _Reader:
    data: memoryview
    sections: list[_Section]
    folder: Path | None
    allow_absolute: bool
    # Sections already checked: however often they are named, they take memory once.
    known: dict[int, bytes] = field(default_factory=dict)

    def section(self, record: Any) -> tuple[memoryview, _Section]:
        number = _number(record, "section")
        if number >= len(self.sections):
            raise ArtifactError(f"damaged: there is no section {number}; {_REPAIR}")
        found = self.sections[number]
        return self.data[found.offset : found.offset + found.bytes], found

    def checked(self, record: Any) -> bytes:
        """The bytes of a section, its hash checked."""
        content, section = self.section(record)
        number: int = record["section"]
        if number not in self.known:
            if hashlib.sha256(content).hexdigest() != section.sha256:
                raise ArtifactError(
                    f"damaged: section {number} does not have the recorded hash; {_REPAIR}"
                )
            self.known[number] = bytes(content)
        return self.known[number]

    def kernel(self, record: Any) -> PortableKernel:
        return PortableKernel(
            _typed(record, "name", str),
            self.checked(record),
            _texts(record, "features"),
            _texts(record, "nodes"),
            _version(record),
            from_file=True,
        )

    def code_object(self, arch: str, record: Any) -> CodeObject:
        code = CodeObject.from_json(record, self.checked(record))
        if code.arch != arch:
            raise ArtifactError(f"damaged: a code object of {arch} is for {code.arch}; {_REPAIR}")
        return replace(code, trusted=False)

    def parts(self, manifest: dict[str, Any]) -> Parts | None:
        if "parts" not in manifest:
            return None
        record = _typed(manifest, "parts", dict)
        return Parts.from_json(record, self.checked(record))

    def weights(self, records: list[Any]) -> dict[str, Weight]:
        weights = [self.weight(record) for record in records]
        if len({weight.key for weight in weights}) != len(weights):
            raise ArtifactError(f"damaged: two weights have one key; {_REPAIR}")
        return {weight.key: weight for weight in weights}

    def weight(self, record: Any) -> Weight:
        key, name = _typed(record, "key", str), _typed(record, "dtype", str)
        if name not in DTYPES:
            raise ArtifactError(f"damaged: weight '{key:.80}' has the unknown type '{name:.80}'")
        dtype = numpy_dtype(name)
        shape = tuple(_bounded(size, "shape") for size in _typed(record, "shape", list))
        if len(shape) > MAX_RANK:
            raise ArtifactError(f"damaged: weight '{key:.80}' has {len(shape)} dimensions")
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        sha256 = _typed(record, "sha256", str)
        if "file" in record:
            file = self.beside(_typed(record, "file", str), key)
            place = (file, _number(record, "offset"))
            order = tuple(
                _bounded(i, "order") for i in _typed({"order": [], **record}, "order", list)
            )
            if order and sorted(order) != [*range(len(shape))]:
                raise ArtifactError(f"damaged: weight '{key:.80}' has no order of its dimensions")
            return SavedWeight(key, dtype, shape, *place, order=order, recorded=sha256)
        content, section = self.section(record)
        if record.get("splat") is True:
            return self.splat(record, key, dtype, shape, size)
        if content.nbytes != size or section.offset % WEIGHT_ALIGNMENT:
            raise ArtifactError(
                f"damaged: weight '{key:.80}' takes {size} bytes and has {content.nbytes}; "
                f"{_REPAIR}"
            )
        array = np.frombuffer(content, dtype) if size else np.zeros(0, dtype)
        return SavedWeight(key, dtype, shape, data=array.reshape(shape), recorded=sha256)

    def splat(
        self, record: Any, key: str, dtype: np.dtype, shape: tuple[int, ...], size: int
    ) -> Weight:
        """A weight of one element, repeated: it takes no memory, however large its shape is."""
        content = self.checked(record)
        if len(content) != dtype.itemsize or not size // dtype.itemsize > 1 or size > MAX_SPLAT:
            raise ArtifactError(
                f"damaged: weight '{key:.80}' repeats {len(content)} bytes to {size}; {_REPAIR}"
            )
        array = np.broadcast_to(np.frombuffer(content, dtype).reshape(()), shape)
        recorded = _typed(record, "sha256", str)
        return SavedWeight(key, dtype, shape, data=array, recorded=recorded)

    def beside(self, name: str, key: str) -> Path:
        """The file of a weight that is not in the artifact; it has to lie below the folder."""
        path = PurePosixPath(name)
        if self.folder is None:
            raise ArtifactError(f"weight '{key:.80}' lies in a file; open the artifact as a file")
        if not name or "\0" in name or "\\" in name:
            raise ArtifactError(f"weight '{key:.80}' names the impossible file {name!r:.80}")
        file = self.folder / path
        inside = file.resolve().is_relative_to(self.folder.resolve())
        if not self.allow_absolute and (path.is_absolute() or ".." in path.parts or not inside):
            raise ArtifactError(
                f"weight '{key:.80}' lies in {name!r:.200}, outside of the artifact's folder; move "
                "the file there, or allow absolute paths if you trust the artifact"
            )
        if not file.is_file():
            raise ArtifactError(
                f"weight '{key:.80}' lies in {name!r:.200}, which is not there; put the file back "
                "beside the artifact"
            )
        return file


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


def _typed(record: Any, name: str, kind: type) -> Any:
    if not isinstance(record, dict) or type(record.get(name)) is not kind:
        raise ArtifactError(f"damaged: '{name:.80}' is missing or no {kind.__name__}; {_REPAIR}")
    return record[name]


def _number(record: Any, name: str) -> int:
    return _bounded(_typed(record, name, int), name)


def _bounded(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ArtifactError(f"damaged: '{name}' holds {value!r:.80}, out of range; {_REPAIR}")
    return value


def _texts(record: Any, name: str) -> tuple[str, ...]:
    values = _typed(record, name, list)
    if not all(isinstance(value, str) for value in values):
        raise ArtifactError(f"damaged: '{name}' holds more than text; {_REPAIR}")
    return tuple(values)


def _schedules(by_arch: dict[str, Any], arch: str) -> tuple[Tuned | None, ...]:
    found = _typed(by_arch, arch, list)
    return tuple(None if one is None else Tuned.from_json(one) for one in found)


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or [type(part) for part in value] != [str, str]:
        raise ArtifactError(f"damaged: a pipeline is a name and a text; {_REPAIR}")
    return value[0], value[1]


def _version(record: Any) -> tuple[int, int]:
    parts = [_bounded(part, "dialect") for part in _typed(record, "dialect", list)]
    if len(parts) != 2:
        raise ArtifactError(f"damaged: a dialect version has two numbers; {_REPAIR}")
    return parts[0], parts[1]
