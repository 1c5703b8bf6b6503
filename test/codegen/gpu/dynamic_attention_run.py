"""Runs attention whose sizes are arguments through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python dynamic_attention_run.py gfx942
"""

from __future__ import annotations

import re
import sys

import numpy as np
from emulated_run import run
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders import launches
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.dialects import context
from test.codegen.bound_code import bound_code
from test.codegen.open_attention import CASES, DTYPES


def main(chip: str) -> int:
    failed = 0
    target = Target.get(chip)
    lines = launches.MAX_LINES
    for case, launches.MAX_LINES in [*((case, lines) for case in CASES), (CASES[0], 4)]:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(case.text())
            code = compiler(next(iter(module.body.operations)))(target)
        no_unit = case.element == "bf16" and target.matrix is None
        if not re.search("any sizes, ", code.why) and not no_unit:
            failed += 1
            print(f"{case} on {chip}: {code.why}")
            continue
        for known, inputs in case.runs():
            want = case.meaning(inputs)
            have = np.full(want.shape, 99).astype(DTYPES[case.element])
            try:
                run(bound_code(code, known), inputs, [have])
            except RuntimeError as error:
                failed += 1
                print(f"{case} on {chip}, {known}: {error}")
                continue
            if wrong := case.wrong(have, want):
                failed += 1
                print(f"{case} on {chip}, {known}: {code.why}: {wrong} of {want.size} wrong")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
