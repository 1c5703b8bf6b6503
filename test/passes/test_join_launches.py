"""Launches of a decoder's step and of a forest, and joined kernels on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import mgx_mlir
from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.pipelines.planning import build_plan
from test import decoder_models
from test.importer.agreement import contributed, floats
from test.importer.test_classical_learning import forest, voting

OPTIONS = {
    "given sizes": CompileOptions(dim_params=decoder_models.step(past=23)),
    "any sizes": CompileOptions(mode="full-dynamic"),
}


def launches(make: Callable[[], ModelProto], layers: int, options: CompileOptions) -> int:
    """Steps of the plan of a decoder with so many layers."""
    with patch.object(decoder_models, "LAYERS", layers):
        graph = import_model(make(), options)
    optimize(graph, options, Report())
    with graph.module.context:
        return build_plan(graph, symbolic=options.mode == "full-dynamic").step_count


@pytest.mark.parametrize(("name", "count"), [("given sizes", 6), ("any sizes", 6)])
def test_launches_of_a_layer_of_a_decoder_s_step(name: str, count: int) -> None:
    """Four products with their ends, one of gate and up; rotations and caches; attention.
    The two norms are in the kernels of the products before them.

    Queries and keys are rotated, and both caches extended, in one launch.
    """
    one, two = (launches(decoder_models.llama, layers, OPTIONS[name]) for layers in (2, 3))
    assert two - one == count


def test_a_cpu_runs_joined_kernels() -> None:
    """Programs for any target have them."""
    model = decoder_models.llama()
    rng = np.random.default_rng(0)
    feed = {
        "input_ids": np.array([[7]]),
        "attention_mask": np.ones((1, 24), np.int64),
        "position_ids": np.array([[23]]),
    }
    for value in model.graph.input:
        if value.name.startswith("past"):
            dims = (1, decoder_models.SHARED, 23, decoder_models.EACH)
            feed[value.name] = rng.normal(size=dims).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
    for options in OPTIONS.values():
        artifact = mgx_mlir.compile_to_bytecode(model.SerializeToString(), options)
        have = mgx_mlir.compile(artifact, "cpu").run(feed)
        for name, array in want.items():
            np.testing.assert_allclose(have[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_the_steps_of_a_forest_are_one_launch(chip: str) -> None:
    """Then one each for the votes of its leaves, their sum, the best class and its label."""
    feed = {"x": floats(70, 5, seed=3)}
    for depth in (2, 4):
        attributes = voting(forest(6, depth, 5, 3, seed=depth), "class")
        # onnxruntime takes no class that no leaf votes for, even if the others' scores are below 0.
        attributes["class_weights"] = np.abs(attributes["class_weights"]).tolist()
        model, _ = contributed(
            "TreeEnsembleClassifier", feed, (np.int64, np.float32), domain="ai.onnx.ml",
            classlabels_int64s=[5, 6, 9], **attributes,
        )  # fmt: skip
        options = CompileOptions()
        graph = import_model(model, options)
        optimize(graph, options, Report())
        with graph.module.context:
            assert build_plan(graph).step_count == 5
        session = onnxruntime.InferenceSession(model.SerializeToString())
        have = mgx_mlir.compile(model, chip).run(feed)
        for output, array in zip(session.get_outputs(), session.run(None, feed), strict=True):
            np.testing.assert_allclose(have[output.name], array, rtol=1e-5, atol=1e-5)


def test_caches_of_f32_beside_f16_take_two_launches_more() -> None:
    """A network of f16 converts them as it extends them, and once more as they are returned."""
    counts = []
    for options in OPTIONS.values():
        narrow = replace(options, floats="f16")
        one, two = (launches(decoder_models.llama, layers, narrow) for layers in (2, 3))
        counts.append(two - one)
    assert counts == [8, 8]
