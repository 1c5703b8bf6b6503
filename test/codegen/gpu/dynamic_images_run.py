"""Runs convolutions and poolings of any number of images through HIP on one chip.

A program of its own, as `emulated_run` is; prints what went wrong:

    ... python dynamic_images_run.py gfx942 [few | uneven]

`uneven`: tiles that cross images have schedules alone whose threads bring more rows than these.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import convolution_kernels
import numpy as np
from contraction_kernels import DTYPES, Array
from convolution_kernels import Convolution
from element_kernels import pooling
from emulated_run import run
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction import cost
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.dialects import context
from test.codegen.bound_code import bound_code

# The number of images in the kernels' text, which a symbol replaces.
IMAGES = 997
BATCHES = (1, 3, 17)
ODD = "images that are no multiples of 16 bytes"
POOLINGS = (
    ("max", (3, 16, 24), (3, 2, 1), (1, 1), "f32"),
    ("max", (2, 17, 24), (9, 2, 1), (4, 3), "f16"),
    ("average", (2, 9, 16), (3, 1, 1), (1, 1), "f32"),
    ("average", (4, 11, 12), (3, 2, 2), (1, 2), "i32"),
    ("lpnorm", (4, 9, 12), (3, 2, 1), (1, 1), "f32"),
)
FEW = 5
# Tiles across images, with their numbers at the ends of ranges: k in parts, images smaller than a
# tile and of one pixel, sums of integers, and operands that are packed first.
ACROSS = (
    Convolution((1, 256, 5, 6), 24, (3, 3), pads=(1, 1, 1, 1), native=True, epilogue="add"),
    Convolution((1, 256, 5, 4), 24, (3, 3), pads=(1, 1, 1, 1), epilogue="relu"),
    Convolution((1, 64, 1, 1), 40, (1, 1), native=True, epilogue="relu"),
    Convolution((1, 64, 1, 1), 40, (1, 1), epilogue="relu"),
    Convolution((1, 96, 3, 5), 48, (3, 2), (2, 1), pads=(1, 0, 1, 1), native=True, element="i8"),
    Convolution((1, 64, 3, 7), 32, (1, 1), native=True, element="f32", epilogue="add"),
    Convolution((1, 24, 4, 10), 8, (3, 3), pads=(1, 1, 1, 1), element="f32"),
)
ENDS = (2, 16, 33)


@dataclass(frozen=True)
class Case:
    """A kernel of one number of images: its name, its text, and inputs, result and bound."""

    name: str
    text: str
    arrays: Callable[[int], tuple[list[Array], Array, Array]]
    result: str
    batches: tuple[int, ...] = BATCHES

    def compiled(self) -> str:
        """The text with the number of images as an argument."""

        def named(found: re.Match[str]) -> str:
            rest = found[1].split("x")[:-1]
            dims = ", ".join(["images : 1 ... ?", *("_" for _ in rest)])
            return f"tensor<?x{found[1]}, #mgx.dims<[{dims}]>>"

        return re.sub(rf"tensor<{IMAGES}x(\w+)>", named, self.text)


def of_convolution(convolution: Convolution, batches: tuple[int, ...] = BATCHES) -> Case:
    def many(count: int) -> Convolution:
        return replace(convolution, shape=(count, *convolution.shape[1:]), schedule=None)

    def arrays(count: int) -> tuple[list[Array], Array, Array]:
        inputs = many(count).arrays()
        return inputs, *many(count).meaning(*inputs)

    found = many(IMAGES)
    return Case(found.name, found.text(), arrays, found.result, batches)


def of_pooling(mode: str, shape: tuple[int, ...], *rest: object, biased: bool) -> Case:
    def many(count: int):  # type: ignore[no-untyped-def]
        return pooling(mode, (count, *shape), *rest, biased=biased)  # type: ignore[arg-type]

    def arrays(count: int) -> tuple[list[Array], Array, Array]:
        inputs = many(count).arrays()
        (want,) = many(count).meaning(*inputs)
        epsilon = 2e-3 if rest[-1] == "f16" else 1e-5
        return inputs, want, epsilon * (1 + np.abs(want)) * (rest[-1] != "i32")

    found = many(IMAGES)
    return Case(found.name, found.text(), arrays, str(rest[-1]))


def cases(target: Target) -> Iterator[Case]:
    for convolution in ACROSS:
        yield of_convolution(convolution, ENDS)
    for convolution in convolution_kernels.emulated(target):
        yield of_convolution(convolution)
    for mode, *rest in POOLINGS:
        # Integers are rounded before the sums.
        for biased in (False, True)[: 1 if rest[-1] == "i32" else 2]:
            yield of_pooling(str(mode), *rest, biased=biased)  # type: ignore[arg-type]


def _is_uneven(schedule: ProductSchedule, target: Target) -> bool:
    """Whether the threads do not bring the rows, of 4 chunks, or the columns equally to LDS."""
    sides = schedule.waves_m * schedule.tiles_m, schedule.waves_n * schedule.tiles_n
    return any(16 * 4 * side % (schedule.waves * target.wave_size) for side in sides)


def main(chip: str, which: str = "") -> int:
    failed = 0
    target = Target.get(chip)
    taken = 0
    wanted = list(cases(target))[:: FEW if which == "few" else 1]
    if which == "uneven":
        every = tuple(cost.schedules("mfma"))
        cost.schedules = lambda kind: (x for x in every if _is_uneven(x, target))
        wanted = [of_convolution(convolution, ENDS) for convolution in ACROSS]
    for case in wanted:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(case.compiled())
            code = compiler(next(iter(module.body.operations)))(target)
        if "for each of any number of images" not in code.why:
            expected = ODD in code.why
            failed += not expected
            if not expected:
                print(f"{case.name} on {chip}: {code.why}")
            continue
        taken += 1
        for count in case.batches:
            inputs, want, bound = case.arrays(count)
            have = np.full(want.shape, 99).astype(DTYPES[case.result])
            try:
                run(bound_code(code, {"images": count}), inputs, [have])
            except RuntimeError as error:
                failed += 1
                print(f"{case.name} x {count} on {chip}: {code.why}: {error}")
                continue
            wrong = ~(np.abs(have.astype(np.float64) - want) <= bound)
            if wrong.any():
                failed += 1
                print(
                    f"{case.name} x {count} on {chip}: {code.why}: {wrong.sum()} of {wrong.size} "
                    "wrong"
                )
    return failed + (taken == 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
