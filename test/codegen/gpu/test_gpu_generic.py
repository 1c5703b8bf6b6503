"""Bufferized functions as GPU functions: what they compute, and how they are cut."""

from __future__ import annotations

import re

import gpu_kernels
import numpy as np
import pytest
from gpu_kernels import Lowered
from host_run import HostProgram
from mlir import ir

from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS
from mgx_mlir.codegen.gpu.generic.function import block_size, grid
from mgx_mlir.codegen.gpu.kernel import gpu_program
from mgx_mlir.dialects import context
from mgx_mlir.errors import CompilerError


def lowered(text: str) -> str:
    return str(gpu_program(ir.Module.parse(text, context())).module)


@pytest.mark.parametrize("backwards", [False, True], ids=["in_order", "backwards"])
@pytest.mark.parametrize("kernel", gpu_kernels.ALL, ids=lambda k: k.name)
def test_threads_compute_what_the_function_means(kernel: Lowered, backwards: bool) -> None:
    inputs = kernel.arrays()
    want = [np.asarray(y) for y in kernel.meaning(*inputs)]
    have = [np.full(y.shape, 99).astype(y.dtype) for y in want]
    HostProgram(kernel.program()).run(inputs, have, backwards)
    for w, h in zip(want, have, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-5)


def test_epilogue_joins_the_reduction_before_it() -> None:
    program = gpu_kernels.CONVOLUTION.program()
    # Fill of the padding, the copy into it, the convolution with bias and relu.
    assert [launch.function for launch in program.launches] == ["kernel_0", "kernel_1", "kernel_2"]
    last = str(program.module).split("gpu.func @kernel_2")[1]
    assert last.count("scf.for") == 3
    assert "arith.maximumf" in last


def test_work_that_reads_other_threads_elements_waits_for_its_own_launch() -> None:
    # The exponentials of a row, then its sum: each thread reads what others stored.
    assert len(gpu_kernels.SOFTMAX.program().launches) == 4


def test_reduction_starts_from_the_filled_value() -> None:
    text = str(gpu_kernels.SOFTMAX.program().module)
    first = text.split("gpu.func @kernel_1")[0]
    assert re.search(r"iter_args\(%\w+ = %cst", first)
    assert first.count("memref.store") == 1


def test_scratch_is_shared_by_what_is_not_alive_together() -> None:
    body = "\n".join(
        f"""%e{i} = tensor.empty() : tensor<1000xf32>
        %y{i} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) ->
            (999 - i)>], iterator_types = ["parallel"]}} ins(%y{i - 1} : tensor<1000xf32>)
            outs(%e{i} : tensor<1000xf32>) {{
        ^bb0(%a: f32, %o: f32):
          %c = arith.addf %a, %a : f32
          linalg.yield %c : f32
        }} -> tensor<1000xf32>"""
        for i in range(1, 6)
    )
    text = f"""func.func @f(%y0: tensor<1000xf32>) -> tensor<1000xf32> {{
      {body}
      return %y5 : tensor<1000xf32>
    }}"""
    with context() as ctx, ir.Location.unknown():
        program = gpu_program(ir.Module.parse(text, ctx))
    assert len(program.launches) == 5
    # Two of four temporaries are alive at a time.
    assert program.scratch_bytes == 2 * 4096
    for launch in program.launches:
        assert len(set(launch.arguments)) == len(launch.arguments)


def test_neighbouring_dimensions_are_one_index() -> None:
    text = lowered(
        """
#id = affine_map<(a, b, c) -> (a, b, c)>
func.func @f(%x: tensor<8x16x32xf32>) -> tensor<8x16x32xf32> {
  %e = tensor.empty() : tensor<8x16x32xf32>
  %r = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<8x16x32xf32>) outs(%e : tensor<8x16x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  } -> tensor<8x16x32xf32>
  return %r : tensor<8x16x32xf32>
}"""
    )
    assert "arith.remui" not in text
    assert "arith.divui" not in text


def test_neighbouring_threads_store_next_to_each_other() -> None:
    text = lowered(
        """
func.func @f(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %e = tensor.empty() : tensor<32x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>,
      affine_map<(a, b) -> (b, a)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x32xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}"""
    )
    # The thread's number is split by 64, the columns of the result.
    assert "%c64" in re.search(r"arith.remui [^\n]*", text)[0]


def test_inputs_are_promised_to_be_read_only() -> None:
    text = str(gpu_kernels.CONCAT.program().module)
    arguments = re.findall(r"%arg\d+: memref<[^>]*>> \{([^}]*)\}", text)
    assert arguments == ["llvm.noalias, llvm.readonly", "llvm.noalias"] * 2


def test_offsets_are_64_bits_wide_only_for_large_memory() -> None:
    def program(size: int) -> int:
        text = f"""
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<{size}xi8>) -> tensor<{size}xi8> {{
  %e = tensor.empty() : tensor<{size}xi8>
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<{size}xi8>) outs(%e : tensor<{size}xi8>) {{
  ^bb0(%a: i8, %o: i8):
    %c = arith.addi %a, %a : i8
    linalg.yield %c : i8
  }} -> tensor<{size}xi8>
  return %r : tensor<{size}xi8>
}}"""
        return gpu_program(ir.Module.parse(text, context())).index_bits

    assert program((1 << 31) - 512) == 32
    assert program(1 << 31) == 64


def test_grid_has_a_second_dimension_beyond_hip_s_limit() -> None:
    assert block_size(1) == 1
    assert block_size(100) == 64
    assert block_size(1 << 20) == 256
    assert grid(MAX_THREADS, 256) == (MAX_THREADS // 256, 1, 1)
    assert grid(MAX_THREADS + 1, 256) == (MAX_THREADS // 256, 2, 1)


def test_results_that_are_empty_need_no_launch() -> None:
    text = """
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<0xf32>) -> tensor<0xf32> {
  %e = tensor.empty() : tensor<0xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<0xf32>) outs(%e : tensor<0xf32>) {
  ^bb0(%a: f32, %o: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  } -> tensor<0xf32>
  return %r : tensor<0xf32>
}"""
    assert gpu_program(ir.Module.parse(text, context())).launches == ()


def test_dynamic_shapes_are_refused() -> None:
    text = """
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}"""
    with pytest.raises(CompilerError, match="dynamic"):
        gpu_program(ir.Module.parse(text, context()))
