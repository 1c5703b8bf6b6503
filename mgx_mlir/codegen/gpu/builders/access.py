"""The width of an access to memory."""

from __future__ import annotations

import math

from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import common_factor


def is_contiguous(axis: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    return bool(axis.factors) and axis.factors[-1][1] == 1


def vector_width(contiguous: Axis, *others: Axis, offset: int, limit: int) -> int:
    """Neighbours along `contiguous` that one aligned access can read, at every start.

    A power of two up to `limit` that divides every stride, the offset and the size; 1 where
    nothing is known.
    """
    if not is_contiguous(contiguous):
        return 1
    strides = [stride for axis in others for _, stride in axis.factors]
    strides += [stride for _, stride in contiguous.factors[:-1]]
    sizes = [contiguous.factors[-1][0]] if len(contiguous.factors) > 1 else []
    # A vector must not cross the end: the hardware drops all of a word that is partly outside.
    return math.gcd(limit, *map(common_factor, (offset, contiguous.size, *strides, *sizes)))
