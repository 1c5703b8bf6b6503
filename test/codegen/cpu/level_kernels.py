"""Kernels that every level of CPUs has to compute: each family, shape of vectors and type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cpu_kernels import HostKernel, kernel_text, tensor
from test_cpu_contraction import dot
from test_cpu_convolution import convolution
from test_cpu_generic import unary
from test_cpu_pooling import pooling

from test.codegen.attention_kernels import AttentionCase

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "ui8", "i16", "i32", "i64")
TOLERANCES = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-4, "f64": 1e-9}


@dataclass(frozen=True)
class Case:
    """The text of a kernel, how exact it is, and the range of its inputs."""

    name: str
    text: str
    tolerance: float = 1e-4
    low: float = -1
    high: float = 1

    def check(self, kernel: HostKernel) -> None:
        arrays = kernel.random(low=self.low, high=self.high)
        kernel.check(*arrays, rtol=self.tolerance, atol=self.tolerance)


def product(m: int, n: int, k: int, element: str, layout: str = "nn", **options: str) -> Case:
    name = f"product {m}x{n}x{k} {layout} {element}"
    return Case(name, dot(m, n, k, layout, element, **options), TOLERANCES.get(element, 0))


def quantized(m: int, n: int, k: int, element: str) -> Case:
    return product(m, n, k, element, "nt", result="i32", op="mgx.quant_dot")


def convolved(name: str, x: tuple[int, ...], w: tuple[int, ...], element: str, *sizes: int) -> Case:
    pads, stride, dilation, group = sizes
    text = convolution(x, w, pads, stride, dilation, group, element)
    return Case(f"{name} convolution {element}", text, TOLERANCES.get(element, 0))


def converted(source: str, target: str) -> Case:
    text = unary("mgx.convert", tensor((3, 37), source), tensor((3, 37), target))
    low = 0.0 if target.startswith("ui") else -20.0
    exact = source in INTEGERS and target in INTEGERS
    return Case(f"{source} to {target}", text, 0 if exact else 1e-3, low, 20)


def rows(op: str, shape: tuple[int, ...], axis: int, element: str) -> Case:
    reduced = tuple(1 if n == axis else size for n, size in enumerate(shape))
    result = shape if op == "softmax" else reduced
    attribute = f"axis = {axis}" if op == "softmax" else f"axes = [{axis}]"
    text = unary(f"mgx.{op}", tensor(shape, element), tensor(result, element), attribute)
    return Case(f"{op} of axis {axis} of {element}", text, TOLERANCES[element])


def chain(element: str) -> Case:
    """Pointwise work on neighbours, a transposed operand and a broadcast one."""
    x, y, b = tensor((5, 19, 33), element), tensor((33, 19, 5), element), tensor((19, 1), element)
    scalar = f"{element}, {element} -> {element}"
    body = (
        f"%t = mgx.transpose %y permutation = [2, 1, 0] : {y} -> {x}\n"
        f"%v = mgx.multibroadcast %b : {b} -> {x}\n"
        f"%r = mgx.pointwise(%x, %t, %v) : ({x}, {x}, {x}) -> {x} {{\n"
        f"^bb0(%p: {element}, %q: {element}, %s: {element}):\n"
        f"%m = mgx.mul %p, %q : {scalar}\n%n = mgx.add %m, %s : {scalar}\n"
        f"mgx.yield %n : {element}\n}}"
    )
    text = kernel_text(f"%x: {x}, %y: {y}, %b: {b}", x, body, "%r")
    return Case(f"chain of {element}", text, TOLERANCES.get(element, 0))


def function(op: str, element: str) -> Case:
    low, high = {"log": (0.1, 9.0), "sqrt": (0.1, 9.0), "sin": (-1e3, 1e3)}.get(op, (-3.0, 3.0))
    text = unary(f"mgx.{op}", tensor((3, 21), element), tensor((3, 21), element))
    return Case(f"{op} of {element}", text, max(TOLERANCES[element], 1e-5), low, high)


def small() -> Iterator[Case]:
    """The gate's kernels: each family and type, sizes between multiples of vectors."""
    for element in FLOATS:
        yield product(8, 6, 20, element)
        yield rows("softmax", (6, 45), 1, element)
    for element in ("f32", "f64"):
        yield product(8, 11, 20, element, "nt")
        yield product(1, 37, 45, element, "nt")
        yield product(2, 37, 45, element)
        yield convolved("square", (1, 3, 9, 11), (5, 3, 3, 3), element, 1, 2, 1, 1)
        yield from (function(op, element) for op in ("exp", "sin"))
    yield from (product(13, 21, 19, element, "nt") for element in ("f16", "bf16"))
    for element in ("f16", "f32"):
        yield convolved("depthwise", (1, 6, 9, 11), (6, 1, 3, 3), element, 1, 1, 1, 6)
    for mode, element in (("max", "bf16"), ("average", "f32")):
        text = pooling(mode, (1, 3, 9, 21), 3, 2, 1, element=element)
        yield Case(f"{mode} pooling of {element}", text, TOLERANCES[element])
    yield rows("reduce_sum", (9, 37), 0, "f32")
    yield from (chain(element) for element in ("f16", "f32", "i64"))
    yield from (function(op, "f32") for op in ("tanh", "log", "erf", "floor"))
    for element in ("i8", "ui8"):
        yield quantized(8, 6, 70, element)
    bytes_ = dot(13, 17, 19, "nn", "f8E4M3FN", result="f32", op="mgx.quant_dot")
    yield Case("product of floats of 8 bits", bytes_)
    yield convolved("quantized", (1, 3, 9, 11), (5, 3, 3, 3), "i8", 1, 1, 1, 1)
    yield from (converted("f64", target) for target in ("f16", "bf16", "i8"))
    yield from (converted("f16", target) for target in ("f32", "f64", "ui8"))
    yield from (converted(source, "f16") for source in ("f32", "ui8", "i64"))
    yield converted("f32", "bf16")


def large() -> Iterator[Case]:
    """The slow tier's: every width up to beyond two vectors of the widest kind."""
    for element in (*FLOATS, "i32"):
        for m in (1, 2, 5, 8, 9, 17):
            for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33):
                for layout in ("nn", "nt", "tn"):
                    yield product(m, n, 23, element, layout)
    for element in FLOATS:
        for stride in (1, 2, 3):
            for width in (5, 7, 9, 17, 33):
                x = (1, 4, 7, width)
                yield convolved(f"{stride} {width}", x, (6, 4, 3, 3), element, 1, stride, 1, 1)
                yield convolved(f"{stride} {width} each", x, (4, 1, 3, 3), element, 1, stride, 1, 4)
                text = pooling("max", x, 3, stride, 1, element=element)
                yield Case(f"pooling {stride} {width} {element}", text, TOLERANCES[element])
    types = (*FLOATS, *INTEGERS)
    yield from (converted(s, t) for s in types for t in types if s != t)
    for element in FLOATS:
        yield from (function(op, element) for op in ("exp", "sin", "tanh", "log", "erf", "sqrt"))
        for op in ("softmax", "reduce_sum", "reduce_max"):
            yield from (rows(op, (7, 67), axis, element) for axis in (0, 1))


def attentions() -> Iterator[AttentionCase]:
    for element in ("f16", "f64"):
        yield AttentionCase(2, 9, 11, 12, element=element, mask="padding")
    yield AttentionCase(2, 10, 10, 16, element="f32", causal=0)
