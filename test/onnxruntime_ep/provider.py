"""Sessions of onnxruntime with the provider."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from mgx_mlir import emulator
from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.importer import loading
from mgx_mlir.loader import finalize
from mgx_mlir.models.ep_context import context_model
from mgx_mlir.models.islands import Islands, find_islands
from mgx_mlir.runtime.hip.device import device_for
from mgx_mlir.runtime.hip.library import open_library

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "onnxruntime_ep/onnxruntime_ep_mgx/libonnxruntime_ep_mgx.so"
NAME = "MGXExecutionProvider"
COMPILER = str(Path(sys.executable).with_name("mgx"))


# One registration for a process: onnxruntime allows emulated devices under such a name alone.
REGISTERED = "mgx.virtual"
CHIPS = ("gfx942", "gfx1100")


@functools.cache
def devices() -> dict[str, Any]:
    """onnxruntime's devices of the provider by target: the CPU, and emulated chips."""
    assert LIBRARY.exists(), "make setup builds the provider"
    open_library("emulated", CHIPS)  # of this process, with devices of other tests maybe
    for chip in CHIPS:
        device_for(Target.get(chip))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MGX_HIP", "emulated")
        patch.setenv("MGX_EMULATOR_LIBRARY", str(emulator.library_path()))
        onnxruntime.register_execution_provider_library(REGISTERED, str(LIBRARY))
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    return {d.ep_metadata["mgx_target"]: d for d in found}


def counters() -> dict[str, int]:
    """How much the library did in this process."""
    sys.path.insert(0, str(LIBRARY.parents[1]))
    try:
        import onnxruntime_ep_mgx
    finally:
        del sys.path[0]
    return dict(onnxruntime_ep_mgx.counters(str(LIBRARY)))


def options_for(entries: dict[str, str] | None = None, target: str = "cpu", **options: str) -> Any:
    """Session options with the provider for a target, and entries of the configuration."""
    found = onnxruntime.SessionOptions()
    found.log_severity_level = 2  # warnings, whatever other tests of the process asked for
    for key, value in (entries or {}).items():
        found.add_session_config_entry(key, value)
    found.add_provider_for_devices([devices()[target]], options)
    return found


def session(model: onnx.ModelProto | Path, *, fallback: bool = True,
            entries: dict[str, str] | None = None, **options: str) -> Any:  # fmt: skip
    """A session of a model; without `fallback` the provider has to run all of its nodes."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    named = {"session.disable_cpu_ep_fallback": "0" if fallback else "1", **(entries or {})}
    options.setdefault("compiler", COMPILER)
    return onnxruntime.InferenceSession(source, sess_options=options_for(named, **options))


def islands_of(model: Any, target: str = "cpu", **options: Any) -> Islands:
    """The parts of a model that compile, with code for the targets, separated by commas."""
    targets = target.split(",")
    kind = Target.get(targets[0]).kind
    found = find_islands(loading.load(model), CompileOptions(**options), kind)
    made = [finalize(island.artifact, targets) for island in found.islands]
    pairs = zip(found.islands, made, strict=True)
    islands = tuple(type(i)(i.nodes, artifact, i.inputs, i.outputs) for i, artifact in pairs)
    return Islands(found.source, islands, found.outside, found.types)


def context_session(model: Any, target: str = "cpu", **options: Any) -> Any:
    """A session of the model with its compiled parts as EPContext nodes."""
    return session(context_model(islands_of(model, target, **options)), target=target)


def run(session: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The results for tensors of all elements of whole bytes: arrays of some have no other way."""
    given = {name: _value(np.asarray(array, order="C")) for name, array in inputs.items()}
    names = [output.name for output in session.get_outputs()]
    return [_array(value) for value in session.run_with_ort_values(names, given)]


def _value(array: np.ndarray) -> Any:
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
    raw = array.view(f"u{array.dtype.itemsize}")
    return make(raw, helper.np_dtype_to_tensor_dtype(array.dtype))


def _array(value: Any) -> np.ndarray:
    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    if dtype.isbuiltin == 1:
        return np.asarray(value.numpy())
    count = int(np.prod(value.shape()))
    raw = ctypes.string_at(value.data_ptr(), count * dtype.itemsize)
    return np.frombuffer(raw, dtype).reshape(value.shape())
