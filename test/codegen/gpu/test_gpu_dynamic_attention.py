"""Attention whose sizes are arguments: by the generator's kernels, or why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.attention.heads import heads_program
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import context
from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.parser import MAX_TEXT
from test.codegen.bound_code import bound_code
from test.codegen.gpu.compiled import compiled
from test.codegen.gpu.emulated import run_on
from test.codegen.open_attention import Case

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "chip",
    ["gfx942", *(pytest.param(c, marks=SLOW) for c in ("gfx90a", "gfx1030", "gfx1100", "gfx1201"))],
)
def test_attention_of_any_sizes_equals_that_of_higher_precision(chip: str, tmp_path: Path) -> None:
    run_on(chip, "dynamic_attention_run.py", tmp_path)


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ({"b": 1, "s": 1, "t": 4000}, 16),
        ({"b": 21, "s": 1, "t": 4000}, 4),
        ({"b": 999, "s": 1, "t": 4000}, 1),
        ({"b": 1, "s": 1, "t": 500}, 1),
    ],
)
def test_work_groups_share_many_keys_of_few_queries(sizes: dict[str, int], parts: int) -> None:
    code = compiled(Case("f16", 40, heads=6, groups=6).text())
    launches = [launch for launch in bound_code(code, sizes).launches if launch.grid[0]]
    assert launches[0].grid[2] == parts
    assert len(launches) == (2 if parts > 1 else 1)
    assert max(map(len, code.formulas)) < MAX_TEXT / 2


def test_heads_of_any_size_are_refused() -> None:
    text = Case("f16", 40).text().replace("x40x", "x?x").replace(", _]>", ", d : 1 ... ?]>")
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        refusal = heads_program(next(iter(module.body.operations)), Target.get("gfx942"))
    assert refusal == Refusal("mgx.attention: the size of a head is an argument")


def test_what_31_bits_do_not_reach_is_refused_when_it_is_met() -> None:
    code = compiled(Case("f16", 40).text())
    bound_code(code, {"b": 3, "s": 1 << 20, "t": 7})
    with pytest.raises(ArtifactError, match="out of range"):
        bound_code(code, {"b": 1, "s": 1 << 26, "t": 1})
    # Heads beyond what y of a grid takes are along z.
    many = bound_code(code, {"b": 50_001, "s": 1, "t": 1})
    assert [x.grid[1:] for x in many.launches if x.grid[0]] == [(1 << 15, 4)]
