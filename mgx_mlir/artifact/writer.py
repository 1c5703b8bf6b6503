"""The bytes of a `.mgx` file, written whole. docs/artifact.md describes the layout."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgx_mlir.artifact.contents import Contents, schedules_json, version_text
from mgx_mlir.artifact.files import atomic_file, keep_inputs
from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.artifact.weights import Weight, splat_element
from mgx_mlir.errors import UsageError
from mgx_mlir.sizes.arithmetic import ceil_div
from mgx_mlir.text import name_text

SUFFIX = ".mgx"
MAGIC = b"\x89MGX\r\n\x1a\n"
# The newest format, and the one of files that use nothing new: a file says the oldest that
# describes it. Format and dialect are numbered together.
VERSION = (1, 1)
OLDEST = (1, 0)
SPLATS = (1, 1)  # weights of one element repeated
CONTROL_FLOW = (1, 1)  # branches and loops in the plan
ANY_SIZES = (1, 1)  # a plan for any sizes
TURNED = (1, 1)  # weights that their files hold with the dimensions in another order
PARTS = (1, 1)  # segments, and nodes of the host between them
COUNTERS = (1, 1)  # launches with counters
RESIDENTS = (1, 1)  # resident kernels
# Magic, major, minor, size of this header, bytes of the manifest, bytes of the file, and
# the manifest's SHA-256.
HEADER = struct.Struct("<8sHHIQQ32s")
ALIGNMENT = 64
WEIGHT_ALIGNMENT = 4096


@dataclass
class _Sections:
    """The sections of a file that is being written; equal bytes are stored once."""

    records: list[dict[str, Any]] = field(default_factory=list)
    contents: list[memoryview | Weight] = field(default_factory=list)
    alignments: list[int] = field(default_factory=list)
    _known: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, content: memoryview | Weight, sha256: str, alignment: int = ALIGNMENT) -> int:
        """The number of the section that holds `content`; a weight's bytes are read later."""
        key = (sha256, alignment)
        if key not in self._known:
            self._known[key] = len(self.records)
            self.records.append({"offset": 0, "bytes": content.nbytes, "sha256": sha256})
            self.contents.append(content)
            self.alignments.append(alignment)
        return self._known[key]

    def place(self, manifest_bytes: int) -> int:
        """Gives every section its offset; returns the size of the file."""
        end = HEADER.size + manifest_bytes
        for record, alignment in zip(self.records, self.alignments, strict=True):
            record["offset"] = _aligned(end, alignment)
            end = record["offset"] + record["bytes"]
        return end


def is_artifact(path: Path) -> bool:
    """Whether a file has the suffix of an artifact, or begins as one does."""
    return path.suffix == SUFFIX or begins_as_artifact(path)


def begins_as_artifact(path: Path) -> bool:
    """Whether a file begins as artifacts do."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def save(artifact: Contents, path: Path, weights: str, version: tuple[int, int] | None) -> None:
    """Writes `artifact` to `path`. See Artifact.save."""
    if weights not in ("inside", "beside"):
        raise UsageError(f"weights are saved 'inside' or 'beside', not '{weights}'")
    keep_inputs(path, read_files(artifact))
    folder = path.absolute().parent if weights == "beside" else None
    _check_version(artifact, version)
    with atomic_file(path) as stream:
        for chunk in _chunks(artifact, folder, version or VERSION):
            stream.write(chunk)


def read_files(artifact: Contents) -> list[Path]:
    """The files that the program was made from, or has weights in; an artifact may be replaced."""
    weights = (weight.file for weight in artifact.weights.values() if weight.file is not None)
    files = dict.fromkeys((*artifact.sources, *weights))
    return [file for file in files if not begins_as_artifact(file)]


def to_bytes(artifact: Contents, version: tuple[int, int] | None) -> bytes:
    """The file in memory, weights inside."""
    _check_version(artifact, version)
    return b"".join(_chunks(artifact, None, version or VERSION))


def check_version(version: tuple[int, int]) -> None:
    """Raises UsageError for a version that cannot be written."""
    if not OLDEST <= version <= VERSION:
        raise UsageError(
            f"artifacts of versions {version_text(OLDEST)} to {version_text(VERSION)} can be "
            f"written, not {version_text(version)}"
        )


def _check_version(artifact: Contents, version: tuple[int, int] | None) -> None:
    if version is None:
        return  # a later compiler's kernels stay in its form
    check_version(version)
    if any(plan.has_control_flow for plan in artifact.plans) and version < CONTROL_FLOW:
        raise UsageError(
            f"the program has branches or loops, which artifacts of version "
            f"{version_text(version)} cannot hold; the oldest that can is "
            f"{version_text(CONTROL_FLOW)}"
        )
    if artifact.plan.dims and version < ANY_SIZES:
        raise UsageError(
            f"the program is for any sizes, which artifacts of version {version_text(version)} "
            f"cannot hold; the oldest that can is {version_text(ANY_SIZES)}"
        )
    if artifact.parts and version < PARTS:
        raise UsageError(
            f"the program has parts that the host runs, which artifacts of version "
            f"{version_text(version)} cannot hold; the oldest that can is {version_text(PARTS)}"
        )
    if counts(artifact) and version < COUNTERS:
        raise UsageError(
            f"the code objects have counters, which artifacts of version {version_text(version)} "
            f"cannot hold; save it without code objects, or as {version_text(COUNTERS)}"
        )
    if residents(artifact) and version < RESIDENTS:
        raise UsageError(
            f"the code objects have resident kernels, which artifacts of version "
            f"{version_text(version)} cannot hold; save it without code objects, or as "
            f"{version_text(RESIDENTS)}"
        )
    for kernel in artifact.kernels:
        if kernel.dialect > version:
            raise UsageError(
                f"kernel {kernel.name} ({', '.join(map(name_text, kernel.nodes))}) has ops of "
                f"version {version_text(kernel.dialect)}, and the artifact is to be of version "
                f"{version_text(version)}; compile the model for that version to see which"
            )


def counts(artifact: Contents) -> bool:
    """Whether launches of the artifact's code objects have counters."""
    codes = (code for found in artifact.code_objects.values() for code in found)
    return any(a.kind == "counters" for code in codes for x in code.launches for a in x.arguments)


def residents(artifact: Contents) -> bool:
    """Whether code objects launch several steps as one."""
    return any(code.resident for found in artifact.code_objects.values() for code in found)


def _chunks(
    artifact: Contents, folder: Path | None, newest: tuple[int, int]
) -> Iterator[bytes | memoryview]:
    sections = _Sections()
    manifest = _manifest(artifact, sections, folder, newest)
    # Offsets depend on the manifest's size, which depends on their digits: with each
    # round they can only grow, and they settle at once or after one more.
    text, size = b"", -1
    while len(text) != size:
        size = len(text)
        total = sections.place(size)
        text = canonical_json(manifest)
    digest = hashlib.sha256(text).digest()
    version = OLDEST
    if any("splat" in weight for weight in manifest["weights"]):
        version = max(version, SPLATS)
    if any("order" in weight for weight in manifest["weights"]):
        version = max(version, TURNED)
    if artifact.plan.has_control_flow:
        version = max(version, CONTROL_FLOW)
    if artifact.plan.dims:
        version = max(version, ANY_SIZES)
    if artifact.parts:
        version = max(version, PARTS)
    if counts(artifact):
        version = max(version, COUNTERS)
    if residents(artifact):
        version = max(version, RESIDENTS)
    yield HEADER.pack(MAGIC, *version, HEADER.size, len(text), total, digest)
    yield text
    end = HEADER.size + len(text)
    for record, content in zip(sections.records, sections.contents, strict=True):
        yield bytes(record["offset"] - end)
        yield from content.chunks() if isinstance(content, Weight) else (content,)
        end = record["offset"] + record["bytes"]


def _manifest(
    artifact: Contents, sections: _Sections, folder: Path | None, newest: tuple[int, int]
) -> dict[str, Any]:
    kernels = [
        {
            "name": kernel.name,
            "nodes": list(kernel.nodes),
            "features": list(kernel.features),
            "dialect": list(kernel.dialect),
            "section": sections.add(memoryview(kernel.bytecode), kernel.sha256),
        }
        for kernel in artifact.kernels
    ]
    code_objects = {
        arch: [
            {**code.to_json(), "section": sections.add(memoryview(code.data), code.sha256)}
            for code in found
        ]
        for arch, found in sorted(artifact.code_objects.items())
    }
    weights = [
        {
            "key": key,
            "dtype": weight.dtype.name,
            "shape": list(weight.shape),
            "sha256": weight.sha256,
            **_weight_place(weight, sections, folder, newest),
        }
        for key, weight in artifact.weights.items()
    ]
    signatures = [signature.to_json() for signature in artifact.signatures]
    schedules = schedules_json(artifact.schedules)
    parts = {}
    if artifact.parts is not None:
        model = artifact.parts.model
        section = sections.add(memoryview(model), hashlib.sha256(model).hexdigest())
        parts["parts"] = {**artifact.parts.to_json(), "section": section}
    return {
        **({"signatures": signatures} if signatures else {}),
        **({"schedules": schedules} if schedules else {}),
        **parts,
        "code_objects": code_objects,
        "content_hash": artifact.content_hash,
        "kernels": kernels,
        "name": artifact.name,
        "options": dict(artifact.options),
        "pipelines": [list(pipeline) for pipeline in artifact.pipelines],
        "plan": artifact.plan.to_json(),
        "producer": artifact.producer,
        "sections": sections.records,
        "weights": weights,
    }


def _weight_place(
    weight: Weight, sections: _Sections, folder: Path | None, newest: tuple[int, int]
) -> dict[str, Any]:
    known = not weight.order or newest >= TURNED
    if folder is not None and weight.file is not None and known:
        try:
            name = weight.file.resolve().relative_to(folder.resolve())
        except ValueError:
            raise UsageError(
                f"weight '{weight.key}' lies in {weight.file}, outside of the artifact's folder "
                f"{folder}; save the weights inside, or the artifact beside its model"
            ) from None
        order = {"order": list(weight.order)} if weight.order else {}
        return {"file": name.as_posix(), "offset": weight.offset, **order}
    if newest >= SPLATS and weight.splat:
        element = splat_element(weight.array()).tobytes()
        digest = hashlib.sha256(element).hexdigest()
        return {"section": sections.add(memoryview(element), digest), "splat": True}
    return {"section": sections.add(weight, weight.sha256, WEIGHT_ALIGNMENT)}


def _aligned(offset: int, alignment: int) -> int:
    return ceil_div(offset, alignment) * alignment
