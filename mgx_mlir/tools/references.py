"""The references that `mgx verify` compares with, each in several variants of its own.

Two results of one reference that differ, for another optimisation or for inputs that are nudged
by a few roundings, show which elements the model leaves open: ties, roundings, long sums.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.tools import editing
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.comparing import STEPPED
from mgx_mlir.tools.programs import flat_arrays
from mgx_mlir.tools.quantizers import with_noise

# Nudged inputs are multiplied with numbers that differ from 1 by at most this: some roundings.
NUDGES = {np.dtype(np.float64): 2.0**-40, np.dtype(np.float32): 2.0**-20}
NUDGE = 2.0**-9
# Operators whose products of u8 and i8 onnxruntime sums with saturation to 16 bits, on
# processors without VNNI.
_INTEGER_PRODUCTS = ("Integer", "QLinear", "QGemm", "QAttention", "DequantizeLinear")

Outputs = Mapping[str, Any]
Inputs = Mapping[str, np.ndarray]


class Reference:
    """A reference's outputs for some inputs: `variants` by the difference of each.

    `run` computes them for other inputs. `saturates`: the variants may hold sums of integers that
    saturated to 16 bits, which those of `run` do not.
    """

    def __init__(self, name: str, variants: dict[str, Outputs], run: Callable[[Inputs], Outputs],
                 inputs: Inputs, stepped: Callable[[int], Outputs | None] = lambda seed: None,
                 *, saturates: bool = False) -> None:  # fmt: skip
        self.name = name
        self.variants = variants
        self._run = run
        self._inputs = inputs
        self._stepped = stepped
        self._saturates = saturates

    @property
    def first(self) -> dict[str, np.ndarray]:
        """The tensors of the outputs of the first variant."""
        return flat_arrays(next(iter(self.variants.values())))

    def add_exact(self) -> None:
        """Puts outputs by sums of integers that are exact before the others, which saturate."""
        if self._saturates:
            exact = {"without saturation to 16 bits": self._run(self._inputs)}
            self.variants = exact | self.variants

    def add_nudged(self, seed: int) -> None:
        """Adds variants by nudged inputs, and by numbers that are nudged before quantizers."""
        if any(array.dtype.kind in "fV" for array in self._inputs.values()):
            nudged = {n: _nudged(a, seed) for n, a in self._inputs.items()}
            self.variants[f"nudged inputs ({seed})"] = self._run(nudged)
        found = self._stepped(seed)
        if found is not None:
            self.variants[f"{STEPPED} ({seed})"] = found


def reference_of(options: argparse.Namespace, inputs: Inputs) -> Reference:
    """The reference that the options name, run with the inputs. Raises UsageError."""
    if options.ref_use_double:
        return _double(options, inputs)
    if editing.is_program(options):
        if options.reference not in ("auto", "numpy"):
            raise UsageError(f"--reference {options.reference} takes an ONNX model as it is")
        return _numpy(options, inputs)
    if options.reference in ("auto", "onnxruntime"):
        found = _onnxruntime(options, inputs)
        if found is not None:
            return found
    if options.reference not in ("auto", "numpy"):
        return _program(options, inputs)
    return _numpy(options, inputs)


def _numpy(options: argparse.Namespace, inputs: Inputs) -> Reference:
    """The imported program, walked by numpy."""
    from mgx_mlir.compiler import import_model
    from mgx_mlir.reference import evaluate

    graph = import_model(editing.model_or_program_of(options), shared.compile_options(options))

    def run(values: Inputs) -> Outputs:
        return evaluate(graph.module, graph.weights, dict(values))

    return Reference("the numpy reference", {"": run(inputs)}, run, inputs)


def _double(options: argparse.Namespace, inputs: Inputs) -> Reference:
    """The numpy reference with all floats in f64."""
    from mgx_mlir.compiler import import_model
    from mgx_mlir.tools.doubling import DoubleProgram

    if options.reference not in ("auto", "numpy"):
        raise UsageError("--ref-use-double is for the numpy reference; leave --reference out")
    given = replace(shared.compile_options(options), floats="f32")
    program = DoubleProgram(import_model(editing.model_or_program_of(options), given))
    return _run_by(program.run, "the numpy reference in f64", inputs)


def _program(options: argparse.Namespace, inputs: Inputs) -> Reference:
    """The same model on the target that `--reference` names, or the artifact that it names."""
    import mgx_mlir
    from mgx_mlir.models.staged import Model

    name, target = options.reference, options.reference
    model: Any = editing.model_of(options)
    compile_options: Any = shared.compile_options(options)
    if is_artifact(Path(name)):
        if options.per_instruction or options.bisect:
            raise UsageError(f"--reference {name}: an artifact has no results of single nodes")
        model, compile_options, target = mgx_mlir.load(name), None, shared.target_of(options)
        if model.parts is None:
            program = mgx_mlir.compile(model, target)
            return _run_by(lambda values: program.run(dict(values)), name, inputs)
    other = Model(model, target, compile_options)
    return _run_by(lambda values: other.run(dict(values)), name, inputs)


def _run_by(run: Callable[[Inputs], Outputs], name: str, inputs: Inputs) -> Reference:
    return Reference(name, {"": run(inputs)}, run, inputs)


def _onnxruntime(options: argparse.Namespace, inputs: Inputs) -> Reference | None:
    """onnxruntime's outputs; None where it is missing or refuses and another may serve."""
    try:
        import onnxruntime
    except ImportError as error:
        if options.reference == "onnxruntime":
            raise UsageError("onnxruntime is not installed; pip install onnxruntime") from error
        return None
    same = isinstance(editing.model_of(options), Path)
    model = str(options.model) if same else editing.whole_model(options).SerializeToString()
    levels = onnxruntime.GraphOptimizationLevel

    def session(
        level: Any, model: str | bytes = model, **entries: str
    ) -> Callable[[Inputs], Outputs]:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.graph_optimization_level = level
        for key, value in entries.items():
            settings.add_session_config_entry(f"session.{key}", value)
        made = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        names = [output.name for output in made.get_outputs()]
        return lambda values: dict(zip(names, made.run(names, dict(values)), strict=True))

    try:
        variants = {"unoptimised": session(levels.ORT_DISABLE_ALL)(inputs)}
        variants["optimised"] = session(levels.ORT_ENABLE_ALL)(inputs)
    except Exception as error:
        # onnxruntime raises a class of its own for each status; all derive from Exception.
        if options.reference == "onnxruntime":
            raise UsageError(f"onnxruntime refuses the model: {error}") from error
        return None
    saturates = _has_integer_products(options)

    def again(model: str | bytes = model) -> Callable[[Inputs], Outputs]:
        # One of onnxruntime's optimisations has integers summed without saturation.
        if saturates:
            return session(levels.ORT_ENABLE_ALL, model, x64quantprecision="1")
        return session(levels.ORT_DISABLE_ALL, model)

    def stepped(seed: int) -> Outputs | None:
        changed = with_noise(editing.whole_model(options), seed)
        if changed is None:
            return None
        return again(changed.SerializeToString())(inputs)

    plain = cache(again)
    return Reference("onnxruntime", variants, lambda values: plain()(values), inputs, stepped,
                     saturates=saturates)  # fmt: skip


def _has_integer_products(options: argparse.Namespace) -> bool:
    from mgx_mlir.importer import loading, structure

    nodes = structure.all_nodes(loading.load(editing.model_of(options)).model.graph)
    return any(part in node.op_type for node in nodes for part in _INTEGER_PRODUCTS)


def _nudged(array: np.ndarray, seed: int) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    size = NUDGES.get(array.dtype, NUDGE)
    factors = 1 + size * np.random.default_rng(seed).uniform(-1, 1, array.shape)
    return np.asarray(array.astype(np.float64) * factors).astype(array.dtype)
