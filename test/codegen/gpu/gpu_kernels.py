"""Small kernels of the generic path, with numpy's word on what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.dialects import context

Array = np.ndarray[Any, Any]


def loops_of(arguments: str, results: str, body: str) -> GpuProgram:
    """The GPU functions of a kernel; `results` are values with types: '%y: tensor<4xf32>'."""
    named = [result.split(": ") for result in results.split(", ")]
    names, types = (", ".join(part) for part in zip(*named, strict=True))
    text = (
        f"mgx.kernel @kernel({arguments}) -> ({types})"
        ' attributes {arch = #mgx.arch<"gfxMIGX">} {\n'
        f"{body}\nmgx.return {names} : {types}\n}}"
    )
    with context() as ctx, ir.Location.unknown():
        module = ir.Module.parse(text, ctx)
        return loops_program(module.body.operations[0])


@dataclass(frozen=True)
class Kernel:
    """A kernel; `meaning` takes and gives arrays."""

    name: str
    arguments: str
    results: str
    body: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    meaning: Callable[..., list[Array]]

    def program(self) -> GpuProgram:
        return loops_of(self.arguments, self.results, self.body)

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(7)
        made = []
        for shape, dtype in self.inputs:
            values = rng.normal(size=shape)
            if dtype == "bool":
                made.append(np.asarray(values > 0))
            elif dtype.startswith("int"):
                made.append(rng.integers(0, 4, shape).astype(dtype))
            else:
                made.append(values.astype(dtype))
        return made


def _softmax(x: Array) -> list[Array]:
    e = np.exp(x - x.max(1, keepdims=True))
    return [e / e.sum(1, keepdims=True)]


SOFTMAX = Kernel(
    "softmax",
    "%x: tensor<5x7xf32>",
    "%y: tensor<5x7xf32>",
    "%y = mgx.softmax %x axis = 1 : tensor<5x7xf32>",
    (((5, 7), "float32"),),
    _softmax,
)


def _product(x: Array, w: Array) -> list[Array]:
    return [np.maximum(np.einsum("bik,kj->bij", x, w), 0)]


PRODUCT = Kernel(
    "product",
    "%x: tensor<2x5x9xf32>, %w: tensor<9x6xf32>",
    "%y: tensor<2x5x6xf32>",
    """%v = mgx.multibroadcast %w : tensor<9x6xf32> -> tensor<2x9x6xf32>
    %p = mgx.dot %x, %v : tensor<2x5x9xf32>, tensor<2x9x6xf32> -> tensor<2x5x6xf32>
    %y = mgx.relu %p : tensor<2x5x6xf32>""",
    (((2, 5, 9), "float32"), ((9, 6), "float32")),
    _product,
)

BOOLEANS = Kernel(
    "booleans",
    "%x: tensor<4x5xi1>, %y: tensor<4x5xf32>",
    "%a: tensor<4x5xi1>, %b: tensor<4x1xi1>",
    """%z = mgx.sub %y, %y : tensor<4x5xf32>, tensor<4x5xf32> -> tensor<4x5xf32>
    %g = mgx.greater %y, %z : tensor<4x5xf32>, tensor<4x5xf32> -> tensor<4x5xi1>
    %a = mgx.logical_and %x, %g : tensor<4x5xi1>, tensor<4x5xi1> -> tensor<4x5xi1>
    %b = mgx.reduce_any %a axes = [1] : tensor<4x5xi1> -> tensor<4x1xi1>""",
    (((4, 5), "bool"), ((4, 5), "float32")),
    lambda x, y: [x & (y > 0), (x & (y > 0)).any(1, keepdims=True)],
)

TABLE = Kernel(
    "table",
    "%i: tensor<6xi64>",
    "%y: tensor<6xf32>",
    """%t = mgx.constant dense<[1.5, -2.0, 0.25, 8.0]> : tensor<4xf32>
    %g = mgx.gather %t[%i] axis = 0 : tensor<4xf32>, tensor<6xi64> -> tensor<6xf32>
    %y = mgx.mul %g, %g : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>""",
    (((6,), "int64"),),
    lambda i: [np.array([1.5, -2.0, 0.25, 8.0], np.float32)[i] ** 2],
)

CONCAT = Kernel(
    "concat",
    "%x: tensor<3x4xf32>, %y: tensor<3x2xf32>",
    "%z: tensor<3x6xf32>",
    """%z = mgx.concat %x, %y axis = 1 : tensor<3x4xf32>, tensor<3x2xf32> -> tensor<3x6xf32>""",
    (((3, 4), "float32"), ((3, 2), "float32")),
    lambda x, y: [np.concatenate([x, y], 1)],
)

RUNNING_SUM = Kernel(
    "running_sum",
    "%x: tensor<3x7x2xf32>",
    "%y: tensor<3x7x2xf32>",
    "%y = mgx.prefix_scan_sum %x axis = 1 : tensor<3x7x2xf32>",
    (((3, 7, 2), "float32"),),
    lambda x: [np.cumsum(x, 1)],
)


def _places(x: Array) -> list[Array]:
    found = np.zeros((2, 12), np.int64)
    places = np.array(np.nonzero(x))
    found[:, : places.shape[1]] = places
    return [found]


SERIAL = Kernel(
    "serial",
    "%x: tensor<3x4xi32>",
    "%y: tensor<2x12xi64>",
    "%y = mgx.nonzero %x : tensor<3x4xi32> -> tensor<2x12xi64>",
    (((3, 4), "int32"),),
    _places,
)

SCALAR = Kernel(
    "scalar",
    "%x: tensor<f64>",
    "%y: tensor<f64>",
    "%y = mgx.tanh %x : tensor<f64>",
    (((), "float64"),),
    lambda x: [np.tanh(x)],
)

ALL = (BOOLEANS, CONCAT, PRODUCT, RUNNING_SUM, SCALAR, SERIAL, SOFTMAX, TABLE)
