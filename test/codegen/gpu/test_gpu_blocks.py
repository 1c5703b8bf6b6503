"""Weights of few bits on GPUs: numbers that share zero points and scales, and rows in LDS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction.few_rows import SharedRows
from mgx_mlir.codegen.gpu.families.contraction.kernel import kernel_request
from mgx_mlir.codegen.gpu.families.contraction.plan import Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import Skinny, as_skinny
from mgx_mlir.codegen.problem.problem import Axis, Matrix, Read
from mgx_mlir.dialects import context

# f16 of a number c, a scale s and a zero point z.
MADE = "%d = mgx.convert %c : ui4 -> f16\n"
LESS = MADE + "%e = mgx.sub %d, %z : f16, f16 -> f16\n"
BODIES = {
    "less the zero point, scaled": LESS + "%f = mgx.mul %e, %s : f16, f16 -> f16",
    "scaled by the other operand": LESS + "%f = mgx.mul %s, %e : f16, f16 -> f16",
    "dequantized": "%f = mgx.dequantizelinear %c scale %s : ui4, f16 -> f16",
    "scaled before": MADE + "%e = mgx.mul %d, %s : f16, f16 -> f16\n"
    "%f = mgx.sub %e, %z : f16, f16 -> f16",
    "subtracted from the zero point": MADE + "%e = mgx.sub %z, %d : f16, f16 -> f16\n"
    "%f = mgx.mul %e, %s : f16, f16 -> f16",
    "less an integer, which wraps": "%i = mgx.constant 3 : ui4\n"
    "%e = mgx.sub %c, %i : ui4, ui4 -> ui4\n"
    "%f = mgx.convert %e : ui4 -> f16",
    "squared": LESS + "%f = mgx.mul %e, %e : f16, f16 -> f16",
}


@contextmanager
def skinny(body: str, rows: int = 1, block: int = 32, target: str = "gfx942") -> Iterator[Skinny]:
    """The plan for rows of 512 by 8 columns of weights of 4 bits."""
    shape, parts = "8x512", f"8x{512 // block}x1"
    spread = f"tensor<8x{512 // block}x{block}xf16>"
    lines = [f"%u = mgx.unpack %w : tensor<8x256xui8> -> tensor<{shape}xui4>"]
    for name in ("a", "b"):
        lines.append(f"%{name}w = mgx.multibroadcast %{name} : tensor<{parts}xf16> -> {spread}")
        lines.append(f"%{name}r = mgx.reshape %{name}w : {spread} -> tensor<{shape}xf16>")
    whole = f"tensor<{shape}xf16>"
    text = f"""
      mgx.kernel @k(%x: tensor<{rows}x512xf16>, %w: tensor<8x256xui8>, %a: tensor<{parts}xf16>,
                    %b: tensor<{parts}xf16>) -> (tensor<{rows}x8xf16>)
                    attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
        {chr(10).join(lines)}
        %p = mgx.pointwise(%u, %ar, %br) : (tensor<{shape}xui4>, {whole}, {whole}) -> {whole} {{
        ^bb0(%c: ui4, %s: f16, %z: f16):
          {body}
          mgx.yield %f : f16
        }}
        %t = mgx.transpose %p permutation = [1, 0] : {whole} -> tensor<512x8xf16>
        %y = mgx.dot %x, %t : tensor<{rows}x512xf16>, tensor<512x8xf16> -> tensor<{rows}x8xf16>
        mgx.return %y : tensor<{rows}x8xf16>
      }}"""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        request = kernel_request(next(iter(module.body.operations)), Target.get(target))
        assert isinstance(request, Request)
        plan = as_skinny(request)
        assert isinstance(plan, Skinny)
        yield plan


def element(x: object) -> str:
    return x.matrix.element if isinstance(x, Read) else ""


@pytest.mark.parametrize("body", BODIES)
def test_a_scale_counts_once_for_a_block(body: str) -> None:
    with skinny(BODIES[body]) as plan:
        found = plan.blocks
        if body not in (
            "less the zero point, scaled",
            "scaled by the other operand",
            "dequantized",
        ):
            assert found is None
            return
        assert found is not None
        assert found.numbers.element == "ui4" and element(found.scale) == "f16"
        assert element(found.zero) == ("" if body == "dequantized" else "f16")


@pytest.mark.parametrize("block, lanes", [(16, 16), (32, 16), (128, 16)])
def test_a_lane_takes_neighbours_of_one_block(block: int, lanes: int) -> None:
    with skinny(BODIES["dequantized"], rows=4, block=block) as plan:
        assert plan.blocks is not None and plan.lanes == lanes


def test_chips_without_sums_of_two_products_compute_elements() -> None:
    with skinny(BODIES["dequantized"], target="gfx1250") as plan:
        assert plan.blocks is None


@pytest.mark.parametrize("lanes, chunks", [(16, 2), (32, 4), (64, 8)])
def test_rows_in_lds(lanes: int, chunks: int) -> None:
    """Each chunk of both halves has a place, and those of eight threads lie in all banks."""
    matrix = Matrix(0, "f16", 0, Axis(()), Axis.of((2, 4096)), Axis.of((4096, 1)))
    rows = SharedRows(matrix, 2, lanes, across=64, threads=256, end=4096)
    assert rows.chunks == chunks
    places = [
        [rows.place(turn, m, n % chunks, n // chunks) for n in range(chunks * 64)]
        for turn in range(2)
        for m in range(2)
    ]
    found = [int(at) for row in places for at in row]
    assert len(set(found)) == len(found) and max(found) < rows.elements
    for row in places:
        for first in range(0, len(row), 8):
            assert len({int(at) // rows.chunk % 8 for at in row[first : first + 8]}) == 8
