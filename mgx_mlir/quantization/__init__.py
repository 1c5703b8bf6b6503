"""Quantization of f32 models: calibration, int8 and fp8 products, weights of few bits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx

from mgx_mlir.artifact.files import keep_inputs
from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import Edge, NothingToQuantizeError, UsageError
from mgx_mlir.importer.io_types import change_types
from mgx_mlir.importer.loading import AnySource, Source
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization import gptq, microscaling, writing
from mgx_mlir.quantization import ranges as range_files
from mgx_mlir.quantization import samples as data
from mgx_mlir.quantization.accuracy import Accuracy, compare
from mgx_mlir.quantization.calibration import METHOD_OF, Tick, calibrate, no_tick
from mgx_mlir.quantization.equalization import equalized
from mgx_mlir.quantization.few_bits import form_of, refusal
from mgx_mlir.quantization.kv_cache import with_fp8_cache
from mgx_mlir.quantization.network import MX_OPSET, Network, with_outputs
from mgx_mlir.quantization.precision import Precision
from mgx_mlir.quantization.program import quantize_program
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.quantization.rewrite import Choice, Rewritten, rewrite
from mgx_mlir.quantization.samples import Samples
from mgx_mlir.quantization.search import Step, Trial, search
from mgx_mlir.quantization.smoothing import smoothed
from mgx_mlir.rewriting.graph import Graph

_log = logging.getLogger(__name__)

__all__ = ["Calibration", "Precision", "Quantized", "Ranges", "quantize", "quantize_program"]

# The opsets whose QuantizeLinear has an axis, fp8, and scales that are powers of two.
_OPSETS = {"int8": 13, "fp8": 19, **dict.fromkeys(microscaling.FORMATS, MX_OPSET), "": 7}


@dataclass(frozen=True)
class Calibration:
    """Where ranges of activations come from.

    `samples` is a folder, an .npz file, 'file.py:function', or a list of dicts of inputs (None:
    random inputs), of which `count` are read at most. `method` is one of histogram.METHODS; '' for
    the one that suits the precision. `ranges` is a file, or ranges, in place of calibration;
    `partial` is the file for the ranges so far where the work is interrupted. `options` give sizes
    to the dimensions of inputs.
    """

    samples: str | Path | Iterable[Any] | None = None
    count: int | None = None
    method: str = ""
    ranges: Path | Ranges | None = None
    partial: Path | None = None
    options: CompileOptions = field(default_factory=CompileOptions)

    @property
    def files(self) -> list[Path]:
        """The files that are read."""
        named = [file for file in (self.samples, self.ranges) if isinstance(file, str | Path)]
        return [one for file in named for one in data.files_of(file)]


@dataclass(frozen=True)
class Quantized:
    """A quantized model: compile `source`, or `save` it as ONNX."""

    network: Network
    rewritten: Rewritten
    precision: Precision
    ranges: Ranges | None
    samples: Samples
    options: CompileOptions
    steps: Sequence[Step] = ()

    @property
    def source(self) -> Source:
        """The model with all its constants, for `mgx_mlir.compile` and `mgx_mlir.Model`."""
        return self.rewritten.whole()

    @property
    def choices(self) -> list[Choice]:
        """The precision of each product."""
        return self.rewritten.choices

    def accuracy(
        self,
        target: str | Target = "cpu",
        options: CompileOptions | None = None,
        tick: Tick = no_tick,
    ) -> Accuracy:
        """The errors beside the f32 model over the samples, compiled with `options`."""

        def candidate(source: Source) -> Model:
            return Model(source, target, options or self.options)

        return compare(
            self.network.source, candidate, self.source, self.samples, self.options, tick
        )

    def proto(self) -> onnx.ModelProto:
        """The model as one ModelProto, which holds all constants."""
        return writing.whole(self.rewritten)

    @Edge("writing the quantized model")
    def save(self, file: str | Path) -> None:
        """Writes ONNX: QDQ and MatMulNBits. Large models get a second file, FILE.data."""
        writing.save(self.rewritten, Path(file))


@Edge("quantizing")
def quantize(
    model: AnySource,
    precision: Precision,
    calibration: Calibration | None = None,
    *,
    max_loss: float | None = None,
    tell: Callable[[Step], None] = lambda step: None,
    tick: Tick = no_tick,
) -> Quantized:
    """Quantizes the products of an f32 model with constant weights.

    `model` is a path, bytes, an onnx.ModelProto or a Source. Without `calibration`, ranges of
    activations come from random inputs, which is logged. With `max_loss`, the products with the
    largest errors stay in f32 until the loss of the samples is at most that (search.search); `tell`
    gets each step. Raises ModelError, UnsupportedError, or UsageError for calibration data that do
    not fit, and where nothing is to be quantized.
    """
    if isinstance(model, Graph):
        raise UsageError("a Graph is imported already; quantize_program takes it")
    if not precision.products and not precision.weights and not precision.kv_cache:
        raise UsageError("the precision names neither products, nor weights, nor a cache")
    if max_loss is not None and not 0 <= max_loss <= 1:
        raise UsageError(f"max_loss is {max_loss}; it is a share from 0 to 1")
    network = Network.of(model, _opset(precision))
    given = calibration or Calibration()
    if given.partial is not None:
        keep_inputs(given.partial, (*network.source.files, *given.files), "partial")
    _tell_unmatched(network, precision)
    takes_products = bool(precision.products or precision.weights)
    products = (p for each in network.with_bodies() for p in each.products)
    if takes_products and not any(precision.takes(product.node) for product in products):
        raise NothingToQuantizeError(_nothing(network))
    samples = samples_of(network.source, given)
    network = _balanced(network, precision, given, samples, tick)
    found = None
    if any(precision.is_static(product, network) for product in network.products):
        found = _ranges(network, precision, given, samples, tick)
    if precision.bits and precision.rounding == "gptq":
        _solve(network, precision, given, samples, tick)
    steps: Sequence[Step] = ()
    if max_loss is not None:
        if samples.random:
            raise UsageError("a loss is measured on data, and there are none; give samples")
        trial = Trial(network, precision, found, samples, given.options)
        mixed = search(trial, max_loss, tell, tick)
        precision, steps = mixed.precision, mixed.steps
    rewritten = rewrite(network, precision, found, bodies=takes_products and max_loss is None)
    if precision.kv_cache:
        rewritten.source = with_fp8_cache(rewritten.source)
    rewritten.source = change_types(rewritten.source, precision.io)
    return Quantized(network, rewritten, precision, found, samples, given.options, steps)


def _opset(precision: Precision) -> int:
    opset = _OPSETS[precision.products]
    if precision.kv_cache:
        opset = max(opset, _OPSETS["fp8"])
    return opset


def _tell_unmatched(network: Network, precision: Precision) -> None:
    nodes = [node for each in network.with_bodies() for node in each.graph.node]
    words = sorted({word for node in nodes for word in (node.name, node.op_type)})
    for pattern, option in precision.unmatched(nodes).items():
        close = get_close_matches(pattern, words, 1)
        advice = f"; did you mean '{close[0]}'?" if close else ""
        _log.warning("%s: no node's name or operator is '%s'%s", option, pattern, advice)


def _nothing(network: Network) -> str:
    if any(each.products for each in network.with_bodies()):
        return "no product is included by name; --include and --exclude take names and operators"
    return (
        f"{network.source.name} has no Conv, Gemm or MatMul of f32 with constant weights: nothing "
        "is to be quantized"
    )


def samples_of(source: Source, given: Calibration) -> Samples:
    """The samples of a model's inputs that a calibration names. Raises UsageError."""
    if given.count is not None and given.count < 1:
        raise UsageError(f"{given.count} samples; at least one is needed")
    types = Model(source, options=given.options).input_types
    if given.samples is None:
        return data.random_samples(types, given.count)
    return data.read(given.samples, types, given.count)


def _balanced(
    network: Network, precision: Precision, given: Calibration, samples: Samples, tick: Tick
) -> Network:
    """The network with weights that are quantized with smaller errors, as the precision says."""
    products = [p for p in network.products if precision.takes_product(p.node)]
    if precision.equalize:
        network = equalized(network, {product.name for product in products})
        products = [p for p in network.products if precision.takes_product(p.node)]
    if precision.smooth is None:
        return network
    if samples.random:
        _log.warning("no calibration data: activations are smoothed for %s", samples.origin)
    return smoothed(network, products, precision.smooth, samples, given.options, tick)


def _solve(
    network: Network, precision: Precision, given: Calibration, samples: Samples, tick: Tick
) -> None:
    """Rounds the weights of few bits by GPTQ."""
    if samples.random:
        _log.warning(
            "no calibration data: weights are rounded for %s; give --calibrate for real data",
            samples.origin,
        )
    products = [p for p in network.products if not precision.takes_product(p.node)]
    products = [p for p in products if not refusal(p, network, precision)]
    forms = {p.name: form_of(p, network, precision) for p in products}
    network.rounded.update(gptq.solve(network, forms, samples, given.options, tick))


def _ranges(
    network: Network, precision: Precision, given: Calibration, samples: Samples, tick: Tick
) -> Ranges:
    """The ranges of the tensors that the precision's products read, and of their sources."""
    products = [p for p in network.products if precision.is_static(p, network)]
    roots = [root for group in network.groups([p.x for p in products]) for root in group.roots]
    if isinstance(given.ranges, Path):
        found = range_files.load(given.ranges)
    elif given.ranges is not None:
        found = given.ranges
    else:
        if samples.random and products:
            _log.warning(
                "no calibration data: ranges come from %s; give --calibrate for those of real data",
                samples.origin,
            )
        tensors: dict[str, int | None] = dict.fromkeys(roots)
        if precision.bias_correction:
            tensors |= {product.x: product.channel for product in products}
        method = given.method or METHOD_OF[precision.products]
        tapped = Model(with_outputs(network.source, list(tensors)), "cpu", given.options)
        return calibrate(
            tapped.run, tensors, samples, method=method, tick=tick, partial=given.partial
        )
    missing = [name for name in roots if name not in found.ranges]
    if roots and len(missing) == len(roots):
        raise UsageError(
            f"the ranges name none of the model's tensors, such as '{roots[0]}'; they are another "
            "model's, or one's whose names changed"
        )
    for name in missing:
        _log.warning("the ranges do not have '%s': its products stay in f32", name)
    return found
