"""Runs products whose split-K a run decides, on one chip; prints what went wrong.

A program of its own, as `emulated_run` is:

    ... python parts_run.py gfx942

One code object has runs of one part, of two, of an odd number, and of as many as there may be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import dynamic_images_run as images
import numpy as np
from contraction_kernels import DTYPES, Array, Product, tensor
from convolution_kernels import Convolution
from emulated_run import run

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.contraction import choices
from mgx_mlir.codegen.gpu.families.contraction.recipes import tiles
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from test.codegen.bound_code import bound_code
from test.codegen.gpu.compiled import compiled

# Through LDS with several prefetch distances, and without it.
LDS = [ProductSchedule(1, 2, 2, 1, 2), ProductSchedule(2, 1, 1, 1)]
LONG = ProductSchedule(1, 1, 1, 2, 4)
STRAIGHT = [ProductSchedule(1, 1, 1, 2, n, waves_k=4) for n in (2, 3)]
# Work-groups that split-K makes of fewer.
FILL = 36
PADS = (1, 1, 1, 1)
CONVOLUTIONS = (
    (Convolution((1, 256, 4, 5), 24, (3, 3), pads=PADS, native=True, epilogue="add"), STRAIGHT),
    (Convolution((1, 128, 3, 4), 40, (3, 3), pads=PADS, native=True), [*LDS, LONG]),
    (Convolution((1, 128, 2, 3), 24, (3, 3), pads=PADS, epilogue="relu"), LDS),
    (Convolution((1, 128, 3, 3), 24, (3, 3), pads=PADS, native=True, element="i8"), LDS[:1]),
)
PRODUCTS = (
    (Product((images.IMAGES, 48, 1536), "nt", "f16", epilogue="gelu"), [*STRAIGHT, LONG]),
    (Product((images.IMAGES, 40, 640), "nt", "f32", epilogue="residual"), LDS[1:]),
    (Product((20, 24, 512), "nn", "f16", batch=(images.IMAGES,)), [LDS[0]]),
)
COUNTS = (1, 2, 4, 5, 7, 11, 13, 21, 40, 60)


def of_product(product: Product, counts: tuple[int, ...]) -> images.Case:
    """A product of as many rows, or matrices, as the counts say."""

    def arrays(count: int) -> tuple[list[Array], Array, Array]:
        if product.batch:
            here = replace(product, batch=(count,))
        else:
            here = replace(product, shape=(count, *product.shape[1:]))
        inputs = here.arrays()
        return inputs, *here.meaning(*inputs)

    return images.Case(product.name, product.text(), arrays, product.result, counts)


def of_view(product: Product) -> images.Case:
    """A product of the first of some matrices: their number is symbolic, and its tiles are not."""
    M, _, K = product.shape
    many, one, own = (
        tensor(shape, product.element) for shape in ((images.IMAGES, M, K), (1, M, K), (M, K))
    )
    views = (
        f"%s = mgx.slice %x0 axes = [0] starts = [0] ends = [1] : {many} -> {one}\n"
        f"%r = mgx.reshape %s : {one} -> {own}\n"
    )
    text = product.text().replace(f"%x0: {own}", f"%x0: {many}").replace("dot %x0", "dot %r")
    text = text.replace("%c =", f"{views}%c =")

    def arrays(count: int) -> tuple[list[Array], Array, Array]:
        first, *rest = product.arrays()
        return [np.stack([first] * count), *rest], *product.meaning(first, *rest)

    return images.Case(f"{product.name} of a view", text, arrays, product.result, (1,))


def cases() -> Iterator[tuple[images.Case, ProductSchedule]]:
    """Kernels and their schedules."""
    yield of_view(Product((20, 24, 512), "nt", "f16")), LDS[0]
    for convolution, schedules in CONVOLUTIONS:
        for schedule in schedules:
            yield images.of_convolution(convolution, COUNTS), schedule
    for product, schedules in PRODUCTS:
        counts = COUNTS if product.batch else tuple(19 * count for count in COUNTS)
        for schedule in schedules:
            yield of_product(product, counts), schedule


def main(chip: str) -> int:
    failed, seen = 0, set()
    target = Target.get(chip)
    for case, schedule in cases():
        distance = schedule.prefetch if target.matrix else 1
        own = replace(schedule, prefetch=distance, fill=FILL)
        tiles.choose = choices.choose = lambda *_, own=own, **__: own  # type: ignore[assignment]
        code = compiled(case.compiled(), chip)
        parts = set()
        for count in case.batches:
            inputs, want, bound = case.arrays(count)
            code_here, found = bound_code(code, {"images": count}), []
            matrices = count if "dot" in code.why and "rows" not in code.why else 1
            parts |= {launch.grid[2] // matrices for launch in code_here.launches}
            for _ in range(2):
                have = np.full(want.shape, 99).astype(DTYPES[case.result])
                run(code_here, inputs, [have])
                found.append(have)
            wrong = ~(np.abs(found[0].astype(np.float64) - want) <= bound)
            same = np.array_equal(*found)
            if wrong.any() or not same:
                failed += 1
                print(f"{case.name} x {count}: {code.why}: {wrong.sum()} wrong, again: {same}")
        seen |= parts
        if len(parts) < min(2, len(case.batches)):
            failed += 1
            print(f"{case.name}: {code.why}: parts {sorted(parts)}")
    if not {1, 2, 3, 4, 9} <= seen:
        print(f"all parts that runs have: {sorted(seen)}")
        failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
