"""Scatters, gathers, running sums, resizes and sorts: what their kernels compute and look like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from element_kernels import ElementKernel, topk
from emulated import run_on, shares
from movement_kernels import cumsum, gathernd, nonzero, resize, scatter, scatternd

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.codegen.gpu.kernel import compiler

EMULATED = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


@pytest.mark.parametrize(("chip", "share"), shares(EMULATED, 2))
def test_movement_equals_numpy(chip: str, share: str, tmp_path: Path) -> None:
    run_on(chip, "element_run.py", tmp_path, "movement", share)


@pytest.mark.slow
@pytest.mark.parametrize("chip", EMULATED)
def test_large_movement_equals_numpy(chip: str, tmp_path: Path) -> None:
    run_on(chip, "element_run.py", tmp_path, "large")


def compiled(kernel: ElementKernel, chip: str) -> tuple[CodeObject, dict[str, list[str]]]:
    """The code object, and the instructions of each of its functions."""
    _, op = kernel.kernel()
    code = compiler(op)(Target.get(chip))
    parts = re.split(r"^[0-9a-f]+ <(\w+)>:$", disassemble(code.data), flags=re.MULTILINE)
    texts = zip(parts[1::2], parts[2::2], strict=True)
    return code, {name: re.findall(r"^\t(\w+)", text, re.MULTILINE) for name, text in texts}


@pytest.mark.parametrize("chip", EMULATED)
@pytest.mark.parametrize("kind", ["none", "add", "max"])
def test_scatters_use_the_chip_s_integer_atomics(kind: str, chip: str) -> None:
    code, functions = compiled(scatter(kind, (4096, 256), (1024, 256), 0, "f32"), chip)
    assert len(code.launches) == (4 if kind == "add" else 3)
    atomics = {name for found in functions.values() for name in found if "atomic" in name}
    assert atomics
    # Neither loops of compare and swap, nor floats, whose sums depend on their order.
    assert not any(re.search("cmpswap|f32|f64|fadd|pk", name) for name in atomics)


def test_one_update_along_the_axis_takes_one_launch() -> None:
    """As a cache that gets the entries of one token: no words tell which update is the last."""
    code, functions = compiled(scatter("none", (2, 96, 64), (2, 1, 64), 1, "f16"), "gfx942")
    assert len(code.launches) == 1
    assert not any("atomic" in name for found in functions.values() for name in found)


def test_products_follow_their_order() -> None:
    code, functions = compiled(scatternd("mul", (4096, 256), (5000,), 1, "f32"), "gfx942")
    # Ten pieces are sorted and merged; x is copied; the updates of a slot are multiplied.
    assert len(code.launches) == 1 + 4 + 1 + 1
    assert not any("atomic" in name for found in functions.values() for name in found)
    assert "in their order" in code.why


@pytest.mark.parametrize("chip", EMULATED)
def test_running_sums_need_no_lds(chip: str) -> None:
    for kernel in (cumsum((4096, 1024), 1, "f32"), nonzero((64, 1024), 65536, "f32")):
        code, functions = compiled(kernel, chip)
        instructions = [name for found in functions.values() for name in found]
        assert not any(name.startswith("ds_") for name in instructions)
        assert any("dpp" in name for name in instructions)
        assert all(x["vgpr_spills"] == x["scratch_bytes"] == 0 for x in code.stats.values())


def test_long_rows_are_summed_in_parts() -> None:
    code, _ = compiled(cumsum((1, 1 << 20), 1, "f32"), "gfx942")
    blocks = [launch.grid[0] for launch in code.launches]
    assert len(blocks) == 2
    assert min(blocks) >= 100


def test_lines_of_a_resize_share_what_they_read() -> None:
    kernel = resize((4, 64, 64, 64), (4, 64, 128, 128), "f32", "linear")
    _, functions = compiled(kernel, "gfx942")
    instructions = functions["k_0"]
    # Four lines read four lines of x, two elements each; 16 without that.
    assert instructions.count("buffer_load_dword") == 8
    assert instructions.count("buffer_store_dword") == 4
    # Nothing is left to compute of where they are.
    assert not any(name.startswith(("v_rcp", "v_div", "v_floor", "v_cvt")) for name in instructions)


def test_gathers_move_runs_in_vectors() -> None:
    _, functions = compiled(gathernd((512, 512, 64), (4096,), 2, 0, "f16"), "gfx942")
    assert "buffer_store_dwordx4" in functions["k_0"]
    assert "buffer_load_dwordx4" in functions["k_0"]


def test_sorts_of_long_rows_use_many_blocks() -> None:
    code, _ = compiled(topk((1, 1 << 17), 50, 1, "f32"), "gfx942")
    assert [launch.grid[0] for launch in code.launches] == [64, 1]
    code, _ = compiled(topk((1, 1 << 15), 1 << 15, 1, "f32"), "gfx942")
    assert all(launch.grid[0] >= 16 for launch in code.launches)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (topk((1, 1 << 28), 1, 1, "f32"), "mgx.topk: 268435456 elements"),
        (resize((1, 1, 1, 9), (1, 1, 1, 1 << 17), "f32", "linear"), "say what results read"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_refusals_say_why(kernel: ElementKernel, reason: str) -> None:
    _, op = kernel.kernel()
    why = compiler(op)(Target.get("gfx942")).why
    assert reason in why
    assert why.endswith("generic path")


def test_the_same_kernel_gives_the_same_bytes() -> None:
    _, op = scatter("add", (70, 12), (150, 9), 0, "f32").kernel()
    compile_for = compiler(op)
    target = Target.get("gfx942")
    assert compile_for(target).data == compile_for(target).data
