"""Layers of the sizes that people run: a program for any sizes over programs for given ones.

    python -m benchmarks.symbolic_kernels [--chips gfx942,gfx1100] [--only TEXT] [--most 1.25]

A case is a small model with symbols, and the sizes that it runs with: one line of `CASES`. It is
compiled once in mode full-dynamic, and for each of its sizes in the default mode; both run on the
emulated device, which executes the work-groups of one compute unit and prices them: a model's
figures, none of silicon. A ratio is of the sums over all kernels. The last lines have the
geometric mean and the worst of all ratios, and of the ratios of the times to compile: of the
program for any sizes, over the mean of those for given ones. With `--most`, the end is 1 where a
ratio of clocks is above it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto

import mgx_mlir
from benchmarks.any_sizes import llama
from mgx_mlir import emulator
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.settings import Settings
from test import decoder_models
from test.dynamic_models import inputs_of, named_sizes
from test.onnx_models import Builder, half

CHIPS = ("gfx942", "gfx1100")
Size: TypeAlias = "int | str"


@dataclass(frozen=True)
class Case:
    """A model with symbols, and their values of each run that is compared."""

    name: str
    model: Callable[[], onnx.ModelProto]
    runs: Sequence[dict[str, int]]


@dataclass(frozen=True)
class Layer:
    """A convolution of images of `size` x `size` pixels. depthwise: a filter for each channel."""

    channels: int
    filters: int
    window: int
    size: int
    step: int = 1
    depthwise: bool = False

    def __str__(self) -> str:
        kind = "depthwise " if self.depthwise else ""
        step = f" step {self.step}" if self.step > 1 else ""
        return f"{kind}{self.window}x{self.window} {self.channels}>{self.filters} {self.size}{step}"

    def model(self, last: bool, pixels: tuple[Size, Size] | None = None) -> onnx.ModelProto:
        """The layer with a Relu, of f16; `last`: channels come last. Symbol: batch, and pixels."""
        b, group = Builder(), self.channels if self.depthwise else 1
        each = self.channels // group
        w = b.weight("w", self.filters, each, self.window, self.window, scale=0.1)
        x = b.op("Transpose", "x", perm=[0, 3, 1, 2]) if last else "x"
        pads, steps = [self.window // 2] * 4, [self.step, self.step]
        y = b.op("Conv", x, w, b.weight("b", self.filters), pads=pads, strides=steps, group=group)
        y = b.op("Relu", y)
        y = b.op("Transpose", y, perm=[0, 2, 3, 1]) if last else y
        high, wide = pixels or (self.size, self.size)
        shape: list[Size] = ["batch", high, wide, self.channels]
        shape = shape if last else [shape[0], shape[3], *shape[1:3]]
        return _model(b, {"x": shape}, y, [None] * 4)


def _model(
    b: Builder, inputs: dict[str, list[Size]], result: str, shape: Sequence[Size | None]
) -> onnx.ModelProto:
    kinds: dict[str, tuple[int, Sequence[Size]]] = {
        name: (TensorProto.FLOAT, own) for name, own in inputs.items()
    }
    results: Any = {"y": (result, shape)}
    return half(b.model(kinds, results, "layer"))


def product(m: Size, n: Size, k: Size, weights: bool = False) -> onnx.ModelProto:
    """A product of f16, of an activation by another or by weights."""
    b = Builder()
    shapes: dict[str, list[Size]] = {"x": [m, k]}
    if weights:
        w = b.weight("w", int(k), int(n), scale=0.1)
    else:
        w, shapes["w"] = "w", [k, n]
    return _model(b, shapes, b.op("MatMul", "x", w), [m, n])


# The distinct convolutions of ResNet-50: channels, filters, window, size, step.
RESNET = (
    (3, 64, 7, 224, 2),
    (64, 64, 1, 56), (64, 64, 3, 56), (64, 256, 1, 56), (256, 64, 1, 56),
    (256, 128, 1, 56), (128, 128, 3, 56, 2), (128, 512, 1, 28), (256, 512, 1, 56, 2),
    (512, 128, 1, 28), (128, 128, 3, 28),
    (512, 256, 1, 28), (256, 256, 3, 28, 2), (256, 1024, 1, 14), (512, 1024, 1, 28, 2),
    (1024, 256, 1, 14), (256, 256, 3, 14),
    (1024, 512, 1, 14), (512, 512, 3, 14, 2), (512, 2048, 1, 7), (1024, 2048, 1, 14, 2),
    (2048, 512, 1, 7), (512, 512, 3, 7),
)  # fmt: skip
# MobileNetV3 large: its convolutions that are no depthwise ones, and these.
MOBILENET = (
    (3, 16, 3, 224, 2), (16, 16, 1, 112), (16, 64, 1, 112), (64, 24, 1, 56), (24, 72, 1, 56),
    (72, 24, 1, 56), (72, 40, 1, 28), (40, 120, 1, 28), (120, 40, 1, 28), (40, 240, 1, 28),
    (240, 80, 1, 14), (80, 200, 1, 14), (184, 80, 1, 14), (480, 112, 1, 14), (112, 672, 1, 14),
    (672, 160, 1, 7), (160, 960, 1, 7), (960, 160, 1, 7),
)  # fmt: skip
DEPTHWISE = (
    (16, 3, 112, 1), (64, 3, 112, 2), (72, 3, 56, 1), (72, 5, 56, 2), (120, 5, 28, 1),
    (240, 3, 28, 2), (200, 3, 14, 1), (672, 3, 14, 1), (672, 5, 14, 2), (960, 5, 7, 1),
)  # fmt: skip
BATCHES = [{"batch": n} for n in (1, 8, 32)]


def convolutions() -> Iterator[Case]:
    """Convolutions of any number of images, and a few of images of any size."""
    layers = [("resnet", Layer(*row)) for row in RESNET]
    layers += [("mobilenet", Layer(*row)) for row in MOBILENET]
    for channels, window, size, step in DEPTHWISE:
        layer = Layer(channels, channels, window, size, step, depthwise=True)
        layers.append(("mobilenet", layer))
    for network, layer in layers:
        yield Case(f"{network} {layer}", partial(layer.model, True), BATCHES)
    for row in ((64, 64, 3, 56), (64, 256, 1, 56), (256, 256, 3, 14), (512, 512, 3, 7)):
        layer = Layer(*row)
        yield Case(f"channels first {layer}", partial(layer.model, False), BATCHES)
        runs = [{**run, "h": layer.size, "w": layer.size} for run in BATCHES]
        for last, kind in ((False, "first"), (True, "last")):
            model = partial(layer.model, last, ("h", "w"))
            yield Case(f"any pixels, channels {kind} {layer}", model, runs)


def products() -> Iterator[Case]:
    """Products with one or more open sizes."""
    n = 2048
    opened: dict[str, tuple[Size, Size, Size]] = {
        "m": ("m", n, n), "n": (n, "n", n), "k": (n, n, "k"), "m, n, k": ("m", "n", "k"),
    }  # fmt: skip
    for name, sizes in opened.items():
        run = {symbol: n for symbol in "mnk" if symbol in sizes}
        yield Case(f"product 2048, open {name}", partial(product, *sizes), [run])
    rows = [{"m": m} for m in (1, 8, 64, 512, 2048)]
    yield Case("product by weights 768>3072", partial(product, "m", 3072, 768, True), rows)
    yield Case("product by weights 3072>768", partial(product, "m", 768, 3072, True), rows)
    for m, rest, k in ((1, 4096, 4096), (77, 768, 64), (512, 512, 64)):
        run = {"m": m, "n": rest, "k": k}
        yield Case(f"product {m}x{rest}x{k}, open m, n, k", partial(product, "m", "n", "k"), [run])


def decoders() -> Iterator[Case]:
    """A step of a decoder with a cache."""
    yield Case("decoder of 2 layers", partial(llama, 2), [decoder_models.step(1)])


def _rows_of(operator: str, columns: int, axis: int = -1) -> onnx.ModelProto:
    """An operator on a tensor of any sizes, or on rows of a given length."""
    b = Builder()
    sizes: list[Size] = ["rows", "columns"]
    if operator == "LayerNormalization":
        sizes = ["rows", columns]
        scale, bias = b.weight("s", columns), b.weight("b", columns)
        y = b.op(operator, "x", scale, bias, axis=axis)
    elif operator == "ReduceSum":
        y = b.op(operator, "x", b.constant([axis]), keepdims=1)
    elif operator == "CumSum":
        y = b.op(operator, "x", b.constant(axis))
    elif operator == "TopK":
        y, _ = b.op(operator, "x", b.constant([columns]), outputs=2, axis=axis)
    elif operator == "Gelu":
        y = b.op("Mul", b.op("Sigmoid", "x"), "x")
    elif operator == "Transpose":
        y = b.op(operator, "x", perm=[1, 0])
    else:
        y = b.op(operator, "x", axis=axis)
    return _model(b, {"x": sizes}, y, [None, None])


def rows() -> Iterator[Case]:
    """Reductions, and what works along rows or on elements: all sizes open."""
    runs = [{"rows": r, "columns": c} for r, c in ((16384, 1024), (1024, 4096), (77, 1000))]
    for operator in ("Softmax", "ReduceSum", "CumSum", "Gelu", "Transpose"):
        yield Case(f"rows {operator}", partial(_rows_of, operator, 0), runs)
    yield Case("rows Softmax of axis 0", partial(_rows_of, "Softmax", 0, 0), runs[1:])
    yield Case("rows TopK of 50", partial(_rows_of, "TopK", 50), runs[1:])
    few = [{"rows": r} for r in (1, 128, 16384)]
    for columns in (768, 1024):
        layer = partial(_rows_of, "LayerNormalization", columns)
        yield Case(f"rows LayerNormalization {columns}", layer, few)


def attention() -> Iterator[Case]:
    """Attention with any number of heads, queries and keys."""

    def model(depth: int) -> onnx.ModelProto:
        b = Builder()
        scores = b.op("MatMul", "q", b.op("Transpose", "k", perm=[0, 2, 1]))
        scale = b.constant(depth**-0.5, np.float32)
        weights = b.op("Softmax", b.op("Mul", scores, scale), axis=-1)
        shapes: dict[str, list[Size]] = {
            "q": ["heads", "queries", depth], "k": ["heads", "keys", depth],
            "v": ["heads", "keys", depth],
        }  # fmt: skip
        return _model(b, shapes, b.op("MatMul", weights, "v"), [None] * 3)

    for heads, length, depth in ((16, 1024, 64), (32, 4096, 128)):
        run = {"heads": heads, "queries": length, "keys": length}
        yield Case(f"attention {heads}x{length}x{depth}", partial(model, depth), [run])


def images() -> Iterator[Case]:
    """Poolings and a resize of any number of images of any size."""

    def model(operator: str) -> onnx.ModelProto:
        b = Builder()
        if operator == "Resize":
            scales = b.constant([1, 1, 2, 2], np.float32)
            y = b.op(operator, "x", "", scales, mode="linear")
        elif operator == "GlobalAveragePool":
            y = b.op(operator, "x")
        else:
            y = b.op(operator, "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        return _model(b, {"x": ["batch", 64, "h", "w"]}, y, [None] * 4)

    runs = [{"batch": n, "h": 112, "w": 112} for n in (1, 32)]
    for operator in ("MaxPool", "AveragePool", "GlobalAveragePool", "Resize"):
        yield Case(f"images {operator}", partial(model, operator), runs)


# Functions that give cases. A case of another kind is a line of one, or of one more function.
CASES: tuple[Callable[[], Iterator[Case]], ...] = (
    convolutions, products, decoders, rows, attention, images,
)  # fmt: skip


@dataclass
class Ratios:
    """Ratios of symbolic to given, by name."""

    found: dict[str, float]

    def describe(self) -> str:
        """The geometric mean and the worst."""
        mean = math.exp(sum(map(math.log, self.found.values())) / len(self.found))
        worst = max(self.found, key=lambda name: self.found[name])
        return f"geometric mean {mean:.3f}, worst {self.found[worst]:.2f} ({worst})"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chips", default=",".join(CHIPS))
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds it")
    parser.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    options = parser.parse_args()
    chips = options.chips.split(",")
    # The emulated device reads them when it is opened.
    os.environ["MGX_EMULATED_DEVICES"] = ",".join(chips)
    os.environ["MGX_EMULATOR_PROFILE"] = "sample"
    cases = [case for make in CASES for case in make() if options.only in case.name]
    if not cases:
        parser.error(f"no case has {options.only!r} in its name")
    worst = 0.0
    print(f"{'chip':8} {'case':48} {'sizes':24} {'given':>9} {'any, us':>9} {'ratio':>6}")
    for ordinal, chip in enumerate(chips):
        clocks, compiling = Ratios({}), Ratios({})
        for mode in ("default", "full-dynamic"):  # what is loaded at first use
            _compiled(product(64, 64, 64), chip, CompileOptions(mode=mode))
        for case in cases:
            ratios, compiling.found[case.name] = _compare(case, chip, ordinal)
            clocks.found |= ratios
        worst = max(worst, *clocks.found.values())
        print(f"{chip}: clocks: {clocks.describe()}")
        print(f"{chip}: time to compile: {compiling.describe()}", flush=True)
    return int(worst > options.most)


def _compare(case: Case, chip: str, ordinal: int) -> tuple[dict[str, float], float]:
    """The ratios of a case's runs, and that of the time to compile."""
    model, ratios, each = case.model(), {}, []
    symbolic, own = _compiled(model, chip, CompileOptions(mode="full-dynamic"))
    for sizes in case.runs:
        named = CompileOptions(dim_params=named_sizes(model, sizes))
        given, seconds = _compiled(model, chip, named)
        each.append(seconds)
        inputs = {
            name: np.zeros_like(array) if array.dtype == np.float16 else array
            for name, array in inputs_of(model, sizes).items()
        }
        times = [_modelled(program, inputs, ordinal) for program in (given, symbolic)]
        words = ", ".join(f"{name.split('_')[0]} {size}" for name, size in sizes.items())
        ratios[f"{case.name}, {words}"] = times[1] / times[0]
        print(
            f"{chip:8} {case.name:48} {words:24} {times[0]:9.1f} {times[1]:9.1f} "
            f"{times[1] / times[0]:6.2f}",
            flush=True,
        )
    return ratios, own * len(each) / sum(each)


def _compiled(
    model: onnx.ModelProto, chip: str, options: CompileOptions
) -> tuple[mgx_mlir.Program, float]:
    """A program, and the seconds of this process that it took, without a cache."""
    started = time.process_time()
    settings = Settings(jobs=1, hip="emulated", cache_dir=None)
    program = mgx_mlir.compile(model, chip, options, settings=settings)
    return program, time.process_time() - started


def _modelled(program: mgx_mlir.Program, inputs: dict[str, np.ndarray], ordinal: int) -> float:
    """The microseconds of all kernels of a run."""
    emulator.reset_profile(ordinal)
    program.run(inputs)
    found = emulator.profile(ordinal)["kernels"]
    return 1e3 * sum(x["total_modelled_ms"] for x in found)


if __name__ == "__main__":
    sys.exit(main())
