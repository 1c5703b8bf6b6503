"""Reads a model's structure into memory and leaves its weights where they are."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, helper

from mgx_mlir.artifact.weights import Weight, is_splat, splat_element
from mgx_mlir.artifact.writer import begins_as_artifact
from mgx_mlir.errors import MgxError, ModelError, UnsupportedError, UsageError
from mgx_mlir.importer import element_types, torch_programs, wire
from mgx_mlir.importer.tensor_data import (
    bytes_needed,
    check_size,
    element_count,
    is_text,
    to_array,
    wrong_size,
)
from mgx_mlir.importer.torch_programs import TorchProgram
from mgx_mlir.sizes.range import Range
from mgx_mlir.suggest import instead, listed

# Constants of at most this many elements stay in the model, where onnx's library sees them.
SMALL_ELEMENTS = 256
# The IR versions from which models state opsets, and initialisers need not be inputs.
_WITH_OPSETS, _PLAIN_INITIALIZERS = 3, 4


@dataclass
class Source:
    """A model apart from its large weights.

    In `model`, each of `weights` is a graph input of its name, type and shape, so that
    onnx's library accepts the rest. `inputs` names the inputs that the model really has,
    `replaceable` the weights that it declares as inputs too. `files` are those that hold it.
    `ranges` are the sizes that it is for, by the names of its inputs' dimensions.
    """

    model: onnx.ModelProto
    weights: dict[str, Weight]
    inputs: tuple[str, ...]
    name: str
    replaceable: frozenset[str] = frozenset()
    files: tuple[Path, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def defaults(self) -> tuple[str, ...]:
        """The inputs with a value of their own, an initialiser, which a caller may replace."""
        initializers = {t.name for t in self.model.graph.initializer}
        return tuple(
            v.name
            for v in self.model.graph.input
            if v.name in initializers or v.name in self.replaceable
        )

    def without(self, names: Collection[str]) -> Source:
        """One whose inputs of these names, some of `defaults`, have no values of their own."""
        source = self.copy()
        graph = source.model.graph
        kept = [t for t in self.model.graph.initializer if t.name not in names]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        source.replaceable = self.replaceable - set(names)
        source.weights = {n: w for n, w in source.weights.items() if n not in names}
        given = {*self.inputs, *names}
        source.inputs = tuple(v.name for v in graph.input if v.name in given)
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        """The model with its weights, wherever they lie."""
        arrays = {name: (weight.key, weight.array()) for name, weight in self.weights.items()}
        weights = {
            name: (key, splat_element(array) if is_splat(array) else array, array.shape)
            for name, (key, array) in arrays.items()
        }
        model = self.model.SerializeToString()
        return _restored, (model, weights, self.inputs, self.name, self.replaceable, self.ranges)

    def copy(self) -> Source:
        """One whose model can be changed; it has the same weights."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        return replace(self, model=model, weights=dict(self.weights))


def _restored(
    model: bytes,
    weights: Mapping[str, tuple[str, np.ndarray, tuple[int, ...]]],
    inputs: tuple[str, ...],
    name: str,
    replaceable: frozenset[str],
    ranges: Mapping[str, Range],
) -> Source:
    """A source that was pickled."""
    found = {}
    for one, (key, array, shape) in weights.items():
        data = array if array.shape == shape else np.broadcast_to(array.reshape(()), shape)
        found[one] = Weight(key, array.dtype, shape, data=data)
    proto = onnx.ModelProto.FromString(model)
    return Source(proto, found, inputs, name, replaceable, ranges=ranges)


# A model: its path, its bytes, the model itself, what was read of it, or a program of torch.
AnySource: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | Source | TorchProgram


def load(model: AnySource, folder: Path | None = None) -> Source:
    """Reads a model from a file, from bytes, a ModelProto or a program of torch; copies a Source.

    `folder` is that of external data, if not the file's own. Raises ModelError where
    the model is malformed, or one of its weights is.
    """
    if isinstance(model, Source):
        return model.copy()
    if isinstance(model, TorchProgram):
        return _of_torch(model)
    if isinstance(model, onnx.ModelProto):
        try:
            model = model.SerializeToString()
        except (ValueError, DecodeError) as error:
            raise ModelError(
                f"a ModelProto of more than 2 GB: pass the file's path instead ({error})"
            ) from error
    if isinstance(model, bytes):
        return _Reader(None, model, folder).read("model")
    if not isinstance(model, str | os.PathLike):
        raise UsageError(
            "a model is a path, bytes, an onnx.ModelProto, a program of torch, an mgx_mlir.Graph; "
            "got "
            f"{type(model).__name__}"
        )
    path = Path(model).absolute()
    if path.is_dir():
        there = sorted(file.name for file in path.glob("*.onnx"))
        hint = f"; it holds {listed(there)}" if there else ""
        raise ModelError(f"{path} is a folder, not a model{hint}")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} is no regular file, which a model is mapped from; copy it to one")
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*") if f.suffix in (".onnx", ".mgx")]
        hint = instead(path.name, near, "", 0.8)
        raise ModelError(f"there is no file {path}{hint and f'; {hint}'}")
    if path.stat().st_size == 0:
        raise ModelError(f"{path} is empty")
    if begins_as_artifact(path):
        raise UsageError(
            f"{path} is an artifact, which is compiled already; mgx_mlir.compile runs it, "
            "mgx_mlir.load opens it"
        )
    if path.suffix == torch_programs.SUFFIX:
        return _of_torch(torch_programs.read(path), path)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _Reader(path, memoryview(mapped), folder or path.parent).read(path.stem)
    except MgxError as error:
        raise type(error)(f"{path.name}: {error}") from error


def _of_torch(program: TorchProgram, path: Path | None = None) -> Source:
    """The model of a program of torch, on its tensors' memory."""
    proto, large, ranges = torch_programs.proto_of(program, SMALL_ELEMENTS)
    source = load(proto)
    source.ranges = ranges
    source.inputs = tuple(name for name in source.inputs if name not in large)
    source.weights |= large
    source.name = path.stem if path is not None else proto.graph.name or source.name
    source.files = () if path is None else (path,)
    return source


# The first bytes of other files that people have, with the way to use them.
_OTHERS = {
    b"PK\3\4": (
        "a zip, as mgx_mlir.migraphx saves programs",
        "mgx compile, params, perf, read, run and verify take those; give the model",
    ),
    b"ML\xefR": ("bytecode of MLIR, as mgx read writes", "mgx-opt reads it; give the model"),
    b"module"[:4]: ("text of MLIR, as mgx read writes", "mgx-opt reads it; give the model"),
    b"{": ("JSON", "the verbs that take saved programs take that of mgx read; give the model"),
    b"impo": ("Python", "python -m mgx_mlir.migraphx runs scripts of MIGraphX"),
    b"vers": ("text, as Git LFS leaves in place of a file", "`git lfs pull` gets the file"),
    b"GGUF": ("weights of llama.cpp", "export the network to ONNX"),
    b"\0\0ORTM": ("onnxruntime's own format", "give the .onnx file that it was made of"),
    b"\0\0TFL3": ("TensorFlow Lite's format", "tf2onnx makes ONNX of it"),
}
# How torch.save and torch.jit.save align the first file of their zips.
_START, _PADDING = 256, b"ZZZZ"
_OF_TORCH = (
    "a file of torch.save or torch.jit.save",
    "torch.export.save(torch.export.export(module, (x,)), 'model.pt2') writes one that is taken",
)


class _Reader:
    """`path` is None for a model in memory, whose weights are then views of `data`."""

    def __init__(self, path: Path | None, data: bytes | memoryview, folder: Path | None) -> None:
        self.path = path
        self.data = data
        self.folder = folder
        self.weights: dict[str, Weight] = {}
        self.files = {} if path is None else {path: None}

    def read(self, name: str) -> Source:
        start = bytes(self.data[:_START])
        for mark, (kind, way) in _OTHERS.items():
            if start.startswith(mark, 2 if mark[0] == 0 else 0):  # 2: an offset comes first
                if _PADDING in start:
                    kind, way = _OF_TORCH
                raise ModelError(f"not an ONNX model, but {kind}; {way}")
        skeleton, payloads = wire.strip(memoryview(self.data))
        model = onnx.ModelProto()
        try:
            model.ParseFromString(skeleton)
        except DecodeError as error:
            raise ModelError(f"not an ONNX model, or a truncated one: {error}") from error
        if not model.HasField("graph"):
            raise ModelError("not an ONNX model: it holds no graph")
        _check_words(model.graph)
        _modernise(model)
        self._take_initializers(model.graph, payloads)
        self._take_constants(model.graph, payloads)
        initializers = {t.name for t in model.graph.initializer} | self.weights.keys()
        inputs = tuple(v.name for v in model.graph.input if v.name not in initializers)
        for value in model.graph.input:
            untyped = value.type.HasField("tensor_type") and not value.type.tensor_type.elem_type
            if untyped and value.name in inputs:
                raise ModelError(f"input '{value.name}' declares no element type")
        declared = {v.name for v in model.graph.input}
        for weight in self.weights.values():
            if weight.key not in declared:
                onnx_type = element_types.of_numpy(weight.dtype).onnx
                info = helper.make_tensor_value_info(weight.key, onnx_type, weight.shape)
                model.graph.input.append(info)
        replaceable = frozenset(declared & self.weights.keys())
        return Source(model, self.weights, inputs, name, replaceable, tuple(self.files))

    def _take_initializers(self, graph: onnx.GraphProto, payloads: list[wire.Payload]) -> None:
        stored = {p.initializer: p for p in payloads if p.initializer >= 0}
        names: set[str] = set()
        kept = []
        for index, tensor in enumerate(graph.initializer):
            if tensor.name in names:
                raise ModelError(f"two initialisers are called '{tensor.name}'")
            names.add(tensor.name)
            weight = self._weight(tensor, tensor.name, stored.get(index))
            if weight is None:
                kept.append(tensor)
            else:
                self.weights[tensor.name] = weight
        kept = [TensorProto.FromString(t.SerializeToString()) for t in kept]
        del graph.initializer[:]
        graph.initializer.extend(kept)

    def _take_constants(self, graph: onnx.GraphProto, payloads: list[wire.Payload]) -> None:
        """Makes weights of Constant nodes with large values, which then disappear."""
        stored = {(p.node, p.attribute): p for p in payloads if p.node >= 0}
        taken = []
        for index, node in enumerate(graph.node):
            for number, attribute in enumerate(node.attribute):
                payload = stored.get((index, number))
                is_constant = node.op_type == "Constant" and attribute.name == "value"
                if payload and not is_constant:
                    data = self.data[payload.offset : payload.offset + payload.nbytes]
                    _restore(attribute.t, payload, bytes(data))
                elif is_constant and len(node.output) == 1:
                    name = node.output[0]
                    weight = self._weight(attribute.t, name, payload)
                    if weight is None:
                        continue
                    if name in self.weights:
                        raise ModelError(f"two tensors are called '{name}'")
                    self.weights[name] = weight
                    taken.append(index)
        for index in reversed(taken):
            del graph.node[index]

    def _weight(self, tensor: TensorProto, name: str, at: wire.Payload | None) -> Weight | None:
        """The tensor as a weight; None where it is small or not of numbers."""
        external = tensor.data_location == TensorProto.EXTERNAL
        count = element_count(tensor, name)
        if at is None and not external and (count <= SMALL_ELEMENTS or is_text(tensor)):
            check_size(tensor, name)
            if count <= SMALL_ELEMENTS or is_text(tensor):
                return None
        try:
            element = element_types.of_onnx(tensor.data_type)
        except UnsupportedError as error:
            raise UnsupportedError(f"initialiser '{name}': {error} are not supported") from None
        shape = tuple(tensor.dims)
        needed = bytes_needed(element, count)
        if at is None and not external:
            return Weight(name, element.numpy, shape, data=to_array(tensor, name))
        file = self.path
        if external:
            file, offset, nbytes = self._external(tensor, name, needed)
        else:
            assert at is not None
            offset, nbytes = at.offset, at.nbytes
            typed = {"float_data": "float", "double_data": "double", "raw_data": element.name}
            if typed[at.field] != element.name:
                raise ModelError(f"initialiser '{name}' of {element.name} has {at.field}")
        if nbytes != needed:
            raise wrong_size(name, element.name, shape, needed, nbytes)
        if file is not None and element.bits == element.numpy.itemsize * 8:
            return Weight(name, element.numpy, shape, file, offset)
        raw = _bytes_at(file, self.data, offset, nbytes)
        if element.bits < 8:
            array = element_types.unpack(raw, element, count)
        else:
            array = raw.view(element.numpy)
        return Weight(name, element.numpy, shape, data=array.reshape(shape))

    def _external(self, tensor: TensorProto, name: str, needed: int) -> tuple[Path, int, int]:
        """File, offset and size of external data.

        A model can come from anywhere: its data may lie in its own folder only.
        """
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        where = f"external data of initialiser '{name}' at '{location:.200}'"
        if self.folder is None:
            raise ModelError(f"{where}: pass the folder that holds it, or the model's path")
        if "\0" in location:
            raise ModelError(f"{where}: a file's name holds no NUL; write the name alone")
        parts = Path(location).parts
        if not parts or Path(location).is_absolute() or ".." in parts or "\\" in location:
            raise ModelError(f"{where} points outside the model's folder; it must lie inside")
        file = self.folder / location
        real = file.resolve()
        homes = {self.folder.resolve()}
        if self.path is not None:  # a download cache links the model and its data alike
            homes.add(self.path.resolve().parent)
        if not any(real.is_relative_to(home) for home in homes):
            raise ModelError(f"{where} links to {real}, outside the model's folder")
        if not file.is_file():
            raise ModelError(f"{where}: there is no such file in {self.folder}")
        self.files[file] = None
        offset, length = (_whole(entries.get(k), where, k) for k in ("offset", "length"))
        offset = offset or 0
        nbytes = needed if length is None else length
        if file.stat().st_size < offset + nbytes:
            raise ModelError(
                f"{where} needs bytes {offset} to {offset + nbytes}, "
                f"but the file has {file.stat().st_size}"
            )
        return file, offset, nbytes


def _modernise(model: onnx.ModelProto) -> None:
    """Raises an old IR version to one whose initialisers need not be inputs, in place.

    Models of IR versions 1 and 2 may state no opset, which then is 1. An output that is listed
    twice is one output.
    """
    if model.HasField("ir_version") and model.ir_version < _PLAIN_INITIALIZERS:
        if model.ir_version < _WITH_OPSETS and not model.opset_import:
            model.opset_import.add(domain="", version=1)
        model.ir_version = _PLAIN_INITIALIZERS
    outputs: dict[str, onnx.ValueInfoProto] = {}
    for value in model.graph.output:
        outputs.setdefault(value.name, value)
    if all(outputs) and len(outputs) != len(model.graph.output):
        kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in outputs.values()]
        del model.graph.output[:]
        model.graph.output.extend(kept)


def _check_words(graph: onnx.GraphProto) -> None:
    """Raises ModelError for types that are none, and for names that are not UTF-8.

    protobuf gives those as bytes.
    """
    names: list[str | bytes] = [t.name for t in graph.initializer]
    names += [s.values.name for s in graph.sparse_initializer]
    for value in (*graph.input, *graph.output):
        names.append(value.name)
        number = value.type.tensor_type.elem_type
        if number not in TensorProto.DataType.values():
            raise ModelError(f"'{value.name}' has elements of type {number}, which is none")
        names += [d.dim_param for d in value.type.tensor_type.shape.dim]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            names += [attribute.name, attribute.ref_attr_name]
            for inner in (attribute.g, *attribute.graphs):
                _check_words(inner)
    for name in names:
        if isinstance(name, bytes):
            raise ModelError(f"the name {name!r} is not UTF-8 text; the file is damaged")


def _bytes_at(file: Path | None, data: bytes | memoryview, offset: int, nbytes: int) -> np.ndarray:
    if file is None:
        return np.frombuffer(data, np.uint8, nbytes, offset)
    return np.fromfile(file, np.uint8, nbytes, offset=offset)


def _restore(tensor: TensorProto, payload: wire.Payload, data: bytes) -> None:
    if payload.field == "raw_data":
        tensor.raw_data = data
    else:
        kind = np.float32 if payload.field == "float_data" else np.float64
        getattr(tensor, payload.field).extend(np.frombuffer(data, kind).tolist())


def _whole(text: str | None, where: str, key: str) -> int | None:
    if text is None or text == "":
        return None
    if not text.isdecimal() or len(text) > 18:
        raise ModelError(f"{where}: its {key} is '{text}', not a number of bytes")
    return int(text)
