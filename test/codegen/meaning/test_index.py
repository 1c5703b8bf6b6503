"""Index expressions: what they evaluate to, and that random chains of views compose."""

import itertools
import math
import random

import pytest

from mgx_mlir.codegen.meaning.index import Dim, Index, Quotient, delinear, linear
from test.codegen.meaning.cases import Case, check


def dims(*extents: int) -> list[Index]:
    return [Index(((Dim(d, n), 1),)) for d, n in enumerate(extents)]


def value(index: Index, point: tuple[int, ...]) -> int:
    total = index.constant
    for atom, factor in index.terms:
        if isinstance(atom, Dim):
            inner = point[atom.position]
        else:
            inner = value(atom.value, point)
            assert inner >= 0
            is_quotient = isinstance(atom, Quotient)
            inner = inner // atom.divisor if is_quotient else inner % atom.divisor
        total += factor * inner
    return total


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 6, 12])
def test_division_agrees_with_integers_and_bounds_hold(divisor: int) -> None:
    a, b = dims(4, 6)
    for expression in (
        a * 6 + b,
        a * 3 + b,
        a * -6 + b + 18,
        a * 12 + b * 2 + 1,
        a * -1 + 7,
        a * -5 + b * 3 + 20,
        a * 4 - b * 2 + 11,
    ):
        whole, rest = expression // divisor, expression % divisor
        for point in itertools.product(range(4), range(6)):
            exact = value(expression, point)
            assert value(whole, point) == exact // divisor
            assert value(rest, point) == exact % divisor
            for index in (expression, whole, rest):
                assert index.bounds[0] <= value(index, point) <= index.bounds[1]


def test_reshapes_that_split_evenly_need_no_division() -> None:
    i, j = delinear(linear(dims(4, 6), (4, 6)), (4, 6))
    assert (i, j) == tuple(dims(4, 6))
    i, j, k = dims(2, 3, 4)
    assert delinear(linear((i, j, k), (2, 3, 4)), (6, 4)) == (i * 3 + j, k)


KINDS = "transpose reshape reshape slice step reverse broadcast unsqueeze neg pad concat".split()


def random_case(seed: int) -> Case:
    """A kernel of a random chain of views, now and then with a pointwise op, a pad or a concat."""
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4))]
    first, body = tuple(shape), []
    for step in range(rng.randint(2, 7)):
        kind = rng.choice(KINDS)
        text, result = _random_op(rng, kind, shape, f"%v{step}" if step else "%x")
        if math.prod(result) > 5000:
            break
        source, target = _type(shape), _type(result)
        types = source if kind == "neg" else f"{source} -> {target}"
        if kind == "concat":
            types = f"{source}, {source} -> {target}"
        body.append(f"%v{step + 1} = mgx.{text} : {types}")
        shape = result
    return Case(
        f"chain{seed}", f"%x: {_type(first)}", "\n".join(body), f"%v{len(body)}: {_type(shape)}"
    )


def _type(shape: list[int] | tuple[int, ...]) -> str:
    return f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"


def _random_op(rng: random.Random, kind: str, shape: list[int], x: str) -> tuple[str, list[int]]:
    axis = rng.randrange(len(shape))
    size = shape[axis]
    if kind == "transpose":
        order = rng.sample(range(len(shape)), len(shape))
        return f"transpose {x} permutation = {order}", [shape[d] for d in order]
    if kind == "reshape":
        factors = [p for n in shape for p in _factors(n)]
        rng.shuffle(factors)
        result = [1] * rng.randint(1, 4)
        for factor in factors:
            result[rng.randrange(len(result))] *= factor
        return f"reshape {x}", result
    if kind == "slice":
        start = rng.randrange(size)
        end = rng.randint(start + 1, size)
        result = [*shape[:axis], end - start, *shape[axis + 1 :]]
        return f"slice {x} axes = [{axis}] starts = [{start}] ends = [{end}]", result
    if kind == "step":
        by = rng.randint(1, 3)
        result = [*shape[:axis], -(-size // by), *shape[axis + 1 :]]
        return f"step {x} axes = [{axis}] steps = [{by}]", result
    if kind == "reverse":
        return f"reverse {x} axes = [{axis}]", shape
    if kind == "broadcast":
        grown = [n if n > 1 else rng.choice([1, 3]) for n in shape]
        return f"multibroadcast {x}", [*([2] if rng.random() < 0.5 else []), *grown]
    if kind == "unsqueeze":
        return f"unsqueeze {x} axes = [{axis}]", [*shape[:axis], 1, *shape[axis:]]
    if kind == "pad":
        low, high = [0] * len(shape), [0] * len(shape)
        low[axis], high[axis] = rng.randint(0, 2), rng.randint(0, 2)
        result = [n + a + b for n, a, b in zip(shape, low, high, strict=True)]
        return f"pad {x} low = {low} high = {high} {{value = 2.0 : f64}}", result
    if kind == "concat":
        result = [*shape[:axis], 2 * size, *shape[axis + 1 :]]
        return f"concat {x}, {x} axis = {axis}", result
    return f"neg {x}", shape


def _factors(n: int) -> list[int]:
    return {1: [], 2: [2], 3: [3], 4: [2, 2], 6: [2, 3]}.get(n) or [n]


def test_random_chains_of_views_compose() -> None:
    check([random_case(seed) for seed in range(60)])
