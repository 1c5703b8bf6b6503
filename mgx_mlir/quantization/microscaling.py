"""OCP MX: blocks of 32 numbers of 4, 6 or 8 bits that share a power of two.

Source: OCP Microscaling Formats specification 1.0, table 1 and section 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from mgx_mlir.sizes.arithmetic import ceil_div

BLOCK = 32
SCALE = np.dtype(ml_dtypes.float8_e8m0fnu)
# The exponent of scale 2^0, and the largest one: the next code is NaN.
_BIAS, _MOST = 127, 254
_PIECE = 1 << 20


@dataclass(frozen=True)
class Format:
    """A format of elements, and the type that holds them.

    `exponent` is that of the largest power of two in the format, `largest` its largest number.
    The stored numbers are 2^-shift of the elements, so that the type's numbers without a leading
    one are the format's; stored scales are 2^shift of the blocks' scales.
    """

    dtype: np.dtype
    exponent: int
    largest: float
    shift: int = 0

    @property
    def limit(self) -> float:
        """The largest number as it is stored."""
        return self.largest * 2.0**-self.shift


# ONNX has no type of 6 bits: float8e4m3fn from 2^-9 to 7.5 * 2^-6 has the numbers of E2M3.
FORMATS = {
    "mxfp4": Format(np.dtype(ml_dtypes.float4_e2m1fn), 2, 6.0),
    "mxfp6": Format(np.dtype(ml_dtypes.float8_e4m3fn), 2, 7.5, 6),
    "mxfp8": Format(np.dtype(ml_dtypes.float8_e4m3fn), 8, 448.0),
}


def quantized(weight: np.ndarray, axis: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of an f32 matrix in blocks along `axis`.

    Codes have the matrix' shape and the format's type; scales are f8E8M0, with the number of blocks
    along `axis`. The last block may have fewer elements. Works piece by piece.
    """
    form = FORMATS[kind]
    codes = np.empty(weight.shape, form.dtype)
    count = ceil_div(weight.shape[axis], BLOCK)
    sizes = (count, weight.shape[1]) if axis == 0 else (weight.shape[0], count)
    scales = np.empty(sizes, SCALE)
    step = max(1, _PIECE // weight.shape[1])
    step = ceil_div(step, BLOCK) * BLOCK
    for start in range(0, len(weight), step):
        piece = slice(start, start + step)
        of_scales = slice(start // BLOCK, (start + step) // BLOCK) if axis == 0 else piece
        codes[piece], scales[of_scales] = _piece(np.asarray(weight[piece]), axis, form)
    return codes, scales


def _piece(part: np.ndarray, axis: int, form: Format) -> tuple[np.ndarray, np.ndarray]:
    rows = part.T if axis == 0 else part
    size = rows.shape[1]
    filled = np.pad(rows, ((0, 0), (0, -size % BLOCK)))
    blocks = filled.reshape(len(rows), -1, BLOCK)
    most = np.abs(blocks).max(-1, keepdims=True)
    exponent = np.frexp(most)[1] - 1 - form.exponent + form.shift
    exponent = np.where(most > 0, np.clip(exponent, 1 - _BIAS, _MOST - _BIAS), 1 - _BIAS)
    values = np.ldexp(blocks, -exponent)
    values = np.clip(values, -form.limit, form.limit).astype(form.dtype)
    codes = values.reshape(filled.shape)[:, :size]
    scales = (exponent[..., 0] + _BIAS).astype(np.uint8).view(SCALE)
    return (codes.T, scales.T) if axis == 0 else (codes, scales)
