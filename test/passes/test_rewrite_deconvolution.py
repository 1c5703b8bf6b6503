"""Transposed convolutions of random geometry are the convolutions that the pass writes."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.passes.rewrite_deconvolution import RewriteDeconvolution
from test.passes.graphs import check_keeps_results, parse_case

CASES_A_TEST = 25


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_keeps_results(rank: int) -> None:
    generator = np.random.default_rng(rank)
    rewritten = 0
    for _ in range(CASES_A_TEST):
        text = random_case(generator, rank)
        if text:
            graph = check_keeps_results(
                lambda text=text: parse_case(text), [RewriteDeconvolution()]
            )
            rewritten += "convolution_backwards" not in str(graph.module)
    assert rewritten > CASES_A_TEST // 2


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_keeps_results_of_narrow_types(element: str) -> None:
    text = case([1, 4, 5, 4], [4, 3, 4, 3], [2, 2], [1, 1], [1, 0, 1, 1], [0, 1], 1, element)
    check_keeps_results(lambda: parse_case(text), [RewriteDeconvolution()])


def random_case(generator: np.random.Generator, rank: int) -> str:
    def numbers(low: int, high: int, count: int = rank) -> list[int]:
        return [int(n) for n in generator.integers(low, high, count)]

    group = int(generator.choice([1, 1, 2, 3]))
    batch, channels, outputs = numbers(1, 3, 3)
    return case(
        [batch, group * channels, *numbers(1, 6)],
        [group * channels, outputs, *numbers(1, 6)],
        strides=numbers(1, 5),
        dilations=numbers(1, 4),
        pads=numbers(0, 4, 2 * rank),
        extra=numbers(0, 3),
        group=group,
    )


def case(
    x: list[int],
    w: list[int],
    strides: list[int],
    dilations: list[int],
    pads: list[int],
    extra: list[int],
    group: int,
    element: str = "f32",
) -> str:
    """A program of one transposed convolution; '' where its padding leaves no result."""
    rank = len(strides)
    full = [
        stride * (size - 1) + (taps - 1) * dilation + 1
        for stride, size, taps, dilation in zip(strides, x[2:], w[2:], dilations, strict=True)
    ]
    sizes = [n - pads[i] - pads[rank + i] + extra[i] for i, n in enumerate(full)]
    if min(sizes) <= 0:
        return ""
    types = [
        f"tensor<{'x'.join(map(str, dims))}x{element}>"
        for dims in (x, w, [x[0], w[1] * group, *sizes])
    ]
    return f"""
func.func @main(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{
  %y = mgx.convolution_backwards %x, %w pads = {pads} strides = {strides} dilations = {dilations}
      {{group = {group} : i64, output_pads = array<i64: {", ".join(map(str, extra))}>}}
      : {types[0]}, {types[1]} -> {types[2]}
  return %y : {types[2]}
}}"""
