"""The smallest part of a model whose results differ from a reference's: `mgx verify --bisect`.

First every node's result is compared in one compiled program; the first nodes that make a
difference out of inputs that agree are compiled and run alone, with the reference's values as
inputs. Where none of them differs alone, the fault is one of nodes together: windows of the nodes
in topological order are halved, from the end and then from the start.
"""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mgx_mlir.artifact.files import atomic_file
from mgx_mlir.errors import MgxError, UsageError
from mgx_mlir.importer import structure
from mgx_mlir.tools.console import Tick
from mgx_mlir.tools.editing import save_model
from mgx_mlir.tools.taps import Row, Trial, try_model, with_model

# So many of the nodes that diverge are tried alone: one compilation each.
_ALONE = 8
# The operators whose results depend on their inputs' sizes alone.
_OF_SIZES = ("Constant", "Shape", "Size")
# The options of `mgx verify` that the command for the part repeats.
_REPEATED = ("target", "arch", "mode", "rtol", "atol", "rms_tol", "reference")


@dataclass(frozen=True)
class Part:
    """A model of some nodes of another, its inputs, and the trial in which it differs."""

    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    trial: Trial

    def lines(self) -> list[str]:
        """The part's nodes, and the verdicts on its outputs."""
        nodes = [structure.display_name(node) for node in self.model.graph.node]
        shown = ", ".join(nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else "")
        wrong = {n: v for n, v in self.trial.verdicts.items() if not v.ok}
        return [f"{len(nodes)} node{'s' * (len(nodes) > 1)}: {shown}"] + [
            f"  {name}: {verdict.text}" for name, verdict in wrong.items()
        ]


class Bisection:
    """The search in one model, whose values the trial of all its taps gives."""

    def __init__(
        self, model: onnx.ModelProto, taps: Trial, options: argparse.Namespace, tick: Tick
    ) -> None:
        self._model = model
        self._tick = tick
        self._options = argparse.Namespace(
            **{**vars(options), "input_dim": [], "dyn_input_dim": [], "dim_param": [],
               "batch": None, "default_dyn_dim": None, "input": [], "load_arg": [],
               "fill0": [], "fill1": [], "timing": False, "explain": False}
        )  # fmt: skip
        self._values = {**taps.inputs, **taps.reference.first}
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._fixed = self._fixed_values()
        self._producers = {
            name: place for place, node in enumerate(model.graph.node) for name in node.output
        }

    def part(self, rows: list[Row]) -> Part | None:
        """The smallest part that is found to differ; None where the whole model does not."""
        diverging = [place for place, row in enumerate(rows) if row.diverges]
        for place in diverging[:_ALONE]:
            self._tick("nodes alone", place, len(rows))
            found = self._try(place, place + 1)
            if found is not None:
                return found
        return self._halved(len(rows))

    def _halved(self, count: int) -> Part | None:
        best = self._try(0, count)
        if best is None:
            return None
        low, end = 0, count  # the nodes before `low` agree, those before `end` differ
        while end - low > 1:
            middle = (low + end) // 2
            self._tick("the last node", count - (end - low), count)
            found = self._try(0, middle)
            low, end, best = (middle, end, best) if found is None else (low, middle, found)
        start, high = 0, end  # the nodes from `start` on differ, those from `high` on agree
        while high - start > 1:
            middle = (start + high) // 2
            self._tick("the first node", count - (high - start), count)
            found = self._try(middle, end)
            start, high, best = (start, middle, best) if found is None else (middle, high, found)
        return best

    def _try(self, start: int, end: int) -> Part | None:
        """The part of the nodes of a window; None where it agrees, or cannot run by itself."""
        made = self._cut(start, end)
        if made is None:
            return None
        model, inputs = made
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "part.onnx"
            save_model(model, file)
            try:
                trial = try_model(
                    with_model(self._options, file), self._tick, inputs, equal_is_ok=True
                )
            except MgxError:  # a part may ask for what the whole model gives: a constant, a size
                return None
        return None if trial.ok else Part(model, inputs, trial)

    def _cut(self, start: int, end: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]] | None:
        """A model of the nodes from `start` to `end`, and its inputs.

        The window grows towards the start where a node reads a value that is no tensor.
        """
        graph = self._model.graph
        while True:
            nodes = graph.node[start:end]
            made = {name for node in nodes for name in node.output if name}
            read = sorted({n for node in nodes for n in structure.uses_of(node)} - made)
            unknown = [n for n in read if n not in self._values and n not in self._weights]
            if not unknown:
                break
            if any(name not in self._producers for name in unknown):
                return None
            start = min(self._producers[name] for name in unknown)
        after = [*graph.node[:start], *graph.node[end:]]
        needed = {n for node in after for n in structure.uses_of(node)}
        needed |= {value.name for value in graph.output}
        outputs = [n for node in nodes for n in node.output if n in needed and n in self._values]
        weights = [self._weights[n] for n in read if n in self._weights]
        weights += [numpy_helper.from_array(self._values[n], n) for n in read if n in self._fixed]
        names = [n for n in read if n not in self._weights and n not in self._fixed]
        inputs = {name: np.asarray(self._values[name]) for name in names}
        if not outputs:
            return None
        made_graph = helper.make_graph(
            nodes,
            "part",
            [_declared(name, array) for name, array in inputs.items()],
            [_declared(name, self._values[name]) for name in dict.fromkeys(outputs)],
            weights,
        )
        model = helper.make_model(
            made_graph,
            ir_version=self._model.ir_version,
            opset_imports=self._model.opset_import,
            functions=self._model.functions,
        )
        return model, inputs

    def _fixed_values(self) -> set[str]:
        """The values that follow from constants and sizes: those stay constants in a part."""
        known = {*self._weights}
        fixed: set[str] = set()
        for node in self._model.graph.node:
            uses = structure.uses_of(node)
            if node.op_type in _OF_SIZES or (uses and uses <= known | fixed):
                fixed |= {name for name in node.output if name in self._values}
        return fixed


def _declared(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    text = array.dtype.kind in "UO"
    kind = onnx.TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def check_folder(folder: Path) -> None:
    """Raises UsageError where a part cannot be written to a folder of this name."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with -o")


def write_part(part: Part, folder: Path, options: argparse.Namespace) -> str:
    """Writes `model.onnx` and an .npy file for each input. Returns the command that repeats it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mgx", "verify", str(folder / "model.onnx")]
    for number, (name, array) in enumerate(part.inputs.items()):
        short = re.sub(r"[^\w.-]", "_", name).lstrip(".")[:60]
        file = folder / f"{number}_{short}.npy"
        with atomic_file(file) as stream:
            np.save(stream, array)
        words += ["--input", f"{name}={file}"]
    save_model(part.model, folder / "model.onnx")
    for option in _REPEATED:
        value = getattr(options, option)
        if value not in (None, "default", "auto"):
            words += [f"--{option.replace('_', '-')}", str(value)]
    for name in options.disable_pass:
        words += ["--disable-pass", name]
    for pattern in options.keep_f32:
        words += ["--keep-f32", pattern]
    words += ["--ref-use-double"] if options.ref_use_double else []
    words += ["--exact"] if options.exact else []
    words += {"f16": ["--fp16"], "bf16": ["--bf16"]}.get(options.floats, [])
    return shlex.join(words)
