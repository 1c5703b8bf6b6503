"""Generated kernels beside Triton's and IREE's, on one emulated device and by one model.

    python -m benchmarks.kernels [--only gemm] [--json FILE]

Triton (`pip install .[slow]`) and IREE (`pip install .[bench]`) compile for these chips
without a GPU; a row says nothing of a compiler that is not installed. The work-groups
that one compute unit holds at a time are executed, and their trace is priced by the emulated
device's profile mode: a model's figures, none of silicon. For
Triton the best of several schedules is shown. Where a problem takes several kernels, U, GPU and
the bytes are of all together, the other figures of the one with the most matrix instructions.
`generic` is this compiler's path for everything that no family takes: one thread an element, or
a row. Attention gets random numbers, since what it does depends on them; the others get zeros.

CUs: the share of the compute units that have work. Work-groups are whole: 512 on 304 units are
two rounds of which .84 is used. U: ideal over modelled clocks of one that has work, at fast, mid
and slow latencies, useful flop only. GPU: U at mid latencies times CUs, under the memory's roof,
where each of the problem's tensors passes once.
B/clk: bytes that have to move, by clock and compute unit of the chip, whether it has work or not:
where caches have them, and where memory does, which gives all units together 8.3 a clock and unit
on gfx942, 13.3 on gfx950 and 4.0 on gfx1100.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
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
os.environ["MGX_EMULATOR_PROFILE"] = "sample"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # what 3.9 does, without its warning

from mgx_mlir import emulator  # noqa: E402

emulator.enable()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from hip import hip  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from benchmarks.kernel_cases import Case, cases  # noqa: E402
from benchmarks.kernel_makers import MAKERS, Kernel  # noqa: E402
from benchmarks.movement_cases import movement_cases  # noqa: E402

# Every pointer gets a buffer that the largest tensor fits into.
BUFFER_BYTES = 1 << 26
HOST_TO_DEVICE = hip.hipMemcpyKind.hipMemcpyHostToDevice
COMPUTE_UNITS = {"gfx90a": 104, "gfx942": 304, "gfx950": 256, "gfx1100": 96, "gfx1201": 64}
# Bytes a clock that memory gives: bus width times transfers, over the clock of the compute units.
MEMORY_BYTES = {
    "gfx90a": 4096 / 8 * 2 * 1600 / 1700,
    "gfx942": 8192 / 8 * 4 * 1300 / 2100,
    "gfx950": 8192 / 8 * 4 * 2000 / 2400,
    "gfx1100": 384 / 8 * 16 * 1249 / 2498,
    "gfx1201": 256 / 8 * 16 * 1258 / 2970,
}
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
    """The figures that one compiler reaches on a problem.

    `u`: at fast, mid and slow latencies; `share`: of the compute units that have work; `gpu`: of
    what all of them could do; bytes a clock: where caches have all, and where memory does.
    """

    kernels: int
    groups: int
    share: float
    vgprs: int
    lds: int
    u: tuple[float, ...]
    gpu: float
    instructions: float
    lambda_: float
    nu: float
    mu: float
    bytes_a_clock: float
    from_memory: float
    why: str

    @property
    def merit(self) -> float:
        return self.gpu if self.u else self.bytes_a_clock


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
    f"{'U fast/mid/slow':>17}{'GPU':>5}{'/matrix':>8}{'lambda':>7}{'nu':>6}{'mu':>6}"
    f"{'B/clk: cached, memory':>23}  schedule"
)


def row(case: Case, maker: str, f: Figures) -> str:
    u = "/".join(f"{x:.2f}" for x in f.u)
    matrix = "".join(
        f"{x:{width}.2f}" if case.flop and f.instructions else " " * width
        for x, width in ((f.instructions, 8), (f.lambda_, 7), (f.nu, 6), (f.mu, 6))
    )
    gpu = f"{f.gpu:5.2f}" if f.u else " " * 5
    rate = f"{f.bytes_a_clock:15.2f}{f.from_memory:8.2f}" if case.bytes else " " * 23
    return (
        f"{case.chip:8}{case.name:18}{maker:8}{f.kernels:8}{f.groups:7}{f.share:5.2f}{f.vgprs:5}{f.lds:7}"
        f"{u:>17}{gpu}{matrix}{rate}  {f.why}"
    )


def best(case: Case, maker: str) -> Figures | None:
    found = [price(case, kernels) for kernels in MAKERS[maker](case) if kernels]
    return max(found, key=lambda figures: figures.merit, default=None)


def price(case: Case, kernels: list[Kernel]) -> Figures:
    """The figures of one way to solve a problem."""
    counts = [profile(kernel, case.chip, case.values) for kernel in kernels]
    units = COMPUTE_UNITS[case.chip]
    at = max(range(len(kernels)), key=lambda i: (counts[i]["matrix"], counts[i]["unit_clocks"]))
    c, groups = counts[at], math.prod(kernels[at].grid)
    share = groups / (c["rounds"] * units)
    busy = sum(count["unit_clocks"] for count in counts)
    roofed = max(busy, tensor_bytes(case.model()) / MEMORY_BYTES[case.chip])
    u: tuple[float, ...] = ()
    if case.flop and c["matrix"]:
        ideal = case.flop / MATRIX_FLOP[case.chip][case.element] / units
        latencies = [c[f"u_sim_{name}"] for name in ("fast", "mid", "slow")]
        u = tuple(ideal / busy / share * x / latencies[1] for x in latencies)
    return Figures(
        len(kernels),
        groups,
        share,
        c["vgprs"],
        c["lds_bytes"],
        u,
        u[1] * share * busy / roofed if u else 0.0,
        c["instructions"] / c["matrix"] if c["matrix"] else 0.0,
        c["lambda"],
        c["nu"],
        c["mu"],
        case.bytes / busy / units,
        case.bytes / roofed / units,
        kernels[at].why,
    )


def tensor_bytes(model: onnx.ModelProto) -> int:
    """The bytes of a model's inputs, weights and results, each once."""
    graph = model.graph
    weights = sum(numpy_helper.to_array(w).nbytes for w in graph.initializer)
    return weights + sum(_bytes(value) for value in [*graph.input, *graph.output])


def _bytes(value: onnx.ValueInfoProto) -> int:
    kind = value.type.tensor_type
    size = math.prod(dim.dim_value for dim in kind.shape.dim)
    packed = kind.elem_type in (TensorProto.FLOAT4E2M1, TensorProto.INT4, TensorProto.UINT4)
    return size // 2 if packed else size * helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize


def profile(kernel: Kernel, chip: str, values: bool = False) -> dict[str, Any]:
    """Counts and modelled clocks of a launch, of which a sample is executed.

    values: memory holds random f16 and not zeros.
    """
    ordinal = CHIPS.index(chip)
    check(hip.hipSetDevice(ordinal))
    module = check(hip.hipModuleLoadData(kernel.image))
    function = check(hip.hipModuleGetFunction(module, kernel.function.encode()))
    memory: list[Any] = []
    arguments: list[Any] = []
    for number in kernel.arguments:
        if number is None:
            memory.append(check(hip.hipMalloc(BUFFER_BYTES)))
            if values:
                data = _normal()
                check(hip.hipMemcpy(memory[-1], data, data.nbytes, HOST_TO_DEVICE))
            arguments.append(ctypes.c_void_p(int(memory[-1])))
        else:
            kind = ctypes.c_int32 if isinstance(number, int) else ctypes.c_float
            arguments.append(kind(number))
    emulator.reset_profile(ordinal)
    addresses = [ctypes.addressof(value) for value in arguments]
    launched = hip.hipModuleLaunchKernel(
        function, *kernel.grid, *kernel.block, kernel.lds_bytes, 0, addresses, None
    )
    check(launched)
    check(hip.hipDeviceSynchronize())
    (record,) = emulator.profile(ordinal)["kernels"]
    for pointer in memory:
        check(hip.hipFree(pointer))
    check(hip.hipModuleUnload(module))
    last: dict[str, Any] = record["last"]
    return last


@functools.cache
def _normal() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(BUFFER_BYTES // 2).astype(np.float16)


def check(result: tuple[Any, ...]) -> Any:
    if result[0] != hip.hipError_t.hipSuccess:
        raise RuntimeError(f"{result[0].name}: {emulator.last_fault()}")
    return result[1] if len(result) > 1 else None


if __name__ == "__main__":
    sys.exit(main())
