"""Kernels of given sizes as loops in a GPU's threads: what they compute, and how they are cut."""

from __future__ import annotations

import re

import gpu_kernels
import numpy as np
import pytest
from gpu_kernels import Kernel, loops_of
from host_run import HostProgram

from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS


def elementwise(size: int, element: str = "f32", op: str = "neg") -> tuple[str, str, str]:
    x = f"tensor<{size}x{element}>"
    return f"%x: {x}", f"%y: {x}", f"%y = mgx.{op} %x : {x}"


@pytest.mark.parametrize("backwards", [False, True], ids=["in_order", "backwards"])
@pytest.mark.parametrize("kernel", gpu_kernels.ALL, ids=lambda k: k.name)
def test_threads_compute_what_the_kernel_means(kernel: Kernel, backwards: bool) -> None:
    inputs = kernel.arrays()
    want = [np.asarray(y) for y in kernel.meaning(*inputs)]
    have = [np.full(y.shape, 99).astype(y.dtype) for y in want]
    HostProgram(kernel.program()).run(inputs, have, backwards)
    for w, h in zip(want, have, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-5)


def test_work_on_a_reduction_s_result_joins_it() -> None:
    x, y = "tensor<8x32xf32>", "tensor<8x1xf32>"
    body = (
        f"%m = mgx.reduce_mean %x axes = [1] : {x} -> {y}\n"
        f"%z = mgx.softmax %m axis = 1 : {y}\n%y = mgx.sqrt %z : {y}"
    )
    program = loops_of(f"%x: {x}", f"%y: {y}", body)
    assert len(program.launches) == 1


def test_work_that_reads_other_threads_elements_waits_for_its_own_launch() -> None:
    # The exponentials of a row, then its sum: each thread reads what others stored.
    assert len(gpu_kernels.SOFTMAX.program().launches) == 4


def test_reduction_starts_from_a_number() -> None:
    text = str(gpu_kernels.SOFTMAX.program().module)
    first = text.split("gpu.func @kernel_1")[0]
    assert re.search(r"iter_args\(%\w+ = %cst", first)
    assert first.count("memref.store") == 1


def test_scratch_is_shared_by_what_is_not_alive_together() -> None:
    x = "tensor<1000xf32>"
    steps = [f"%y{n + 1} = mgx.prefix_scan_sum %y{n} axis = 0 : {x}" for n in range(5)]
    program = loops_of(f"%y0: {x}", f"%y5: {x}", "\n".join(steps))
    assert len(program.launches) == 5
    # Two of four temporaries are alive at a time.
    assert program.scratch_bytes == 2 * 4096
    for launch in program.launches:
        assert len(set(launch.arguments)) == len(launch.arguments)


def test_neighbouring_dimensions_are_one_index() -> None:
    x = "tensor<8x16x32xf32>"
    text = str(loops_of(f"%x: {x}", f"%y: {x}", f"%y = mgx.neg %x : {x}").module)
    assert "arith.remui" not in text
    assert "arith.divui" not in text


def test_neighbouring_threads_store_next_to_each_other() -> None:
    x, y = "tensor<64x32xf32>", "tensor<32x64xf32>"
    body = f"%y = mgx.transpose %x permutation = [1, 0] : {x} -> {y}"
    text = str(loops_of(f"%x: {x}", f"%y: {y}", body).module)
    # The thread's number is split by 64, the columns of the result.
    assert re.search(r"%c64\w* = arith.constant 64", text)
    assert "%c64" in re.search(r"arith.remui [^\n]*", text)[0]


def test_inputs_are_promised_to_be_read_only() -> None:
    text = str(gpu_kernels.CONCAT.program().module)
    arguments = re.findall(r"%arg\d+: memref<[^>]*>> \{([^}]*)\}", text)
    assert sorted(arguments) == ["llvm.noalias", *["llvm.noalias, llvm.readonly"] * 2]


def test_offsets_are_64_bits_wide_only_for_large_memory() -> None:
    assert loops_of(*elementwise((1 << 31) - 512, "i8")).index_bits == 32
    assert loops_of(*elementwise(1 << 31, "i8")).index_bits == 64


def test_work_groups_of_small_launches_are_a_wave() -> None:
    def shape(size: int) -> tuple[tuple[int, int, int], int]:
        (launch,) = loops_of(*elementwise(size, "i8")).launches
        return launch.grid, launch.block[0]

    assert shape(1) == ((1, 1, 1), 1)
    assert shape(100) == ((2, 1, 1), 64)
    assert shape(1 << 20) == ((4096, 1, 1), 256)
    # The grid has a second dimension beyond HIP's limit.
    assert shape(MAX_THREADS) == ((MAX_THREADS // 256, 1, 1), 256)
    assert shape(MAX_THREADS + 1) == ((MAX_THREADS // 256, 2, 1), 256)


def test_results_that_are_empty_need_no_launch() -> None:
    assert loops_of(*elementwise(0)).launches == ()


def test_long_sums_are_made_of_sums_of_blocks() -> None:
    x, y = "tensor<4x5000xf32>", "tensor<4x1xf32>"
    body = f"%y = mgx.reduce_sum %x axes = [1] : {x} -> {y}"
    text = str(loops_of(f"%x: {x}", f"%y: {y}", body).module)
    assert text.count("scf.for") == 2
