"""Runs matrix products and convolutions through HIP on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python contraction_run.py gfx942 [part of a name, a share (1/3), or a number of varied ones]
"""

from __future__ import annotations

import sys

import contraction_kernels
import convolution_kernels
import fused_kernels
import numpy as np
import scaled_kernels
from emulated_run import run, selected

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.families.contraction.kernel import contraction_program


def main(chip: str, wanted: str = "") -> int:
    failed = 0
    target = Target.get(chip)
    makers = (contraction_kernels, convolution_kernels, fused_kernels, scaled_kernels)
    if wanted.isdigit():
        products = [x for maker in makers for x in maker.varied(target, int(wanted))]
    else:
        products = [x for maker in makers for x in maker.emulated(target)]
    for product in products if wanted.isdigit() else selected(products, wanted):
        _, kernel = product.kernel()
        made = contraction_program(kernel, target, product.schedule)
        if not isinstance(made, Generated):
            failed += 1
            print(f"{product.name} on {chip}: refused: {made}")
            continue
        inputs = product.arrays()
        want, bound = product.meaning(*inputs)
        have = np.full(want.shape, 99).astype(contraction_kernels.DTYPES[product.result])
        try:
            run(code_object(made.program, target), inputs, [have])
        except RuntimeError as error:
            failed += 1
            print(f"{product.name} on {chip}: {made.schedule}: {error}")
            continue
        wrong = ~(np.abs(have.astype(np.float64) - want) <= bound)
        if wrong.any():
            failed += 1
            place = tuple(int(x) for x in np.argwhere(wrong)[0])
            print(
                f"{product.name} on {chip}: {made.schedule}: {wrong.sum()} of {wrong.size} wrong, "
                f"first at {place}: {have[place]}, want {want[place]} within {bound[place]:.2g}"
            )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
