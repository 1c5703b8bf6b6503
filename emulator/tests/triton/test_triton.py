"""Triton's kernels, compiled without a GPU, on emulated devices, against numpy."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

if importlib.util.find_spec("triton") is None:
    pytest.skip("no triton: pip install 'triton==3.9.*'", allow_module_level=True)

os.environ.setdefault("MGX_EMULATED_DEVICES", "gfx942,gfx1100")
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # what 3.9 does, without its warning

from mgx_mlir import emulator  # noqa: E402
from mgx_mlir.errors import UsageError  # noqa: E402

try:
    emulator.library_path()
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)
emulator.enable()

import triton  # noqa: E402
import triton_kernels as kernels  # noqa: E402
from hip import hip  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

TARGETS = {"gfx942": GPUTarget("hip", "gfx942", 64), "gfx1100": GPUTarget("hip", "gfx1100", 32)}


def ok(result: tuple[Any, ...]) -> Any:
    assert result[0] == hip.hipError_t.hipSuccess, f"{result[0].name}; {emulator.last_fault()}"
    return result[1] if len(result) > 1 else None


@pytest.fixture(params=TARGETS)
def chip(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each chip in turn, its device being current and empty afterwards."""
    found = [d.ordinal for d in emulator.devices() if request.param in str(d)]
    if not found:
        pytest.skip(f"no emulated {request.param} in MGX_EMULATED_DEVICES")
    ok(hip.hipSetDevice(found[0]))
    yield request.param
    emulator.reset_device(found[0])
    ok(hip.hipSetDevice(0))


def run(
    chip: str,
    function: Any,
    grid: Sequence[int],
    arguments: dict[str, Any],
    constants: dict[str, int],
    warps: int = 4,
) -> None:
    """Compiles the kernel for the chip and runs it; arrays are copied there and back."""
    types = {np.dtype("float32"): "*fp32", np.dtype("float16"): "*fp16"}
    signature = {
        name: types[value.dtype]
        if isinstance(value, np.ndarray)
        else "i32"
        if isinstance(value, int)
        else "fp32"
        for name, value in arguments.items()
    }
    source = ASTSource(
        function,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
    )
    compiled = triton.compile(source, target=TARGETS[chip], options={"num_warps": warps})
    module = ok(hip.hipModuleLoadData(compiled.asm["hsaco"]))
    kernel = ok(hip.hipModuleGetFunction(module, compiled.metadata.name.encode()))
    values: list[Any] = []
    copies = []
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            pointer = ok(hip.hipMalloc(value.nbytes))
            ok(hip.hipMemcpy(pointer, value, value.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
            values.append(ctypes.c_void_p(int(pointer)))
            copies.append((value, pointer))
        else:
            values.append(
                ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_float(value)
            )
    # Triton's own arguments after those of the source: global and profile scratch.
    values += [ctypes.c_void_p(), ctypes.c_void_p()]
    addresses = [ctypes.addressof(value) for value in values]
    lanes = TARGETS[chip].warp_size
    block = (warps * lanes, 1, 1)
    shared = compiled.metadata.shared
    ok(hip.hipModuleLaunchKernel(kernel, *(*grid, 1, 1)[:3], *block, shared, 0, addresses, None))
    ok(hip.hipDeviceSynchronize())
    for value, pointer in copies:
        ok(hip.hipMemcpy(value, pointer, value.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
        ok(hip.hipFree(pointer))
    ok(hip.hipModuleUnload(module))


@pytest.mark.parametrize("shape", [(128, 128, 128), (100, 70, 90)], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=["f16", "f32"])
def test_matmul(chip: str, shape: tuple[int, int, int], dtype: Any) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    c = np.full((m, n), np.nan, np.float32)
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    grid = (-(-m // 64), -(-n // 64))
    run(chip, kernels.matmul, grid, {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k}, tile)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("columns", [64, 781, 2048])
def test_softmax(chip: str, columns: int) -> None:
    x = np.random.default_rng(1).standard_normal((33, columns)).astype(np.float32) * 5
    out = np.full_like(x, np.nan)
    block = {"BLOCK": triton.next_power_of_2(columns)}
    run(chip, kernels.softmax, (33,), {"x": x, "out": out, "columns": columns}, block)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("columns", [64, 781, 2048])
def test_layernorm(chip: str, columns: int) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((17, columns)) * 3 + 1).astype(np.float32)
    weight, bias = rng.standard_normal((2, columns)).astype(np.float32)
    out = np.full_like(x, np.nan)
    arguments = {"x": x, "weight": weight, "bias": bias, "out": out, "columns": columns}
    block = {"BLOCK": 256}
    run(chip, kernels.layernorm, (17,), arguments | {"eps": 1e-5}, block)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    scale = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, centred / scale * weight + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
def test_flash_attention(chip: str, causal: int) -> None:
    length, width = 128, 64
    rng = np.random.default_rng(3)
    q, k, v = rng.standard_normal((3, 2, length, width)).astype(np.float16)
    out = np.full(q.shape, np.nan, np.float32)
    arguments = {"q": q, "k": k, "v": v, "out": out, "length": length, "scale": width**-0.5}
    constants = {"WIDTH": width, "BLOCK_M": 64, "BLOCK_N": 32, "CAUSAL": causal}
    run(chip, kernels.flash_attention, (length // 64, 2), arguments, constants)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].transpose(0, 2, 1) * width**-0.5
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(out, p @ wide[2], rtol=5e-3, atol=5e-3)
