"""Cases of ONNX's backend tests that do not pass, and why. The slow tests run them: a case
that passes has to leave this table."""

from __future__ import annotations

import re

RANDOM = "random numbers: those of the case come from a generator without a seed"
ROUNDING = "the case expects the rounding errors of a fast transform"
OPEN = "ONNX leaves the result open; the case expects one of several"
RUNNER = "onnx's runner does not compare scalars in a sequence; test_staged.py does"

# A reason, and the beginnings of the names of its cases (regular expressions, without 'test_').
EXCLUDED: tuple[tuple[str, str], ...] = (
    (RANDOM, r"bernoulli"),
    (ROUNDING, r"dft_inverse(_opset19)?_cpu"),
    (OPEN, r"cast(like)?_FLOAT(16)?_to_FLOAT4E2M1|resize_downsample_scales_(cubic|linear)_align"),
    (RUNNER, r"loop16_seq_none"),
)


def reason(name: str) -> str | None:
    """Why a case is excluded, by its name in onnx's runner; None where it is not."""
    for why, pattern in EXCLUDED:
        if re.match(f"test_({pattern})", name):
            return why
    return None
