"""The pointwise family: what its kernels compute, look like, and leave to others."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from element_kernels import ElementKernel, bias, gelu, residual, transpose
from emulated import run_on, shares

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object, disassemble
from mgx_mlir.codegen.gpu.builders.passes import ERF, ERF_LIMIT
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.pointwise.generator import pointwise_program
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.rewriting.in_place import overwritable
from test.codegen.gpu.compiled import compiled

EMULATED = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


@pytest.mark.parametrize(("chip", "share"), shares(EMULATED, 2))
def test_elements_equal_those_of_higher_precision(chip: str, share: str, tmp_path: Path) -> None:
    run_on(chip, "element_run.py", tmp_path, "elements", share)


def listing(kernel: ElementKernel, chip: str) -> tuple[dict[str, int], list[str]]:
    """Figures and instructions of a kernel's function."""
    target = Target.get(chip)
    _, op = kernel.kernel()
    made = pointwise_program(op, target)
    assert isinstance(made, Generated), made
    program = made.program
    code = code_object(program, target)
    text = disassemble(code.data)
    return dict(code.stats["k_0"]), re.findall(r"^\t(\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("chip", EMULATED)
@pytest.mark.parametrize(
    "kernel",
    [
        gelu((4096, 4096), "f16"),
        gelu((4096, 4096), "f32"),
        bias((32, 64, 56, 56), 1, "f16"),
        bias((4096, 3072), 1, "f32"),
        gelu((4096, 3000), "bf16"),
    ],
    ids=lambda kernel: kernel.name,
)
def test_elements_are_read_and_written_wide(kernel: ElementKernel, chip: str) -> None:
    stats, instructions = listing(kernel, chip)
    assert stats["vgpr_spills"] == stats["sgpr_spills"] == stats["scratch_bytes"] == 0
    accesses = {name for name in instructions if name.startswith("buffer_")}
    assert accesses & {"buffer_store_dwordx4", "buffer_store_b128"}
    narrow = {name for name in accesses if re.search("_(u|s)?byte|_short|_[ui]?8$|_[bui]16$", name)}
    # A bias of a channel is one element for the whole vector.
    assert all("load" in name for name in narrow)
    assert not narrow or kernel.name.startswith("bias")


@pytest.mark.parametrize("generic", [False, True])
def test_nothing_is_promised_of_memory_that_may_be_the_result_s(generic: bool) -> None:
    _, op = residual((24, 40), "f16").kernel()
    assert overwritable(op) == {1}
    if generic:
        program = loops_program(op)
    else:
        made = pointwise_program(op, Target.get("gfx942"))
        assert isinstance(made, Generated)
        program = made.program
    (launch,) = program.launches
    found = re.search(rf"gpu.func @{launch.function}\((.*?)\) ", str(program.module))
    assert found is not None
    alone = ["llvm.noalias" in argument for argument in re.split(r"%\w+: ", found[1])[1:]]
    assert alone == [(a.kind, a.index) in (("input", 0), ("input", 2)) for a in launch.arguments]


def test_erf_is_exact_to_a_few_units() -> None:
    """The polynomial as the GPU computes it: f32, one rounding a multiply-add."""
    f32 = np.float32
    x = np.concatenate([np.linspace(-6, 6, 40001), np.logspace(-30, 1, 20001)]).astype(f32)
    inside = np.clip(x, -f32(ERF_LIMIT), f32(ERF_LIMIT))
    square = (inside * inside).astype(np.float64)
    w = (square * f32(2 / ERF_LIMIT**2) - 1).astype(f32)
    found = np.full_like(x, ERF[-1])
    for coefficient in ERF[-2::-1]:
        found = (found.astype(np.float64) * w + f32(coefficient)).astype(f32)
    found *= inside
    want = np.vectorize(math.erf)(x.astype(np.float64))
    error = np.abs(found.astype(np.float64) - want)
    assert error.max() < 1.7e-7
    assert (error / np.spacing(np.abs(want).astype(f32))).max() < 3.5
    assert np.all(np.abs(found) <= 1)
    assert np.all(found[np.abs(x) >= ERF_LIMIT] == np.sign(x[np.abs(x) >= ERF_LIMIT]))


def test_chosen_schedule_is_told() -> None:
    _, op = gelu((4096, 4096), "f16").kernel()
    assert re.fullmatch(
        r"mgx\.pointwise: 8 elements at a time, \d times, 256 threads a block",
        compiler(op)(Target.get("gfx942")).why,
    )


def test_refusals_say_why() -> None:
    _, op = transpose((1 << 16, 1 << 15), (1, 0), "f16").kernel()
    refusal = pointwise_program(op, Target.get("gfx942"))
    assert isinstance(refusal, Refusal)
    assert "31-bit offsets" in refusal.reason


def test_many_tensors_are_left_to_the_generic_path() -> None:
    types = ", ".join(["tensor<8xf32>"] * 30)
    arguments = ", ".join(f"%x{n}: tensor<8xf32>" for n in range(30))
    names = ", ".join(f"%x{n}" for n in range(30))
    scalars = ", ".join(f"%a{n}: f32" for n in range(30))
    body = "%s0 = mgx.add %a0, %a1 : f32, f32 -> f32\n" + "".join(
        f"%s{n} = mgx.add %s{n - 1}, %a{n + 1} : f32, f32 -> f32\n" for n in range(1, 29)
    )
    text = (
        f"mgx.kernel @k({arguments}) -> (tensor<8xf32>) "
        f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%y = mgx.pointwise({names}) : ({types}) -> tensor<8xf32> {{\n^bb0({scalars}):\n"
        f"{body}mgx.yield %s28 : f32\n}}\nmgx.return %y : tensor<8xf32>\n}}"
    )
    code = compiled(text)
    assert "31 tensors are more than" in code.why
    assert code.why.endswith("generic path")


def test_the_same_kernel_gives_the_same_bytes() -> None:
    _, op = bias((32, 64, 56, 56), 1, "f16").kernel()
    compile_for = compiler(op)
    target = Target.get("gfx942")
    assert compile_for(target).data == compile_for(target).data
