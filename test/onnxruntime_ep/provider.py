"""Sessions of onnxruntime with the provider."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.importer import loading
from mgx_mlir.loader import finalize
from mgx_mlir.models.ep_context import context_model
from mgx_mlir.models.islands import Islands, find_islands

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "onnxruntime_ep/onnxruntime_ep_mgx/libonnxruntime_ep_mgx.so"
NAME = "MGXExecutionProvider"
COMPILER = str(Path(sys.executable).with_name("mgx"))


@functools.cache
def devices() -> list[Any]:
    """onnxruntime's devices of the provider, which is registered once in a process."""
    assert LIBRARY.exists(), "make setup builds the provider"
    onnxruntime.register_execution_provider_library("mgx", str(LIBRARY))
    return [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]


def counters() -> dict[str, int]:
    """How much the library did in this process."""
    sys.path.insert(0, str(LIBRARY.parents[1]))
    try:
        import onnxruntime_ep_mgx
    finally:
        del sys.path[0]
    return dict(onnxruntime_ep_mgx.counters(str(LIBRARY)))


def options_for(entries: dict[str, str] | None = None, **options: str) -> Any:
    """Session options with the provider on the CPU, and entries of the configuration."""
    found = onnxruntime.SessionOptions()
    for key, value in (entries or {}).items():
        found.add_session_config_entry(key, value)
    cpus = [d for d in devices() if d.ep_metadata["mgx_device"] == "cpu"]
    found.add_provider_for_devices(cpus, options)
    return found


def session(model: onnx.ModelProto | Path, *, fallback: bool = True,
            entries: dict[str, str] | None = None, **options: str) -> Any:  # fmt: skip
    """A session of a model; without `fallback` the provider has to run all of its nodes."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    named = {"session.disable_cpu_ep_fallback": "0" if fallback else "1", **(entries or {})}
    options.setdefault("compiler", COMPILER)
    return onnxruntime.InferenceSession(source, sess_options=options_for(named, **options))


def islands_of(model: Any, target: str = "cpu", **options: Any) -> Islands:
    """The parts of a model that compile, with code for the target."""
    found = find_islands(loading.load(model), CompileOptions(**options), "cpu")
    made = [finalize(island.artifact, target) for island in found.islands]
    pairs = zip(found.islands, made, strict=True)
    islands = tuple(type(i)(i.nodes, artifact, i.inputs, i.outputs) for i, artifact in pairs)
    return Islands(found.source, islands, found.outside, found.types)


def context_session(model: Any, **options: Any) -> Any:
    """A session of the model with its compiled parts as EPContext nodes."""
    return session(context_model(islands_of(model, **options)))
