"""The arena: how large it is, and what lies in it at one time."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memory_plan import NAMES, arena_bytes, model
from mgx_mlir.passes.plan_memory import place
from mgx_mlir.rewriting.tensors import Tensor, lower_bound

FAST = ("densenet121", "lstm", "shufflenet")


def check_arena(name: str) -> None:
    _, least, arena = arena_bytes(model(name))
    assert least <= arena <= 1.15 * least


@pytest.mark.parametrize("name", FAST)
def test_the_arena_is_hardly_larger_than_what_is_alive_at_one_time(name: str) -> None:
    check_arena(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NAMES} - {*FAST}))
def test_the_arena_of_every_model(name: str) -> None:
    check_arena(name)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_alive_at_one_time_does_not_overlap(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tensors = []
    for _ in range(60):
        first, second = generator.integers(100, size=2)
        lives = [(int(first), int(first + generator.integers(20)))]
        if generator.random() < 0.3:
            lives.append((int(second), int(second)))
        tensors.append(Tensor(int(generator.choice([0, 3, 16, 20, 300, 512, 4096])), lives))
    size = place(tensors, 256)
    assert size >= lower_bound(tensors)
    for number, a in enumerate(tensors):
        assert (not a.size or a.offset % 16 == 0) and a.offset + a.size <= size
        for b in tensors[:number]:
            apart = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
            assert apart or not a.meets(b) or not a.size or not b.size


def test_small_tensors_lie_close_and_large_ones_on_lines() -> None:
    tensors = [Tensor(size, [(0, 9)]) for size in (1, 20, 100, 1000, 4096)]
    assert place(tensors, 256) == 5376
    assert [t.offset % 256 == 0 for t in tensors[3:]] == [True, True]


def test_the_least_is_what_is_alive_at_one_time() -> None:
    assert lower_bound([Tensor(8, [(0, 2)]), Tensor(4, [(2, 3)]), Tensor(8, [(3, 4)])]) == 12
    # A tensor that is dead for a while counts for nothing then.
    assert lower_bound([Tensor(8, [(0, 1), (5, 6)]), Tensor(8, [(2, 4)])]) == 8
