"""Streams of instructions for different units of a compute unit, and their order.

A stream is a generator that builds instructions and yields about how many clocks they keep
their unit busy. One wave issues in order: what shall run beside each other has to stand
beside each other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from mlir.dialects import rocdl

Stream = Iterator[int]
# Products are issued so much ahead of their share: one that has to wait for the matrix cores
# holds up the softmax behind it. From figures of the emulated device's model.
AHEAD = 0.7
T = TypeVar("T")

WAIT_CLOCKS = 16
# From asking LDS for the first operands to having them, while other waves do the same.
READ_CLOCKS = 64
# What the waves of a block take to write the next keys to LDS.
WRITE_CLOCKS = 192

# From asking another lane for a value to having it.
EXCHANGE_CLOCKS = 100


def run(stream: Stream) -> None:
    """Builds all of a stream."""
    for _ in stream:
        pass


def result(stream: Generator[int, None, T]) -> T:
    """Builds all of a stream; what it returns."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def mark(reached: list[bool]) -> Stream:
    """Says that a stream has come to this place."""
    reached.append(True)
    yield 0


def after(reached: list[bool], stream: Stream) -> Stream:
    """A stream that waits for the mark of another one, which it runs beside."""
    while not reached:
        yield WAIT_CLOCKS
    yield from stream


def lead(stream: Stream, clocks: int) -> None:
    """Builds the beginning of a stream, about so many clocks of it."""
    while clocks > 0:
        clocks -= next(stream, clocks)
        rocdl.sched_barrier(0)


def interleave(first: Stream, second: Stream, share: float) -> None:
    """Builds both streams side by side: the second takes `share` clocks for one of the first.

    The compiler keeps the order.
    """
    clocks = [0.0, 0.0]
    streams, weights = [first, second], (AHEAD * share, 1.0)
    open_ = [True, True]
    while any(open_):
        turn = 0 if open_[0] and (not open_[1] or clocks[0] <= clocks[1]) else 1
        spent = next(streams[turn], None)
        if spent is None:
            open_[turn] = False
            continue
        clocks[turn] += spent * weights[turn]
        rocdl.sched_barrier(0)
