"""Speed of the emulated device: its engine on kernels of our own, beside the targets.

    python -m benchmarks.emulator [--size 1024]

Needs clang-22 and the engine's test library (`cmake --build build/emulator`). Prints each
figure with its target. Times are the best of several runs, because other programs may use
the cores meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "emulator" / "tests" / "engine"))

import engine  # the tests' way to compile and launch

CHIP = "gfx942"
CHAIN = 512  # dependent multiply-adds of one turn of the loop
TURNS = 400

SOURCE = """
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void empty() {}
extern "C" __global__ void chain(float* out, float a, float b, int turns) {
  float x = TX;
  for (int t = 0; t < turns; ++t) {
#pragma unroll
    for (int i = 0; i < %(chain)d; ++i) x = __builtin_fmaf(x, a, b);
  }
  out[GID] = x;
}
// C = A B^T: a wave computes 64 x 64 in 16 tiles; both operands are read along k.
extern "C" __global__ __launch_bounds__(64)
void product(const half* a, const half* b, float* c, int n) {
  int row = TX & 15, part = TX >> 4;
  const half* pa = a + (BY * 64 + row) * n + part * 4;
  const half* pb = b + (BX * 64 + row) * n + part * 4;
  float4 sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    half4 x[4], y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = *(const half4*)(pa + i * 16 * n + k);
      y[i] = *(const half4*)(pb + i * 16 * n + k);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sum[i][j] = __builtin_amdgcn_mfma_f32_16x16x16f16(x[i], y[j], sum[i][j], 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        c[(BY * 64 + i * 16 + part * 4 + r) * n + BX * 64 + j * 16 + row] = sum[i][j][r];
}
""" % {"chain": CHAIN}  # noqa: UP031


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="of the f16 product")
    options = parser.parse_args()
    if engine.CLANG is None:
        parser.error("needs clang-22")
    image = engine.hip(SOURCE, CHIP)
    module = engine.Module(image, CHIP)

    single, double, spent = two_threads(lambda: chain_seconds(module), 4)
    rate = 4 * (CHAIN + 1) * TURNS / single
    row("wave64 VALU instructions a second, f32 chain", f"{rate:.2e}", "2.5e7", rate >= 2.5e7)
    row("  two threads against one, by the clock", f"{single / double:.2f}", "1.7")
    row("  the same, by processor time", f"{spent:.2f}", "1.7", spent > 1.7)
    single, double, spent = two_threads(lambda: product_seconds(module, options.size), 2)
    name = f"f16 {options.size}^3 product through MFMA, one thread, s"
    row(name, f"{single:.2f}", "3", single < 3)
    row("  two threads against one, by the clock", f"{single / double:.2f}", "1.7")
    row("  the same, by processor time", f"{spent:.2f}", "1.7", spent > 1.7)
    row("two processors against one, hashing on the host", f"{host_ratio():.2f}")

    large = large_image()
    load = best(lambda: engine.Module(large, CHIP).unload(), 5)
    row(f"load of a code object of {len(large) / 1e6:.2f} MB, s", f"{load:.3f}", "0.2", load < 0.2)

    def launch_many() -> None:
        for _ in range(1000):
            module.run("empty", 1, 64)
            empty.append(module.seconds)

    empty: list[float] = []
    launch_many()
    median = 1e6 * float(np.median(empty))  # counted in whole microseconds
    row("empty launch in the engine, median us", f"{median:.0f}" if median else "below 1")
    row("empty launch through HIP, median us", f"{hip_launch_micros(image):.1f}")


def row(name: str, value: str, target: str = "", reached: bool = True) -> None:
    print(f"{name:<52} {value:>9}  {target:>6} {'' if reached else 'missed'}".rstrip(), flush=True)


def best(function: Callable[[], object], runs: int) -> float:
    """The shortest seconds of several runs."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def two_threads(run: Callable[[], float], times: int) -> tuple[float, float, float]:
    """Seconds of one thread and of two, in turns, and how far two share the work.

    The last is 2 where both together take as much processor time as one: what the clock would
    show on a machine that does nothing else.
    """
    seconds: dict[int, list[float]] = {1: [], 2: []}
    processor: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(times):
        for threads in seconds:
            engine.library().engine_threads(threads)
            started = time.process_time()
            seconds[threads].append(run())
            processor[threads].append(time.process_time() - started)
    engine.library().engine_threads(1)
    return min(seconds[1]), min(seconds[2]), 2 * min(processor[1]) / min(processor[2])


def hip_launch_micros(image: bytes) -> float:
    """Microseconds of hipModuleLaunchKernel of the empty kernel, called through ctypes."""
    import ctypes
    import os

    from mgx_mlir.emulator import library_path

    os.environ["MGX_EMULATED_DEVICES"] = CHIP
    hip = ctypes.CDLL(str(library_path()))
    module, function, null = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipModuleLoadData(ctypes.byref(module), image) == 0
    assert hip.hipModuleGetFunction(ctypes.byref(function), module, b"empty") == 0
    arguments = [*(1, 1, 1, 64, 1, 1), 0, null, null, null]
    times = []
    for _ in range(1000):
        started = time.perf_counter()
        status = hip.hipModuleLaunchKernel(function, *arguments)
        times.append(time.perf_counter() - started)
        assert status == 0
    return 1e6 * float(np.median(times))


def chain_seconds(module: Any) -> float:
    out = engine.Array(np.zeros(4 * 64, np.float32))
    times = []
    for _ in range(7):
        module.run("chain", 4, 64, out, 0.5, 1.0, TURNS)
        times.append(module.seconds)
    assert np.all(out.view == 2)
    out.free()
    return min(times)


def product_seconds(module: Any, size: int) -> float:
    rng = np.random.default_rng(0)
    a, b = ((rng.random((size, size)) - 0.5).astype(np.float16) for _ in "ab")
    arrays = [engine.Array(x) for x in (a, b, np.zeros((size, size), np.float32))]
    times = []
    for _ in range(3):
        module.run("product", (size // 64, size // 64), 64, *arrays, size)
        times.append(module.seconds)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_allclose(arrays[2].view, expected, rtol=1e-3, atol=1e-2)
    for array in arrays:
        array.free()
    return min(times)


def host_ratio() -> float:
    """The speed of two native threads against one: 2 on an idle machine of two processors."""
    import hashlib
    import threading

    data = bytes(1 << 25)  # hashing releases the interpreter's lock

    def work() -> None:
        hashlib.sha256(data).digest()

    def both() -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return 2 * best(work, 5) / best(both, 5)


def large_image() -> bytes:
    """A code object of about a megabyte, nearly all of it instructions."""
    body = "".join(
        f'extern "C" __global__ void k{i}(float* out, float a, float b) {{ float x = TX;\n'
        "#pragma unroll\n"
        "for (int i = 0; i < 2000; ++i) { x = __builtin_fmaf(x, a, b); x = x * x; }\n"
        "out[GID] = x; }\n"
        for i in range(40)
    )
    return engine.hip(body, CHIP)


if __name__ == "__main__":
    main()
