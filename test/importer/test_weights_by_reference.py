"""Weights stay where they are: in the model's file, beside it, or in the bytes given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.importer import parse_onnx, wire
from test.importer.agreement import assert_agrees, floats, one_node, outputs_of, simple_model

BIG = 2000


def dense_layer(dtype: type = np.float32) -> onnx.ModelProto:
    weight = floats(BIG, 4).astype(dtype)
    model, _ = one_node("MatMul", {"x": floats(1, BIG).astype(dtype), "w": weight}, constants=["w"])
    return model


def test_large_weights_stay_in_the_model_s_file(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(dense_layer(), path)
    weight = parse_onnx(path).weights["w"]
    assert weight.data is None
    assert weight.file == path
    assert path.read_bytes()[weight.offset :][: weight.nbytes] == floats(BIG, 4).tobytes()


def test_packed_floats_stay_in_the_file_too(tmp_path):
    model = dense_layer()
    model.graph.initializer[0].CopyFrom(
        helper.make_tensor("w", TensorProto.FLOAT, [BIG, 4], floats(BIG, 4).reshape(-1))
    )
    onnx.save(model, tmp_path / "model.onnx")
    weight = parse_onnx(tmp_path / "model.onnx").weights["w"]
    assert weight.file is not None
    np.testing.assert_array_equal(weight.array(), floats(BIG, 4))


def test_large_constant_nodes_stay_in_the_file(tmp_path):
    model = dense_layer()
    tensor = numpy_helper.from_array(floats(BIG, 4), "value")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], "constant", value=tensor))
    del model.graph.initializer[:]
    onnx.save(model, tmp_path / "model.onnx")
    weight = parse_onnx(tmp_path / "model.onnx").weights["w"]
    assert weight.file is not None
    np.testing.assert_array_equal(weight.array(), floats(BIG, 4))


def test_external_data_stays_in_its_file(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(dense_layer(), path, save_as_external_data=True, location="weights.bin")
    graph = parse_onnx(path)
    assert graph.weights["w"].file == tmp_path / "weights.bin"
    np.testing.assert_array_equal(graph.weights["w"].array(), floats(BIG, 4))


def test_external_data_of_bytes_needs_a_folder(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(dense_layer(), path, save_as_external_data=True, location="weights.bin")
    graph = parse_onnx(path.read_bytes(), external_data_folder=tmp_path)
    np.testing.assert_array_equal(graph.weights["w"].array(), floats(BIG, 4))


def test_links_of_a_download_cache_are_followed(tmp_path):
    store, view = tmp_path / "blobs", tmp_path / "snapshot"
    store.mkdir()
    view.mkdir()
    onnx.save(dense_layer(), view / "m.onnx", save_as_external_data=True, location="m.data")
    for name in ("m.onnx", "m.data"):
        (view / name).rename(store / name)
        (view / name).symlink_to(store / name)
    np.testing.assert_array_equal(parse_onnx(view / "m.onnx").weights["w"].array(), floats(BIG, 4))


@pytest.mark.parametrize("given", ["bytes", "proto"])
def test_models_in_memory_keep_their_weights_there(given):
    model = dense_layer()
    graph = parse_onnx(model if given == "proto" else model.SerializeToString())
    np.testing.assert_array_equal(graph.weights["w"].array(), floats(BIG, 4))


def test_small_tensors_are_constants():
    assert len(parse_onnx(simple_model()).weights) == 0


def test_unused_weights_are_left_out():
    model = dense_layer()
    model.graph.initializer.append(numpy_helper.from_array(floats(BIG), "unused"))
    assert list(parse_onnx(model).weights) == ["w"]


def test_four_bit_weights_are_unpacked():
    values = (np.arange(300) % 16).reshape(100, 3)
    tensor = helper.make_tensor("w", TensorProto.UINT4, [100, 3], values.reshape(-1))
    scale = numpy_helper.from_array(np.array(0.5, np.float32), "s")
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "s"], ["y"], "dq")],
        "g",
        [],
        [helper.make_tensor_value_info("y", 1, [100, 3])],
        [tensor, scale],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (got,) = outputs_of(parse_onnx(model), {})
    np.testing.assert_array_equal(got, values * np.float32(0.5))


@pytest.mark.parametrize("kind", ["uint4", "int4"])
def test_packed_elements_come_lowest_bits_first(kind):
    from mgx_mlir.importer import element_types

    element = next(row for row in element_types.TABLE if row.name == kind)
    got = element_types.unpack(np.array([0x21, 0xF8], np.uint8), element, 3)
    assert got.astype(int).tolist() == ([1, 2, 8] if kind == "uint4" else [1, 2, -8])


def test_splats_made_by_nodes_take_no_memory():
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.02])
    shape = numpy_helper.from_array(np.array([1 << 15, 1 << 14], np.int64), "shape")
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["w"], "fill", value=value),
            helper.make_node("MatMul", ["x", "w"], ["y"], "product"),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 1 << 15])],
        [helper.make_tensor_value_info("y", 1, [1, 1 << 14])],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = parse_onnx(model)
    assert len(imported.weights) == 0
    assert "mgx.constant dense<2.000000e-02> : tensor<32768x16384xf32>" in str(imported.module)


def test_stripping_keeps_everything_but_payloads():
    data = dense_layer().SerializeToString()
    skeleton, payloads = wire.strip(memoryview(data))
    assert len(skeleton) < 1000
    assert [(p.field, p.initializer, p.nbytes) for p in payloads] == [("raw_data", 0, 4 * 4 * BIG)]
    stripped = onnx.ModelProto.FromString(skeleton)
    whole = onnx.ModelProto.FromString(data)
    whole.graph.initializer[0].ClearField("raw_data")
    assert stripped == whole


def test_half_precision_weights_agree():
    assert_agrees(*one_node("Add", {"x": floats(500), "w": floats(500)}, constants=["w"]))


@pytest.mark.slow
def test_a_large_model_needs_less_memory_than_its_size(tmp_path):
    size = 64 << 20
    path = tmp_path / "big.onnx"
    model, _ = one_node("Add", {"x": floats(1), "w": np.zeros(size, np.float32)}, constants=["w"])
    onnx.save(model, path)
    program = (
        "import resource, sys; from mgx_mlir.importer import parse_onnx;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10;"
        "before = peak(); parse_onnx(sys.argv[1]); print(peak() - before)"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, cwd=root
    )
    assert int(result.stdout) < size  # a quarter of the file's
