"""ONNX models, memory of devices and scripts through MIGraphX's interface."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper

from mgx_mlir import migraphx
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ArtifactError, ModelError, TargetError, UnsupportedError, UsageError
from mgx_mlir.runtime.hip.library import call
from mgx_mlir.tuning.database import NAME, Database

CHIP = "gfx942"
F = migraphx.shape(lens=[2, 5])


def model(operator="Relu", batch="batch"):
    node = helper.make_node(operator, ["x"], ["y"], "node")
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, "width"]) for n in ("x", "y")
    )
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def lens(p):
    return {name: s.lens() for name, s in p.get_parameter_shapes().items()}


def test_a_file_and_its_bytes_give_the_same_program(tmp_path):
    file = tmp_path / "m.onnx"
    onnx.save(model(), file)
    p = migraphx.parse_onnx(str(file), default_dim_value=3)
    assert p == migraphx.parse_onnx_buffer(file.read_bytes(), default_dim_value=3)
    assert p.get_parameter_names() == ["x"] and lens(p) == {"x": [3, 3]}


def test_sizes_come_by_input_by_name_or_by_default():
    data = model().SerializeToString()
    assert lens(migraphx.parse_onnx_buffer(data)) == {"x": [1, 1]}
    p = migraphx.parse_onnx_buffer(data, map_input_dims={"x": [2, 5]})
    assert lens(p) == {"x": [2, 5]}
    p = migraphx.parse_onnx_buffer(data, dim_params={"batch": 4}, default_dim_value=7)
    assert lens(p) == {"x": [4, 7]}


def test_exhaustive_tune_keeps_times_of_all_schedules(tmp_path, monkeypatch):
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MGX_HIP", "emulated")
    p = migraphx.parse_onnx_buffer(model("Softmax").SerializeToString(), default_dim_value=16)
    p.compile(migraphx.get_target("cpu"), exhaustive_tune=True)
    assert not (tmp_path / "cache" / NAME).exists()
    p.compile(migraphx.get_target(CHIP), exhaustive_tune=True)
    with Database(tmp_path / "cache") as database:
        (record,) = database.records()
    assert record.exhaustive and len(record.candidates) > 2
    x = np.random.default_rng(0).standard_normal((16, 16), np.float32)
    (found,) = p.run({"x": x})
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(np.array(found), want, rtol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"default_dyn_dim_value": migraphx.dynamic_dimension(1, 4)},
        {"dim_params": dict.fromkeys(("batch", "width"), migraphx.dynamic_dimension(1, 4))},
        {"map_dyn_input_dims": {"x": [migraphx.dynamic_dimension(1, 4)] * 2}},
    ],
)
def test_dimensions_may_have_bounds(arguments):
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), **arguments)
    assert p.get_parameter_shapes()["x"].dyn_dims() == [migraphx.dynamic_dimension(1, 4)] * 2
    p.compile(migraphx.get_target("cpu"))
    x = -np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(np.array(p.run({"x": x})[0]), np.zeros((3, 2)))


def test_what_cannot_be_imported_is_an_error(capsys):
    data = model("Sqrtt").SerializeToString()
    with pytest.raises((ModelError, UnsupportedError), match="Sqrtt"):
        migraphx.parse_onnx_buffer(data, print_program_on_error=True)
    assert "Sqrtt" in capsys.readouterr().out
    assert "Conv" in migraphx.get_onnx_operators()


def test_without_offload_copy_outputs_are_parameters_in_device_memory():
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(CHIP), offload_copy=False)
    shapes = p.get_parameter_shapes()
    assert sorted(shapes) == ["main:#output_0", "x"]
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    given = {"x": migraphx.to_gpu(x), "main:#output_0": migraphx.allocate_gpu(shapes["x"])}
    (found,) = p.run(given)
    migraphx.gpu_sync()
    assert found.data_ptr() == given["main:#output_0"].data_ptr()
    np.testing.assert_array_equal(np.array(migraphx.from_gpu(found)), np.maximum(x, 0))


def test_an_address_may_be_in_device_memory():
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(CHIP), offload_copy=False)
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    shapes = p.get_parameter_shapes()
    held = {"x": migraphx.to_gpu(x), "main:#output_0": migraphx.allocate_gpu(shapes["x"])}
    given = {n: migraphx.argument_from_pointer(shapes[n], a.data_ptr()) for n, a in held.items()}
    p.run(given)
    migraphx.gpu_sync()
    np.testing.assert_array_equal(np.array(held["main:#output_0"]), np.maximum(x, 0))
    np.testing.assert_array_equal(migraphx.argument_from_pointer(F, x.ctypes.data), x)
    with pytest.raises(UsageError, match="row-major"):
        across = migraphx.shape(lens=[5, 2], strides=[1, 5])
        migraphx.argument_from_pointer(across, held["x"].data_ptr())


def test_run_async_works_on_the_callers_stream():

    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(CHIP))
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    stream = call("hipStreamCreate")
    (found,) = p.run_async({"x": migraphx.to_gpu(x)}, int(stream), "ihipStream_t")
    call("hipStreamSynchronize", stream)
    np.testing.assert_array_equal(np.array(found), np.maximum(x, 0))
    call("hipStreamDestroy", stream)


class Spoken:
    """A tensor of another library: nothing is known of it but DLPack's two methods."""

    def __init__(self, held):
        self.held, self.streams = held, []

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **rest):
        self.streams.append(stream)
        return self.held.__dlpack__(stream=stream, **rest)


def torch_tensor(x):
    return pytest.importorskip("torch").from_numpy(x)


@pytest.mark.parametrize("made", [Spoken, torch_tensor], ids=["any library", "torch"])
def test_tensors_of_other_libraries_are_inputs(made):
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target("cpu"))
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(np.array(p.run({"x": made(x)})[0]), np.maximum(x, 0))


def test_a_tensor_of_the_device_is_used_in_place_on_the_callers_stream():
    from mgx_mlir.runtime.hip.tensor import DeviceTensor

    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(CHIP))
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    migraphx.to_gpu(x)  # opens the device
    held = DeviceTensor.from_numpy(x)
    given, stream = Spoken(held), call("hipStreamCreate")
    (found,) = p.run_async({"x": given}, int(stream), "ihipStream_t")
    call("hipStreamSynchronize", stream)
    np.testing.assert_array_equal(np.array(found), np.maximum(x, 0))
    assert given.streams == [int(stream)]
    call("hipStreamDestroy", stream)
    here = migraphx.argument(given)
    assert here.data_ptr() == held.address and here.get_shape().lens() == [2, 5]
    np.testing.assert_array_equal(np.array(here), x)


def test_a_compiled_program_for_a_chip_is_saved_with_its_code():
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(CHIP))
    again = migraphx.load_buffer(migraphx.save_buffer(p))
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(np.array(again.run({"x": x})[0]), np.maximum(x, 0))


@pytest.mark.parametrize(("target", "copies"), [("gpu", False), (CHIP, True), ("cpu", True)])
def test_a_saved_program_knows_its_target_and_whose_memory_it_uses(target, copies):
    p = migraphx.parse_onnx_buffer(model().SerializeToString(), map_input_dims={"x": [2, 5]})
    p.compile(migraphx.get_target(target), offload_copy=copies)
    data = migraphx.save_buffer(p)
    again = migraphx.load_buffer(data)
    assert again.get_parameter_shapes() == p.get_parameter_shapes()
    assert migraphx.save_buffer(again) == data
    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    on_device = target != "cpu"
    (found,) = again.run({"x": migraphx.to_gpu(x) if on_device and not copies else x})
    np.testing.assert_array_equal(np.array(found), np.maximum(x, 0))
    if on_device:
        stream = call("hipStreamCreate")
        (found,) = again.run_async({"x": migraphx.to_gpu(x)}, int(stream))
        np.testing.assert_array_equal(np.array(found), np.maximum(x, 0))
        call("hipStreamDestroy", stream)


def test_a_file_that_names_no_target_is_refused():
    p = migraphx.parse_onnx_buffer(model().SerializeToString())
    p.compile(migraphx.get_target("cpu"))
    artifact = Artifact.from_bytes(migraphx.save_buffer(p))
    for option in ("cpu", {"target": 3}, {"target": "gfx0"}):
        damaged = replace(artifact, options={**artifact.options, "migraphx": option})
        with pytest.raises((ArtifactError, TargetError), match="target"):
            migraphx.load_buffer(damaged.to_bytes())


SCRIPT = """
import sys
import migraphx
import onnx
import onnx_migraphx.backend
from beside import VALUES

p = migraphx.program()
m = p.get_main_module()
x = m.add_parameter("x", migraphx.shape(type="float", lens=[2]))
m.add_return([m.add_instruction(migraphx.op("neg"), [x])])
p.compile(migraphx.get_target("ref"))
given = migraphx.create_argument(p.get_parameter_shapes()["x"], VALUES)
print(p.run({"x": given})[0].tolist())
print(sys.argv[1], onnx_migraphx.backend.supports_device("CPU"))
"""


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]])
def test_a_script_that_imports_migraphx_runs_unchanged(words, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("VALUES = [1, 2]")
    words = [str(tmp_path / words[0])] if len(words) == 1 else words
    command = [sys.executable, "-m", "mgx_mlir.migraphx", *words, "word"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)} if words[0] == "-m" else None
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.split() == ["[-1.0,", "-2.0]", "word", "True"]


def test_a_script_that_is_not_there_is_named(capsys, monkeypatch):
    from mgx_mlir.migraphx.__main__ import main

    monkeypatch.setattr(sys, "argv", ["migraphx", "absent.py"])
    assert main() == 2
    assert "there is no file absent.py" in capsys.readouterr().err


def test_an_artifact_in_parts_is_loaded_and_runs(tmp_path):
    import mgx_mlir

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (int64[1, n] y) '
    text += "{ a = Relu(x) y = NonZero(a) }"
    artifact = mgx_mlir.compile_to_bytecode(onnx.parser.parse_model(text))
    assert artifact.parts is not None
    mgx_mlir.save(artifact, tmp_path / "parts.mgx")
    p = migraphx.load(str(tmp_path / "parts.mgx"))
    assert p.is_compiled() and p.get_parameter_shapes()["x"].lens() == [4]
    assert p.get_output_shapes()[0].dynamic()
    (y,) = p.run({"x": np.array([1, -1, 0, 3], np.float32)})
    assert y.tolist() == [0, 3]
    data = migraphx.save_buffer(p)  # with the code for this machine
    assert migraphx.save_buffer(migraphx.load_buffer(data)) == data


HOSTED = {
    "boxes": "(float[1, 4, 4] boxes, float[1, 1, 4] scores) => (int64[n, 3] y) "
    "<int64[1] most = {2}, float[1] overlap = {0.5}, float[1] least = {-1}> "
    "{ y = NonMaxSuppression(boxes, scores, most, overlap, least) }",
    "open sizes": "(float[4] x) => (int64[1, n] y) { y = NonZero(x) }",
    "random": "(float[4] x) => (float[4] y) "
    "{ r = RandomUniform<shape = [4], seed = 1.0, high = 0.0>() y = Add(x, r) }",
    "unique": "(float[4] x) => (float[n] y) { y = Unique(x) }",
}


@pytest.mark.parametrize("target", ["cpu", "ref", CHIP])
@pytest.mark.parametrize("name", HOSTED)
def test_models_of_which_the_host_computes_parts_run(name, target):
    source = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {HOSTED[name]}')
    given = {
        "x": np.array([1, 0, 1, 2], np.float32),
        "boxes": np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [4, 4, 5, 5]]], np.float32),
        "scores": np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32),
    }
    p = migraphx.parse_onnx_buffer(source.SerializeToString())
    given = {name: given[name] for name in p.get_parameter_names()}
    (expected,) = onnx.reference.ReferenceEvaluator(source).run(None, given)
    other = p.clone()
    p.compile(migraphx.get_target(target))
    assert p.is_compiled() and not other.is_compiled()
    again = migraphx.load_buffer(migraphx.save_buffer(p))
    for made in (p, again, again.clone()):
        (found,) = made.run(given)
        if name == "random":
            expected = np.array(found)
            assert (expected <= given["x"]).all() and (expected > given["x"] - 1).all()
        np.testing.assert_array_equal(np.array(found), expected)


def test_sizes_that_the_model_fixes_are_replaced():
    text = "(float[1, 2, 4, 4] x) => (float[1, 2, 1, 1] y) { y = GlobalAveragePool(x) }"
    data = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    data = data.SerializeToString()
    p = migraphx.parse_onnx_buffer(data, map_input_dims={"x": (3, 2, 5, 6)})
    assert p.get_output_shapes()[0].lens() == [3, 2, 1, 1]
    dim = migraphx.dynamic_dimension
    bounds = {"x": [dim(1, 4), dim(2, 2), dim(4, 4), dim(4, 4)]}
    p = migraphx.parse_onnx_buffer(data, map_dyn_input_dims=bounds)
    assert p.get_output_shapes()[0].dyn_dims()[0] == dim(1, 4)
    p.compile(migraphx.get_target("cpu"))
    x = np.ones((3, 2, 4, 4), np.float32)
    np.testing.assert_array_equal(np.array(p.run({"x": x})[0]), x[:, :, :1, :1])
    with pytest.raises(RuntimeError, match="has 4 dimensions, and 2 sizes are given"):
        migraphx.parse_onnx_buffer(data, map_input_dims={"x": [3, 2]})


def test_results_of_skipped_operators_are_parameters():
    text = """<ir_version: 8, opset_import: ["": 17, "my.own": 1]> g (float[2, 3] x) =>
        (float[2, 3] y) { a = Neg(x) b = my.own.Foo(a) y = Neg(b) }"""
    data = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(UnsupportedError, match="Foo_1"):
        migraphx.parse_onnx_buffer(data)
    p = migraphx.parse_onnx_buffer(data, skip_unknown_operators=True)
    assert p.get_parameter_names() == ["x", "b"]
    p.compile(migraphx.get_target("cpu"))
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(np.array(p.run({"x": ones, "b": 2 * ones})[0]), -2 * ones)


def test_parts_that_the_host_computes_stay_while_the_others_are_quantized():
    text = """(float[2, 8] x) => (int64[2, n] y)
        <float[8, 4] w = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1,
         -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}, float r = {0}>
        { u = RandomUniform<shape = [2, 4]>() v = Mul(u, r) a = MatMul(x, w) b = Add(a, v)
        c = Relu(b) y = NonZero(c) }"""
    data = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    p = migraphx.parse_onnx_buffer(data.SerializeToString())
    shapes, x = p.get_parameter_shapes(), np.ones((2, 8), np.float32)
    migraphx.quantize_fp16(p)
    migraphx.quantize_int8(p, migraphx.get_target("cpu"), [{"x": x}])
    assert p.get_parameter_shapes() == shapes
    p.compile(migraphx.get_target("cpu"))
    assert p.run({"x": x})[0].tolist() == [0, 0, 1, 1, 0, 2, 0, 2]
    with pytest.raises(UsageError, match="host computes"):
        print(p)
    with pytest.raises(UnsupportedError, match="ins_names"):
        migraphx.quantize_fp16(p, ["dot"])


def test_an_artifact_in_parts_runs_after_the_callers_stream(tmp_path):
    import mgx_mlir

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (int64[1, n] y) '
    text += "{ a = Neg(x) b = Relu(a) y = NonZero(b) }"
    artifact = mgx_mlir.compile_to_bytecode(onnx.parser.parse_model(text))
    mgx_mlir.save(mgx_mlir.finalize(artifact, CHIP), tmp_path / "parts.mgx")
    p = migraphx.load(str(tmp_path / "parts.mgx"))
    x = migraphx.to_gpu(np.array([1, -1, 0, -3], np.float32))
    stream = call("hipStreamCreate")
    (y,) = p.run_async({"x": x}, int(stream), "ihipStream_t")
    assert y.tolist() == [1, 3]
    call("hipStreamDestroy", stream)
    mgx_mlir.save(artifact, tmp_path / "portable.mgx")
    with pytest.raises(UsageError, match="compiled for a GPU"):
        migraphx.load(str(tmp_path / "portable.mgx")).run_async({"x": x}, 0)
