"""Calibration: the model runs with samples, and the ranges of its tensors are observed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.quantization.histogram import METHODS, Observer
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.quantization.samples import Sample, Samples
from mgx_mlir.suggest import instead, listed

_log = logging.getLogger(__name__)

# The method that suits the levels of each type.
METHOD_OF = {"int8": "mse", "fp8": "minmax"}

# Called with the work, the samples that are done, and the number of all (0: not known).
Tick = Callable[[str, int, int], None]


def no_tick(text: str, done: int, total: int) -> None:
    """Shows no progress."""


def check_method(method: str) -> None:
    """Raises UsageError for a method that is not known."""
    if method not in METHODS:
        hint = instead(method, METHODS, f"there are: {listed(METHODS)}")
        raise UsageError(f"there is no calibration method '{method}'; {hint}")


def calibrate(
    run: Callable[[Sample], Mapping[str, Any]],
    tensors: Mapping[str, int | None],
    samples: Samples,
    *,
    method: str = "mse",
    tick: Tick = no_tick,
    partial: Path | None = None,
) -> Ranges:
    """The ranges of `tensors`, floats that `run` gives by name, over the samples.

    `tensors` gives the axis of a tensor whose channel means are kept; None for none. Where the
    work is interrupted (Ctrl-C), the ranges of the samples so far go to the file `partial`. A
    tensor with NaN or Inf has no range, which is logged.
    Raises UsageError for samples that do not fit.
    """
    check_method(method)
    observers = {name: Observer(channel) for name, channel in tensors.items()}
    count = 0
    try:
        for sample in samples:
            tick("calibrating", count, samples.limit or 0)
            _observe(observers, run(sample), count)
            count += 1
    except KeyboardInterrupt:
        if partial is not None and count:
            _ranges(observers, method, count).save(partial)
            _log.warning("%d samples were read; %s holds the ranges so far", count, partial)
        raise
    if count == 1:
        _log.warning("calibrated with one sample: what it does not reach is clipped")
    return _ranges(observers, method, count)


def _observe(observers: dict[str, Observer], found: Mapping[str, Any], number: int) -> None:
    for name in list(observers):
        array = np.asarray(found[name]).astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            _log.warning(
                "'%s' has NaN or Inf for sample %d: its products stay in f32", name, number
            )
            del observers[name]
            continue
        observers[name].add(array)


def _ranges(observers: Mapping[str, Observer], method: str, count: int) -> Ranges:
    seen = {name: o for name, o in observers.items() if o.high >= o.low}
    constant = [name for name, o in seen.items() if o.high == o.low]
    if constant:
        _log.warning("constant in all samples: %s; other values will be clipped", listed(constant))
    means = {name: mean for name, o in seen.items() if (mean := o.means()) is not None}
    return Ranges({n: METHODS[method](o) for n, o in seen.items()}, means, method, count)


def group_range(ranges: Ranges, roots: Sequence[str]) -> tuple[float, float] | None:
    """The range that holds those of the tensors; None where one has none."""
    if any(name not in ranges.ranges for name in roots):
        return None
    ends = [ranges.ranges[name] for name in roots]
    return min(low for low, _ in ends), max(high for _, high in ends)
