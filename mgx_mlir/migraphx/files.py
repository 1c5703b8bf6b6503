"""Saved programs: a compiled one as an artifact, another as a zip of its MLIR and weights, or JSON.

The text that `to_py` writes is read too.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.files import keep_inputs, write_atomically
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.dialects import context
from mgx_mlir.dialects.types import DTYPES
from mgx_mlir.errors import ArtifactError, Edge, UsageError
from mgx_mlir.migraphx.json_form import from_json, to_json
from mgx_mlir.migraphx.parted import LoadedProgram
from mgx_mlir.migraphx.program import get_target, program, target
from mgx_mlir.migraphx.python_form import from_python
from mgx_mlir.rewriting.graph import Graph

FORMATS = ("msgpack", "json")
_ZIP = b"PK"
# The option of an artifact that says for which target a program was compiled, and how it is run.
_WHERE = "migraphx"
_VERSION = 1
# A date that zip files can hold: equal programs have equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# The most bytes of a saved program's text and of its table of weights.
_MOST_TEXT = 1 << 30


@Edge("saving the program")
def save(p: program, filename: str, format: str = "msgpack") -> None:
    """Writes a program, whole or not at all: compiled, an artifact of this project; else its IR.

    With `format` 'json' the IR is JSON; a compiled program is an artifact in any case. Files of
    MIGraphX itself (.mxr) are neither written nor read.
    """
    if format not in FORMATS:
        raise UsageError(f"format is '{format}'; use one of {', '.join(FORMATS)}")
    keep_inputs(Path(filename), p._graph.weights.files)
    whole = format == "msgpack" or p.is_compiled()
    write_atomically(Path(filename), save_buffer(p) if whole else to_json(p.graph()).encode())


@Edge("saving the program")
def save_buffer(p: program) -> bytes:
    """The bytes that `save` writes."""
    made = p._state.compiled
    if made is not None and made.artifact is not None:
        artifact = made.artifact
        if _where(artifact) != (made.target, made.copies):
            where = {"target": made.target, "offload_copy": made.copies}
            artifact = replace(artifact, options={**artifact.options, _WHERE: where})
        return bytes(artifact.to_bytes())
    graph = p.graph()
    used = dict(graph.weights)
    table = [
        {"key": key, "dtype": weight.dtype.name, "shape": list(weight.shape)}
        for key, weight in used.items()
    ]
    text = graph.module.operation.get_asm(enable_debug_info=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        header = {
            "version": _VERSION,
            "name": graph.name,
            "weights": table,
            "ref": made is not None,
        }
        _write(file, "program.json", json.dumps(header, sort_keys=True).encode())
        _write(file, "program.mlir", text.encode())
        for index, weight in enumerate(used.values()):
            _write(file, f"weights/{index}", b"".join(weight.chunks()))
    return buffer.getvalue()


@Edge("loading the program")
def load(filename: str, format: str = "msgpack") -> program:
    """The program of a file: one that `save` wrote, or Python text of `to_py` (FILE.py).

    Raises ArtifactError where it is damaged or of another kind.
    """
    if format not in FORMATS:
        raise UsageError(f"format is '{format}'; use one of {', '.join(FORMATS)}")
    try:
        data = Path(filename).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{filename} cannot be read: {error.strerror}") from error
    try:
        if Path(filename).suffix == ".py":
            return from_python(data.decode())
        return load_buffer(data)
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{filename} is no text: {error}") from error
    except ArtifactError as error:
        raise ArtifactError(f"{filename}: {error}") from error


@Edge("loading the program")
def load_buffer(b: bytes) -> program:
    """The program of bytes that `save_buffer` gave. Raises ArtifactError as `load`."""
    if is_json(b[:64]):
        return program(from_json(bytes(b)))
    if b[:2] != _ZIP:
        artifact = Artifact.from_bytes(bytes(b))
        return LoadedProgram(artifact, *_where(artifact))
    try:
        with zipfile.ZipFile(io.BytesIO(b)) as file:
            header = json.loads(_read(file, "program.json", _MOST_TEXT))
            if header.get("version") != _VERSION:
                raise ArtifactError(f"a saved program of version {header.get('version')!r}")
            weights = WeightStore()
            for index, row in enumerate(header["weights"]):
                weights.add(_weight(file, f"weights/{index}", row))
            text = _read(file, "program.mlir", _MOST_TEXT).decode()
        with context(), ir.Location.unknown():
            found = program(Graph(ir.Module.parse(text), weights, str(header["name"])))
        if header.get("ref"):
            found.compile(target("ref"))
        return found
    except (zipfile.BadZipFile, ir.MLIRError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"the saved program is damaged: {error}") from error


def is_json(begin: bytes) -> bool:
    """Whether a file begins as JSON of an object does."""
    return begin.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _where(artifact: Artifact) -> tuple[str, bool]:
    """The target, and whether inputs and outputs are copied. Raises ArtifactError, TargetError."""
    given = artifact.options.get(_WHERE)
    if given is None:
        chips = [name for name in artifact.code_objects if name.startswith("gfx")]
        return chips[0] if chips else "cpu", True
    name = given.get("target") if isinstance(given, dict) else None
    if not isinstance(name, str):
        raise ArtifactError(f"the option '{_WHERE}' of {artifact.name} names no target")
    return get_target(name).name, given.get("offload_copy") is not False


def _weight(file: zipfile.ZipFile, name: str, row: dict[str, Any]) -> Weight:
    dtype = DTYPES[_MLIR_NAME[row["dtype"]]]
    shape = tuple(int(n) for n in row["shape"])
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = np.frombuffer(_read(file, name, size), np.uint8)
    if data.size != size or min(shape, default=0) < 0:
        raise ArtifactError(f"weight '{row['key']}' has {data.size} bytes where {size} belong")
    return Weight(str(row["key"]), dtype, shape, data=data.view(dtype).reshape(shape))


def _write(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    file.writestr(zipfile.ZipInfo(name, _EPOCH), data)


def _read(file: zipfile.ZipFile, name: str, most: int) -> bytes:
    if file.getinfo(name).file_size > most:
        raise ArtifactError(f"the saved program's {name} has more than {most} bytes")
    return file.read(name)


_MLIR_NAME = {dtype.name: name for name, dtype in DTYPES.items()}
