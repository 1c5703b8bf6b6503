"""Runs pointwise kernels and copies through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python element_run.py gfx942 [elements | movement | large] [part of a name, or 1/3]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import element_kernels
import movement_kernels
import numpy as np
from emulated_run import run, selected
from kernel_text import result_dtypes

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.pointwise.generator import pointwise_program
from mgx_mlir.codegen.gpu.families.pooling import pooling_program
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.rewriting.in_place import overwritable

KERNELS = {
    "elements": element_kernels.emulated,
    "movement": movement_kernels.emulated,
    "large": movement_kernels.large,
}


def main(chip: str, which: str = "elements", wanted: str = "") -> int:
    failed = 0
    for kernel in selected(KERNELS[which](), wanted):
        _, op = kernel.kernel()
        target = Target.get(chip)
        if kernel.schedule is None:
            code = compiler(op)(target)
        else:
            family = pooling_program if "pooling" in kernel.name else pointwise_program
            made = family(op, target, kernel.schedule)
            assert isinstance(made, Generated), made
            program = made.program
            code = replace(code_object(program, target), why=made.schedule)
        inputs = kernel.arrays()
        want = kernel.wanted(*inputs)
        dtypes = result_dtypes(op)
        problems = ["no family takes it"] if "generic path" in code.why else []
        ways: list[tuple[CodeObject, int | None]] = [(code, None)]
        places = sorted(overwritable(op))
        if places:
            generic = code_object(loops_program(op), target)
            ways += [(way, place) for way in (code, generic) for place in places]
        for way, over in ways:
            have = [np.full(w.shape, 99).astype(d) for w, d in zip(want, dtypes, strict=True)]
            try:
                run(way, inputs, have, over)
            except RuntimeError as error:
                problems.append(f"over input {over}: {error}")
                break
            problems += [
                kernel.problem(n, w, h, inputs)
                for n, (w, h) in enumerate(zip(want, have, strict=True))
            ]
        for problem in filter(None, problems):
            failed += 1
            print(f"{kernel.name} on {chip}: {code.why}: {problem}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
