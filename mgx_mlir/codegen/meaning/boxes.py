"""Whether boxes overlap: for code on single elements, and for a generator's lanes."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic


def overlaps(
    a: Arithmetic, kept: Sequence[ir.Value], box: Sequence[ir.Value], threshold: float
) -> ir.Value:
    """Whether the intersection of two boxes is more than `threshold` of their union.

    Boxes are the f32 coordinates of two opposite corners, the lower one first. Nothing is
    fused or divided, so that the result rounds as the host's own selection does.
    """
    low = [arith.maximumf(x, y) for x, y in zip(kept[:2], box[:2], strict=True)]
    high = [arith.minimumf(x, y) for x, y in zip(kept[2:], box[2:], strict=True)]
    zero = a.float(0.0, box[0])
    sides = [arith.maximumf(arith.subf(y, x), zero) for x, y in zip(low, high, strict=True)]
    shared = arith.mulf(*sides)
    both = arith.subf(arith.addf(_area(box), _area(kept)), shared)
    over = a.compare("ogt", arith.divf(shared, both), a.float(threshold, shared))
    return arith.andi(a.compare("ogt", shared, zero), over)


def _area(box: Sequence[ir.Value]) -> ir.Value:
    return arith.mulf(arith.subf(box[2], box[0]), arith.subf(box[3], box[1]))
