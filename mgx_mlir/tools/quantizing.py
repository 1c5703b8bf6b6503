"""Quantization on the command line: its options, and the model that they give."""

from __future__ import annotations

import argparse
import glob
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.errors import NothingToQuantizeError, UsageError
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import real, whole

if TYPE_CHECKING:
    from mgx_mlir.importer.loading import Source
    from mgx_mlir.quantization import Calibration, Quantized
    from mgx_mlir.quantization.search import Step
    from mgx_mlir.rewriting.graph import Graph

_log = logging.getLogger(__name__)

# The names of histogram.METHODS, which loads the compiler.
METHODS = ("entropy", "minmax", "moving-average", "mse", "percentile")
# The options that are for a quantized model alone, as they are where nothing asks for one.
_FOR_QUANTIZED: dict[str, object] = {
    "calibrate": None, "dynamic": False, "equalize": False, "exclude": [], "include": [],
    "max_loss": None, "method": None, "only_weights": [], "ranges": None, "samples": None,
    "save_ranges": None, "smooth": None,
}  # fmt: skip
# Options that --fp16 alone takes too.
_FOR_F16 = ("calibrate", "ranges", "samples")
NONE = {**_FOR_QUANTIZED, "products": "", "few_bits": "", "kv_cache": "", "quantized": None}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The precision of products, and the data that calibrate it."""
    group = parser.add_argument_group("quantization")
    add = group.add_argument
    kinds = group.add_mutually_exclusive_group()
    for name in ("int8", "fp8"):
        kinds.add_argument(
            f"--{name}", dest="products", action="store_const", const=name, default="",
            help=f"products of {name} with constant weights",
        )  # fmt: skip
    kinds.add_argument(
        "--mx", dest="products", action=_Microscaling, choices=["fp4", "fp6", "fp8"],
        help="products of OCP MX: blocks of 32 with powers of two",
    )  # fmt: skip
    kinds = group.add_mutually_exclusive_group()
    for flag, bits in (("--int4-weights", "4"), ("--int2-weights", "2")):
        kinds.add_argument(
            flag, dest="few_bits", action="store_const", const=f"int{bits}",
            default="", help=f"weights of {bits} bits by blocks, of the products that stay",
        )  # fmt: skip
    add("--kv-cache", choices=["fp8"], default="",
        help="caches of decoders that join past and new entries by Concat")  # fmt: skip
    add("--block", type=whole(1), default=32, metavar="N",
        help="the weights of a block (default %(default)s)")  # fmt: skip
    add("--rounding", choices=["nearest", "hqq", "gptq"], default="hqq",
        help="how weights of few bits are rounded (default %(default)s)")  # fmt: skip
    for flag, text in (
        ("--include", "quantize only the nodes of this name or operator, such as '/encoder/*'"),
        ("--exclude", "leave out the nodes of this name or operator, such as '/head/*'"),
        ("--only-weights", "give these nodes weights of few bits, and the others --int8 or --fp8"),
    ):
        add(flag, action="append", default=[], metavar="PATTERN", help=text + "; repeatable")
    add("--symmetric", action="store_true", help="int8 activations without zero points")
    add(
        "--dynamic",
        action="store_true",
        help="activations of MatMul and Gemm get a scale for each row, from its values",
    )
    add(
        "--smooth", type=real(0, 1), nargs="?", const=0.5, metavar="ALPHA",
        help="move outliers of activations into the weights (SmoothQuant; default share 0.5)",
    )  # fmt: skip
    add("--equalize", action="store_true",
        help="channels between two layers get equal ranges (cross-layer equalization)")  # fmt: skip
    add("--no-bias-correction", action="store_true",
        help="leave biases without the mean error of rounded weights")  # fmt: skip
    add("--calibrate", metavar="DATA",
        help="samples of the inputs: a folder of .npz files, an .npz file, or FILE.py:FUNCTION, "
        "your function that gives dicts of arrays; what they show beyond f16's range, --fp16 "
        "keeps in f32")  # fmt: skip
    add("--allow-none", action="store_true",
        help="warn, and go on, where nothing is to be quantized")  # fmt: skip
    add("--samples", type=whole(0), metavar="N", help="use at most N samples")
    add("--method", choices=METHODS, help="how ranges follow from samples (default: mse for int8)")
    add("--ranges", type=Path, metavar="FILE",
        help="take ranges from a file (JSON, or a table of TensorRT or onnxruntime)")  # fmt: skip
    add("--save-ranges", type=written, metavar="FILE",
        help="write the ranges there as JSON; those so far where Ctrl-C ends the work")  # fmt: skip
    add("--max-loss", type=real(0, 1, share=True), metavar="P%",
        help="leave the products with the largest errors in f32, until at most P%% of the samples "
        "change class (without classes: until the relative rms error is at most P%%)")  # fmt: skip


class _Microscaling(argparse.Action):
    """Stores the precision of a format of MX."""

    def __call__(
        self, parser: object, namespace: object, values: object, option: object = None
    ) -> None:
        setattr(namespace, self.dest, f"mx{values}")


def is_asked(options: argparse.Namespace) -> bool:
    """Whether the options quantize. Raises UsageError for those that make sense only then."""
    if any(getattr(options, name, "") for name in ("products", "few_bits", "kv_cache")):
        return True
    if getattr(options, "against", "") == "f32":
        return False  # data measure 16-bit floats too
    # Ranges say which nodes leave f16's range.
    known = _FOR_F16 if getattr(options, "floats", "f32") == "f16" else ()
    for name in _FOR_QUANTIZED:
        if getattr(options, name, None) not in (None, False, []) and name not in known:
            flag = name.replace("_", "-")
            raise UsageError(
                f"--{flag} is for --int8, --fp8, --mx and --int4-weights; give one of them"
            )
    return False


def source_of(options: argparse.Namespace, model: Path | Source) -> Path | Source:
    """The model as it is, or quantized as the options say. The work is done once.

    With --fp16, the nodes that leave f16's range by the data join those of --keep-f32.
    """
    asked = is_asked(options)
    if getattr(options, "floats", "f32") == "f16" and _has_ranges(options):
        _keep_wide(options, model)
    if not asked:
        return model
    try:
        return quantized_of(options, model).source
    except NothingToQuantizeError as error:
        _go_on(options, error)
        return model


def _go_on(options: argparse.Namespace, error: NothingToQuantizeError) -> None:
    """Warns where nothing is to be quantized and the options allow that; raises the error else."""
    if not options.allow_none:
        raise error
    _log.warning("%s", error)
    vars(options).update(NONE)


def _has_ranges(options: argparse.Namespace) -> bool:
    return bool(getattr(options, "calibrate", None) or getattr(options, "ranges", None))


def _keep_wide(options: argparse.Namespace, model: Path | Source) -> None:
    """Adds to --keep-f32 the nodes that leave f16's range, once."""
    from mgx_mlir.quantization.floats import beyond_f16
    from mgx_mlir.tools.console import progress

    if getattr(options, "kept_wide", False):
        return
    with progress("observing ranges") as tick:
        names = beyond_f16(model, calibration_of(options), tick)
    options.keep_f32 = [*options.keep_f32, *map(glob.escape, names)]
    options.kept_wide = True


def quantized_of(options: argparse.Namespace, model: Path | Source) -> Quantized:
    """The quantized model of the options. Shows progress, and writes --save-ranges."""
    from mgx_mlir.quantization import Precision, quantize
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.quantizing_report import step_text

    done: Quantized | None = getattr(options, "quantized", None)
    if done is not None:
        return done
    precision = Precision(
        products=options.products,
        weights=options.few_bits,
        block=options.block,
        rounding=options.rounding,
        include=tuple(options.include) or ("*",),
        exclude=tuple(options.exclude),
        only_weights=tuple(options.only_weights),
        asymmetric=not options.symmetric,
        bias_correction=not options.no_bias_correction,
        dynamic=options.dynamic,
        smooth=options.smooth,
        equalize=options.equalize,
        kv_cache=options.kv_cache,
        io=dict(options.io),
    )
    max_loss = None if options.verb == "verify" else options.max_loss
    calibration = calibration_of(options)

    def tell(step: Step) -> None:
        print(step_text(step), file=sys.stderr)

    with progress("quantizing") as tick:
        made = quantize(model, precision, calibration, max_loss=max_loss, tell=tell, tick=tick)
    if options.save_ranges is not None and made.ranges is not None:
        made.ranges.save(options.save_ranges)
    options.quantized = made
    return made


# The options of quantization that programs without an ONNX model take.
_OF_PROGRAMS = ("calibrate", "products", "samples")


def quantize_saved(options: argparse.Namespace, graph: Graph) -> None:
    """Quantizes, in place, a program that was saved uncompiled, where the options say so.

    Raises UsageError for options that rewrite ONNX models.
    """
    if not is_asked(options):
        return
    from mgx_mlir.quantization import quantize_program

    others = {**NONE, "no_bias_correction": False, "symmetric": False}
    found = [name for name, none in others.items() if name not in _OF_PROGRAMS
             and getattr(options, name, none) != none]  # fmt: skip
    if found or options.products not in ("int8", "fp8"):
        shown = found[0].replace("_", "-") if found else "mx"
        raise UsageError(
            f"{options.model} is imported already; --int8, --fp8, --calibrate and --samples "
            f"quantize it, and '{shown}' is for ONNX models"
        )
    made = quantize_program(graph, options.products, options.calibrate, count=options.samples)
    if not made:
        said = "has no convolution or dot of floats with a constant operand: nothing is to be"
        _go_on(options, NothingToQuantizeError(f"{options.model} {said} quantized"))


def calibration_of(options: argparse.Namespace) -> Calibration:
    """Where samples and ranges come from, as the options say."""
    from mgx_mlir.quantization import Calibration

    return Calibration(
        samples=options.calibrate,
        count=options.samples,
        method=options.method or "",
        ranges=options.ranges,
        partial=options.save_ranges or options.model.with_suffix(".ranges.json"),
        options=shared.compile_options(options).sizes_only(),
    )
