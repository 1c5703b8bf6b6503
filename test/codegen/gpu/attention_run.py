"""Runs attention through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python attention_run.py gfx942 [part of a name, or 1/3]
"""

from __future__ import annotations

import sys

import numpy as np
from attention_cases import Planned, emulated, in_parts
from emulated_run import run, selected

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.attention.kernel import attention_program
from mgx_mlir.codegen.gpu.families.attention.parts import attention_parts_program
from test.codegen.attention_kernels import DTYPES


def check(target: Target, cases: list[Planned], wanted: str = "", parts: bool = False) -> int:
    """Runs the cases that `wanted` selects; 1 where any is wrong.

    parts: as several kernels.
    """
    failed, chip = 0, target.name
    for case, schedule in selected(cases, wanted, lambda planned: planned[0].name):
        _, kernel = case.kernel()
        if parts:
            made = attention_parts_program(kernel, target)
        else:
            made = attention_program(kernel, target, schedule)
        if not isinstance(made, Generated):
            failed += 1
            print(f"{case.name} on {chip}: refused: {made}")
            continue
        inputs = case.arrays()
        want = case.meaning(*inputs)
        have = [np.full(shape, 99).astype(DTYPES[element]) for shape, element in case.results()]
        try:
            run(code_object(made.program, target), inputs, have)
        except RuntimeError as error:
            failed += 1
            print(f"{case.name} on {chip}: {made.schedule}: {error}")
            continue
        wrong = case.wrong(have, want)
        if len(wrong):
            failed += 1
            number, *place = (int(x) for x in wrong[0])
            at = tuple(place)
            print(
                f"{case.name} on {chip}: {made.schedule}: {len(wrong)} wrong, first at "
                f"{at} of result {number}: {have[number][at]}, want {want[number][at]} "
                f"within {case.tolerance:.2g}"
            )
    return min(failed, 1)


def main(chip: str, wanted: str = "") -> int:
    target = Target.get(chip)
    whole = check(target, emulated(target), wanted)
    return whole or check(target, in_parts(target), wanted, parts=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
