"""One program for any sizes beside programs for given ones: launches, and modelled time.

    python -m benchmarks.any_sizes [--chip gfx942] [--models 'bert; decoder']
    python -m benchmarks.any_sizes --generic --models 'images; decoder'
    python -m benchmarks.any_sizes --chip cpu

Each model runs on the emulated device in its profile mode, with equal inputs: compiled in mode
full-dynamic, and in the default mode for just these sizes. Times are the sum over all kernels as
the device's model has them: a model's figures, none of silicon. With `--generic`, a last column has
the time of the program for any sizes whose kernels all take the generic path.

With `--chip cpu`, wider models of f32 run on this machine, on one thread. A time is then the least
that the process took for a run; the programs take turns.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import onnx
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.codegen.gpu import kernel
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.models.staged.bounded import first_halves
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.settings import Settings
from test import decoder_models
from test.dynamic_models import MODELS, decoder, images, inputs_of, named_sizes
from test.onnx_models import Builder, half


def encoder(width: int, heads: int, narrow: bool = True) -> onnx.ModelProto:
    """A layer of an encoder, of f16, or of f32 unless `narrow`. Symbols: batch, seq."""
    b = Builder()
    x = b.layer_norm(b.op("Add", "x", b.attention("x", "layer", width, heads, None)), "a", width)
    z = b.linear(b.gelu(b.linear(x, "up", width, 4 * width)), "down", 4 * width, width)
    y = b.layer_norm(b.op("Add", x, z), "b", width)
    shape = ["batch", "seq", width]
    model = b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, shape)}, "encoder")
    return half(model) if narrow else model


def work(kind: str) -> onnx.ModelProto:
    """A softmax over an open length, or a product of two batches of open sizes, of f16."""
    b = Builder()
    if kind == "softmax":
        shape = ["batch", "seq", "seq"]
        y = b.op("Softmax", "x", axis=-1)
        return half(b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, shape)}, kind))
    shapes = {"x": ["batch", "m", "k"], "w": ["batch", "k", "n"]}
    inputs = {name: (TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    y = b.op("MatMul", "x", "w")
    return half(b.model(inputs, {"y": (y, ["batch", "m", "n"])}, kind))


# Work along rows: the signature of a model, and its nodes.
SEQUENCES = {
    "top k": ("float[rows, n] x) => (float[rows, 300] y, int64[rows, 300] i",
              "k = Constant <value_ints = [300]> () y, i = TopK(x, k)"),
    "in order": ("float[rows, n] x) => (float[rows, n] y, int64[rows, n] i",
                 "k = Shape <start = 1> (x) y, i = TopK(x, k)"),
    "sums": ("float[rows, n] x) => (float[rows, n] y",
             "one = Constant <value_int = 1> () y = CumSum(x, one)"),
    "scatter": ("float[n, 64] x, int64[rows, 1] input_ids, float[rows, 64] u) => (float[n, 64] y",
                'y = ScatterND <reduction = "add"> (x, input_ids, u)'),
    "search": ("float[rows, n] x) => (int64[2, r] y", "y = NonZero(x)"),
    "boxes": ("float[1, n, 4] b, float[1, rows, n] s) => (int64[r, 3] y",
              "m = Constant <value_ints = [100]> () t = Constant <value_floats = [0.5]> () "
              "y = NonMaxSuppression(b, s, m, t)"),
}  # fmt: skip


def sequence(kind: str) -> onnx.ModelProto:
    """Work along rows; of a search, the part with room for all that it may find."""
    signature, nodes = SEQUENCES[kind]
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({signature}) {{ {nodes} }}'
    return first_halves(onnx.parser.parse_model(text))


def llama(layers: int = 8) -> onnx.ModelProto:
    """A LLaMA of width 1024 with its cache, of f16. Symbols as optimum names them."""
    sizes = {"VOCABULARY": 1000, "WIDTH": 1024, "INNER": 2816, "HEADS": 16, "SHARED": 4,
             "EACH": 64, "LAYERS": layers, "POSITIONS": 256}  # fmt: skip
    with patch.multiple(decoder_models, **sizes):
        return half(decoder_models.llama())


MAKERS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, int]]] = {
    "bert": (MODELS["bert"], {"batch": 2, "seq": 12}),
    "decoder": (MODELS["decoder"], {"batch": 2, "seq": 1, "past": 127}),
    **{
        f"decoder, {past}": (
            lambda: half(decoder(16, 64, 1024)),
            {"batch": 1, "seq": 1, "past": past},
        )
        for past in (1023, 4095)
    },
    "llama, 1": (llama, decoder_models.step(1)),
    "llama, 24": (llama, decoder_models.step(24)),
    "images": (MODELS["images"], {"batch": 16}),
    "images, open": (partial(images, "h", "w"), {"batch": 1, "h": 96, "w": 128}),
    "encoder": (partial(encoder, 128, 2), {"batch": 1, "seq": 128}),
    **{
        f"layer, {rows}": (partial(encoder, 768, 12), {"batch": 1, "seq": rows})
        for rows in (1, 4, 24, 128, 192, 512)
    },
    "mlp": (MODELS["mlp"], {"batch": 64}),
    "softmax": (partial(work, "softmax"), {"batch": 4, "seq": 200}),
    **{name: (partial(sequence, name), {"rows": 4, "n": 8400}) for name in SEQUENCES},
    "product": (partial(work, "product"), {"batch": 4, "m": 100, "k": 200, "n": 120}),
}
ON_CPU: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, int]]] = {
    **{
        f"layer, {rows}": (partial(encoder, 768, 12, narrow=False), {"batch": 1, "seq": rows})
        for rows in (1, 24, 128, 512)
    },
    **{
        f"decoder, {past}": (
            partial(decoder, 12, 64, 3072),
            {"batch": 1, "seq": 1, "past": past},
        )
        for past in (127, 1023)
    },
    "images": MAKERS["images"],
    "images, open": MAKERS["images, open"],
    **{name: MAKERS[name] for name in ("top k", "in order", "sums", "search", "boxes")},
}
# Turns of the programs on the CPU, and the seconds of each.
TURNS, SECONDS = 8, 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="gfx942")
    parser.add_argument("--models", help="names, with '; ' between")
    parser.add_argument("--generic", action="store_true", help="a column for the generic path")
    options = parser.parse_args()
    if options.generic and options.chip == "cpu":
        parser.error("--generic is of GPUs")
    makers = ON_CPU if options.chip == "cpu" else MAKERS
    os.environ["MGX_EMULATED_DEVICES"] = options.chip
    os.environ["MGX_EMULATOR_PROFILE"] = "1"
    title = f"{'model':12} {'sizes':44} launches (any, given)  microseconds (any, given)  ratio"
    print(f"{title}  generic" if options.generic else title)
    for name in options.models.split("; ") if options.models else makers:
        make, sizes = makers[name]
        model = make()
        given = CompileOptions(dim_params=named_sizes(model, sizes))
        any_sizes = CompileOptions(mode="full-dynamic")
        if options.chip == "cpu":
            found = measured(model, (any_sizes, given), sizes)
        else:
            found = [modelled(model, options.chip, mode, sizes) for mode in (any_sizes, given)]
        counts, times = zip(*found, strict=True)
        words = ", ".join(f"{_short(k)} {v}" for k, v in sizes.items())
        print(
            f"{name:12} {words:44} {counts[0]:8} {counts[1]:8}      "
            f"{times[0]:12.1f} {times[1]:8.1f}  {times[0] / times[1]:9.2f}",
            end="",
        )
        if options.generic:
            with patch.object(kernel, "SYMBOLIC_FAMILIES", ()):
                _, microseconds = modelled(model, options.chip, any_sizes, sizes)
            print(f"  {microseconds / times[1]:7.2f}", end="")
        print(flush=True)
    return 0


def _short(symbol: str) -> str:
    return symbol.replace("_length", "").replace("_size", "").replace("sequence", "seq")


def modelled(
    model: onnx.ModelProto, chip: str, options: CompileOptions, sizes: dict[str, int]
) -> tuple[int, float]:
    """The launches of kernels in a run, and the microseconds of all."""
    settings = Settings(jobs=1, hip="emulated")
    program = mgx_mlir.compile(model, chip, options, settings=settings)
    emulator.reset_profile()
    program.run(inputs_of(model, sizes))
    found = emulator.profile()["kernels"]
    return sum(x["launches"] for x in found), 1e3 * sum(x["total_modelled_ms"] for x in found)


def measured(
    model: onnx.ModelProto, modes: Sequence[CompileOptions], sizes: dict[str, int]
) -> list[tuple[int, float]]:
    """As `modelled`, of programs for each of some options that take turns on this machine."""
    settings, inputs = Settings(threads=1), inputs_of(model, sizes)
    programs = [mgx_mlir.compile(model, "cpu", mode, settings=settings) for mode in modes]
    times = [math.inf] * len(programs)
    for _ in range(TURNS):
        for number, program in enumerate(programs):
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                started = time.process_time()
                program.run(inputs)
                times[number] = min(times[number], time.process_time() - started)
    own = [p.program(inputs) if isinstance(p, SizedProgram) else p for p in programs]
    return [(len(p.launches), 1e6 * t) for p, t in zip(own, times, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
