"""Writes a quantized model as ONNX, constant by constant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import onnx
from onnx import TensorProto

from mgx_mlir.artifact.files import atomic_file, keep_inputs, write_atomically
from mgx_mlir.artifact.weights import chunks_of
from mgx_mlir.errors import UserError
from mgx_mlir.importer import element_types
from mgx_mlir.quantization.parts import tensor_of
from mgx_mlir.quantization.rewrite import Rewritten

# Models of more bytes keep their large constants in a file beside them.
LARGEST_INSIDE = 1 << 30
# Constants of fewer bytes are in the model's own file, where onnx's library sees them.
_SMALL = 1024
_ALIGNMENT = 4096


def save(rewritten: Rewritten, file: Path) -> None:
    """Writes the model, whole or not at all.

    Large models, and those whose constants lay outside of them, keep theirs in FILE.data; one
    constant is in memory at a time then. Raises UserError where the model itself is too large,
    UsageError for a file that the model was read from.
    """
    size = sum(weight.nbytes for weight in rewritten.source.weights.values())
    for job in rewritten.jobs:
        size += sum(int(np.prod(s)) * dtype.itemsize for dtype, s in job.made.values())
    beside = file.with_name(f"{file.name}.data")
    for output in (file, beside):
        keep_inputs(output, rewritten.source.files)
    if size > LARGEST_INSIDE or rewritten.outside:
        with atomic_file(beside) as stream:
            model = whole(rewritten, beside.name, stream)
    else:
        model = whole(rewritten)
    try:
        write_atomically(file, model.SerializeToString(deterministic=True))
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error


def whole(
    rewritten: Rewritten, location: str = "", stream: IO[bytes] | None = None
) -> onnx.ModelProto:
    """The model with its constants, the large ones of which go to `stream`, at `location`."""
    model = onnx.ModelProto()
    model.CopyFrom(rewritten.source.model)
    given = [value for value in model.graph.input if value.name in rewritten.source.inputs]
    del model.graph.input[:]
    model.graph.input.extend(given)
    for name, array in _constants(rewritten):
        if stream is None or array.nbytes < _SMALL:
            tensor = tensor_of(array, name)
        else:
            tensor = _written(array, name, location, stream)
        model.graph.initializer.append(tensor)
    return model


def _constants(rewritten: Rewritten) -> Iterator[tuple[str, np.ndarray]]:
    for name, weight in rewritten.source.weights.items():
        yield name, weight.array()
    for job in rewritten.jobs:
        yield from zip(job.made, job.compute(), strict=True)


def _written(array: np.ndarray, name: str, location: str, stream: IO[bytes]) -> TensorProto:
    """Appends a constant to the data; its tensor says where."""
    offset = -(-stream.tell() // _ALIGNMENT) * _ALIGNMENT
    stream.seek(offset)
    bytes_ = element_types.packed(array)
    for chunk in chunks_of(bytes_):
        stream.write(chunk)
    kind = element_types.of_numpy(array.dtype).onnx
    tensor = TensorProto(name=name, data_type=kind, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", bytes_.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
