"""Tiles across images, of which a run has any number: they cross from image to image.

    pixels    0 ......... P ......... 2P ........ 3P      P: pixels of an image of results
    tiles     |-----0-----|-----1-----|-----2-----|-----3

Tile t begins in image q = t * tile // P, at pixel t * tile % P. Its work-group's pointers advance
to that image in 64 bits, and its code is that of a product with as many images as a tile meets: all
of its sizes are given. Raw buffers end with the last image: pixels beyond read 0, and are not
stored.

Images are packed each by its own work-groups, filters once. With split-K, all parts of an image
stand together, and the sums of each are finished by its own work-groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    block_number,
    gpu_module,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, aligned
from mgx_mlir.codegen.gpu.families.contraction import finish, packing
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Along,
    DynamicRows,
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
    outputs_of,
)
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.problem.problem import Axis, Computed, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, ceil_div


@dataclass(frozen=True)
class Images:
    """The images of a run: their number, and elements of one in each tensor that has them.

    share: 1 in runs that this is for, and else 0.
    """

    count: Number
    share: Number
    steps: Mapping[Argument, int]
    formulas: Formulas


def pixels_of(request: Request, images: int) -> tuple[int, Along] | Refusal:
    """Pixels of an image of results, and the dimension of the grid along which tiles cross from
    image to image: x where pixels are the product's rows; or why they do not.

    request: that of a kernel of so many images, which are more than one.
    """
    product = request.product
    along: Along = "x" if request.transposed else "y"
    problem = product.match.problem
    extent = problem.M if request.transposed else problem.N
    if problem.batch != 1 or extent % images:
        return Refusal("images that are no neighbours in the product")
    for matrix in _matrices(product):
        axis = _pixels(matrix, product, along)
        if axis.stride == 1 and extent // images % 8:
            return Refusal("pixels that vectors take across images")
    return extent // images, along


def _pixels(matrix: Matrix, product: Product, along: Along) -> Axis:
    """The axis along the pixels of a matrix of the product."""
    is_a = any(matrix is term.a for term in product.match.terms)
    is_b = any(matrix is term.b for term in product.match.terms)
    if is_a:
        return matrix.row if along == "x" else Axis(())
    if is_b:
        return matrix.column if along == "y" else Axis(())
    return matrix.row if along == "x" else matrix.column


def _matrices(product: Product) -> list[Matrix]:
    """The matrices that are read and written."""
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    found = [x for x in operands if isinstance(x, Matrix)]
    found += [read.matrix for x in operands if isinstance(x, Computed) for read in x.tensors]
    return [*found, *product.match.reads, product.result]


def tiles_across(
    request: Request, one: Request, image: tuple[int, Along], images: Images, tiling: Tiling
) -> GpuProgram:
    """The functions `<name>_0` ..., where launches and scratch memory are formulas.

    request: that of as many images as a tile meets (see `DynamicRows.met`). one: that of one image.
    image: its pixels, and the dimension along which tiles cross.
    """
    return _Across(request, one, image, images, tiling).run()


class _Across(TilesGenerator):
    def __init__(
        self,
        request: Request,
        one: Request,
        image: tuple[int, Along],
        images: Images,
        tiling: Tiling,
    ) -> None:
        self.one, self.images = one.exact, images
        self.packed: dict[int, Parameter] = {}
        self.scratch: Number = 0
        self.steps = dict(images.steps)
        pixels, along = image
        size = tiling.schedule.rows if along == "x" else tiling.schedule.columns
        block = size(tiling.unit)
        tiles = images.share * ceil_div(images.count * pixels, block)
        rows = replace(self._rows(tiles), block=block, image=pixels, along=along)
        super().__init__(request.exact, request.sizes, tiling, request.name, None, rows)

    def _rows(self, groups: Number) -> DynamicRows:
        """The images, one for each work-group along x of `groups` work-groups."""
        number = self.images.formulas.number
        count = Argument("size", number(self.images.count))
        return DynamicRows(count, 1, self.steps, lambda n: number(groups * n))

    def run(self) -> GpuProgram:
        module, functions = gpu_module()
        launches = [self._pack_all(functions)] if self.product.packings else []
        results = outputs_of(self.match.result_elements, self.sizes[1])
        stored = results
        problem, splits = self.one.match.problem, self.schedule.splits
        if splits > 1:
            stored = [self._scratch(problem.accumulator, splits * problem.M * problem.N, True)]
        name = f"{self.name}_{len(launches)}"
        launches.append(self._multiplication(functions, name, stored))
        if splits > 1:
            name = f"{self.name}_{len(launches)}"
            launches.append(self._add_up(functions, name, stored[0], results))
        scratch = self.images.formulas.number(self.scratch)
        return GpuProgram(module, tuple(launches), scratch, 32)

    def _input(self, number: int, element: str) -> Parameter:
        return self.packed.get(number) or super()._input(number, element)

    def _scratch(self, element: str, size: int, each: bool) -> Parameter:
        """New scratch memory; so much for each image where `each`."""
        argument = Argument("scratch", self.images.formulas.number(self.scratch))
        bytes_: Number = size * emit.element_bytes(element)
        if each:
            self.steps[argument] = size
            bytes_ = bytes_ * self.images.count
        self.scratch = self.scratch + self.images.share * aligned(bytes_)
        return Parameter(element, size, argument)

    def _pack_all(self, functions: ir.Block) -> Launch:
        """The function that packs filters, by its first work-groups, and images."""
        one = self.one.packings
        each = {n: p.elements != self.product.packings[n].elements for n, p in one.items()}
        ordered = sorted(one, key=lambda number: each[number])
        reads = {x.argument: x.element for number in ordered for x in one[number].tensors}
        own = {number: replace(one[number], start=0) for number in ordered}
        for number, packed in own.items():
            self.packed[number] = self._scratch(packed.element, packed.elements, each[number])
        filters = [packed for number, packed in own.items() if not each[number]]
        images = [packed for number, packed in own.items() if each[number]]
        before, blocks = (sum(packed.blocks for packed in some) for some in (filters, images))
        groups = self.images.share * (self.images.count * blocks + before)
        rows = replace(self._rows(groups), image=max(blocks, 1), before=before)

        def body(tensors: Tensors) -> None:
            thread, block = thread_number(packing.THREADS), block_number("x", MAX_THREADS)
            here = emit.select(emit.compare("sge", block, before), tensors.first, -1)
            cut = len(filters)
            inputs, (first, others) = tensors.inputs, (tensors.outputs[:cut], tensors.outputs[cut:])
            packing.emit_packings(filters, inputs, first, (thread, block), False)
            packing.emit_packings(images, inputs, others, (thread, here), False)

        parameters = self._inputs(reads), list(self.packed.values())
        work = WorkGroups(packing.THREADS, (1, 1, 1), rows=rows)
        return add_function(functions, f"{self.name}_0", parameters, work, body)

    def _add_up(
        self, functions: ir.Block, name: str, parts: Parameter, results: list[Parameter]
    ) -> Launch:
        """The function that adds the partial sums of split-K."""
        match, splits = self.one.match, self.schedule.splits
        reads = self._inputs({s.argument: s.element for s in match.reads})
        rows = self._rows(self.images.share * self.images.count)
        groups = WorkGroups(finish.THREADS, (1, finish.blocks(match), 1), rows=rows)
        body = partial(finish.emit_finish, match, self.one.result, splits, "y", False)
        parameters = {**reads, finish.PARTS: parts}, results
        return add_function(functions, name, parameters, groups, body)
