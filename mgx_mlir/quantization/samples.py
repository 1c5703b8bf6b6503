"""Calibration data: samples of a model's inputs, read one by one and checked."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from mgx_mlir.array_files import read_arrays
from mgx_mlir.errors import MgxError, UsageError
from mgx_mlir.runtime.arrays import host_array
from mgx_mlir.suggest import listed

Sample = dict[str, np.ndarray]
Types = Mapping[str, onnx.TypeProto]
# Sizes that random samples give dimensions without a size.
_OPEN_SIZE = 1
_RANDOM_SAMPLES = 8


@dataclass(frozen=True)
class Samples:
    """Samples that can be read again and again. Each is a dict of the model's inputs.

    `make` begins a reading; at most `limit` samples are taken. `random`: they are no data.
    """

    make: Callable[[], Iterable[Mapping[str, Any]]]
    inputs: Mapping[str, onnx.TypeProto.Tensor]
    origin: str
    limit: int | None = None
    random: bool = False

    def __iter__(self) -> Iterator[Sample]:
        """The samples. Raises UsageError for one that does not fit, and where there is none."""
        number = 0
        for sample in islice(self.make(), self.limit):
            yield self._checked(sample, number)
            number += 1
        if not number:
            raise UsageError(f"{self.origin} holds no sample; give some inputs of the model")

    def _checked(self, sample: Mapping[str, Any], number: int) -> Sample:
        where = f"sample {number} of {self.origin}"
        if not isinstance(sample, Mapping):
            raise UsageError(f"{where} is {type(sample).__name__}; it has to be a dict of arrays")
        found = {}
        for name, declared in self.inputs.items():
            if name not in sample:
                raise UsageError(
                    f"{where} has no input '{name}'; it {_held(sample)}, and the model's inputs "
                    f"are {listed(self.inputs)}"
                )
            found[name] = _fitted(
                host_array(sample[name], f"{where}: '{name}'"), declared, f"{where}: '{name}'"
            )
        return found


def _held(sample: Mapping[str, Any]) -> str:
    return f"holds {listed(map(str, sample))}" if sample else "is empty"


def _fitted(array: np.ndarray, declared: onnx.TypeProto.Tensor, where: str) -> np.ndarray:
    """The array in the type that the model declares. Raises UsageError."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(declared.elem_type))
    if array.dtype != dtype:
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
            raise UsageError(f"{where} is {array.dtype}; the model takes {dtype}")
        array = array.astype(dtype)
    if declared.HasField("shape"):
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
        fits = len(sizes) == array.ndim and all(
            n in (None, m) for n, m in zip(sizes, array.shape, strict=False)
        )
        if not fits:
            shown = ["?" if n is None else n for n in sizes]
            many = "; only an .npz file that is named itself holds many samples"
            raise UsageError(
                f"{where} has the shape {list(array.shape)}; the model takes {shown}"
                f"{many if array.ndim == len(sizes) + 1 else ''}"
            )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"{where} holds NaN or Inf; leave such samples out")
    return np.asarray(array, order="C")


def _tensors(types: Types) -> dict[str, onnx.TypeProto.Tensor]:
    """The inputs' tensor types. Raises UsageError for inputs that are no tensors of numbers."""
    for name, type_ in types.items():
        kind = type_.tensor_type.elem_type
        if not kind or kind == TensorProto.STRING:
            raise UsageError(
                f"input '{name}' is no tensor of numbers; only models of such inputs are calibrated"
            )
    return {name: type_.tensor_type for name, type_ in types.items()}


def read(where: str | Path | Iterable[Any], types: Types, limit: int | None = None) -> Samples:
    """The samples that a place holds; see docs/quantization.md for the forms.

    `where` is a folder, an .npz file, 'file.py:function', or an iterable of dicts, which has to
    begin anew for each reading (a list). `types` are those of the inputs. Raises UsageError.
    """
    inputs = _tensors(types)
    if not isinstance(where, str | Path):
        given: Iterable[Any] = where
        return Samples(lambda: given, inputs, "the calibration data", limit)
    file, colon, function = str(where).rpartition(":")
    if colon and file.endswith(".py"):
        return Samples(_called(Path(file), function), inputs, str(where), limit)
    path = Path(where)
    if path.is_dir():
        return Samples(_of_folder(path, list(inputs)), inputs, str(path), limit)
    if not path.is_file():
        raise UsageError(f"there is no calibration data at {path}")
    if path.suffix == ".py":
        raise UsageError(f"{path}: name the function that gives the samples: {path}:function")
    return Samples(lambda: _of_archive(path, inputs), inputs, str(path), limit)


def files_of(where: str | Path) -> list[Path]:
    """The files of a place that `read` takes."""
    path = Path(where)
    if path.is_dir():
        return sorted(path.iterdir())
    file, _, _ = str(where).rpartition(":")
    return [Path(file) if file.endswith(".py") else path]


def random_samples(types: Types, count: int | None = None) -> Samples:
    """Random inputs, for models without data: floats are normal, integers 0 and 1."""
    inputs = _tensors(types)

    def make() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for _ in range(count or _RANDOM_SAMPLES):
            yield {name: _random(tensor, rng) for name, tensor in inputs.items()}

    return Samples(make, inputs, "random inputs", random=True)


def _random(tensor: onnx.TypeProto.Tensor, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    sizes = [d.dim_value or _OPEN_SIZE for d in tensor.shape.dim]
    if dtype.kind in "biu":
        return rng.integers(0, 2, sizes).astype(dtype)
    return rng.standard_normal(sizes).astype(dtype)


def _of_folder(folder: Path, names: list[str]) -> Callable[[], Iterator[Mapping[str, Any]]]:
    """Each .npz file is a sample; each .npy file one of a model with one input."""
    files = sorted(f for f in folder.iterdir() if f.suffix in (".npy", ".npz") and f.is_file())
    if not files:
        raise UsageError(f"{folder} holds no .npz or .npy file; each is one sample")
    if len(names) > 1 and any(file.suffix == ".npy" for file in files):
        raise UsageError(
            f"{folder} holds .npy files, and the model has {len(names)} inputs; save each sample "
            f"as an .npz file with {listed(names)}"
        )

    def make() -> Iterator[Mapping[str, Any]]:
        for file in files:
            found = read_arrays(file)
            yield {names[0]: found} if isinstance(found, np.ndarray) else found

    return make


def _of_archive(
    file: Path, inputs: Mapping[str, onnx.TypeProto.Tensor]
) -> Iterator[Mapping[str, Any]]:
    """The samples along the first axis of an .npz file's arrays.

    An array with the rank of its input is cut into pieces of the input's batch (1 where open);
    one with a dimension more holds a sample at each index.
    """
    arrays = read_arrays(file)
    if isinstance(arrays, np.ndarray):
        arrays = {next(iter(inputs)): arrays}
    present = {name: arrays[name] for name in inputs if name in arrays}
    if len(present) < len(inputs):
        yield arrays  # the check names the input that is missing
        return
    counts, steps = set(), {}
    for name, array in present.items():
        dims = inputs[name].shape.dim
        steps[name] = 0 if array.ndim > len(dims) else (dims[0].dim_value or 1) if dims else 0
        counts.add(len(array) // (steps[name] or 1) if array.ndim else 0)
    if len(counts) != 1:
        raise UsageError(
            f"{file}: its arrays hold different numbers of samples: "
            + ", ".join(f"'{name}' {list(a.shape)}" for name, a in present.items())
        )
    for number in range(counts.pop()):
        yield {
            name: array[number * steps[name] : (number + 1) * steps[name]]
            if steps[name]
            else array[number]
            for name, array in present.items()
        }


def _called(file: Path, function: str) -> Callable[[], Iterable[Mapping[str, Any]]]:
    """The user's own function, which is imported and called for each reading."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))  # its own imports
    try:
        spec.loader.exec_module(module)
    except MgxError:
        raise
    except Exception as error:  # the user's code raises whatever it likes
        raise UsageError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    made = getattr(module, function, None)
    if not callable(made):
        raise UsageError(f"{file} has no function '{function}'")

    def make() -> Iterator[Mapping[str, Any]]:
        try:
            yield from made()
        except MgxError:
            raise
        except Exception as error:
            raise UsageError(
                f"{file}:{function} failed: {type(error).__name__}: {error}"
            ) from error

    return make
