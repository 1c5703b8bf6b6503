"""Convolutions and pooling of any number of images: the functions of one image, for each of them.

The work items of a function are those of all images. Its pointers move on to an item's image. What
is made of weights alone, such as packed filters, is made once for all images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.function import Memory
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.loops.body import UNBOUNDED, Place
from mgx_mlir.sizes.arithmetic import Number


class ImagesBuilder:
    """Takes the functions of one image, as a KernelBuilder does, and adds those of `images`.

    steps: elements from image to image, of each input and result that has images. places: memory
    that is not the argument's own.
    """

    def __init__(
        self,
        functions: Functions,
        images: Number,
        steps: dict[Argument, int],
        places: dict[Argument, Place],
    ) -> None:
        self._functions, self._images = functions, images
        self._steps, self._places = steps, places
        self._scratches = 0

    def scratch(self, size: int, element: str) -> Memory:
        """`size` elements of scratch memory, for one image or for all."""
        self._scratches += 1
        return Memory(Argument("scratch", self._scratches), element, size)

    def add(
        self,
        memories: Sequence[Memory],
        items: int,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """As `KernelBuilder.add`, for one image; or for none, where it reads and writes none."""
        by_image = any(m.argument in self._steps for m in memories)
        places = [self._place(m, by_image) for m in memories]
        if not by_image:
            self._functions.add_on(places, items, body, kept)
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

        self._functions.add_on(places, self._images * items, every)

    def _place(self, memory: Memory, by_image: bool) -> Place:
        argument = memory.argument
        if argument not in self._places:
            is_scratch = argument.kind == "scratch"
            if is_scratch and by_image:
                self._steps[argument] = memory.size
            size = memory.size * self._images if argument in self._steps else memory.size
            type_ = emit.memory_type(memory.element)
            self._places[argument] = Place(type_, size, None if is_scratch else argument)
        return self._places[argument]


def _moved(pointer: ir.Value, offset: Index) -> ir.Value:
    """The memory from an element on."""
    type_ = ir.MemRefType(pointer.type)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [1])
    result = ir.MemRefType.get([UNBOUNDED], type_.element_type, layout)
    return memref.reinterpret_cast(
        result, pointer, [emit.value(offset)], [], [], [dynamic], [UNBOUNDED], [1]
    )
