"""Memory and time of int4 weights for a decoder of 1.1e9 parameters, which it generates.

    python -m benchmarks.quantize_large [--layers 22] [--rounding nearest] [--folder DIR]

The model (random weights, 4.4 GB of f32 in a file beside it) has the sizes of TinyLlama. A process
of its own quantizes it; its peak of resident memory, mapped files too, is read from /proc.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
import onnx
from onnx import TensorProto

from test.onnx_models import Builder

VOCABULARY, WIDTH, INNER, HEADS, SHARED, LENGTH = 32000, 2048, 5632, 32, 4, 8
_PIECE, _PAGE = 1 << 22, 4096

_MEASURED = """
import sys, time
from pathlib import Path
from mgx_mlir import Precision, quantize
def figure(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(key))) * 1024
before, start = figure("VmRSS"), time.perf_counter()
made = quantize(sys.argv[1], Precision(weights="int4", rounding=sys.argv[3]))
made.save(sys.argv[2])
print(before, figure("VmHWM"), time.perf_counter() - start)
"""


class _Streamed(Builder):
    """A builder whose matrices go to a file piece by piece."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        super().__init__()
        self._stream, self._name = stream, name
        self.largest = 0

    def weight(self, name: str, *shape: int, scale: float | None = None) -> str:
        offset = -(-self._stream.tell() // _PAGE) * _PAGE
        self._stream.seek(offset)
        count, step = int(np.prod(shape)), shape[0] ** -0.5 if scale is None else scale
        for start in range(0, count, _PIECE):
            values = self.rng.standard_normal(min(_PIECE, count - start), np.float32)
            self._stream.write(values * np.float32(step))
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self._name), ("offset", offset), ("length", 4 * count)):
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        self.largest = max(self.largest, 4 * count)
        return name


def _normed(b: Builder, x: str, name: str) -> str:
    size = b.op("ReduceMean", b.op("Mul", x, x), axes=[-1], keepdims=1)
    root = b.op("Sqrt", b.op("Add", size, b.constant(1e-5, np.float32)))
    return str(b.op("Mul", b.op("Div", x, root), b.add(np.ones(WIDTH, np.float32), name)))


def _attention(b: Builder, x: str, name: str) -> str:
    each = WIDTH // HEADS

    def split(part: str, heads: int) -> str:
        y = b.op("MatMul", x, b.weight(f"{name}.{part}", WIDTH, heads * each))
        parts = b.op("Reshape", y, b.constant([1, LENGTH, heads, each]))
        wide = b.op("Transpose", parts, perm=[0, 2, 1, 3])
        if heads == HEADS:
            return str(wide)
        groups = b.constant([1, heads, HEADS // heads, LENGTH, each])
        wide = b.op("Expand", b.op("Unsqueeze", wide, b.constant([2])), groups)
        return str(b.op("Reshape", wide, b.constant([1, HEADS, LENGTH, each])))

    q, k, v = split("q", HEADS), split("k", SHARED), split("v", SHARED)
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    shares = b.op("Softmax", b.op("Mul", scores, b.constant(each**-0.5, np.float32)), axis=-1)
    found = b.op("Transpose", b.op("MatMul", shares, v), perm=[0, 2, 1, 3])
    found = b.op("Reshape", found, b.constant([1, LENGTH, WIDTH]))
    return str(b.op("MatMul", found, b.weight(f"{name}.o", WIDTH, WIDTH)))


def decoder(file: Path, layers: int) -> tuple[int, int]:
    """Writes a decoder and FILE.data. Gives its parameters and the bytes of its largest one."""
    with file.with_name(f"{file.name}.data").open("wb") as stream:
        b = _Streamed(stream, f"{file.name}.data")
        x = b.op("Gather", b.weight("embedding", VOCABULARY, WIDTH, scale=0.02), "tokens")
        for number in range(layers):
            y = _attention(b, _normed(b, x, f"{number}.first"), f"{number}")
            x = b.op("Add", x, y)
            y = _normed(b, x, f"{number}.second")
            gate = b.op("MatMul", y, b.weight(f"{number}.gate", WIDTH, INNER))
            up = b.op("MatMul", y, b.weight(f"{number}.up", WIDTH, INNER))
            y = b.op("Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), up)
            x = b.op("Add", x, b.op("MatMul", y, b.weight(f"{number}.down", INNER, WIDTH)))
        y = b.op("MatMul", _normed(b, x, "last"), b.weight("head", WIDTH, VOCABULARY))
        count = sum(int(np.prod(t.dims)) for t in b.weights)
        given = {"tokens": (TensorProto.INT64, [1, LENGTH])}
        model = b.model(given, {"logits": (y, [1, LENGTH, VOCABULARY])}, "decoder")
    onnx.save(model, file)
    return count, b.largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--rounding", choices=("nearest", "hqq"), default="nearest")
    parser.add_argument("--folder", type=Path, help="where 6 GB have room")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        model, result = Path(folder, "decoder.onnx"), Path(folder, "small.onnx")
        count, largest = decoder(model, options.layers)
        words = [sys.executable, "-c", _MEASURED, model, result, options.rounding]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        before, peak, seconds = map(float, done.stdout.split())
        output = sum(f.stat().st_size for f in Path(folder).glob(f"{result.name}*"))
    print(f"{count / 1e9:.2f}e9 parameters, largest tensor {largest / 1e6:.0f} MB")
    print(f"output {output / 1e6:.0f} MB, {seconds:.0f} s")
    print(f"peak of memory {peak / 1e6:.0f} MB, {before / 1e6:.0f} MB of it before")
    print(f"peak / (largest tensor + output): {peak / (largest + output):.2f}")


if __name__ == "__main__":
    main()
