"""Mixed precision: the products that have to stay in f32 for a loss that is allowed."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UsageError
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization.accuracy import Error, is_classes
from mgx_mlir.quantization.calibration import Tick, no_tick
from mgx_mlir.quantization.network import Network
from mgx_mlir.quantization.precision import Precision
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.quantization.rewrite import rewrite
from mgx_mlir.quantization.samples import Sample, Samples

# The samples that a search uses at most; the f32 outputs of these are kept.
MOST_SAMPLES = 64


@dataclass(frozen=True)
class Step:
    """A product that goes back to f32 ('' for the start), and the loss with all that did."""

    node: str
    loss: float


@dataclass(frozen=True)
class Found:
    """The precision without the products that stay in f32, and the steps to it."""

    precision: Precision
    steps: list[Step]


def search(
    trial: Trial,
    max_loss: float,
    tell: Callable[[Step], None] = lambda step: None,
    tick: Tick = no_tick,
) -> Found:
    """Takes products back to f32, the one with the largest error alone first, until the loss fits.

    The loss is the share of samples that change class, or the relative rms error of an output
    without classes (accuracy.Error.loss). One program serves all trials: each product has a switch.
    Raises UsageError where even f32 products do not keep the loss.
    """
    order = trial.by_sensitivity(tick)
    left = list(order)
    steps = [Step("", trial.loss(left))]
    tell(steps[0])
    while steps[-1].loss > max_loss and left:
        tick("searching", len(order) - len(left), len(order))
        node = left.pop(0)
        steps.append(Step(node, trial.loss(left)))
        tell(steps[-1])
    if not left:
        raise UsageError(
            f"no quantized product keeps the loss below {max_loss:.3g}; allow more, or use other "
            "samples or another precision"
        )
    names = tuple(glob.escape(step.node) for step in steps[1:])
    exclude = (*trial.precision.exclude, *names)
    return Found(replace(trial.precision, exclude=exclude), steps)


class Trial:
    """The model whose products can be switched, its samples and their f32 outputs."""

    def __init__(
        self,
        network: Network,
        precision: Precision,
        ranges: Ranges | None,
        samples: Samples,
        options: CompileOptions,
    ) -> None:
        self.precision = precision
        rewritten = rewrite(network, precision, ranges, switches=True)
        self._switches = rewritten.switches
        self._names = [name for names in self._switches.values() for name in names]
        self._model = Model(rewritten.whole(), "cpu", options)
        self._samples: list[Sample] = list(islice(samples, MOST_SAMPLES))
        self._expected = [self._run(sample, ()) for sample in self._samples]

    def _run(self, sample: Sample, nodes: Collection[str]) -> dict[str, np.ndarray]:
        on = {switch for node in nodes for switch in self._switches[node]}
        states = {name: np.array(name in on) for name in self._names}
        found = self._model.run({**sample, **states})
        return {n: a for n, a in found.items() if isinstance(a, np.ndarray) and a.dtype.kind == "f"}

    def errors(self, nodes: Sequence[str]) -> list[Error]:
        """The error of each output with these products quantized."""
        found = {name: Error() for name in self._expected[0]}
        for sample, expected in zip(self._samples, self._expected, strict=True):
            for name, array in self._run(sample, nodes).items():
                classes = is_classes(name, expected[name])
                found[name].add(expected[name], array, classes=classes)
        return list(found.values())

    def loss(self, nodes: Sequence[str]) -> float:
        """The largest loss of an output with these products quantized."""
        return max(error.loss for error in self.errors(nodes))

    def by_sensitivity(self, tick: Tick) -> list[str]:
        """The products by the error that each makes alone, the largest first."""
        noise = {}
        for number, node in enumerate(self._switches):
            tick("trying products", number, len(self._switches))
            noise[node] = max(e.noise / (e.signal or 1) for e in self.errors([node]))
        return sorted(noise, key=lambda node: -noise[node])
