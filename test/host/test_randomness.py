"""Random operators: reproducible by seed, with the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings
from test.host.nodes import run

COUNT = 20_000


def distance(sample: np.ndarray, cumulative: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: `cumulative` is the distribution at the sorted sample."""
    steps = np.arange(len(sample) + 1) / len(sample)
    return float(max((cumulative - steps[:-1]).max(), (steps[1:] - cumulative).max()))


# Samples of the distribution itself exceed this with a chance of 1e-6.
LIMIT = np.sqrt(-np.log(1e-6 / 2) / 2 / COUNT)


def test_uniform_numbers():
    sample = np.sort(run("RandomUniform", shape=[COUNT], low=-3.0, high=5.0, seed=1.0))
    assert sample.dtype == np.float32
    assert distance(sample, (sample + 3) / 8) < LIMIT
    assert distance(sample, (sample + 3) / 8.5) > LIMIT


def test_normal_numbers():
    from math import erf

    like = np.zeros((COUNT // 10, 10))
    sample = np.sort(run("RandomNormalLike", like, mean=2.0, scale=3.0, seed=1.0).reshape(-1))
    assert sample.dtype == np.float64
    assert distance(sample, np.array([(1 + erf((x - 2) / 3 / 2**0.5)) / 2 for x in sample])) < LIMIT


def test_bernoulli_follows_each_chance():
    chances = np.repeat(np.array([0, 0.25, 1], np.float32), COUNT)
    drawn = run("Bernoulli", chances, dtype=TensorProto.BOOL, seed=3.0).reshape(3, COUNT)
    assert not drawn[0].any() and drawn[2].all()
    assert abs(drawn[1].mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / COUNT)


def test_multinomial_follows_the_weights():
    logits = np.log(np.array([[1, 2, 0, 5], [1, 0, 0, 0]], np.float32) + 1e-30)
    drawn = run("Multinomial", logits, sample_size=COUNT, seed=4.0)
    assert drawn.dtype == np.int32 and drawn.shape == (2, COUNT)
    found = np.bincount(drawn[0], minlength=4) / COUNT
    np.testing.assert_allclose(found, [1 / 8, 2 / 8, 0, 5 / 8], atol=5 * 0.5 / np.sqrt(COUNT))
    assert not drawn[1].any()


def test_dropout_keeps_the_mean():
    x = np.full(COUNT, 2, np.float32)
    y, mask = run("Dropout", x, np.float32(0.75), np.array(True), outputs=2, seed=5)
    assert abs(mask.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / COUNT)
    np.testing.assert_array_equal(y, np.where(mask, 8, 0).astype(np.float32))
    y, mask = run("Dropout", x, np.float32(0.75), np.array(False), outputs=2)
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    with pytest.raises(ModelError, match="its ratio is 1"):
        run("Dropout", x, np.float32(1), np.array(True))


def twice(**attributes) -> Model:
    """Two random operators, summed; and one of them in three trips of a loop."""
    draw = helper.make_node("RandomNormal", [], ["d"], "inner", shape=[4], **attributes)
    body = helper.make_graph(
        [draw, helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("go", 9))],
        [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("d", 1, [4])],
    )
    nodes = [
        helper.make_node("RandomNormal", [], ["a"], "a", shape=[4], **attributes),
        helper.make_node("RandomNormal", [], ["b"], "b", shape=[4], **attributes),
        helper.make_node("Constant", [], ["trips"], value_int=3),
        helper.make_node("Loop", ["trips", ""], ["all"], body=body),
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in ("a", "b", "all")]
    graph = helper.make_graph(nodes, "test", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return Model(model, settings=Settings(cache_dir=None, jobs=1, threads=1))


def test_runs_repeat_and_nodes_and_trips_differ():
    model = twice()
    first, again = model.run({}), model.run({})
    other = model.run({}, seed=1)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert (first[name] != other[name]).any()
    assert (first["a"] != first["b"]).any()
    assert len({row.tobytes() for row in first["all"]}) == 3


def test_a_node_keeps_its_own_seed():
    model = twice(seed=7.0)
    first, other = model.run({}), model.run({}, seed=1)
    for name in first:
        np.testing.assert_array_equal(first[name], other[name])
    np.testing.assert_array_equal(first["a"], first["b"])
    assert len({row.tobytes() for row in first["all"]}) == 3
