"""Shorter and shorter beginnings of a model, compared: `mgx verify --reduce`."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from mgx_mlir.importer import structure
from mgx_mlir.tools import editing
from mgx_mlir.tools.console import Tick
from mgx_mlir.tools.taps import Trial, try_model


@dataclass(frozen=True)
class Cut:
    """The first `count` nodes of a model, the name of the last one, and their trial."""

    count: int
    last: str
    trial: Trial

    def __str__(self) -> str:
        wrong = [f"{name}: {v.text}" for name, v in self.trial.verdicts.items() if not v.ok]
        return f"{self.count} nodes, to {self.last}: {'; '.join(wrong) or 'agrees'}"


def cuts(options: argparse.Namespace, tick: Tick) -> Iterator[Cut]:
    """The whole model, that without its last node, and so on; the first that agrees is the last.

    Raises the errors of a compilation.
    """
    whole = editing.whole_model(options)
    names = [structure.display_name(node) for node in whole.graph.node]
    # Outputs of the whole model alone have no type to change later.
    given = [value.name for value in whole.graph.input]
    kept = [one for one in options.io if fnmatch.filter(given, one[0])]
    for left_out in range(len(names)):
        shorter = {**vars(options), "trim": options.trim + left_out}
        if left_out:
            shorter["io"] = kept
        trial = try_model(argparse.Namespace(**shorter), tick, equal_is_ok=True)
        cut = Cut(len(names) - left_out, names[len(names) - left_out - 1], trial)
        yield cut
        if trial.ok:
            return
