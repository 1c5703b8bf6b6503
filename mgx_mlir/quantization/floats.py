"""The nodes of an f32 model that leave the range of f16, by the data of a calibration."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from mgx_mlir.importer.loading import AnySource
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization import Calibration, samples_of
from mgx_mlir.quantization import ranges as range_files
from mgx_mlir.quantization.accuracy import float_results
from mgx_mlir.quantization.calibration import Tick, no_tick
from mgx_mlir.quantization.network import Network, with_outputs
from mgx_mlir.quantization.ranges import Ranges

_log = logging.getLogger(__name__)

# Other data may have numbers twice as large as those of the samples.
_LARGEST = float(np.finfo(np.float16).max) / 2
_OPSET = 7


def beyond_f16(model: AnySource, calibration: Calibration, tick: Tick = no_tick) -> list[str]:
    """The names of the nodes that make or read a tensor beyond half of f16's range, in order.

    Each such tensor is logged, with its largest magnitude. Raises ModelError, and UsageError for
    data that do not fit.
    """
    network = Network.of(model, _OPSET)
    found: list[str] = []
    for tensor, size in _largest(network, calibration, tick).items():
        if size <= _LARGEST or tensor not in network.makers:
            continue
        _log.warning("'%s' has values to %.3g, beyond f16: its nodes stay in f32", tensor, size)
        nodes = [network.makers[tensor], *network.readers.get(tensor, ())]
        found += [node.name for node in nodes if node.name not in found]
    return found


def _largest(network: Network, given: Calibration, tick: Tick) -> Mapping[str, float]:
    """The largest finite magnitude of each f32 tensor over the samples, or of those with ranges."""
    if given.ranges is not None:
        known = given.ranges
        ranges = known if isinstance(known, Ranges) else range_files.load(known)
        return {name: max(map(abs, ends)) for name, ends in ranges.ranges.items()}
    names = list(float_results(network.source.model))
    sizes = dict.fromkeys(names, 0.0)
    program = Model(with_outputs(network.source, names), "cpu", given.options)
    samples = samples_of(network.source, given)
    for count, sample in enumerate(samples):
        tick("observing ranges", count, samples.limit or 0)
        for name, array in program.run(sample).items():
            finite = np.abs(array).max(initial=0, where=np.isfinite(array))
            sizes[name] = max(sizes[name], float(finite))
    return sizes
