"""Quantized networks beside `onnxruntime.quantization`, with the same calibration data.

    python -m benchmarks.quantization [--models digits,resnet] [--samples 32] [--chips gfx942]

Each network is quantized to int8 by this project (`mgx quantize --int8` as it is) and by
onnxruntime's `quantize_static` (QDQ, per channel, 8-bit signed; of --methods its best counts). Both
run on the CPU with samples that neither saw. Errors are those of the first output beside the f32
model: the ratio of signal to noise in dB, and the share of samples of the same top-1 class. Sizes
are those of the ONNX files. Clocks are those that the emulator's model of chips gives all launches
(benchmarks.nets), in f32, f16, and int8 with f16 between the products; `--batch N` takes as many
images, texts or tokens at a time, where launches cost less than the work.

`digits` is the network of examples/, trained on scikit-learn's digits; `trained` is trained here on
generated data. The others have random weights whose channels differ in size, as in trained ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType
from onnxruntime.quantization import quantize_static as quantize_by_onnxruntime
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.net_models import MODELS as NETS
from benchmarks.net_models import llama
from benchmarks.nets import priced
from benchmarks.quantized_nets import whisper, yolo
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.quantization.accuracy import Error
from test.onnx_models import Builder, bert, resnet, vit

Sample = dict[str, np.ndarray]
DIGITS = Path(__file__).resolve().parents[1] / "examples"


@dataclass(frozen=True)
class Case:
    """A network of f32, and a maker of samples for it."""

    model: onnx.ModelProto
    samples: Callable[[int, int], list[Sample]]


def digits(_batch: int) -> Case:
    """The network of examples/, whose held-out images are split between calibration and test."""
    images = np.load(DIGITS / "digits_test.npz")["images"].astype(np.float32)[:, None, None]

    def samples(seed: int, count: int) -> list[Sample]:
        return [{"image": image} for image in images[seed::2][:count]]

    return Case(onnx.load(DIGITS / "digits.onnx"), samples)


def trained(_batch: int) -> Case:
    """Two hidden layers trained by gradient descent to tell eight noisy spirals apart."""
    rng = np.random.default_rng(5)

    def spirals(source: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        label = source.integers(0, 8, count)
        turn = source.uniform(0.2, 1, count)
        angle = 4 * turn + label * np.pi / 4 + source.normal(0, 0.05, count)
        points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1)
        return points.astype(np.float32), label

    sizes = (2, 96, 96, 8)
    weights = [rng.normal(0, (2 / a) ** 0.5, (a, b)) for a, b in pairwise(sizes)]
    biases = [np.zeros(b) for b in sizes[1:]]
    for step in range(3000):
        x, label = spirals(rng, 256)
        layers = [x.astype(np.float64)]
        for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
            y = layers[-1] @ w + b
            layers.append(np.maximum(y, 0) if number < 2 else y)
        shares = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
        slope = (shares / shares.sum(1, keepdims=True) - np.eye(8)[label]) / len(x)
        for number in (2, 1, 0):
            before = slope @ weights[number].T * (layers[number] > 0)
            weights[number] -= 0.5 * 0.999**step * (layers[number].T @ slope)
            biases[number] -= 0.5 * 0.999**step * slope.sum(0)
            slope = before
    made, y = Builder(0), "x"
    for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
        parts = [made.add(a.astype(np.float32), f"{k}{number}") for k, a in (("w", w), ("b", b))]
        y = made.op("Gemm", y, *parts)
        y = made.op("Relu", y) if number < 2 else y
    model = made.model({"x": (TensorProto.FLOAT, [16, 2])}, {"y": (y, [16, 8])}, "trained")

    def samples(seed: int, count: int) -> list[Sample]:
        source = np.random.default_rng(seed)
        return [{"x": spirals(source, 16)[0]} for _ in range(count)]

    return Case(model, samples)


def with_statistics(model: onnx.ModelProto, spread: float = 0.4) -> onnx.ModelProto:
    """A copy whose weights have output channels of different sizes, with a lognormal spread."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    rng = np.random.default_rng(11)
    axes = {n.input[1]: 0 if n.op_type == "Conv" else -1 for n in copy.graph.node
            if n.op_type in ("Conv", "MatMul") and len(n.input) > 1}  # fmt: skip
    for tensor in copy.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if tensor.name in axes and array.ndim > 1:
            axis = axes[tensor.name] % array.ndim
            sizes = np.exp(rng.normal(0, spread, array.shape[axis])) / np.exp(spread**2)
            shape = [-1 if i == axis else 1 for i in range(array.ndim)]
            scaled = (array * sizes.reshape(shape)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
    return copy


def generated(model: onnx.ModelProto) -> Case:
    """A network with random weights: smooth images, or token numbers."""

    def samples(seed: int, count: int) -> list[Sample]:
        rng = np.random.default_rng(seed + 100)
        return [
            {value.name: _input(value, rng) for value in model.graph.input} for _ in range(count)
        ]

    return Case(with_statistics(model), samples)


def _input(value: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
    if value.type.tensor_type.elem_type == TensorProto.INT64:
        return np.ones(sizes, np.int64) if "mask" in value.name else rng.integers(0, 64, sizes)
    # Images and sounds: neighbours are alike, and each has a brightness of its own.
    noise = rng.standard_normal(sizes)
    for axis in range(2, len(sizes)) if len(sizes) == 4 or value.name == "mel" else ():
        noise = sum(np.roll(noise, shift, axis) for shift in range(-3, 4)) / 7**0.5
    return (noise + rng.normal(0, 0.5)).astype(np.float32)


MODELS: dict[str, Callable[[int], Case]] = {
    "digits": digits,
    "trained": trained,
    "resnet": lambda n: generated(resnet(batch=n, stages=(2, 2, 2, 2), width=32, image=64)),
    "vit": lambda n: generated(vit(layers=4, width=192, heads=3, image=64, batch=n)),
    "bert": lambda n: generated(
        bert(layers=4, width=256, tokens=64, heads=4, vocabulary=64, batch=n)
    ),
    "resnet50": lambda n: generated(resnet(batch=n)),
    "mobilenet3": lambda n: generated(NETS["mobilenet3"](n)),
    "efficientnet": lambda n: generated(NETS["efficientnet"](n)),
    "vit12": lambda n: generated(vit(batch=n)),
    "llama": lambda n: generated(llama(n, past=128)),
    "whisper": lambda n: generated(whisper(batch=n)),
    "yolo": lambda n: generated(yolo(batch=n)),
}


class _Reader(CalibrationDataReader):
    """Samples as onnxruntime's calibration asks for them."""

    def __init__(self, samples: list[Sample]) -> None:
        self._left: Iterator[Sample] = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self._left, None)


def by_onnxruntime(model: Path, out: Path, samples: list[Sample], method: str) -> None:
    """Quantizes a model with onnxruntime's tools, as its documentation recommends."""
    prepared = out.with_suffix(".prepared.onnx")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantize_by_onnxruntime(
        str(prepared), str(out), _Reader(samples), per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )  # fmt: skip


def error_of(plain: Path, other: Path, samples: list[Sample]) -> Error:
    """The error of the first output of a model beside another, both by onnxruntime."""
    runs = []
    for file in (plain, other):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        runs.append(onnxruntime.InferenceSession(str(file), options).run)
    error = Error()
    for sample in samples:
        expected, found = (run(None, sample)[0] for run in runs)
        error.add(expected, found, classes=True)
    return error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--samples", type=int, default=32, metavar="N", help="for calibration")
    parser.add_argument("--methods", default="MinMax", help="onnxruntime's: MinMax,Entropy,...")
    parser.add_argument("--chips", default="", help="also clocks: gfx942,gfx1100")
    parser.add_argument("--kinds", default="f32,f16,int8", help="whose clocks")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="of the clocks' runs")
    parser.add_argument("--clocks-only", action="store_true", help="no errors")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if not options.clocks_only:
        print_errors(options)
    for name in options.models.split(",") if options.chips else ():
        for chip in options.chips.split(","):
            print(clocks(name, chip, options.samples, kinds, options.batch), flush=True)
    return 0


def print_errors(options: argparse.Namespace) -> None:
    """Prints the table of sizes and errors."""
    print("| network | f32, kB | ours, kB | onnxruntime's, kB | SQNR: ours | onnxruntime's "
          "| top-1: ours | onnxruntime's |\n|---|---:|---:|---:|---:|---:|---:|---:|")  # fmt: skip
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            print(row(name, Path(folder), options.samples, options.methods.split(",")), flush=True)


def row(name: str, folder: Path, count: int, methods: list[str]) -> str:
    """A network's line: sizes, and errors on samples that calibration did not see."""
    case = MODELS[name](1)
    known, others = case.samples(0, count), case.samples(1, 64)
    plain, ours = folder / "f32.onnx", folder / "ours.onnx"
    onnx.save(case.model, plain)
    quantize(plain, Precision("int8"), Calibration(known)).save(ours)
    found = error_of(plain, ours, others)
    tries = []
    for method in methods:
        theirs = folder / f"{method}.onnx"
        by_onnxruntime(plain, theirs, known, method)
        tries.append((error_of(plain, theirs, others), theirs))
    best, theirs = max(tries, key=lambda one: one[0].sqnr)
    sizes = " | ".join(f"{file.stat().st_size / 1e3:.0f}" for file in (plain, ours, theirs))
    return (
        f"| {name} | {sizes} | {found.sqnr:.1f} | {best.sqnr:.1f} "
        f"| {found.agreement:.1%} | {best.agreement:.1%} |"
    )


def clocks(name: str, chip: str, count: int, kinds: list[str], batch: int) -> str:
    """The clocks of a network on a chip, in up to three precisions."""
    case = MODELS[name](batch)
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        np.savez(file.with_suffix(".npz"), **case.samples(0, 1)[0])  # type: ignore[arg-type]
        for kind in kinds:
            onnx.save(case.model, file)
            if kind == "int8":
                known = Calibration(case.samples(0, count))
                quantize(case.model, Precision("int8"), known).save(file)
            figures[kind] = priced(file, chip, floats="f32" if kind == "f32" else "f16")
    shown = ", ".join(
        f"{k} {run.launches} launches {run.clocks:,.0f}" for k, run in figures.items()
    )
    return f"{name} on {chip}: {shown}"


if __name__ == "__main__":
    sys.exit(main())
