"""mgx-mlir: an ONNX compiler for AMD GPUs, on upstream MLIR.

    import mgx_mlir
    program = mgx_mlir.compile("model.onnx", target="cpu")
    outputs = program.run({"x": array})

    artifact = mgx_mlir.compile_to_bytecode("model.onnx")       # portable: no chip, no GPU
    artifact = mgx_mlir.finalize(artifact, arch=["gfx942", "gfx1100"])
    mgx_mlir.save(artifact, "model.mgx")

    model = mgx_mlir.Model("model.onnx")      # any sizes; strings, sequences, run-time shapes
    outputs = model.run({"x": array})

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from mgx_mlir.version import __version__

if TYPE_CHECKING:
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.chain import Chain
    from mgx_mlir.compiler import CompileOptions
    from mgx_mlir.errors import MgxError
    from mgx_mlir.importer import parse_onnx
    from mgx_mlir.loader import finalize, load, save
    from mgx_mlir.models.chain import compile_stages
    from mgx_mlir.models.compile import compile, compile_to_bytecode
    from mgx_mlir.models.generation import generate
    from mgx_mlir.models.staged import Model
    from mgx_mlir.models.staged.check import check
    from mgx_mlir.models.tune import tune
    from mgx_mlir.quantization import Calibration, Precision, quantize
    from mgx_mlir.rewriting.graph import Graph
    from mgx_mlir.runtime.program import Program
    from mgx_mlir.runtime.runnable import Runnable
    from mgx_mlir.sizes.range import Range

_HOME = {
    "Artifact": "artifact.record",
    "Calibration": "quantization",
    "Chain": "chain",
    "CompileOptions": "compiler",
    "Graph": "rewriting.graph",
    "MgxError": "errors",
    "Model": "models.staged",
    "Precision": "quantization",
    "Program": "runtime.program",
    "Range": "sizes.range",
    "Runnable": "runtime.runnable",
    "Target": "artifact.target",
    "check": "models.staged.check",
    "compile": "models.compile",
    "compile_stages": "models.chain",
    "compile_to_bytecode": "models.compile",
    "finalize": "loader",
    "generate": "models.generation",
    "load": "loader",
    "parse_onnx": "importer",
    "quantize": "quantization",
    "save": "loader",
    "tune": "models.tune",
}

__all__ = [
    "Artifact",
    "Calibration",
    "Chain",
    "CompileOptions",
    "Graph",
    "MgxError",
    "Model",
    "Precision",
    "Program",
    "Range",
    "Runnable",
    "Target",
    "__version__",
    "check",
    "compile",
    "compile_stages",
    "compile_to_bytecode",
    "finalize",
    "generate",
    "load",
    "parse_onnx",
    "quantize",
    "save",
    "tune",
]

# Names that go, and those that take their places.
_GOING = {
    "SpecializedModel": ("models.specialize", "Model"),
    "check_model": ("importer", "check"),
}

# Not for type checkers, which would take every misspelt name for one that it gives.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _GOING:
            import warnings

            home, other = _GOING[name]
            said = f"mgx_mlir.{name} goes with the next release; use mgx_mlir.{other}"
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(f"mgx_mlir.{home}"), name)
        if name not in _HOME:
            from mgx_mlir.suggest import instead

            hint = instead(name, [] if name.startswith("_") else __all__, "")
            hint = hint and f"; {hint}"
            raise AttributeError(f"module 'mgx_mlir' has no attribute '{name}'{hint}")
        from mgx_mlir.errors import Edge

        with Edge(f"mgx_mlir.{name}"):
            value = getattr(importlib.import_module(f"mgx_mlir.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return __all__
