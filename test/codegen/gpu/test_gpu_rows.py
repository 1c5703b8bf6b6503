"""The rows family: what its kernels compute, look like, and leave to others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from emulated import run_on, shares
from row_kernels import RowKernel

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object, disassemble
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.refusal import Refusal

EMULATED = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


@pytest.mark.parametrize(("chip", "share"), shares(EMULATED, 2))
def test_reductions_equal_those_of_higher_precision(chip: str, share: str, tmp_path: Path) -> None:
    run_on(chip, "row_run.py", tmp_path, "emulated", share)


@pytest.mark.slow
@pytest.mark.parametrize("chip", EMULATED)
@pytest.mark.parametrize("which", ["schedules", "large"])
def test_every_schedule_and_large_rows(chip: str, which: str, tmp_path: Path) -> None:
    run_on(chip, "row_run.py", tmp_path, which)


def listing(kernel: RowKernel, chip: str) -> tuple[dict[str, int], list[str]]:
    """Figures and instructions of a kernel's first function."""
    target = Target.get(chip)
    _, op = kernel.kernel()
    made = rows_program(op, target)
    assert isinstance(made, Generated), made
    program = made.program
    code = code_object(program, target)
    text = disassemble(code.data)
    return dict(code.stats["k_0"]), re.findall(r"^\t(\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(
    "kernel",
    [
        RowKernel("softmax", (16384, 1024), (1,), "f16"),
        RowKernel("layernorm", (512, 768), (1,), "bf16"),
        RowKernel("softmax", (12, 128, 128), (2,)),
        RowKernel("mean", (8, 256, 56, 56), (2, 3)),
        RowKernel("softmax", (4, 1000, 640), (1,)),
    ],
    ids=lambda kernel: kernel.name,
)
def test_rows_are_read_wide_and_kept_in_registers(kernel: RowKernel, chip: str) -> None:
    stats, instructions = listing(kernel, chip)
    assert stats["vgpr_spills"] == stats["sgpr_spills"] == stats["scratch_bytes"] == 0
    loads = {name for name in instructions if name.startswith("buffer_load")}
    wide = {"buffer_load_dwordx4", "buffer_load_b128"}
    half = {"buffer_load_dwordx2", "buffer_load_b64"}  # where more lanes then share a row
    assert loads & (wide if kernel.element == "f32" else wide | half)
    assert not any(re.search("_(u|s)?(byte|short|d16)|_(u8|i8|u16)$", name) for name in loads)


def test_a_softmax_reads_its_row_once_and_needs_no_lds() -> None:
    _, instructions = listing(RowKernel("softmax", (16384, 1024), (1,), "f16"), "gfx942")
    # 1024 f16 of one row, or of two, in the registers of 64 lanes.
    assert instructions.count("buffer_load_dwordx4") in (2, 4)
    assert not any(name.startswith("ds_") for name in instructions)
    assert any(name.endswith("_dpp") for name in instructions)


def test_the_same_kernel_gives_the_same_bytes() -> None:
    _, kernel = RowKernel("layernorm", (512, 768), (1,), "bf16").kernel()
    compile_for = compiler(kernel)
    target = Target.get("gfx942")
    assert compile_for(target).data == compile_for(target).data


def test_chosen_schedule_is_told() -> None:
    _, kernel = RowKernel("softmax", (16384, 1024), (1,), "f16").kernel()
    assert re.fullmatch(
        r"mgx\.fused_reduce: \d+ threads a row, \d+ together, 8 elements at a time, \d+ times, "
        "read once",
        compiler(kernel)(Target.get("gfx942")).why,
    )


@pytest.mark.parametrize("columns", [1 << 16, 1 << 18, 1 << 20])
def test_a_long_row_takes_many_units(columns: int) -> None:
    _, kernel = RowKernel("sum", (1, columns), (1,)).kernel()
    why = compiler(kernel)(Target.get("gfx942")).why
    parts = re.search(r"(\d+) blocks a row", why)
    assert parts and int(parts[1]) >= 64, why


GPUS = [name for name in Target.names() if Target.get(name).kind == "gpu"]


@pytest.mark.parametrize("chip", GPUS)
def test_every_chip_reduces_across_its_lanes(chip: str) -> None:
    stats, instructions = listing(RowKernel("softmax", (16384, 1024), (1,), "f16"), chip)
    assert stats["vgpr_spills"] == stats["scratch_bytes"] == 0
    assert any("dpp" in name or "dual" in name for name in instructions)
    row = "v_readlane_b32" if Target.get(chip).wave_size == 64 else "v_permlanex16_b32"
    assert row in {name.removesuffix("_e64") for name in instructions}


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (RowKernel("sum", (1 << 20, 1024), (1,)), "31-bit offsets"),
        (RowKernel("sum", (4, 0), (1,)), "no elements"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_refusals_say_why(kernel: RowKernel, reason: str) -> None:
    _, op = kernel.kernel()
    refusal = rows_program(op, Target.get("gfx942"))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
