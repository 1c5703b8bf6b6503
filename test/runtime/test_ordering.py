"""Which steps wait for which, and whether several streams pay."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.runtime.binding import BoundCopy, BoundLaunch, Place
from mgx_mlir.runtime.ordering import Machine, accesses, predecessors, reduced, schedule

MACHINE = Machine(5e12, 1e14, 304)


def arena(offset: int, size: int) -> Place:
    return Place("arena", offset, bytes=size)


def launch(
    *places: Place, written: tuple[bool, ...], threads: int = 64, step: int = 0
) -> BoundLaunch:
    what = Launch("f", (1, 1, 1), (threads, 1, 1), ())
    return BoundLaunch(step, 0, what, places, written, "node", 0)


def copy(source: Place, target: Place) -> BoundCopy:
    return BoundCopy(0, source.bytes, (source, target), "node")


def random_steps(seed: int, count: int = 24) -> list[BoundLaunch | BoundCopy]:
    generator = np.random.default_rng(seed)

    def place() -> Place:
        kind = generator.choice(["arena", "arena", "arena", "input", "output", "weight", "scratch"])
        size = int(generator.choice([0, 16, 64, 128]))
        return Place(str(kind), int(generator.integers(12)) * 16, bytes=size)

    steps: list[BoundLaunch | BoundCopy] = []
    for _ in range(count):
        if generator.random() < 0.2:
            steps.append(copy(arena(int(generator.integers(9)) * 16, 32), arena(160, 32)))
            continue
        reads = [place() for _ in range(generator.integers(1, 3))]
        target = arena(int(generator.integers(12)) * 16, int(generator.choice([16, 64])))
        steps.append(launch(*reads, target, written=(*[False] * len(reads), True)))
    return steps


def conflict(a: BoundLaunch | BoundCopy, b: BoundLaunch | BoundCopy) -> bool:
    return any(
        m == n and start < last and first < end and (w or v)
        for (m, start, end, w), (n, first, last, v) in itertools.product(accesses(a), accesses(b))
    )


def closure(before: list[set[int]] | list[tuple[int, ...]]) -> list[set[int]]:
    found: list[set[int]] = []
    for own in before:
        found.append(set(own).union(*(found[number] for number in own)))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_touches_the_same_bytes_is_ordered_and_nothing_else(seed: int) -> None:
    steps = random_steps(seed)
    want = [{m for m in range(n) if conflict(steps[m], step)} for n, step in enumerate(steps)]
    found = predecessors(steps)
    assert closure(found) == closure(want)
    assert closure(reduced(found)) == closure(want)


def test_waits_that_others_imply_are_left_out() -> None:
    assert reduced([set(), {0}, {0, 1}, {0}, {1, 2, 3}]) == [(), (0,), (1,), (0,), (2, 3)]


def chains(count: int, length: int, threads: int = 64) -> list[BoundLaunch | BoundCopy]:
    """Chains of launches that have nothing to do with each other."""
    steps: list[BoundLaunch | BoundCopy] = []
    for chain, place in itertools.product(range(count), range(length)):
        at = (chain * 2 + place % 2) * 4096
        to = (chain * 2 + 1 - place % 2) * 4096
        places = arena(at, 4096), arena(to, 4096)
        number = len(steps)
        steps.append(launch(*places, written=(False, True), threads=threads, step=number))
    return steps


def test_long_chains_go_to_streams_of_their_own() -> None:
    found = schedule(chains(3, 20), MACHINE)
    assert found is not None
    assert len({*found.streams}) == 3
    for chain in range(3):
        assert len({*found.streams[chain * 20 : chain * 20 + 20]}) == 1


def test_what_does_not_pay_stays_on_one_stream() -> None:
    assert schedule(chains(1, 40), MACHINE) is None
    # Events cost more than is won.
    assert schedule(chains(2, 2), MACHINE) is None
    # Each launch keeps the whole device busy.
    large = [
        launch(arena(n << 30, 1 << 29), arena(n + 9 << 30, 1 << 29), written=(False, True),
               threads=1 << 22, step=n)
        for n in range(8)
    ]  # fmt: skip
    assert schedule(large, MACHINE) is None


def test_launches_that_share_scratch_memory_follow_each_other() -> None:
    steps = chains(2, 20)
    scratch = Place("scratch", 0, bytes=512)
    for number in (1, 3, 25):
        step = steps[number]
        assert isinstance(step, BoundLaunch)
        steps[number] = replace(step, places=(*step.places, scratch), written=(*step.written, True))
    found = schedule(steps, MACHINE)
    assert found is not None
    # Each stream has its own: the two chains stay apart.
    assert len({*found.streams}) == 2
    assert not any(number < 20 for own in found.before[20:] for number in own)


def test_a_kernel_s_launches_stay_on_one_stream() -> None:
    """The second launch finds the first one's results in scratch memory."""
    steps = [replace(s, step=n // 2) for n, s in enumerate(chains(3, 20))]
    found = schedule(steps, MACHINE)
    assert found is not None
    for number in range(0, 60, 2):
        assert found.streams[number] == found.streams[number + 1]
