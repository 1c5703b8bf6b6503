"""Models whose sizes are known only when they run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.models.specialize import SpecializedModel
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings


def model_of(nodes, inputs, outputs) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, t, d) for n, t, d in inputs]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "test", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def specialized(tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "kernel-cache"

    def make(model: onnx.ModelProto, limit: int = 16) -> SpecializedModel:
        settings = Settings(cache_dir=cache, jobs=1, threads=1)
        return SpecializedModel(model, settings=settings, limit=limit)

    return make


def test_symbolic_dimensions_take_the_sizes_of_each_run(specialized):
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = specialized(model_of([relu], [("x", TensorProto.FLOAT, ["n", 3])], ["y"]))
    for n in (1, 4):
        x = np.arange(-n, 2 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(model.run({"x": x})["y"], np.maximum(x, 0))
    assert model.fixed == ()


def test_a_program_for_any_sizes_loads_where_information_is_logged(tmp_path, caplog):
    relu = helper.make_node("Relu", ["x"], ["y"])
    settings = Settings(cache_dir=tmp_path, jobs=1, threads=1)
    model = model_of([relu], [("x", TensorProto.FLOAT, ["n", 3])], ["y"])
    with caplog.at_level("INFO", logger="mgx_mlir"):
        found = SpecializedModel(model, settings=settings, any_after=0).run(
            {"x": np.full((2, 3), -1, np.float32)}
        )
    np.testing.assert_array_equal(found["y"], np.zeros((2, 3)))
    assert "compiling for" not in caplog.text


def test_each_run_of_a_model_is_checked(tmp_path):
    """A form of inputs that was checked is not looked at again; any other one is."""
    nodes = [helper.make_node("Add", ["x", "bias"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, ["n", 3]), ("bias", TensorProto.FLOAT, [3])]
    given = model_of(nodes, inputs, ["y"])
    given.graph.initializer.append(helper.make_tensor("bias", TensorProto.FLOAT, [3], [1, 2, 3]))
    model = Model(given, settings=Settings(cache_dir=tmp_path, jobs=1, threads=1))
    x, bias = np.zeros((2, 3), np.float32), np.array([1, 2, 3])
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"x": x})["y"], x + bias)
        for wrong, said in (
            ({"x": x.astype(np.float64)}, "got float64"),
            ({"x": x[:, :2]}, "float32\\[n, 3\\]"),
            ({}, "'x' is missing"),
            ({"x": x, "z": x}, "no input 'z'"),
        ):
            with pytest.raises(UsageError, match=said):
                model.run(wrong)
        np.testing.assert_array_equal(model.run({"x": x.tolist()})["y"], x + bias)
        own = np.full(3, 5, np.float32)
        np.testing.assert_array_equal(model.run({"x": x, "bias": own})["y"], x + 5)


def reshape_and_add(specialized, **options):
    nodes = [
        helper.make_node("Add", ["x", "k"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["y"]),
    ]
    inputs = [("x", TensorProto.INT64, [6]), ("k", TensorProto.INT64, [1])]
    return specialized(
        model_of(nodes, [*inputs, ("shape", TensorProto.INT64, [2])], ["y"]), **options
    )


def test_only_values_that_shapes_need_are_built_in(specialized):
    model = reshape_and_add(specialized)
    x = np.arange(6)
    for shape in ([2, 3], [3, -1]):
        y = model.run({"x": x, "k": np.array([4]), "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(y, (x + 4).reshape(shape))
    assert model.fixed == ("shape",)


def test_programs_are_kept_up_to_the_limit(specialized):
    model = reshape_and_add(specialized, limit=1)

    def program(*shape: int):
        given = {"x": np.arange(6), "k": np.array([0]), "shape": np.array(shape)}
        return model.program(given)

    first = program(2, 3)
    assert program(2, 3) is first
    assert program(3, 2) is not first
    assert program(2, 3) is not first


def test_what_no_value_helps_is_refused(specialized):
    nonzero = helper.make_node("NonZero", ["x"], ["y"])
    model = specialized(model_of([nonzero], [("x", TensorProto.FLOAT, [2, 3])], ["y"]))
    with pytest.raises(UnsupportedError, match="known only when the model runs"):
        model.run({"x": np.ones((2, 3), np.float32)})


def test_an_input_that_is_missing_is_named(specialized):
    model = reshape_and_add(specialized)
    with pytest.raises(UsageError, match="'k' is missing"):
        model.run({"x": np.arange(6), "shape": np.array([2, 3])})
