"""Convolutions with channels last compute the same, and their filters are views of weights."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.passes.layout_convolution import LayoutConvolution
from mgx_mlir.passes.simplify_reshapes import SimplifyReshapes
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.pass_base import PassContext
from test.passes.graphs import check_keeps_results, parse

STEPS = [LayoutConvolution(), SimplifyReshapes()]


def network(group: int, spatial: tuple[int, ...]) -> Graph:
    """Convolutions, a pooling, a sum with an earlier value, a mean and a concat."""
    store, generator = WeightStore(), np.random.default_rng(3)
    rank = len(spatial)

    def tensor(*sizes: int) -> str:
        return f"tensor<{'x'.join(map(str, sizes))}xf32>"

    def weight(name: str, *shape: int) -> str:
        array = generator.uniform(-0.1, 0.1, shape).astype(np.float32)
        store.add(Weight(name, array.dtype, array.shape, data=array))
        return f'%{name} = mgx.literal "{name}" : {tensor(*shape)}'

    window = f"pads = {[1] * 2 * rank} strides = {[1] * rank} dilations = {[1] * rank}"
    x, image, small = (tensor(2, c, *spatial) for c in (3, 8, 4))
    threes = (3,) * rank
    return parse(
        f"""
        func.func @main(%x: {x} {{mgx.name = "x"}})
            -> ({tensor(2, 12, *spatial)} {{mgx.name = "y"}}) {{
          {weight("u", 8, 3, *threes)}
          {weight("v", 8, 8 // group, *threes)}
          {weight("w", 4, 8, *threes)}
          {weight("b", 8, *(1,) * rank)}
          %a = mgx.convolution %x, %u {window} : {x}, {tensor(8, 3, *threes)} -> {image}
          %bb = mgx.multibroadcast %b : {tensor(8, *(1,) * rank)} -> {image}
          %c = mgx.add %a, %bb : {image}, {image} -> {image}
          %p = mgx.pooling average %c lengths = {[3] * rank} {window} : {image} -> {image}
          %d = mgx.convolution %p, %v {window} {{group = {group} : i64}}
              : {image}, {tensor(8, 8 // group, *threes)} -> {image}
          %e = mgx.add %d, %c : {image}, {image} -> {image}
          %m = mgx.reduce_mean %e axes = {[*range(2, 2 + rank)]}
              : {image} -> {tensor(2, 8, *(1,) * rank)}
          %mm = mgx.multibroadcast %m : {tensor(2, 8, *(1,) * rank)} -> {image}
          %f = mgx.mul %e, %mm : {image}, {image} -> {image}
          %g = mgx.convolution %f, %w {window} : {image}, {tensor(4, 8, *threes)} -> {small}
          %y = mgx.concat %g, %f axis = 1 : {small}, {image} -> {tensor(2, 12, *spatial)}
          return %y : {tensor(2, 12, *spatial)}
        }}""",
        store,
    )


@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("spatial", [(6,), (5, 6), (3, 4, 5)])
def test_keeps_results(group: int, spatial: tuple[int, ...]) -> None:
    check_keeps_results(lambda: network(group, spatial), STEPS, rtol=1e-4)


@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("spatial", [(6,), (5, 6), (3, 4, 5)])
def test_keeps_results_on_cpus(group: int, spatial: tuple[int, ...]) -> None:
    def make() -> Graph:
        return network(group, spatial)

    check_keeps_results(make, STEPS, rtol=1e-4, kind="cpu")


def test_filters_are_vectors_on_cpus() -> None:
    graph = network(1, (5, 6))
    run_pipeline(graph.module, STEPS, PassContext(weights=graph.weights, kind="cpu"))
    (stored,) = (w for w in graph.weights.values() if w.shape == (1, 3, 3, 8, 8))
    old = graph.weights["v"].array()
    np.testing.assert_array_equal(stored.array()[0], old.transpose(2, 3, 1, 0))
    assert "channels_last" in str(graph.module) and '"v"' not in str(graph.module)


def test_filters_are_views_of_the_weights_they_were() -> None:
    graph = network(1, (5, 6))
    run_pipeline(graph.module, STEPS, PassContext(weights=graph.weights))
    old, new = graph.weights["v"], graph.weights["v.0231"]
    assert new.data is not None and np.shares_memory(new.data, old.array())
    assert new.array().flags.c_contiguous
    np.testing.assert_array_equal(new.array(), old.array().transpose(0, 2, 3, 1))
    assert '"v.0231"' in str(graph.module) and '"v"' not in str(graph.module)


def test_filters_of_one_channel_are_stored_with_their_numbers_last() -> None:
    graph = network(8, (5, 6))
    run_pipeline(graph.module, STEPS, PassContext(weights=graph.weights))
    old, new = graph.weights["v"], graph.weights["v.2310"]
    np.testing.assert_array_equal(new.array(), old.array().transpose(2, 3, 1, 0))
    assert '"v.2310"' in str(graph.module) and '"v"' not in str(graph.module)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_resizes_keep_channels_last(kind: str) -> None:
    graph = resized()
    check_keeps_results(resized, STEPS, rtol=1e-4, kind=kind)
    run_pipeline(graph.module, STEPS, PassContext(weights=graph.weights, kind=kind))
    assert "tensor<1x4x4x64xf32> -> tensor<1x7x5x64xf32>" in str(graph.module)


def resized() -> Graph:
    """Two convolutions with a resize of a part of the image between them."""
    store, generator = WeightStore(), np.random.default_rng(4)
    for name, shape in (("u", (64, 3, 1, 1)), ("v", (4, 64, 3, 3))):
        array = generator.uniform(-0.1, 0.1, shape).astype(np.float32)
        store.add(Weight(name, array.dtype, array.shape, data=array))
    ones = "strides = [1, 1] dilations = [1, 1]"
    mode = "coordinate_mode = #mgx<coordinate_mode tf_crop_and_resize>"
    return parse(
        f"""
        func.func @main(%x: tensor<1x3x4x4xf32> {{mgx.name = "x"}})
            -> (tensor<1x4x5x3xf32> {{mgx.name = "y"}}) {{
          %u = mgx.literal "u" : tensor<64x3x1x1xf32>
          %v = mgx.literal "v" : tensor<4x64x3x3xf32>
          %a = mgx.convolution %x, %u pads = [0, 0, 0, 0] {ones}
              : tensor<1x3x4x4xf32>, tensor<64x3x1x1xf32> -> tensor<1x64x4x4xf32>
          %r = mgx.resize %a scales = [1.0, 1.0, 1.75, 1.25]
              {{roi = array<f32: 0.0, 0.0, 0.0, 0.25, 1.0, 1.0, 1.0, 0.75>, {mode},
                mode = #mgx<resize_mode linear>}}
              : tensor<1x64x4x4xf32> -> tensor<1x64x7x5xf32>
          %y = mgx.convolution %r, %v pads = [0, 0, 0, 0] {ones}
              : tensor<1x64x7x5xf32>, tensor<4x64x3x3xf32> -> tensor<1x4x5x3xf32>
          return %y : tensor<1x4x5x3xf32>
        }}""",
        store,
    )


@pytest.mark.parametrize(
    ("channels", "filters", "window", "group"),
    [(16, 24, 1, 1), (16, 16, 3, 16), (3, 8, 3, 1), (16, 24, 3, 1)],
)
def test_convolutions_of_bytes_on_cpus(
    channels: int, filters: int, window: int, group: int
) -> None:
    shape = (filters, channels // group, window, window)
    x, w = f"tensor<1x{channels}x9x9xi8>", f"tensor<{'x'.join(map(str, shape))}xi8>"
    y = f"tensor<1x{filters}x{10 - window}x{10 - window}xi32>"
    sums = f"tensor<1x{filters}x1x1xi32>"

    def make() -> Graph:
        store = WeightStore()
        array = np.random.default_rng(3).integers(-9, 9, shape).astype(np.int8)
        return parse(
            f"""
            func.func @main(%x: {x} {{mgx.name = "x"}}) -> ({sums} {{mgx.name = "y"}}) {{
              %w = mgx.literal "{store.add_array(array, "w")}" : {w}
              %y = mgx.quant_convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1]
                  dilations = [1, 1] {{group = {group} : i64}} : {x}, {w} -> {y}
              %s = mgx.reduce_sum %y axes = [2, 3] : {y} -> {sums}
              return %s : {sums}
            }}""",
            store,
        )

    after = check_keeps_results(make, STEPS, rtol=0, kind="cpu")
    assert "channels_last" in str(after.module)
