"""The result of each node of a model, compared with a reference: `mgx verify --per-instruction`.

The model is compiled once with the result of every node as an output, a tap. A fusion ends at a
tap, so that a fault of fused kernels alone does not show there; `mgx verify --bisect` finds it.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import mgx_mlir
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import loading, structure
from mgx_mlir.models.staged import Model
from mgx_mlir.runtime.program import Program
from mgx_mlir.tools import editing, quantizing, references
from mgx_mlir.tools.comparing import NARROW_TOLERANCE, Verdict, compare
from mgx_mlir.tools.console import Tick
from mgx_mlir.tools.programs import flat_arrays, inputs_of, loaded, note_host_nodes, runnable_of
from mgx_mlir.tools.references import Reference

# Each of two sums that are equal but for roundings is the larger in half of the nudged runs.
_MOST_NUDGES = 6


@dataclass(frozen=True)
class Trial:
    """One comparison: what the program found, and what the reference did, by output."""

    inputs: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    reference: Reference
    verdicts: Mapping[str, Verdict]

    @property
    def ok(self) -> bool:
        """Whether no output differs."""
        return all(verdict.ok for verdict in self.verdicts.values())


@dataclass(frozen=True)
class Row:
    """A node, the verdicts on its results, and whether the values that it reads agree."""

    node: onnx.NodeProto
    verdicts: dict[str, Verdict]
    inputs_agree: bool

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts.values())

    @property
    def diverges(self) -> bool:
        """Whether the node makes a difference out of inputs that agree."""
        return self.inputs_agree and not self.ok

    def __str__(self) -> str:
        text = "; ".join(verdict.text for verdict in self.verdicts.values()) or "not compared"
        return f"{structure.display_name(self.node)}: {text}"


def try_model(
    options: argparse.Namespace,
    tick: Tick,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    equal_is_ok: bool = False,
) -> Trial:
    """Compiles and runs the options' model, and its reference, with the same inputs.

    `inputs` are those of the options where they are not given. `equal_is_ok`: an output that
    equals the reference's agrees, also where it holds no finite number.
    Raises the errors of a compilation.
    """
    runnable = _candidate(options, tick)
    if inputs is None:
        inputs = inputs_of(runnable, options)
    tick("running the reference", 0, 1)
    reference = references.reference_of(options, inputs)
    found = flat_arrays(runnable.run(dict(inputs)))
    note_host_nodes(runnable)
    verdicts = _verdicts(found, reference, options, equal_is_ok)
    if any(verdict.differs for verdict in verdicts.values()):
        reference.add_exact()
        for seed in range(1, 1 + _MOST_NUDGES):
            reference.add_nudged(seed)
            verdicts = _verdicts(found, reference, options, equal_is_ok)
            if all(verdict.ok for verdict in verdicts.values()):
                break
    return Trial(inputs, found, reference, verdicts)


def _candidate(options: argparse.Namespace, tick: Tick) -> Program | Model:
    """The program that is compared: the artifact that the options name, or their model's."""
    file = options.compiled_model
    return (
        runnable_of(options, tick) if file is None else loaded(mgx_mlir.load(file), options, tick)
    )


def _verdicts(
    found: Mapping[str, np.ndarray],
    reference: Reference,
    options: argparse.Namespace,
    equal_is_ok: bool,
) -> dict[str, Verdict]:
    """The verdict on each output of the reference."""
    variants = {name: flat_arrays(outputs) for name, outputs in reference.variants.items()}
    first, *_ = variants.values()
    given = _tolerances(options)
    verdicts = {}
    for key, expected in first.items():
        if equal_is_ok and _equal(found.get(key), expected):
            verdicts[key] = Verdict(False, False, "ok; equal")
        else:
            of_key = {name: arrays[key] for name, arrays in variants.items() if key in arrays}
            verdicts[key] = compare(found.get(key), of_key, *given)
    return verdicts


def _tolerances(options: argparse.Namespace) -> tuple[float | None, float | None, float | None]:
    """The tolerances asked for; where the program computes in 16 bits, wider ones of elements."""
    rtol, atol, rms = options.rtol, options.atol, options.rms_tol
    if options.floats == "f32" or (rms is not None and rtol is None and atol is None):
        return rtol, atol, rms
    narrow = NARROW_TOLERANCE
    return narrow if rtol is None else rtol, narrow if atol is None else atol, rms


def _equal(found: np.ndarray | None, expected: np.ndarray) -> bool:
    if found is None or found.dtype != expected.dtype:
        return False
    return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")


def tapped(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model with the result of each of its nodes that is a tensor as an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    others = _without_tensors(model)
    there = {value.name for value in copy.graph.output}
    for node in copy.graph.node:
        for name in node.output:
            if name and name not in there | others:
                copy.graph.output.append(onnx.ValueInfoProto(name=name))
    return copy


def _without_tensors(model: onnx.ModelProto) -> set[str]:
    """The values that are sequences or optionals."""
    try:
        skeleton = loading.load(model).model  # inference copies the model
        graph = onnx.shape_inference.infer_shapes(skeleton).graph
    except (ModelError, ValueError, onnx.shape_inference.InferenceError):
        graph = model.graph
    kinds = {value.name: value.type.WhichOneof("value") for value in graph.value_info}
    return {name for name, kind in kinds.items() if kind not in (None, "tensor_type")}


def try_taps(model: onnx.ModelProto, options: argparse.Namespace, tick: Tick) -> Trial:
    """The trial of the model with all its taps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / options.model.name
        editing.save_model(tapped(model), file)
        return try_model(with_model(options, file), tick, equal_is_ok=True)


def with_model(options: argparse.Namespace, file: Path) -> argparse.Namespace:
    """The options with another model, which has their changes."""
    done = {
        "trim": 0,
        "trim_size": 0,
        "output_names": [],
        "skip_unknown_operators": False,
        "io": [],
        **quantizing.NONE,
    }
    return argparse.Namespace(**{**vars(options), **done, "model": file})


def rows_of(model: onnx.ModelProto, trial: Trial) -> list[Row]:
    """A row for each node, in the model's order."""
    differing: set[str] = set()
    rows = []
    for node in model.graph.node:
        verdicts = {name: trial.verdicts[name] for name in node.output if name in trial.verdicts}
        row = Row(node, verdicts, not structure.uses_of(node) & differing)
        rows.append(row)
        differing |= {name for name, verdict in verdicts.items() if not verdict.ok}
        if not verdicts and not row.inputs_agree:  # a sequence that is made of a wrong tensor
            differing |= set(node.output)
    return rows


def lines_of(rows: list[Row]) -> Iterator[str]:
    """A line for each node; the first that diverges is marked '>>', others '>'."""
    width = len(str(len(rows)))
    first = next((row for row in rows if row.diverges), None)
    for number, row in enumerate(rows):
        mark = ">>" if row is first else " >" if row.diverges else "  "
        after = " (so does an input)" if not row.ok and not row.inputs_agree else ""
        yield f"{mark} {number:>{width}} {row}{after}"


def summary(rows: list[Row]) -> str:
    """One or two lines about all nodes."""
    wrong = [row for row in rows if not row.ok]
    if not wrong:
        return f"the results of all {len(rows)} nodes agree"
    first = next((row for row in rows if row.diverges), wrong[0])
    return f"{len(wrong)} of {len(rows)} nodes differ; the first of inputs that agree:\n  {first}"


def origins(
    model: onnx.ModelProto, values: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """A sentence for NaN and one for Inf: the first node that makes it where no input has it.

    Inf counts as made by a node whose inputs are all finite.
    """
    known = {**inputs, **values}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}

    @functools.cache
    def nan_and_inf(name: str) -> tuple[bool, bool]:
        array = known.get(name)
        if array is None and name in weights:
            array = onnx.numpy_helper.to_array(weights[name])
        if array is None or array.dtype.kind not in "fV":
            return False, False
        wide = array if array.dtype.kind == "f" else array.astype(np.float32)
        return bool(np.isnan(wide).any()), bool(np.isinf(wide).any())

    for word, place in (("NaN", 0), ("Inf", 1)):
        for node in model.graph.node:
            read = [nan_and_inf(name) for name in structure.uses_of(node)]
            clean = not any(flags[0] or flags[place] for flags in read)
            if read and clean and any(nan_and_inf(name)[place] for name in node.output):
                yield f"{word} is made first by {structure.display_name(node)}"
                break
