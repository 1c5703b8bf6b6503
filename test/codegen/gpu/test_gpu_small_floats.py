"""Conversions between fp8 and wider floats: bit for bit, by instructions where a chip has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from emulated import run_on
from kernel_text import kernel_text, parsed, tensor

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.codegen.gpu.kernel import compiler

SHAPE = (4096, 4096)


@pytest.mark.parametrize(
    "chip",
    [
        "gfx942",
        pytest.param("gfx90a", marks=pytest.mark.slow),
        pytest.param("gfx950", marks=pytest.mark.slow),
        pytest.param("gfx1100", marks=pytest.mark.slow),
        "gfx1201",
    ],
)
def test_every_number_of_16_bits_and_every_tie_is_converted_exactly(
    chip: str, tmp_path: Path
) -> None:
    run_on(chip, "small_float_run.py", tmp_path)


def conversions(chip: str, source: str, result: str, saturate: bool = True) -> list[str]:
    """The instructions of a kernel that convert fp8."""
    attribute = f"{{saturate = {str(saturate).lower()}}} "
    types = f"{tensor(SHAPE, source)} -> {tensor(SHAPE, result)}"
    body = f"%y = mgx.convert %x0 {attribute}: {types}"
    _module, op = parsed(kernel_text([(SHAPE, source)], [(SHAPE, result)], body))
    text = disassemble(compiler(op)(Target.get(chip)).data)
    return re.findall(r"^\t(v_cvt_\w*[fb][fp]?8\w*)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("chip", "kind", "named"),
    [
        ("gfx942", "f8E4M3FNUZ", "fp8"),
        ("gfx942", "f8E5M2FNUZ", "bf8"),
        ("gfx950", "f8E4M3FN", "fp8"),
        ("gfx1200", "f8E5M2", "bf8"),
        ("gfx12-generic", "f8E4M3FN", "fp8"),
    ],
)
def test_an_instruction_converts_two_numbers_where_the_chip_knows_the_kind(
    chip: str, kind: str, named: str
) -> None:
    narrowed, widened = conversions(chip, "f32", kind), conversions(chip, kind, "f32")
    assert narrowed
    assert all(name.startswith(f"v_cvt_pk_{named}_f32") for name in narrowed)
    assert widened
    assert all(name.startswith(f"v_cvt_pk_f32_{named}") for name in widened)


@pytest.mark.parametrize(
    ("chip", "kind"),
    [
        ("gfx942", "f8E4M3FN"),
        ("gfx950", "f8E4M3FNUZ"),
        ("gfx9-4-generic", "f8E4M3FN"),
        ("gfx1100", "f8E5M2"),
    ],
)
def test_other_kinds_take_arithmetic_on_bits(chip: str, kind: str) -> None:
    assert conversions(chip, "f32", kind) == conversions(chip, kind, "f32") == []


def test_what_lies_out_of_range_is_not_left_to_the_mode_of_the_chip() -> None:
    assert conversions("gfx942", "f32", "f8E4M3FNUZ", saturate=False) == []
