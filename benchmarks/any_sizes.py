"""One program for any sizes beside programs for given ones: launches, and modelled time.

    python -m benchmarks.any_sizes [--chip gfx942] [--models 'bert; decoder']

Each model runs on the emulated device in its profile mode, with equal inputs: compiled in mode
full-dynamic, and in the default mode for just these sizes. Times are the sum over all kernels as
the device's model has them: a model's figures, none of silicon.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

import onnx
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.settings import Settings
from test.dynamic_models import MODELS, inputs_of, named_sizes
from test.onnx_models import Builder, half


def encoder(width: int, heads: int) -> onnx.ModelProto:
    """A layer of an encoder, of f16. Symbols: batch, seq."""
    b = Builder()
    x = b.layer_norm(b.op("Add", "x", b.attention("x", "layer", width, heads, None)), "a", width)
    z = b.linear(b.gelu(b.linear(x, "up", width, 4 * width)), "down", 4 * width, width)
    y = b.layer_norm(b.op("Add", x, z), "b", width)
    shape = ["batch", "seq", width]
    model = b.model({"x": (TensorProto.FLOAT, shape)}, {"y": (y, shape)}, "encoder")
    return half(model)


MAKERS = {
    "bert": (MODELS["bert"], {"batch": 2, "seq": 12}),
    "decoder": (MODELS["decoder"], {"batch": 2, "seq": 1, "past": 127}),
    "images": (MODELS["images"], {"batch": 16}),
    "encoder": (partial(encoder, 128, 2), {"batch": 1, "seq": 128}),
    **{
        f"layer, {rows}": (partial(encoder, 768, 12), {"batch": 1, "seq": rows})
        for rows in (1, 4, 24, 128, 192, 512)
    },
    "mlp": (MODELS["mlp"], {"batch": 64}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="gfx942")
    parser.add_argument("--models", default="; ".join(MAKERS), help="names, with '; ' between")
    options = parser.parse_args()
    os.environ["MGX_EMULATED_DEVICES"] = options.chip
    os.environ["MGX_EMULATOR_PROFILE"] = "1"
    print(f"{'model':10} {'sizes':36} launches (any, given)  microseconds (any, given)  ratio")
    for name in options.models.split("; "):
        make, sizes = MAKERS[name]
        model = make()
        given = CompileOptions(dim_params=named_sizes(model, sizes))
        any_sizes = CompileOptions(mode="full-dynamic")
        counts, times = [], []
        for mode in (any_sizes, given):
            launches, microseconds = modelled(model, options.chip, mode, sizes)
            counts.append(launches)
            times.append(microseconds)
        words = ", ".join(f"{k} {v}" for k, v in sizes.items())
        print(
            f"{name:10} {words:36} {counts[0]:8} {counts[1]:8}      "
            f"{times[0]:12.1f} {times[1]:8.1f}  {times[0] / times[1]:9.2f}"
        )
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
