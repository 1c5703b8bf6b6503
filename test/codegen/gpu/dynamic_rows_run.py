"""Runs products whose rows are an argument through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python dynamic_rows_run.py gfx942
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from contraction_kernels import DTYPES, Product
from emulated_run import run
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.dialects import context
from test.codegen.bound_code import bound_code

# The number of rows in the kernels' text, which a symbol replaces.
ROWS = 997
ANY = " : 1 ... ?"
PRODUCTS = (
    Product((ROWS, 40, 72), "nt", "f16", epilogue="bias"),
    Product((ROWS, 17, 37), "nn", "f16", epilogue="residual"),
    Product((ROWS, 24, 64), "nn", "f32", epilogue="row"),
    Product((ROWS, 33, 19), "nt", "f32", epilogue="gelu"),
    Product((ROWS, 32, 64), "nn", "bf16"),
    Product((ROWS, 24, 64), "nt", "i8", epilogue="bias"),
    Product((ROWS, 48, 2048), "nn", "f16", epilogue="gelu"),
    Product((ROWS, 40, 1536), "nt", "f32", epilogue="residual"),
)


def open_rows(text: str, shape: str = "?", dims: str = f"rows{ANY}") -> str:
    """A kernel's text with its rows as an argument."""
    return re.sub(
        rf"tensor<{ROWS}x(\d+)x(\w+)>",
        rf"tensor<{shape}x\1x\2, #mgx.dims<[{dims}, _]>>",
        text,
    )


def text_of(product: Product, leading: bool) -> str:
    """The kernel with its rows as an argument; with `leading`, as two dimensions 'a' and 'b'."""
    if not leading:
        return open_rows(product.text())
    dims = f"a{ANY}, b{ANY}"
    text = open_rows(product.text(), "?x?", dims)
    _, n, k = product.shape
    weight = f"tensor<{k}x{n}x{product.element}>"
    wide = f"tensor<?x{k}x{n}x{product.element}, #mgx.dims<[a{ANY}, _, _]>>"
    broadcast = f"%w1 = mgx.multibroadcast %x1 : {weight} -> {wide}\n%c = "
    return (
        text.replace("%c = ", broadcast, 1)
        .replace(", %x1 :", ", %w1 :")
        .replace(f"#mgx.dims<[{dims}, _]>>, {weight} ->", f"#mgx.dims<[{dims}, _]>>, {wide} ->")
    )


@dataclass(frozen=True)
class Case:
    """A kernel's text, and the kernel of some rows."""

    text: str
    of_rows: Callable[[int], Product]
    leading: bool = False


def cases() -> Iterator[Case]:
    for product in PRODUCTS:
        yield Case(text_of(product, False), partial(_of_rows, product))
    leading = replace(PRODUCTS[1], shape=(ROWS, 20, 40))
    yield Case(text_of(leading, True), partial(_of_rows, leading), leading=True)


def _of_rows(product: Product, rows: int) -> Product:
    return replace(product, shape=(rows, *product.shape[1:]))


def main(chip: str) -> int:
    failed = 0
    target = Target.get(chip)
    for case in cases():
        name = case.of_rows(ROWS).name
        with context(), ir.Location.unknown():
            module = ir.Module.parse(case.text)
            code = compiler(next(iter(module.body.operations)))(target)
        tile = re.search(r"any number of rows, .*tile (\d+)x", code.why)
        if tile is None:
            failed += 1
            print(f"{name} on {chip}: {code.why}")
            continue
        own = int(tile[1])
        for rows in sorted({1, 3, 5, own - 1, own, own + 1, 3 * own + 5, 2 * own + 128}):
            here = case.of_rows(rows)
            inputs = here.arrays()
            want, bound = here.meaning(*inputs)
            have = np.full(want.shape, 99).astype(DTYPES[here.result])
            sizes = {"a": rows, "b": 1} if rows % 2 else {"a": 2, "b": rows // 2}
            try:
                run(bound_code(code, sizes if case.leading else {"rows": rows}), inputs, [have])
            except RuntimeError as error:
                failed += 1
                print(f"{here.name} on {chip}: {code.why}: {error}")
                continue
            wrong = ~(np.abs(have.astype(np.float64) - want) <= bound)
            if wrong.any():
                failed += 1
                print(f"{here.name} on {chip}: {code.why}: {wrong.sum()} of {wrong.size} wrong")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
