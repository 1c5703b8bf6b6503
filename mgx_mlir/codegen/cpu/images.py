"""Convolutions and pooling of any number of images: the functions of one image, for each of them.

The work items of a function are those of all images. Its pointers move on to an item's image. What
is made of weights alone, such as packed filters, is made once for all images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from mlir import ir
from mlir.dialects import memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.function import Memory
from mgx_mlir.codegen.cpu.launches import Launches
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.loops.body import UNBOUNDED, Place
from mgx_mlir.sizes.arithmetic import Number


class ImagesBuilder(Launches):
    """Takes the functions of one image, as a KernelBuilder does, and adds those of `images`.

    steps: elements from image to image, of each input and result that has images.
    """

    def __init__(self, functions: Functions, images: Number, steps: dict[Argument, int]) -> None:
        super().__init__(functions)
        self._images, self._steps = images, steps

    def add(
        self,
        memories: Sequence[Memory],
        items: Number,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """As `KernelBuilder.add`, for one image; or for none, where it reads and writes none."""
        by_image = any(m.argument in self._steps for m in memories)
        for memory in memories if by_image else ():
            # What is made of an image lies there once for each.
            if memory.argument.kind == "scratch" and memory.argument not in self._places:
                self._steps[memory.argument] = memory.size
        places = [self.place(m) for m in memories]
        if not by_image:
            self.functions.add_on(places, items, body, kept)
            return
        steps = [self._steps.get(m.argument) for m in memories]

        def every(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            def image(number: Index) -> None:
                start = emit.mul(number, items)
                first = emit.maximum(emit.sub(begin, start), 0)
                last = emit.minimum(emit.sub(end, start), items)
                own = [
                    p if step is None else _moved(p, emit.mul(number, step))
                    for p, step in zip(pointers, steps, strict=True)
                ]
                body(own, emit.value(first), emit.value(last))

            emit.loop(emit.div(begin, items), emit.div(emit.add(end, items - 1), items), 1, image)

        self.functions.add_on(places, self._images * items, every)

    def place(self, memory: Memory) -> Place:
        """The memory of all images."""
        if memory.argument in self._steps:
            memory = replace(memory, size=cast("int", memory.size * self._images))
        return super().place(memory)


def _moved(pointer: ir.Value, offset: Index) -> ir.Value:
    """The memory from an element on."""
    type_ = ir.MemRefType(pointer.type)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [1])
    result = ir.MemRefType.get([UNBOUNDED], type_.element_type, layout)
    return memref.reinterpret_cast(
        result, pointer, [emit.value(offset)], [], [], [dynamic], [UNBOUNDED], [1]
    )
