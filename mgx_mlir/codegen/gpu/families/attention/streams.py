"""Streams of instructions for different units of a compute unit, and their order.

A stream is a generator that builds instructions and yields about how many clocks they keep
their unit busy. A wave issues in order: instructions that run in parallel must be interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator

from mgx_mlir.codegen.gpu.builders.ordering import fence

Stream = Iterator[int]
# The same for products: clocks of the wave, and clocks of the matrix cores or of the latency of
# operands.
Products = Iterator[tuple[int, int]]
# Clocks from the first read of operands in LDS to the first product: other streams may use them.
READ_CLOCKS = 32
# Clocks of one instruction of a wave that issues in order, alone on its SIMD.
SLOT_CLOCKS = 4


def run(stream: Stream | Products, ordered: bool = False) -> None:
    """Builds all of a stream. ordered: the compiler keeps the order, which takes few
    registers."""
    for _ in stream:
        if ordered:
            fence()


def weave(products: Products, moves: Stream, share: float, others: Stream) -> None:
    """Builds all products and moves, and `others` as far as they fit between the products.

    A product comes whenever the matrix cores are free. Moves take at most the fraction `share`
    of the clocks so far while `others` last. The compiler keeps the order.
    """
    now = free = moved = 0.0
    waiting = [moves, others]
    while True:
        if now >= free or not waiting:
            product = next(products, None)
            if product is None:
                break
            now = max(now, free)
            free = now + product[1]
            now += product[0]
        else:
            stream = moves if moves in waiting and moved <= share * now else waiting[-1]
            clocks = next(stream, None)
            if clocks is None:
                waiting.remove(stream)
                continue
            now += clocks
            moved += clocks if stream is moves else 0
        fence()
    for _ in moves:
        fence()
