"""The page that says what of MIGraphX's interface is here, and that tests use each name of it."""

from __future__ import annotations

import re
from pathlib import Path

from mgx_mlir.migraphx.macros import macros
from mgx_mlir.migraphx.operators import REFUSED, names
from mgx_mlir.tools import migraphx_page

FOLDER = Path(__file__).resolve().parent


def test_the_page_is_that_of_the_code():
    written = (FOLDER.parents[1] / "docs" / "migraphx.md").read_text()
    made = migraphx_page.page()
    assert written == made, "run python -m mgx_mlir.tools.migraphx_page > docs/migraphx.md"


def test_every_operator_is_here_or_has_a_reason():
    wanted = {*migraphx_page.OPERATORS.split()}
    assert {*REFUSED} == wanted - names()


def test_every_name_of_the_page_has_a_test():
    text = "".join(file.read_text() for file in sorted(FOLDER.glob("test_*.py")))
    used = {*re.findall(r'"(\w+)"', text), *re.findall(r"\.(\w+)\b", text)}
    used |= {f"{word}_{update}" for word in ("scatter", "scatternd") for update in
             ("none", "add", "mul", "min", "max")}  # fmt: skip
    used |= {f"reduce_{name}" for name in ("max", "mean", "min", "prod")}
    there = {*migraphx_page.OPERATORS.split()} & names() | {
        *migraphx_page.MACROS.split()
    } & macros()
    there |= {*migraphx_page.FUNCTIONS.split()}
    there |= {name for members in migraphx_page.CLASSES.values() for name in members.split()}
    assert not sorted(there - used)
