"""Programs for any sizes take about the modelled clocks of those for given ones.

A model's figures do not depend on the machine, so that a kernel that becomes slower shows here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Cases of benchmarks.symbolic_kernels, and the most that the worst run of each may take.
CASES = (
    ("resnet 1x1 256>64 56", "gfx942", 1.1),
    ("mobilenet depthwise 3x3 72>72", "gfx1100", 1.1),
    ("mobilenet 1x1 72>24 56", "gfx1100", 1.1),
    ("product 2048, open m, n, k", "gfx942", 1.1),
    ("channels first 3x3 256>256 14", "gfx1100", 1.25),
    ("product by weights", "gfx1100", 1.3),
    ("any pixels, channels last", "gfx942", 1.25),
    ("any pixels, channels last", "gfx1100", 1.25),
    ("any pixels, channels first 3x3 256", "gfx942", 1.25),
    ("rows Transpose", "gfx942", 1.25),
    ("rows Softmax of axis 0", "gfx1100", 1.25),
    ("rows TopK", "gfx942", 1.1),
    ("rows CumSum", "gfx1100", 1.2),
    ("images AveragePool", "gfx1100", 1.3),
    ("images GlobalAveragePool", "gfx942", 1.25),
    ("images GlobalAveragePool", "gfx1100", 1.25),
    ("images Resize", "gfx942", 1.25),
    ("attention 16x1024x64", "gfx942", 1.2),
    ("decoder of 2 layers", "gfx942", 1.2),
)
GATE = CASES[:2]


@pytest.mark.parametrize(
    ("case", "chip", "most"),
    [*GATE, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[len(GATE) :])],
)
def test_symbolic_sizes_cost_little(case: str, chip: str, most: float) -> None:
    options = ["--chips", chip, "--only", case, "--most", str(most)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.symbolic_kernels", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
