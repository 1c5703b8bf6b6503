"""Which steps wait for which, and whether several streams pay."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.plan import Buffer, Plan, Step
from mgx_mlir.runtime.hip.device import Machine
from test.runtime.accesses import accesses, share
from test.runtime.bound_plans import BoundPlan, Schedule, bound_plan

MACHINE = Machine(5e12, 1e14, 304)
LINE = 4096
# Each pair of memory lines, from which a step reads and to which it writes.
Moves = Sequence[tuple[int, int]]


def bound(
    moves: Moves, kernels: Sequence[int] = (), code: Sequence[CodeObject] = (), size: int = LINE
) -> BoundPlan:
    """Steps from line to line of the arena: copies, or those of `kernels` by number."""
    numbers = kernels or [-1] * len(moves)
    most = max(itertools.chain(*moves)) + 1
    buffers = tuple(Buffer("arena", size, offset=n * size) for n in range(most))
    steps = tuple(Step(kernel, pair) for kernel, pair in zip(numbers, moves, strict=True))
    return bound_plan(Plan((), (), most * size, buffers, steps), code, MACHINE)


def schedule(found: BoundPlan) -> Schedule | None:
    assert found.parts == 1
    return next(iter(found.schedules), None)


def kernel(launches: int = 1, scratch: int = 0, groups: int = 1) -> CodeObject:
    """Functions that read and write a line each, and share scratch memory."""
    own = [Argument("input", 0), Argument("output", 0)]
    own += [Argument("scratch", 0)] if scratch else []
    launch = Launch("f", (groups, 1, 1), (64, 1, 1), tuple(own))
    return CodeObject("gfx942", b"", (launch,) * launches, scratch, {})


def closure(before: Sequence[Sequence[int]] | Sequence[set[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for own in before:
        found.append(set(own).union(*(found[number] for number in own)))
    return found


def chains(count: int, length: int) -> list[tuple[int, int]]:
    """Chains of steps that have nothing to do with each other."""
    return [
        (chain * 2 + place % 2, chain * 2 + 1 - place % 2)
        for chain, place in itertools.product(range(count), range(length))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_what_touches_the_same_bytes_is_ordered_and_nothing_else(seed: int) -> None:
    """Three chains, with some steps from one to another."""
    generator = np.random.default_rng(seed)
    moves: list[tuple[int, int]] = []
    for number in range(60):
        own = 4 * (number % 3)
        other = int(generator.integers(12)) if generator.random() < 0.06 else own
        target = own + int(generator.integers(4))
        source = next(n for n in (other, own, own + 1) if n != target)
        moves.append((source, target))
    found = bound(moves)
    one = schedule(found)
    assert one is not None
    touched = accesses(found, ())
    want = [{m for m in range(n) if share(touched[m], own)} for n, own in enumerate(touched)]
    assert closure(one.before) == closure(want)
    implied = closure(one.before)
    for own in one.before:
        assert not any(a in implied[b] for a, b in itertools.permutations(own, 2)), own


def test_long_chains_go_to_streams_of_their_own() -> None:
    found = schedule(bound(chains(3, 20)))
    assert found is not None
    assert len({*found.streams}) == 3
    for chain in range(3):
        assert len({*found.streams[chain * 20 : chain * 20 + 20]}) == 1


def test_what_does_not_pay_stays_on_one_stream() -> None:
    assert schedule(bound(chains(1, 40))) is None
    # Events cost more than is won.
    assert schedule(bound(chains(2, 2))) is None
    # Each launch keeps the whole device busy.
    apart = [(2 * n, 2 * n + 1) for n in range(8)]
    large = bound(apart, [0] * 8, [kernel(groups=1 << 16)], size=1 << 29)
    assert schedule(large) is None


def test_launches_that_share_scratch_memory_follow_each_other() -> None:
    kernels = [0] * 40
    for number in (1, 3, 25):
        kernels[number] = 1
    found = schedule(bound(chains(2, 20), kernels, [kernel(), kernel(scratch=512)]))
    assert found is not None
    # Each stream has its own: the two chains stay apart.
    assert len({*found.streams}) == 2
    assert not any(number < 20 for own in found.before[20:] for number in own)


def test_a_kernel_s_launches_stay_on_one_stream() -> None:
    """The second launch finds the first one's results in scratch memory."""
    found = schedule(bound(chains(3, 10), [0] * 30, [kernel(2, scratch=512)]))
    assert found is not None
    for number in range(0, 60, 2):
        assert found.streams[number] == found.streams[number + 1]
