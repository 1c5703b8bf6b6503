"""Small graphs of what random ones once got wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from test.fuzz.graphs.graph import BF16, F32, F64, Case, Graph, Value

FOUND: list[Callable[[Graph], Value]] = []


def found(number: int) -> Case:
    """The graph with that number."""
    graph = Graph(random.Random(number))
    graph.float = F32
    FOUND[number](graph)
    return Case.of(graph, more=0)


def _found(build: Callable[[Graph], Value]) -> Callable[[Graph], Value]:
    FOUND.append(build)
    return build


@_found
def one_element_written_over(g: Graph) -> Value:
    values, _ = g.op("TopK", g.fresh((1,), weight=False), g.ints(1), outputs=2, axis=0)
    return g.op("Tanh", values)


@_found
def few_elements_of_64_bits_sorted(g: Graph) -> Value:
    x = g.fresh((64, 16), F64, False)
    return g.op("TopK", x, g.ints(2), outputs=2, axis=1, largest=0)[0]


@_found
def windows_as_wide_as_the_padded_image(g: Graph) -> Value:
    x, w = g.fresh((4, 2, 2, 1), weight=False), g.fresh((8, 2, 2, 7))
    return g.op("Conv", x, w, pads=[0, 3, 0, 3], strides=[2, 3])


@_found
def filters_whose_taps_lie_unevenly(g: Graph) -> Value:
    x, w = g.fresh((1, 3, 5, 6), weight=False), g.fresh((3, 3, 4, 4), weight=False)
    return g.op("ConvTranspose", x, w, strides=[2, 2])


@_found
def nothing_turned(g: Graph) -> Value:
    x = g.op("Transpose", g.fresh((17, 3, 0), weight=False), perm=[2, 0, 1])
    return g.op("Celu", x)


@_found
def values_beyond_the_last_key(g: Graph) -> Value:
    q, k, v = (g.fresh((1, 4, *s), weight=False) for s in ((48, 80), (80, 48), (48, 80)))
    scores = g.op("Mul", g.op("MatMul", q, k), g.number(0.1, F32))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


@_found
def weights_of_one_negative_number(g: Graph) -> Value:
    x = g.fresh((3, 40), weight=False)
    scale = g.hold(g.numpy.normal(size=(40,)).astype(F32) * 0 - 2)
    return g.op("MatMul", g.op("Mul", x, scale), g.hold(scale.exact.repeat(8).reshape(40, 8)))


@_found
def an_exponent_of_negative_numbers(g: Graph) -> Value:
    exponent = g.hold(g.numpy.integers(-2, 4, (33,)).astype(F32), weight=False)
    base = g.op("Add", g.op("Abs", g.fresh((5, 33), weight=False)), g.number(0.5, F32))
    return g.op("Pow", g.op("Neg", base), exponent)


@_found
def a_sum_of_many_constants_of_16_bits(g: Graph) -> Value:
    x = g.op("Cast", g.fresh((33, 64), F32, True), to=16)
    mean = g.op("ReduceMean", g.op("Mul", x, x), g.ints(0, 1))
    return g.op("Add", mean, g.op("Cast", g.fresh((3, 4), F32, False), to=16))


@_found
def indices_of_pooled_rows(g: Graph) -> Value:
    x = g.fresh((2, 3, 64, 64), weight=False)
    g.op("MaxPool", g.op("Relu", x), kernel_shape=[3, 3], strides=[1, 1], outputs=2)
    return g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)[1]


@_found
def pooled_and_added_to_a_row_and_a_column(g: Graph) -> Value:
    y = g.op("AveragePool", g.fresh((2, 3, 34, 40), weight=False), kernel_shape=[3, 3])
    y = g.op("Add", y, g.fresh((32, 1), weight=False))
    return g.op("Mul", y, g.op("Transpose", g.fresh((38, 32), weight=False), perm=[1, 0]))


@_found
def one_row_of_wider_numbers(g: Graph) -> Value:
    x = g.op("Cast", g.fresh((16,), F64, False), to=1)
    return g.op("MatMul", x, g.fresh((16, 197)))


@_found
def sums_along_two_axes_apart(g: Graph) -> Value:
    return g.op("ReduceMean", g.fresh((3, 96, 2, 3), weight=False), g.ints(1, 3), keepdims=1)


@_found
def sums_across_rows_of_odd_lengths(g: Graph) -> Value:
    return g.op("ReduceSum", g.fresh((8, 2, 2, 13), weight=False), g.ints(0, 2))


@_found
def images_and_a_number_for_each_pixel(g: Graph) -> Value:
    x, filters = g.fresh((2, 128, 3), weight=False), g.fresh((2, 128, 3))
    return g.op("Add", g.op("Conv", x, filters, pads=[2, 2]), g.fresh((1, 1, 5)))


@_found
def rows_backwards_of_a_transposed_image(g: Graph) -> Value:
    x = g.op("Transpose", g.fresh((3, 17, 31), weight=False), perm=[1, 2, 0])
    rows = g.op(
        "Slice", g.op("Reshape", x, g.ints(51, 31)), g.ints(48), g.ints(7), g.ints(0), g.ints(-1)
    )
    return g.op("RMSNormalization", rows, g.fresh((31,)), axis=-1)


@_found
def masks_behind_the_first_keys(g: Graph) -> Value:
    g.float = BF16
    rows = [g.fresh((3, 130, 128), weight=False) for _ in "qkv"]
    heads = [g.op("Reshape", x, g.ints(3, 130, 2, 64)) for x in rows]
    q, k, v = (
        g.op("Transpose", x, perm=perm)
        for x, perm in zip(heads, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = g.op("Mul", g.op("MatMul", q, k), g.number(0.125, BF16))
    seen = g.hold(np.tril(np.ones((130, 130), bool)))
    scores = g.op("Where", seen, scores, g.number(-1000.0, BF16))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


@_found
def channels_before_the_first_one(g: Graph) -> Value:
    return g.op("LRN", g.fresh((1, 256, 6, 6), weight=False), size=5)
