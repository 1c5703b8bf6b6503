"""The error of a quantized model beside the f32 model: at each node, and of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ModelError, UsageError
from mgx_mlir.importer import prepare, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization.calibration import Tick, no_tick
from mgx_mlir.quantization.network import with_outputs
from mgx_mlir.quantization.samples import Sample


@dataclass
class Error:
    """Sums over all elements of one tensor in all samples. Elements that are not finite in the f32
    model do not count."""

    signal: float = 0.0
    noise: float = 0.0
    power: float = 0.0
    common: float = 0.0
    worst: float = 0.0
    rows: int = 0
    agreeing: int = 0

    def add(self, expected: np.ndarray, found: np.ndarray, *, classes: bool = False) -> None:
        """Counts a tensor of both models. With `classes`, the largest of the last axis counts."""
        a, b = expected.astype(np.float64), found.astype(np.float64)
        if classes and a.size:
            same = a.argmax(-1) == b.argmax(-1)
            self.rows += same.size
            self.agreeing += int(same.sum())
        finite = np.isfinite(a)
        if not finite.all():
            a, b = a[finite], b[finite]
        with np.errstate(invalid="ignore", over="ignore"):
            self.signal += float(np.square(a).sum())
            self.noise += float(np.square(a - b).sum())
            self.power += float(np.square(b).sum())
            self.common += float((a * b).sum())
            self.worst = max(self.worst, float(np.abs(a - b).max(initial=0)))

    @property
    def sqnr(self) -> float:
        """The ratio of signal to noise in dB; infinite where both are equal."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both; 1 for equal directions."""
        size = math.sqrt(self.signal) * math.sqrt(self.power)
        return self.common / size if size else float(self.signal == self.power)

    @property
    def agreement(self) -> float | None:
        """The share of rows with the same largest element; None where they are no classes."""
        return self.agreeing / self.rows if self.rows else None

    @property
    def loss(self) -> float:
        """The share of rows that change class; without classes, the relative rms error."""
        if self.rows:
            return 1 - self.agreeing / self.rows
        return math.sqrt(self.noise / self.signal) if self.signal else math.sqrt(self.noise)


@dataclass(frozen=True)
class Row:
    """A node of both models, and the error of its result."""

    node: str
    operator: str
    error: Error = field(default_factory=Error)


@dataclass(frozen=True)
class Accuracy:
    """The errors at nodes, in order, and those of outputs by name, over some samples."""

    rows: list[Row]
    outputs: dict[str, Error]
    samples: int

    @property
    def loss(self) -> float:
        """The largest loss of an output."""
        return max((error.loss for error in self.outputs.values()), default=0.0)


def is_classes(name: str, array: np.ndarray) -> bool:
    """Whether an output scores classes: (n, classes), or logits of any rank."""
    long = array.ndim >= 2 and array.shape[-1] >= 2
    return array.dtype.kind == "f" and long and (array.ndim == 2 or "logits" in name)


def compare(
    reference: Source,
    candidate: Callable[[Source], Model],
    quantized: Source,
    samples: Iterable[Sample],
    options: CompileOptions,
    tick: Tick = no_tick,
) -> Accuracy:
    """Runs the f32 model on the CPU, and `quantized` as `candidate` does, with all samples.

    `options` size the inputs. One sample is in memory at a time. Raises UsageError for samples
    that do not fit, and for a model without float outputs.
    """
    nodes = _common(reference.model, quantized.model)
    outputs = _outputs(reference.model)
    if not outputs:
        raise UsageError(f"{reference.name} has no output of f32, whose error could be told")
    names = list(dict.fromkeys([*nodes, *outputs]))
    plain = Model(with_outputs(reference, names), "cpu", options)
    other = candidate(with_outputs(quantized, names))
    accuracy = Accuracy(
        [Row(node.name, node.op_type) for node in nodes.values()],
        {name: Error() for name in outputs},
        0,
    )
    count = 0
    for sample in samples:
        tick("comparing with f32", count, 0)
        expected, found = plain.run(sample), other.run(_fitted(sample, other))
        for name, row in zip(nodes, accuracy.rows, strict=True):
            row.error.add(expected[name], found[name])
        for name, error in accuracy.outputs.items():
            error.add(expected[name], found[name], classes=is_classes(name, expected[name]))
        count += 1
    return Accuracy(accuracy.rows, accuracy.outputs, count)


def _fitted(sample: Sample, model: Model) -> Sample:
    """A sample with caches in the type of a model that keeps them in fp8."""
    kinds = {n: t.tensor_type.elem_type for n, t in model.input_types.items() if n in sample}
    types = {name: helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items()}
    return {n: a.astype(types[n], copy=False) for n, a in sample.items()}


def _common(first: onnx.ModelProto, second: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The nodes of the first model whose first result is f32 and is one of the second's too."""
    there = {name for node in second.graph.node for name in node.output}
    return {name: node for name, node in float_results(first).items() if name in there}


def float_results(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The nodes whose first result is f32, by its name, but constants."""
    try:
        types: Mapping[str, onnx.TypeProto] = prepare.infer(model)
    except ModelError:
        types = {}
    found = {}
    for node in model.graph.node:
        name = node.output[0] if node.output else ""
        kind = types[name].tensor_type.elem_type if name in types else 0
        if kind == TensorProto.FLOAT and node.op_type != "Constant":
            found[name] = node
    return found


def _outputs(model: onnx.ModelProto) -> list[str]:
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.output}
    return [name for name, kind in kinds.items() if kind == TensorProto.FLOAT]


def label(row: Row) -> str:
    """How a table calls a node."""
    return structure.display_name(onnx.NodeProto(op_type=row.operator, name=row.node))
