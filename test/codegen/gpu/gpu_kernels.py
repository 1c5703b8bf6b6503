"""Small lowered kernels: functions on tensors, with numpy's word on what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.kernel import gpu_program
from mgx_mlir.dialects import context

Array = np.ndarray[Any, Any]

_MAPS = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
#rows = affine_map<(i, j) -> (i)>
#transposed = affine_map<(i, j) -> (j, i)>
#flipped = affine_map<(i, j) -> (i, 6 - j)>
#halved = affine_map<(i, j) -> (i floordiv 2, j mod 3)>
"""


@dataclass(frozen=True)
class Lowered:
    """A function `@f` on tensors; `meaning` takes and gives arrays."""

    name: str
    text: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    meaning: Callable[..., list[Array]]

    def program(self) -> GpuProgram:
        return gpu_program(ir.Module.parse(_MAPS + self.text, context()))

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


SOFTMAX = Lowered(
    "softmax",
    """
func.func @f(%x: tensor<8x100xf32>) -> tensor<8x100xf32> {
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x1xf32>
  %w = tensor.empty() : tensor<8x100xf32>
  %f = linalg.fill ins(%ninf : f32) outs(%e : tensor<8x1xf32>) -> tensor<8x1xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x100xf32>) outs(%f : tensor<8x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x1xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<8x100xf32>, tensor<8x1xf32>) outs(%w : tensor<8x100xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.subf %a, %b : f32
    %g = math.exp %c : f32
    linalg.yield %g : f32
  } -> tensor<8x100xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x1xf32>) -> tensor<8x1xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%d : tensor<8x100xf32>) outs(%z : tensor<8x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x1xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%d, %s : tensor<8x100xf32>, tensor<8x1xf32>) outs(%w : tensor<8x100xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.divf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x100xf32>
  return %r : tensor<8x100xf32>
}""",
    (((8, 100), "float32"),),
    _softmax,
)


def _convolution(x: Array, w: Array, b: Array) -> list[Array]:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((1, 4, 8, 8), np.float32)
    for i in range(3):
        for j in range(3):
            y += np.einsum("nchw,fc->nfhw", padded[:, :, i : i + 8, j : j + 8], w[:, :, i, j])
    return [np.maximum(y + b.reshape(1, 4, 1, 1), 0)]


CONVOLUTION = Lowered(
    "convolution",
    """
#whole = affine_map<(n, f, h, w) -> (n, f, h, w)>
#channel = affine_map<(n, f, h, w) -> (f)>
func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>)
    -> tensor<1x4x8x8xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<1x3x8x8xf32> to tensor<1x3x10x10xf32>
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%p, %w : tensor<1x3x10x10xf32>, tensor<4x3x3x3xf32>)
      outs(%f : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %r = linalg.generic {indexing_maps = [#whole, #channel, #whole],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %b : tensor<1x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<1x4x8x8xf32>) {
  ^bb0(%a: f32, %d: f32, %o: f32):
    %s = arith.addf %a, %d : f32
    %t = arith.maximumf %s, %z : f32
    linalg.yield %t : f32
  } -> tensor<1x4x8x8xf32>
  return %r : tensor<1x4x8x8xf32>
}""",
    (((1, 3, 8, 8), "float32"), ((4, 3, 3, 3), "float32"), ((4,), "float32")),
    _convolution,
)

BOOLEANS = Lowered(
    "booleans",
    """
func.func @f(%x: tensor<5x7xf32>, %m: tensor<5x7xi1>) -> (tensor<5x7xi1>, tensor<7x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x7xi1>
  %w = tensor.empty() : tensor<7x5xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<5x7xf32>, tensor<5x7xi1>) outs(%e : tensor<5x7xi1>) {
  ^bb0(%a: f32, %b: i1, %o: i1):
    %c = arith.cmpf ogt, %a, %zero : f32
    %d = arith.andi %c, %b : i1
    linalg.yield %d : i1
  } -> tensor<5x7xi1>
  %t = linalg.generic {indexing_maps = [#id, #id, #transposed],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %p : tensor<5x7xf32>, tensor<5x7xi1>) outs(%w : tensor<7x5xf32>) {
  ^bb0(%a: f32, %b: i1, %o: f32):
    %c = arith.select %b, %a, %zero : f32
    linalg.yield %c : f32
  } -> tensor<7x5xf32>
  return %p, %t : tensor<5x7xi1>, tensor<7x5xf32>
}""",
    (((5, 7), "float32"), ((5, 7), "bool")),
    lambda x, m: [(x > 0) & m, np.where((x > 0) & m, x, 0).T.astype(np.float32)],
)

TABLE = Lowered(
    "table",
    """
func.func @f(%x: tensor<4x7xf32>, %i: tensor<4x7xi64>) -> tensor<4x7xf32> {
  %t = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %u = arith.constant dense<[true, false, true, true]> : tensor<4xi1>
  %e = tensor.empty() : tensor<4x7xf32>
  %r = linalg.generic {indexing_maps = [#flipped, #halved, #rows, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %t, %u, %i : tensor<4x7xf32>, tensor<2x3xf32>, tensor<4xi1>, tensor<4x7xi64>)
      outs(%e : tensor<4x7xf32>) {
  ^bb0(%a: f32, %b: f32, %use: i1, %k: i64, %o: f32):
    %row = arith.index_cast %k : i64 to index
    %column = linalg.index 1 : index
    %g = tensor.extract %x[%row, %column] : tensor<4x7xf32>
    %s = arith.addf %a, %g : f32
    %p = arith.mulf %s, %b : f32
    %c = arith.select %use, %p, %a : f32
    linalg.yield %c : f32
  } -> tensor<4x7xf32>
  return %r : tensor<4x7xf32>
}""",
    (((4, 7), "float32"), ((4, 7), "int64")),
    lambda x, i: [
        np.where(
            np.array([1, 0, 1, 1], bool)[:, None],
            (x[:, ::-1] + x[i, np.arange(7)])
            * np.arange(1, 7, dtype=np.float32).reshape(2, 3)[
                np.arange(4)[:, None] // 2, np.arange(7) % 3
            ],
            x[:, ::-1],
        )
    ],
)

CONCAT = Lowered(
    "concat",
    """
func.func @f(%x: tensor<2x3xf16>, %y: tensor<2x5xf16>) -> tensor<2x8xf16> {
  %r = tensor.concat dim(1) %x, %y : (tensor<2x3xf16>, tensor<2x5xf16>) -> tensor<2x8xf16>
  return %r : tensor<2x8xf16>
}""",
    (((2, 3), "float16"), ((2, 5), "float16")),
    lambda x, y: [np.concatenate([x, y], 1)],
)

RUNNING_SUM = Lowered(
    "running_sum",
    """
func.func @f(%x: tensor<4x10xf32>) -> tensor<4x10xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x10xf32>
  %r = scf.forall (%i) in (4) shared_outs(%o = %e) -> tensor<4x10xf32> {
    %s = tensor.extract_slice %o[%i, 0][1, 10][1, 1] : tensor<4x10xf32> to tensor<10xf32>
    %q:2 = scf.for %j = %c0 to %c10 step %c1 iter_args(%t = %s, %acc = %z)
        -> (tensor<10xf32>, f32) {
      %v = tensor.extract %x[%i, %j] : tensor<4x10xf32>
      %a = arith.addf %v, %acc : f32
      %u = tensor.insert %a into %t[%j] : tensor<10xf32>
      scf.yield %u, %a : tensor<10xf32>, f32
    }
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %q#0 into %o[%i, 0][1, 10][1, 1]
          : tensor<10xf32> into tensor<4x10xf32>
    }
  }
  return %r : tensor<4x10xf32>
}""",
    (((4, 10), "float32"),),
    lambda x: [np.cumsum(x, 1, dtype=np.float32)],
)

# The whole of it in one thread, and a scalar that later functions read.
SERIAL = Lowered(
    "serial",
    """
func.func @f(%x: tensor<6xf32>) -> tensor<6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %z = arith.constant 0.0 : f32
  %s = scf.for %j = %c0 to %c6 step %c1 iter_args(%acc = %z) -> f32 {
    %v = tensor.extract %x[%j] : tensor<6xf32>
    %a = arith.addf %v, %acc : f32
    scf.yield %a : f32
  }
  %e = tensor.empty() : tensor<6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.subf %a, %s : f32
    linalg.yield %c : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}""",
    (((6,), "float32"),),
    lambda x: [x - np.cumsum(x, dtype=np.float32)[-1]],
)

SCALAR = Lowered(
    "scalar",
    """
func.func @f(%x: tensor<f64>) -> tensor<f64> {
  %e = tensor.empty() : tensor<f64>
  %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>],
      iterator_types = []} ins(%x : tensor<f64>) outs(%e : tensor<f64>) {
  ^bb0(%a: f64, %o: f64):
    %c = math.tanh %a : f64
    linalg.yield %c : f64
  } -> tensor<f64>
  return %r : tensor<f64>
}""",
    (((), "float64"),),
    lambda x: [np.tanh(x)],
)

ALL = (BOOLEANS, CONCAT, CONVOLUTION, RUNNING_SUM, SCALAR, SERIAL, SOFTMAX, TABLE)
