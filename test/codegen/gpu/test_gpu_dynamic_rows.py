"""Products whose rows a size counts: by matrix cores, or why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH
from mgx_mlir.errors import ArtifactError
from test.codegen.bound_code import bound_code
from test.codegen.gpu.compiled import compiled
from test.codegen.gpu.emulated import run_on


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_products_of_any_rows_equal_those_of_higher_precision(chip: str, tmp_path: Path) -> None:
    run_on(chip, "dynamic_rows_run.py", tmp_path)


@pytest.mark.parametrize(
    "chip",
    [
        "gfx1100",
        *(
            pytest.param(chip, marks=pytest.mark.slow)
            for chip in ("gfx90a", "gfx942", "gfx1030", "gfx1201")
        ),
    ],
)
def test_rows_and_elements_of_any_number(chip: str, tmp_path: Path) -> None:
    run_on(chip, "dynamic_elements_run.py", tmp_path)


@pytest.mark.parametrize(
    ("chip", "which"),
    [
        ("gfx1100", "few"),
        ("gfx942", "uneven"),
        *(
            pytest.param(chip, "", marks=pytest.mark.slow)
            for chip in ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
        ),
    ],
)
def test_images_of_any_number(chip: str, which: str, tmp_path: Path) -> None:
    run_on(chip, "dynamic_images_run.py", tmp_path, which)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_a_run_decides_into_how_many_parts_k_is_cut(chip: str, tmp_path: Path) -> None:
    run_on(chip, "parts_run.py", tmp_path)


def tensor(shape: str, dims: str, element: str = "f16") -> str:
    named = re.sub(r"([a-z])", r"\1 : 1 ... ?", dims)
    return f"tensor<{shape}x{element}, #mgx.dims<[{named}]>>"


def images(op: str, shape: str = "?x8x6x6", result: str = "?x8x6x6") -> str:
    """A kernel of an image as large as its result, of channels first, with pooling 1x1."""
    x, y = tensor(shape, "n, _, _, _"), tensor(result, "n, _, _, _")
    return (
        f"mgx.kernel @k(%x: {x}) -> ({y}) attributes "
        f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n{op}\nmgx.return %y : {y}\n}}'
    ).replace("@T", x).replace("@R", y)  # fmt: skip


POOLING = "lengths = [1, 1] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]"


@pytest.mark.parametrize(
    ("text", "why", "path"),
    [
        (
            images(f"%y = mgx.pooling max %x {POOLING} : @T -> @R", "?x1x5x5", "?x1x5x5"),
            "no multiples of 16 bytes",
            "any sizes, 1 results a thread",
        ),
        (
            images(
                f"%r = mgx.reverse %x axes = [0] : @T -> @T\n"
                f"%y = mgx.pooling max %r {POOLING} : @T -> @R"
            ),
            "not done image by image",
            "generic path",
        ),
    ],
)
def test_what_is_not_done_image_by_image_says_why(text: str, why: str, path: str) -> None:
    code = compiled(text)
    assert why in code.why and path in code.why


@pytest.mark.parametrize(
    ("a", "b", "c", "why"),
    [
        (tensor("?x64", "m, _"), tensor("64x32", "_, _"), tensor("?x32", "m, _"), "any number of"),
        (tensor("?x64", "m, _"), tensor("64x?", "_, n"), tensor("?x?", "m, n"), "any sizes"),
        (tensor("?x?", "m, k"), tensor("?x32", "k, _"), tensor("?x32", "m, _"), "any sizes"),
        (
            tensor("?x?x64", "b, m, _"),
            tensor("?x64x32", "b, _, _"),
            tensor("?x?x32", "b, m, _"),
            "any sizes",
        ),
        (
            tensor("?x4", "m, _"),
            "tensor<4x32xf16>",
            tensor("?x32", "m, _"),
            "K = 4 is below",
        ),
    ],
)
def test_what_is_open_is_said(a: str, b: str, c: str, why: str) -> None:
    text = (
        f"mgx.kernel @k(%a: {a}, %b: {b}) -> ({c}) attributes "
        f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\nmgx.return %c : {c}\n}}"
    )
    code = compiled(text)
    assert code.why.startswith(f"mgx.dot: {why}")


def test_transposed_rows_are_matrices_of_any_size() -> None:
    stored, a = tensor("64x?", "_, m"), tensor("?x64", "m, _")
    b, c = "tensor<64x32xf16>", tensor("?x32", "m, _")
    text = (
        f"mgx.kernel @k(%x: {stored}, %b: {b}) -> ({c}) attributes "
        f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%a = mgx.transpose %x permutation = [1, 0] : {stored} -> {a}\n"
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\nmgx.return %c : {c}\n}}"
    )
    code = compiled(text)
    assert code.why.startswith("mgx.dot: any sizes, ")


def test_parts_of_k_and_matrices_together_fit_a_grid() -> None:
    a, b, c = (tensor(f"?x{shape}", "n, _, _") for shape in ("8x40000", "40000x8", "8x8"))
    text = (
        f"mgx.kernel @k(%a: {a}, %b: {b}) -> ({c}) attributes "
        f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\nmgx.return %c : {c}\n}}"
    )
    code = compiled(text)
    (launch,) = bound_code(code, {"n": 100}).launches
    parts = launch.grid[2] // 100
    assert parts > 1
    bound_code(code, {"n": MAX_BATCH // parts})
    with pytest.raises(ArtifactError, match="out of range"):
        bound_code(code, {"n": MAX_BATCH // parts + 1})


def test_products_with_their_rows_have_short_formulas() -> None:
    rows = '"batch_size*sequence_length" : 1 ... ?'
    a, c, row = (f"tensor<?x{n}xf16, #mgx.dims<[{rows}, _]>>" for n in (2816, 1024, 1))
    b, stored = "tensor<2816x1024xf16>", "tensor<1024x2816xf16>"
    text = (
        f"mgx.kernel @k(%a: {a}, %w: {stored}) -> ({c}) attributes "
        f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%b = mgx.transpose %w permutation = [1, 0] : {stored} -> {b}\n"
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\n"
        f"%y = mgx.fused_reduce(%c) axes = [1] : ({c}) -> ({c}) {{\n"
        f"^bb0(%x: {c}):\n"
        f"  %s = mgx.reduce_sum %x axes = [1] : {c} -> {row}\n"
        f"  %r = mgx.multibroadcast %s : {row} -> {c}\n"
        f"  %z = mgx.mul %x, %r : {c}, {c} -> {c}\n"
        f"  mgx.yield %z : {c}\n}}\nmgx.return %y : {c}\n}}"
    )
    code = compiled(text, "gfx1100")
    assert "generic path" not in code.why
    assert max(map(len, code.formulas)) < 1600
