"""The attention family: what its kernels look like, compute, and leave to others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from emulated import run_on, shares

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object, disassemble
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.attention.constraints import base_unit
from mgx_mlir.codegen.gpu.families.attention.kernel import attention_program
from mgx_mlir.codegen.gpu.families.attention.layout import step_depth
from mgx_mlir.codegen.gpu.families.attention.tile import TileShape
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.problem.attention import Attention, match_attention
from mgx_mlir.sizes.arithmetic import ceil_div
from test.codegen.attention_kernels import AttentionCase

EMULATED = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
SHAPES = (
    AttentionCase(16, 1024, 1024, 64),
    AttentionCase(12, 128, 128, 64, element="bf16", mask="padding", packed=True),
    AttentionCase(12, 512, 512, 64, causal=0),
    AttentionCase(32, 256, 1024, 128, group=4, causal=768),
    AttentionCase(16, 512, 512, 64, mask="bias", tail="added"),
    AttentionCase(12, 1024, 1024, 64, mask="where", causal=0, earliest=-255),
)


@pytest.mark.parametrize(("chip", "share"), shares(EMULATED, 2))
def test_attention_equals_that_of_higher_precision(chip: str, share: str, tmp_path: Path) -> None:
    run_on(chip, "attention_run.py", tmp_path, share)


@pytest.mark.parametrize("chip", EMULATED)
@pytest.mark.parametrize("element", ["f16", "f32"])
def test_rows_in_lds_are_written_as_far_as_products_read_them(element: str, chip: str) -> None:
    target = Target.get(chip)
    for width in range(4, 129, 4):
        _module, kernel = AttentionCase(1, 64, 128, width, element=element).kernel()
        attention = match_attention(kernel)
        assert isinstance(attention, Attention)
        unit = base_unit(attention, target)
        assert unit is not None
        tile = TileShape.keys(attention.k, 64, width, unit, 2 * target.wave_size)
        steps = ceil_div(width, step_depth(unit))
        assert tile.length >= steps * step_depth(unit), width


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_attention_of_larger_and_odd_sizes(chip: str, tmp_path: Path) -> None:
    run_on(chip, "attention_more_run.py", tmp_path)


def listing(case: AttentionCase, chip: str) -> tuple[dict[str, int], list[str]]:
    """Figures and instructions of an attention's one function."""
    target = Target.get(chip)
    _, kernel = case.kernel()
    made = attention_program(kernel, target)
    assert isinstance(made, Generated), made
    program = made.program
    code = code_object(program, target)
    text = disassemble(code.data)
    return dict(code.stats["k_0"]), re.findall(r"^\t(\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.name)
def test_kernels_have_no_spills_and_wide_accesses_only(case: AttentionCase, chip: str) -> None:
    stats, instructions = listing(case, chip)
    assert stats["vgpr_spills"] == stats["sgpr_spills"] == stats["scratch_bytes"] == 0
    matrix = "v_mfma" if chip.startswith("gfx9") else "v_wmma"
    assert any(name.startswith(matrix) for name in instructions)
    reads = {name for name in instructions if re.match("ds_(read|load)", name)}
    assert reads <= {"ds_read_b128", "ds_load_b128"}
    writes = {name for name in instructions if re.match("ds_(write|store)", name)}
    assert all(re.search("_b(64|128)$", name) for name in writes)
    loads = {name for name in instructions if name.startswith("buffer_load")}
    assert loads & {"buffer_load_b128", "buffer_load_dwordx4"}
    assert not any(name.startswith("scratch_") for name in instructions)


def test_heads_that_share_keys_are_queries_of_one_head() -> None:
    target = Target.get("gfx942")
    grids = {}
    for case in (
        AttentionCase(8, 1, 70, 32, group=4),
        AttentionCase(8, 1, 70, 32, group=4, mask="bias", causal=66),
        AttentionCase(8, 2, 70, 32, group=4, causal=66),
    ):
        _, kernel = case.kernel()
        made = attention_program(kernel, target)
        assert isinstance(made, Generated), made
        program = made.program
        grids[case.name] = program.launches[0].grid
    assert list(grids.values()) == [(1, 2, 1), (1, 2, 1), (1, 8, 1)]


def test_no_score_is_in_memory() -> None:
    _, kernel = SHAPES[0].kernel()
    code = compiler(kernel)(Target.get("gfx942"))
    assert code.scratch_bytes == 0 and len(code.launches) == 1
    parts, unit = r"( in \d parts)?", r"(overlapped )?mfma of \d+ rows of f16"
    why = rf"mgx\.attention: \d+ queries by \d+ keys{parts}, \d waves, {unit}"
    assert re.fullmatch(why, code.why)


@pytest.mark.parametrize(("heads", "length", "in_parts"), [(8, 256, True), (64, 4096, False)])
def test_scores_of_long_heads_come_to_memory_where_they_stay_in_the_cache(
    heads: int, length: int, in_parts: bool
) -> None:
    _, kernel = AttentionCase(heads, length, length, 256).kernel()
    made = attention_program(kernel, Target.get("gfx1100"))
    assert isinstance(made, Generated), made
    assert ("in parts" in made.schedule) == in_parts
    assert ("values over keys" in made.schedule) != in_parts


@pytest.mark.parametrize(
    ("case", "chip", "reason"),
    [
        (AttentionCase(1, 8, 8, 16, element="f64"), "gfx942", "scores of f64"),
        (AttentionCase(1, 8, 8, 512), "gfx942", "heads of 512 are larger than 256"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_refusals_say_why(case: AttentionCase, chip: str, reason: str) -> None:
    _, kernel = case.kernel()
    code = compiler(kernel)(Target.get(chip))
    assert reason in code.why
    assert "mgx.attention in parts: " in code.why
    assert code.launches


@pytest.mark.parametrize(
    "chip", [name for name in Target.names() if Target.get(name).kind != "cpu"]
)
@pytest.mark.parametrize("size", [32, 64, 128, 256])
def test_every_chip_of_a_known_wave_has_a_schedule(chip: str, size: int) -> None:
    target = Target.get(chip)
    case = AttentionCase(2, 64, 64, size)
    _, kernel = case.kernel()
    made = attention_program(kernel, target)
    assert isinstance(made, Generated) == bool(target.wave_size), made
    if isinstance(made, Generated) and size == 64:
        assert code_object(made.program, target).data


def test_the_same_kernel_gives_the_same_bytes() -> None:
    _, kernel = SHAPES[2].kernel()
    compile_for = compiler(kernel)
    target = Target.get("gfx942")
    assert compile_for(target).data == compile_for(target).data
