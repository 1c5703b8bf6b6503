"""Which instructions of each chip the engine refuses at load, and why it may.

LLVM names every opcode of every encoding family that can begin an instruction of a compute
kernel; image, export and interpolation encodings are refused as families (`graphics_family`).
"""

from __future__ import annotations

import ctypes
import re

import engine
import pytest

# Patterns of whole mnemonics: no compute kernel can hold these.
REFUSED = {
    r"ds_(add|sub)_gs_reg_rtn": "counters of geometry shaders",
    r"ds_bvh_stack_\w+": "the stack of ray traversals, which only image instructions feed",
    r"ds_gws_sema_\w+": "semaphores between work-groups, which no library of AMD's uses",
    r"ds_ordered_count": "ordered append of graphics pipelines, in the global data share",
    r"global_atomic_ordered_add_b64": "stream-out of geometry shaders",
    r"s_alloc_vgpr": "registers by demand, a mode of ray tracing queues",
    r"s_cbranch_(g_fork|i_fork|join)": "a divergence stack no compiler uses since GCN 1",
    r"s_endpgm_ordered_ps_done": "pixel shaders",
    r"s_rfe(_restore)?_b64": "return from a trap handler, privileged",
    r"s_scratch_(load|store)_dword(x2|x4)?": "scalar scratch, whose addressing no document states",
    r"s_setvskip": "skips vector instructions; no compiler uses it",
    r"s_subvector_loop_(begin|end)": "runs wave64 code in halves; no compiler uses it",
    r"v_interp_\w+": "interpolation in pixel shaders",
    r"v_mfma_ld_scale_b32": "the first half of v_mfma_scale_*, none by itself",
    r"v_screen_partition_4se_b32": "graphics",
}


def opcodes(chip: str) -> tuple[list[str], list[str], list[str]]:
    """Mnemonics the engine lacks, those whose length it gets wrong, and those it knows."""
    function = engine.library().engine_opcodes
    function.restype = ctypes.c_char_p
    missing, wrong, known = function(chip.encode()).decode().split("\n")[:3]
    return missing.split(), wrong.split(), known.split()


@pytest.mark.parametrize("chip", engine.CHIPS)
def test_whatever_a_compute_kernel_may_hold_is_there(chip: str) -> None:
    missing, wrong, known = opcodes(chip)
    unexplained = [name for name in missing if not any(re.fullmatch(p, name) for p in REFUSED)]
    assert not unexplained
    assert not wrong
    assert len(known) > 1000


def test_every_reason_is_needed() -> None:
    missing = {name for chip in engine.CHIPS for name in opcodes(chip)[0]}
    unused = [p for p in REFUSED if not any(re.fullmatch(p, name) for name in missing)]
    assert not unused


def load(chip: str, *words: int) -> None:
    """Loads a code object whose kernel consists of these words."""
    from test_faults import bare

    code = "\n".join(f".long {word:#x}" for word in words)
    engine.Module(bare(chip, code), chip).unload()


@pytest.mark.parametrize(
    ("chip", "words", "message"),
    [
        ("gfx1100", (0xF07C0F00, 0x00020004), "image instructions are not implemented"),
        ("gfx1200", (0xD0078001, 0x04000004, 0x04000004), "image instructions are not implemented"),
        ("gfx1030", (0xF80008CF, 0x03020100), "export instructions are not implemented"),
        ("gfx1100", (0xCE000001,), "interpolation instructions are not implemented"),
        ("gfx942", (0xBEFE1F02,), "instruction s_rfe_b64 is not implemented"),
        ("gfx1030", (0xD8020000, 0x00000201), "ds_add_u32 with gds is not implemented"),
        ("gfx942", (0xD02700FF, 0x04000501), "v_cmp_o_f16 with a reserved operand"),
        ("gfx942", (0xD1000000, 0x000202FF), "v_cndmask_b32 with a reserved operand"),
        ("gfx90a", (0x410028F9, 0x12A7C869), "v_sub_f16 with a reserved operand"),
        ("gfx942", (0x7E0002D2,), "v_mov_b32 with a reserved operand"),
    ],
)
def test_a_refusal_names_what_it_refuses(chip: str, words: tuple[int, ...], message: str) -> None:
    with pytest.raises(engine.LoadError, match=message):
        load(chip, *words)
