"""Activations whose scales follow from the values themselves: of a row, or of a block (OCP MX).

    x (..., K) -> rows (n, width) -> the largest of each -> a scale each -> codes -> x, rounded

A row is all of K for int8 and fp8, and 32 neighbours for MX, whose scales are powers of two.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mgx_mlir.importer import element_types, prepare
from mgx_mlir.quantization import microscaling
from mgx_mlir.quantization.channels import LARGEST, TYPES
from mgx_mlir.quantization.microscaling import BLOCK
from mgx_mlir.quantization.parts import Attribute, Parts

# The least normal number of f32: the scale of rows of zeros.
_TINY = np.finfo(np.float32).tiny


def rounded(parts: Parts, x: str, depth: int, kind: str) -> str:
    """The name of tensor x (..., depth) rounded to `kind`; its nodes come after x."""
    work = _Work(parts, x)
    blocks = kind in microscaling.FORMATS
    missing = -depth % BLOCK if blocks else 0
    if missing:
        pads = work.constant("pads", np.array([0, missing], np.int64))
        work.apply("Pad", "padded", pads, "", work.last)
    shape = work.name("Shape", "shape", work.value)
    width = work.constant("rows", np.array([-1, BLOCK if blocks else depth], np.int64))
    work.apply("Reshape", "rows", width)
    (_blocks if blocks else _rows)(work, kind)
    work.apply("Reshape", "whole", shape)
    if missing:
        ends = [
            work.constant(n, np.array([v], np.int64)) for n, v in (("start", 0), ("end", depth))
        ]
        work.apply("Slice", "rounded", *ends, work.last)
    return work.value


class _Work:
    """A chain of nodes after tensor x, whose last result is `value`."""

    def __init__(self, parts: Parts, x: str) -> None:
        self.parts, self.x, self.value = parts, x, x
        self.nodes = parts.after.setdefault(x, [])
        self.last = self.constant("last", np.array([-1], np.int64))

    def constant(self, word: str, array: np.ndarray) -> str:
        return self.parts.constant(f"{self.x}/{word}", array)

    def name(self, kind: str, word: str, *inputs: str, **attributes: Attribute) -> str:
        """The result of a new node."""
        result = self.parts.fresh(f"{self.x}/{word}")
        self.nodes.append(self.parts.node(kind, inputs, result, **attributes))
        return result

    def apply(self, kind: str, word: str, *inputs: str, **attributes: Attribute) -> None:
        """Puts a node behind the chain, with more inputs."""
        self.value = self.name(kind, word, self.value, *inputs, **attributes)

    def largest(self, factor: float) -> str:
        """The largest magnitude of each row times a factor, a normal number: (n, 1)."""
        sizes = self.name("Abs", "sizes", self.value)
        if prepare.opsets(self.parts.source.model)[""] < 18:
            most = self.name("ReduceMax", "most", sizes, axes=[-1])
        else:
            most = self.name("ReduceMax", "most", sizes, self.last)
        most = self.name(
            "Mul", "share", most, self.constant("factor", np.array(factor, np.float32))
        )
        return self.name("Max", "least", most, self.constant("tiny", np.array(_TINY)))


def _rows(work: _Work, kind: str) -> None:
    scale = work.largest(1 / LARGEST[kind])
    scale = work.name("Reshape", "scales", scale, work.last)
    zero = work.name("ConstantOfShape", "zeros", work.name("Shape", "count", scale))
    zero = work.name("Cast", "zero", zero, to=element_types.of_numpy(TYPES[kind]).onnx)
    work.apply("QuantizeLinear", "codes", scale, zero, axis=0)
    work.apply("DequantizeLinear", "dq", scale, zero, axis=0)


def _blocks(work: _Work, kind: str) -> None:
    form = microscaling.FORMATS[kind]
    least = work.largest(2.0 ** (form.shift - form.exponent))
    to = TensorProto.FLOAT8E8M0
    scale = work.name("Cast", "scales", least, to=to, round_mode="down", saturate=1)
    stored = element_types.of_numpy(form.dtype).onnx
    where = {"axis": 1, "block_size": BLOCK}
    if form.shift:  # the type has numbers beyond the format's largest
        work.apply("Div", "shares", work.name("Cast", "powers", scale, to=TensorProto.FLOAT))
        ends = [work.constant(w, np.array(n, np.float32))
                for w, n in (("low", -form.limit), ("high", form.limit))]  # fmt: skip
        work.apply("Clip", "inside", *ends)
        work.apply("Cast", "codes", to=stored)
    else:
        work.apply("QuantizeLinear", "codes", scale, output_dtype=stored, **where)
    work.apply("DequantizeLinear", "dq", scale, output_dtype=TensorProto.FLOAT, **where)
