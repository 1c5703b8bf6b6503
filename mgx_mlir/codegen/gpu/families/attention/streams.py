"""Streams of instructions for different units of a compute unit, and their order.

A stream is a generator that builds instructions and yields about how many clocks they keep
their unit busy. One wave issues in order: what shall run beside each other has to stand
beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir.dialects import rocdl

Stream = Iterator[int]
# The same for products: clocks that the wave spends, and those that the matrix cores do, or
# that operands take to come.
Products = Iterator[tuple[int, int]]
# From asking LDS for the first operands to the first product, that others may use.
READ_CLOCKS = 32
# An instruction of the one wave on a SIMD that issues in order.
SLOT_CLOCKS = 4


def run(stream: Stream | Products, ordered: bool = False) -> None:
    """Builds all of a stream. ordered: the compiler keeps the order, and with it the registers
    few."""
    for _ in stream:
        if ordered:
            rocdl.sched_barrier(0)


def weave(products: Products, moves: Stream, share: float, others: Stream) -> None:
    """Builds products and moves, to their ends, and beside them what there is of others.

    Whenever the matrix cores could begin, a product comes; of the clocks between, moves take
    a share. The compiler keeps the order.
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
        rocdl.sched_barrier(0)
    for _ in moves:
        rocdl.sched_barrier(0)
