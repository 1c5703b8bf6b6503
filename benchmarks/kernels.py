"""Generated kernels beside Triton's and IREE's, on one emulated device and by one model.

    python -m benchmarks.kernels [--only gemm] [--json FILE]

Triton (`pip install .[slow]`) and IREE (`pip install .[bench]`) compile for these chips
without a GPU; a row says nothing of a compiler that is not installed. Those work-groups
that one compute unit holds at a time are executed, and their trace is priced by the emulated
device's profile mode: a model's figures, none of silicon. Of Triton the best of several
schedules is shown. Where a problem takes several kernels, U and B/clk are of all together,
the other figures of the one with the most matrix instructions. `generic` is this compiler's
path for everything that no family takes: one thread an element, or a row.

CUs: the share of the compute units that have work. U: ideal over modelled clocks of one that
has, at fast, mid and slow latencies, useful flop only. B/clk: bytes that have to move, by
clock and compute unit of the chip, whether it has work or not.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
# The emulated device reads them when it is opened.
os.environ["MGX_EMULATED_DEVICES"] = ",".join(CHIPS)
os.environ["MGX_EMULATOR_PROFILE"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # what 3.9 does, without its warning

from mgx_mlir import emulator  # noqa: E402

emulator.enable()

from hip import hip  # noqa: E402

from benchmarks.kernel_cases import Case, cases  # noqa: E402
from benchmarks.kernel_makers import MAKERS, Kernel  # noqa: E402
from benchmarks.movement_cases import movement_cases  # noqa: E402

# Every pointer gets a buffer that the largest tensor fits into.
BUFFER_BYTES = 1 << 26
LAUNCH_CLOCKS = 2000  # what the model adds for a launch
COMPUTE_UNITS = {"gfx90a": 104, "gfx942": 304, "gfx950": 256, "gfx1100": 96, "gfx1201": 64}
# Multiplications and additions a clock of a compute unit: AMD's white papers.
MATRIX_FLOP = {
    "gfx90a": {"bf16": 1024, "f16": 1024, "f32": 256, "f64": 256, "i8": 1024},
    "gfx942": {"bf16": 2048, "f16": 2048, "f32": 256, "f64": 256, "i8": 4096, "fp8-fnuz": 4096},
    "gfx950": {"f16": 4096, "fp8": 8192, "fp4": 16384},
    "gfx1100": {"bf16": 512, "f16": 512, "i8": 512},
    "gfx1201": {"bf16": 1024, "f16": 1024, "i8": 2048, "fp8": 2048},
}


@dataclass(frozen=True)
class Figures:
    """What one compiler reaches on a problem.

    `u`: at fast, mid and slow latencies; `share`: of the compute units that have work.
    """

    kernels: int
    groups: int
    share: float
    vgprs: int
    lds: int
    u: tuple[float, ...]
    instructions: float
    lambda_: float
    nu: float
    mu: float
    bytes_a_clock: float
    why: str

    @property
    def merit(self) -> float:
        return self.u[1] * self.share if self.u else self.bytes_a_clock


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="problems whose name holds it")
    parser.add_argument("--by", default=",".join(MAKERS), metavar="NAMES", help="compilers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures too")
    options = parser.parse_args()
    print(HEADER)
    found = {}
    for case in [*cases(), *movement_cases()]:
        if options.only not in f"{case.chip} {case.name}":
            continue
        for maker in options.by.split(","):
            if maker not in case.makers:
                continue
            figures = best(case, maker)
            if figures is not None:
                found[f"{case.chip} {case.name} {maker}"] = figures
                print(row(case, maker, figures), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2, default=asdict) + "\n")
    return 0


HEADER = (
    f"{'chip':8}{'problem':18}{'by':8}{'kernels':>8}{'groups':>7}{'CUs':>5}{'VGPR':>5}{'LDS':>7}"
    f"{'U fast/mid/slow':>17}{'/matrix':>8}{'lambda':>7}{'nu':>6}{'mu':>6}{'B/clk':>7}  schedule"
)


def row(case: Case, maker: str, f: Figures) -> str:
    u = "/".join(f"{x:.2f}" for x in f.u)
    matrix = "".join(
        f"{x:{width}.2f}" if case.flop and f.instructions else " " * width
        for x, width in ((f.instructions, 8), (f.lambda_, 7), (f.nu, 6), (f.mu, 6))
    )
    rate = f"{f.bytes_a_clock:7.2f}" if case.bytes else " " * 7
    return (
        f"{case.chip:8}{case.name:18}{maker:8}{f.kernels:8}{f.groups:7}{f.share:5.2f}{f.vgprs:5}{f.lds:7}"
        f"{u:>17}{matrix}{rate}  {f.why}"
    )


def best(case: Case, maker: str) -> Figures | None:
    found = [price(case, kernels) for kernels in MAKERS[maker](case) if kernels]
    return max(found, key=lambda figures: figures.merit, default=None)


def price(case: Case, kernels: list[Kernel]) -> Figures:
    """The figures of one way to solve a problem."""
    counts = [profile(kernel, case.chip) for kernel in kernels]
    groups = [math.prod(kernel.grid) for kernel in kernels]
    clocks = [
        n * (c["modelled_clocks"] - LAUNCH_CLOCKS) for n, c in zip(groups, counts, strict=True)
    ]
    units = COMPUTE_UNITS[case.chip]
    at = max(range(len(kernels)), key=lambda i: (counts[i]["matrix"], clocks[i]))
    c = counts[at]
    u: tuple[float, ...] = ()
    if case.flop and c["matrix"]:
        ideal = case.flop / MATRIX_FLOP[case.chip][case.element]
        latencies = [c[f"u_sim_{name}"] for name in ("fast", "mid", "slow")]
        u = tuple(ideal / sum(clocks) * x / latencies[1] for x in latencies)
    return Figures(
        len(kernels),
        groups[at],
        min(1.0, groups[at] / COMPUTE_UNITS[case.chip]),
        c["vgprs"],
        c["lds_bytes"],
        u,
        c["instructions"] / c["matrix"] if c["matrix"] else 0.0,
        c["lambda"],
        c["nu"],
        c["mu"],
        case.bytes / sum(x * max(1, units / n) for x, n in zip(clocks, groups, strict=True)),
        kernels[at].why,
    )


def profile(kernel: Kernel, chip: str) -> dict[str, Any]:
    """Counts of as many work-groups as one compute unit holds."""
    ordinal = CHIPS.index(chip)
    check(hip.hipSetDevice(ordinal))
    module = check(hip.hipModuleLoadData(kernel.image))
    function = check(hip.hipModuleGetFunction(module, kernel.function.encode()))
    memory: list[Any] = []
    values: list[Any] = []
    for number in kernel.arguments:
        if number is None:
            memory.append(check(hip.hipMalloc(BUFFER_BYTES)))
            values.append(ctypes.c_void_p(int(memory[-1])))
        else:
            kind = ctypes.c_int32 if isinstance(number, int) else ctypes.c_float
            values.append(kind(number))
    groups = 1
    for _ in range(2):
        emulator.reset_profile(ordinal)
        grid = part(kernel.grid, groups)
        addresses = [ctypes.addressof(value) for value in values]
        launched = hip.hipModuleLaunchKernel(
            function, *grid, *kernel.block, kernel.lds_bytes, 0, addresses, None
        )
        check(launched)
        check(hip.hipDeviceSynchronize())
        (record,) = emulator.profile(ordinal)["kernels"]
        wanted = math.ceil(math.prod(kernel.grid) / COMPUTE_UNITS[chip])
        groups = min(record["last"]["workgroups_per_cu"], wanted)
    for pointer in memory:
        check(hip.hipFree(pointer))
    check(hip.hipModuleUnload(module))
    last: dict[str, Any] = record["last"]
    return last


def part(grid: tuple[int, int, int], groups: int) -> tuple[int, int, int]:
    """The first work-groups of a grid: about so many."""
    x = min(grid[0], groups)
    y = min(grid[1], max(1, groups // x))
    return x, y, min(grid[2], max(1, groups // (x * y)))


def check(result: tuple[Any, ...]) -> Any:
    if result[0] != hip.hipError_t.hipSuccess:
        raise RuntimeError(f"{result[0].name}: {emulator.last_fault()}")
    return result[1] if len(result) > 1 else None


if __name__ == "__main__":
    sys.exit(main())
