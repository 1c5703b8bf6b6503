"""The algebra of views, against numpy: random chains of ops on an array of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from mgx_mlir.rewriting.view_chains import Change, changes, inverse
from mgx_mlir.rewriting.views import Layout, whole
from mgx_mlir.sizes.arithmetic import Size, Symbol, evaluate, exact


def read(layout: Layout, source: np.ndarray) -> np.ndarray:
    """The elements that a layout names."""
    index = np.full((), layout.offset)
    for dim in layout.dims:
        for size, stride in dim:
            index = index[..., None] + np.arange(size) * stride
    return source.reshape(-1)[index.reshape(layout.shape)]


def perform(steps: Sequence[Change], array: np.ndarray) -> np.ndarray:
    for step in steps:
        match step.name:
            case "reshape":
                array = array.reshape(step.argument)
            case "transpose":
                array = array.transpose(step.argument)
            case "multibroadcast":
                array = np.broadcast_to(array, step.argument)
            case "slice":
                array = array[tuple(slice(a, b) for a, b in step.argument)]
            case _:
                raise AssertionError(step)
    return array


def random_factors(generator: np.random.Generator, size: int) -> list[int]:
    """A shape of so many elements."""
    dims = []
    for prime in (2, 2, 2, 3, 3, 5):
        if size % prime == 0 and generator.random() < 0.7:
            dims.append(prime)
            size //= prime
    dims.append(size)
    generator.shuffle(dims)
    return dims


def random_step(
    generator: np.random.Generator, layout: Layout, array: np.ndarray
) -> tuple[Layout | None, np.ndarray]:
    kind = generator.integers(5)
    if kind == 0:
        shape = random_factors(generator, array.size)
        return layout.reshaped(shape), array.reshape(shape)
    if kind == 1:
        permutation = list(generator.permutation(array.ndim))
        return layout.transposed(permutation), array.transpose(permutation)
    if kind == 2 and array.size < 200:
        shape = [*generator.integers(1, 3, 1), *(n if n > 1 else 2 for n in array.shape)]
        return layout.expanded(shape, 1), np.broadcast_to(array, shape)
    if array.ndim == 0:
        return layout, array
    axis = int(generator.integers(array.ndim))
    size = array.shape[axis]
    start = int(generator.integers(size))
    end = int(generator.integers(start + 1, size + 1))
    step = int(generator.integers(1, 3)) if kind == 4 else 1
    index = (slice(None),) * axis + (slice(start, end, step),)
    return layout.sliced(axis, start, end, step), array[index]


@pytest.mark.parametrize("seed", range(300))
def test_chains_are_what_numpy_does_and_come_back_as_ops(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shape = random_factors(generator, int(generator.choice([12, 24, 36, 60])))
    source = np.arange(prod(shape)).reshape(shape)
    layout, array = whole(shape), source
    for _ in range(5):
        after, result = random_step(generator, layout, array)
        if after is None:
            continue  # strides cannot tell it
        layout, array = after, result
        np.testing.assert_array_equal(read(layout, source), array)
        steps = changes(layout, shape)
        if steps is not None:
            np.testing.assert_array_equal(perform(steps, source), array)
            assert len(steps) <= 6


@pytest.mark.parametrize("seed", range(100))
def test_permutations_have_inverses(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shape = random_factors(generator, 60)
    source = np.arange(60).reshape(shape)
    layout, array = whole(shape), source
    for _ in range(4):
        if generator.random() < 0.5:
            permutation = list(generator.permutation(array.ndim))
            layout, array = layout.transposed(permutation), array.transpose(permutation)
        else:
            dims = random_factors(generator, 60)
            after = layout.reshaped(dims)
            if after is not None:
                layout, array = after, array.reshape(dims)
    for target in ([60], shape):
        back = inverse(layout, target)
        if back is None:
            assert target != [60]
            continue
        np.testing.assert_array_equal(read(back, array), source.reshape(target))
        steps = changes(back, array.shape)
        assert steps is not None
        np.testing.assert_array_equal(perform(steps, array), source.reshape(target))


def test_a_view_that_repeats_or_drops_elements_has_no_inverse() -> None:
    assert inverse(whole([2, 3]).expanded([4, 2, 3], 1), [2, 3]) is None
    dropped = whole([4, 3]).sliced(0, 0, 2)
    assert dropped is not None and inverse(dropped, [4, 3]) is None


@pytest.mark.parametrize(
    ("shape", "permutation", "expected"),
    [
        ((2, 3), (0, 1), []),
        ((2, 3), (1, 0), [Change("transpose", (1, 0))]),
        ((1, 2, 3), (0, 2, 1), [Change("transpose", (0, 2, 1))]),
        ((2, 1, 3), (1, 0, 2), [Change("reshape", (1, 2, 3))]),
        ((2, 3, 4, 5), (2, 3, 0, 1), [Change("transpose", (2, 3, 0, 1))]),
    ],
)
def test_a_transpose_comes_back_as_the_shortest_chain(
    shape: tuple[int, ...], permutation: tuple[int, ...], expected: list[Change]
) -> None:
    assert changes(whole(shape).transposed(permutation), shape) == expected


def test_a_slice_and_a_broadcast_come_back_as_themselves() -> None:
    layout = whole([4, 6]).sliced(1, 2, 5)
    assert layout is not None
    assert changes(layout, [4, 6]) == [Change("slice", ((0, 4), (2, 5)))]
    layout = whole([1, 6]).expanded([7, 6], 0)
    assert changes(layout, [1, 6]) == [Change("multibroadcast", (7, 6))]


def test_reshapes_of_nothing_have_no_elements():
    layout = whole((0, 3, 4))
    for shape in ((3, 4, 0), (12, 0), (0,)):
        found = layout.reshaped(shape)
        assert found is not None
        assert found.shape == shape


def evaluated(layout: Layout, known: dict[str, int]) -> Layout:
    """A layout of symbolic sizes where they are known."""
    dims = tuple(
        tuple((evaluate(size, known), evaluate(stride, known)) for size, stride in dim)
        for dim in layout.dims
    )
    return Layout(evaluate(layout.offset, known), dims)


def numbers(argument: tuple, known: dict[str, int]) -> tuple:
    """A change's argument where the sizes are known."""
    return tuple(
        numbers(x, known)
        if isinstance(x, tuple)
        else evaluate(int(x) if isinstance(x, np.integer) else x, known)
        for x in argument
    )


@pytest.mark.parametrize("seed", range(100))
def test_views_of_symbolic_sizes_are_those_of_each_size(seed: int) -> None:
    """Random reshapes, transposes, slices of static dimensions and broadcasts."""
    generator = np.random.default_rng(seed)
    low = seed % 2
    b, s = (Size.of(Symbol(name, low)) for name in "bs")
    sizes: list = [b, s, 2, 3, 4]
    generator.shuffle(sizes)
    layout = whole(sizes)
    cases = [{"b": low, "s": 1}, {"b": 3, "s": 1}, {"b": 2, "s": 5}, {"b": 2, "s": low}]
    arrays = [
        np.arange(24 * c["b"] * c["s"]).reshape([evaluate(n, c) for n in sizes]) for c in cases
    ]
    for _ in range(6):
        shape = list(layout.shape)
        kind = generator.choice(["transpose", "merge", "split", "slice", "broadcast"])
        axis = int(generator.integers(len(shape)))
        after = layout
        if kind == "transpose":
            order = [int(i) for i in generator.permutation(len(shape))]
            after, steps = layout.transposed(order), [x.transpose(order) for x in arrays]
        elif kind in ("merge", "split"):
            if kind == "merge" and axis + 1 < len(shape):
                shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
            else:
                part = exact(shape[axis], s)
                shape[axis : axis + 1] = [shape[axis], 1] if part is None else [part, s]
            after = layout.reshaped(shape)
            steps = [
                x.reshape([evaluate(n, c) for n in shape])
                for x, c in zip(arrays, cases, strict=True)
            ]
        elif kind == "slice" and isinstance(shape[axis], int):
            after = layout.sliced(axis, 1, shape[axis]) if shape[axis] > 1 else layout
            start = int(shape[axis] > 1)
            steps = [np.moveaxis(np.moveaxis(x, axis, 0)[start:], 0, axis) for x in arrays]
        else:
            after = layout.expanded([s, *shape], 1)
            steps = [
                np.broadcast_to(x, (c["s"], *x.shape)) for x, c in zip(arrays, cases, strict=True)
            ]
        if after is None:
            continue
        layout, arrays = after, steps
        for array, known in zip(arrays, cases, strict=True):
            source = np.arange(24 * known["b"] * known["s"])
            assert np.array_equal(read(evaluated(layout, known), source), array)
            steps_of = changes(layout, sizes)
            if steps_of is not None:
                whole_ = source.reshape([evaluate(n, known) for n in sizes])
                chain = [Change(x.name, numbers(x.argument, known)) for x in steps_of]
                assert np.array_equal(perform(chain, whole_), array)


def test_sizes_that_may_be_0_keep_no_view_from_its_ops() -> None:
    b, s = (Size.of(Symbol(name, 0)) for name in "bs")
    turned = whole([b, 3, s, 2]).transposed([2, 0, 3, 1])
    assert changes(turned, [b, 3, s, 2]) == [Change("transpose", (2, 0, 3, 1))]
    back = inverse(turned, [b, 3, s, 2])
    assert back is not None
    assert changes(back, [s, b, 2, 3]) == [Change("transpose", (1, 3, 0, 2))]
