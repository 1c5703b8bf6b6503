"""Inputs and outputs of another type than the model's, by choice."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir import Calibration, CompileOptions, Precision, quantize
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.models.generation import Decoder
from mgx_mlir.models.generation.form import Form
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main

from .decoder_models import grouped, llama
from .onnx_models import Builder, small

EMULATED = Settings(hip="emulated")
PAST = "past_key_values.*"


def layered(batch="n"):
    """x (n, 16) to y (n, 8) and z (n, 16)."""
    b = Builder(0)
    z = b.op("Relu", b.op("MatMul", "x", b.weight("w", 16, 16)))
    y = b.op("MatMul", z, b.weight("v", 16, 8))
    return b.model(
        {"x": (TensorProto.FLOAT, [batch, 16])}, {"y": (y, [batch, 8]), "z": (z, [batch, 16])}, "m"
    )


def numbers(rows=4):
    return np.random.default_rng(0).standard_normal((rows, 16)).astype(np.float16)


def close(found, expected, bound=1e-2):
    a, b = (np.asarray(x, np.float64) for x in (found, expected))
    assert np.sqrt(np.square(a - b).mean() / np.square(b).mean()) < bound


def kinds(specs):
    return {spec.name: str(spec.dtype) for spec in specs}


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
def test_a_narrow_model_of_narrow_ends_converts_nothing(target):
    model, x = layered(4), numbers()
    options = CompileOptions(floats="f16", io={"*": "f16"})
    program = mgx_mlir.compile(model, target, options, settings=EMULATED)
    assert kinds(program.inputs) == {"x": "float16"}
    assert kinds(program.outputs) == {"y": "float16", "z": "float16"}
    wide = mgx_mlir.compile_to_bytecode(model, floats="f16")
    narrow = mgx_mlir.compile_to_bytecode(model, options)
    assert len(narrow.plan.steps) <= len(wide.plan.steps)
    assert narrow.plan.arena_bytes <= wide.plan.arena_bytes
    expected = mgx_mlir.compile(model).run({"x": x.astype(np.float32)})
    for name, found in program.run({"x": x}).items():
        assert found.dtype == np.float16
        close(found, expected[name])


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_networks_have_no_more_steps_with_narrow_ends(name):
    model = small(name)
    wide, narrow = (
        mgx_mlir.compile_to_bytecode(model, floats="f16", io=io, default_dim=2)
        for io in ({}, {"*": "f16"})
    )
    assert len(narrow.plan.steps) <= len(wide.plan.steps)
    assert narrow.plan.arena_bytes <= wide.plan.arena_bytes


def test_the_first_pattern_that_names_a_tensor_counts():
    program = mgx_mlir.compile(layered(4), io={"z": "f32", "[yz]": "bf16"})
    assert kinds(program.inputs) == {"x": "float32"}
    assert kinds(program.outputs) == {"y": "bfloat16", "z": "float32"}


def test_a_model_of_f16_takes_f32():
    model = layered(4)
    narrow = quantize(model, Precision(weights="int4", block=16, io={"*": "f16"})).proto()
    program = mgx_mlir.compile(narrow, io={"*": "f32"})
    assert kinds((*program.inputs, *program.outputs)) == dict.fromkeys("xyz", "float32")


def test_pixels_are_integers():
    model = layered(4)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 16), np.uint8)
    found = mgx_mlir.compile(model, io={"x": "u8"}).run({"x": pixels})
    expected = mgx_mlir.compile(model).run({"x": pixels.astype(np.float32)})
    np.testing.assert_array_equal(found["y"], expected["y"])
    assert found["y"].dtype == np.float32
    with pytest.raises(UsageError, match="'y' is to be u8: no input has this name"):
        mgx_mlir.compile(model, io={"y": "u8"})


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_open_sizes(target):
    model = mgx_mlir.Model(layered(), target, floats="f16", io={"x": "f16"}, settings=EMULATED)
    for rows in (1, 3, 8):
        x = numbers(rows)
        expected = mgx_mlir.Model(layered()).run({"x": x.astype(np.float32)})
        close(model.run({"x": x})["y"], expected["y"])


def test_bodies_read_inputs():
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["twice"])], "then", [],
        [helper.make_tensor_value_info("twice", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["same"])], "else", [],
        [helper.make_tensor_value_info("same", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    node = helper.make_node("If", ["which"], ["y"], then_branch=branch, else_branch=other)
    graph = helper.make_graph(
        [node], "if",
        [helper.make_tensor_value_info("which", TensorProto.BOOL, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    program = mgx_mlir.compile(model, io={"*": "f16"})
    x = np.array([1, 3], np.float16)
    for which, factor in ((True, 2), (False, 1)):
        found = program.run({"which": np.array(which), "x": x})["y"]
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, factor * x)


def test_an_artifact_keeps_the_types(tmp_path):
    options = CompileOptions(floats="f16", io={"*": "f16"})
    mgx_mlir.compile_to_bytecode(layered(4), options).save(tmp_path / "m.mgx")
    artifact = mgx_mlir.load(tmp_path / "m.mgx")
    assert artifact.options["io"] == {"*": "f16"}
    assert mgx_mlir.compile(artifact).run({"x": numbers()})["y"].dtype == np.float16


def test_models_in_parts_have_the_types_at_their_ends_alone(tmp_path):
    b = Builder(0)
    x = b.op("Relu", b.op("MatMul", "x", b.weight("w", 16, 16)))
    text = b.op("Cast", b.op("ArgMax", x, axis=1, keepdims=0), to=TensorProto.STRING)
    y = b.op("MatMul", x, b.weight("v", 16, 8))
    model = b.model({"x": (TensorProto.FLOAT, [4, 16])}, {"y": (y, [4, 8])}, "parts")
    model.graph.output.append(helper.make_tensor_value_info(text, TensorProto.STRING, [4]))
    given = {"x": numbers()}
    expected = mgx_mlir.Model(model).run({"x": given["x"].astype(np.float32)})
    onnx.save(model, tmp_path / "m.onnx")
    file = str(tmp_path / "m.mgx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", file, "--io", "f16", "--fp16"]) == 0
    for runnable in (mgx_mlir.Model(model, io={"*": "f16"}), mgx_mlir.Model(file)):
        found = runnable.run(given)
        assert found["y"].dtype == np.float16
        close(found["y"], expected["y"])
        assert list(found[text]) == list(expected[text])


@pytest.mark.parametrize(
    ("io", "message"),
    [
        ({"x": "f8"}, "the type of 'x' is to be 'f8'"),
        ({"w": "f16"}, "no input or output has this name"),
        ({"tokens": "f16"}, "it is no tensor of f16, bf16, f32 or f64"),
    ],
)
def test_wrong_names_and_types_are_refused(io, message):
    b = Builder(0)
    y = b.op("Add", "x", b.op("Cast", "tokens", to=TensorProto.FLOAT))
    given = {"x": (TensorProto.FLOAT, [4]), "tokens": (TensorProto.INT64, [4])}
    model = b.model(given, {"y": (y, [4])}, "m")
    with pytest.raises(UsageError, match=message):
        mgx_mlir.compile(model, io=io)


def test_an_old_opset_has_no_bf16():
    model = layered(4)
    model.opset_import[0].version = 11
    assert kinds(mgx_mlir.compile(model, io={"x": "f16"}).inputs) == {"x": "float16"}
    with pytest.raises(UnsupportedError, match="bf16 need a model of opset 13 or later; it has 11"):
        mgx_mlir.compile(model, io={"x": "bf16"})


def test_a_quantized_model_is_written_with_the_types(tmp_path, capsys):
    onnx.save(layered(4), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=np.tile(numbers(), (4, 1)).astype(np.float32))
    out = str(tmp_path / "q.onnx")
    words = ["quantize", str(tmp_path / "m.onnx"), "-o", out, "--int8", "--include", "*"]
    assert main([*words, "--calibrate", str(tmp_path / "data.npz"), "--io", "f16"]) == 0
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    ends = (*model.graph.input, *model.graph.output)
    assert {v.type.tensor_type.elem_type for v in ends} == {TensorProto.FLOAT16}
    assert main(["verify", out]) == 0
    made = quantize(layered(4), Precision("int8", include=("MatMul",), io={"*": "f16"}),
                    Calibration([{"x": numbers().astype(np.float32)}]))  # fmt: skip
    assert made.accuracy().outputs["y"].sqnr > 25
    capsys.readouterr()


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_the_command_line(target, tmp_path, capsys):
    file = str(tmp_path / "m.onnx")
    onnx.save(layered(4), file)
    np.save(tmp_path / "x.npy", numbers())
    words = ["--fp16", "--io", "x=f16", "--io", "f16", "--target", target]
    assert main(["verify", file, *words]) == 0
    assert main(["run", file, *words, "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert main(["verify", file, *words, "--against", "f32"]) == 0
    assert main(["verify", file, *words, "--per-instruction"]) == 0
    assert main(["verify", file, *words[:3], "--io", "y=f16", "--reduce"]) == 0
    capsys.readouterr()
    assert main(["run", file, "--io", "ones=f16"]) == 2
    assert "no input or output has this name" in capsys.readouterr().err


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("make", [llama, grouped, lambda: llama(static=64)])
def test_caches_of_decoders_are_narrow(make, target):
    model, prompt = make(), [3, 11, 7]
    kept = Decoder(model, target, settings=EMULATED)
    small = Decoder(model, target, io={PAST: "f16", "present.*": "f16"}, settings=EMULATED)
    assert small.form is kept.form
    types = {small._signature.dtype(name) for name in small._signature.caches}
    assert types == {np.dtype(np.float16)}
    (expected,), (found,) = (d.generate([prompt], max_new_tokens=6) for d in (kept, small))
    assert found == expected


@pytest.mark.parametrize("io", [{"past*": "f16", "present*": "f16"}, {"*": "bf16"}])
def test_a_written_model_of_narrow_caches_keeps_its_form(io):
    made = quantize(llama(), Precision(weights="int4", block=16, io=io)).proto()
    decoder = Decoder(made)
    assert decoder.form is Form.APPENDED
    (found,) = decoder.generate([[3, 11, 7]], max_new_tokens=6)
    step = mgx_mlir.Model(made)
    types = {n: np.dtype(helper.tensor_dtype_to_np_dtype(t.tensor_type.elem_type))
             for n, t in step.input_types.items()}  # fmt: skip
    assert types["past_key_values.0.key"].itemsize == 2
    assert types["past_key_values.0.key"] in (np.float16, ml_dtypes.bfloat16)
    assert len(found) == 6
