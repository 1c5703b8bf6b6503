"""Models that no text can write: bytes, tensors, names and files that contradict themselves.

Each row: a name, a function that gives a ModelProto or bytes, and words of the refusal ('' where
the model may run as well).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

Made = ModelProto | bytes


def _model(tensor: TensorProto | None = None, **attributes: object) -> ModelProto:
    """y = x + b, where x is float[3] and b is `tensor`."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["y"], "add", **attributes)],
        "g",
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(np.ones(3, np.float32), "b")] if tensor is None else [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _tensor(**fields: object) -> ModelProto:
    tensor = TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[3])
    for name, value in fields.items():
        if isinstance(value, list):
            del getattr(tensor, name)[:]
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return _model(tensor)


def _external(**entries: str) -> ModelProto:
    tensor = TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return _model(tensor)


def _sparse(dims: list[int], indices: list[int], values: int = 2) -> ModelProto:
    model = _model()
    del model.graph.initializer[:]
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(values, np.float32), "b"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(indices, np.int64), "i"))
    return model


def _renamed(old: bytes, new: bytes) -> bytes:
    """The model with bytes that text may not hold."""
    assert len(old) == len(new)
    return _model().SerializeToString().replace(old, new)


def _changed(change: Callable[[ModelProto], object]) -> ModelProto:
    model = _model()
    change(model)
    return model


def _attribute(kind: int, **fields: object) -> ModelProto:
    """y = Softmax(x) with an attribute `axis` of that kind."""
    model = _model()
    node = model.graph.node[0]
    node.op_type = "Softmax"
    del node.input[1:]
    node.attribute.add(name="axis", type=kind, **fields)
    return model


def _opset(version: int) -> ModelProto:
    return _changed(lambda m: setattr(m.opset_import[0], "version", version))


def _nested_messages(depth: int) -> bytes:
    """Graphs inside of attributes of nodes of graphs, as bytes alone."""
    inner = b""
    for _ in range(depth):  # graph <- attribute.g <- node.attribute <- graph.node
        for tag in (0x32, 0x2A, 0x0A):
            inner = bytes([tag]) + _varint(len(inner)) + inner
    return b"\x08\x0a" + b"\x3a" + _varint(len(inner)) + inner


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _shape(*sizes: int) -> ModelProto:
    def change(model: ModelProto) -> None:
        dims = model.graph.input[0].type.tensor_type.shape
        dims.ClearField("dim")
        for size in sizes:
            dims.dim.add(dim_value=size)

    return _changed(change)


def _twice(model: ModelProto, kind: str) -> ModelProto:
    items = getattr(model.graph, kind)
    items.add().CopyFrom(items[0])
    return model


FLOATS, RAW = [1.0, 2.0, 3.0], np.ones(3, np.float32).tobytes()

ROWS: tuple[tuple[str, Callable[[], Made], str], ...] = (
    ("empty-bytes", lambda: b"", "no graph|empty"),
    ("text", lambda: b"<html>404</html>", "not an ONNX model"),
    ("lfs-pointer", lambda: b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ("ort-format", lambda: b"\x18\0\0\0ORTM" + bytes(64), "onnxruntime's own format"),
    ("zeros", lambda: bytes(4096), "not an ONNX model"),
    ("endless-number", lambda: b"\xff" * 64, "not an ONNX model"),
    ("nested-messages", lambda: _nested_messages(5000), ""),
    ("truncated", lambda: _model().SerializeToString()[:-9], "not an ONNX model|truncated"),
    ("length-of-2^60", lambda: b"\x3a" + _varint(1 << 60), "not an ONNX model"),
    ("no-graph", lambda: ModelProto(ir_version=8), "no graph"),
    ("no-opset", lambda: _changed(lambda m: m.ClearField("opset_import")), ""),
    ("opset-0", lambda: _opset(0), "opset 0"),
    ("opset-negative", lambda: _opset(-7), "opset"),
    ("opset-999", lambda: _opset(999), "opset 999"),
    ("opset-2^62", lambda: _opset(1 << 62), "opset"),
    ("opset-1", lambda: _opset(1), ""),
    (
        "two-opsets",
        lambda: _changed(lambda m: m.opset_import.add(domain="ai.onnx", version=9)),
        "two versions",
    ),
    ("ir-version-99", lambda: _changed(lambda m: setattr(m, "ir_version", 99)), "IR version"),
    ("ir-version-negative", lambda: _changed(lambda m: setattr(m, "ir_version", -1)), ""),
    ("bad-utf8-value", lambda: _renamed(b"\x01x\x12", b"\x01\xff\x12"), ""),
    ("bad-utf8-node", lambda: _renamed(b"\x03add", b"\x03\xff\xfe\xfd"), "UTF-8"),
    ("bad-utf8-operator", lambda: _renamed(b"\x03Add", b"\x03\xff\xfe\xfd"), "UTF-8"),
    ("nul-in-name", lambda: _renamed(b"\x03add", b"\x03a\0d"), ""),
    ("quotes-in-name", lambda: _renamed(b"\x03add", b'\x03"\\\n'), ""),
    ("long-name", lambda: _changed(lambda m: setattr(m.graph.node[0], "name", "n" * 1000000)), ""),
    ("two-inputs-of-a-name", lambda: _twice(_model(), "input"), "two inputs"),
    ("two-initializers-of-a-name", lambda: _twice(_model(), "initializer"), "two initialisers"),
    ("two-nodes-of-a-result", lambda: _twice(_model(), "node"), "'y'"),
    ("no-data", lambda: _tensor(), "'b'"),
    ("raw-data-too-short", lambda: _tensor(raw_data=RAW[:-1]), "'b'"),
    ("raw-data-too-long", lambda: _tensor(raw_data=RAW * 2), "'b'"),
    ("both-raw-and-floats", lambda: _tensor(raw_data=RAW, float_data=FLOATS), r"\bb\b"),
    ("floats-too-few", lambda: _tensor(float_data=FLOATS[:1]), "'b'"),
    ("floats-too-many", lambda: _tensor(float_data=FLOATS * 9), "'b'"),
    ("ints-for-floats", lambda: _tensor(int64_data=[1, 2, 3]), "'b'"),
    ("strings-for-floats", lambda: _tensor(string_data=[b"1", b"2", b"3"]), "'b'"),
    ("type-0", lambda: _tensor(data_type=0, float_data=FLOATS), r"\bb\b"),
    ("type-999", lambda: _tensor(data_type=999, float_data=FLOATS), r"\bb\b"),
    ("type-negative", lambda: _tensor(data_type=-5, float_data=FLOATS), r"\bb\b"),
    ("type-of-strings", lambda: _tensor(data_type=8, string_data=[b"\xff", b"", b"x"]), ""),
    ("type-of-complex", lambda: _tensor(data_type=14, float_data=FLOATS * 2), ""),
    ("sizes-negative", lambda: _tensor(dims=[-3], float_data=FLOATS), "'b'"),
    ("sizes-overflow", lambda: _tensor(dims=[1 << 62, 1 << 62], float_data=FLOATS), "'b'"),
    ("sizes-overflow-to-3", lambda: _tensor(dims=[(1 << 63) - 1, 3, 2], float_data=FLOATS), "'b'"),
    ("sizes-of-zero", lambda: _tensor(dims=[0, 1 << 62], raw_data=b""), ""),
    ("rank-of-1000", lambda: _tensor(dims=[1] * 1000 + [3], float_data=FLOATS), ""),
    ("input-sizes-overflow", lambda: _shape(1 << 62, 1 << 62, 3), "'x'"),
    ("input-size-negative", lambda: _shape(-5), ""),
    ("input-of-4-TiB", lambda: _shape(1 << 38, 3, 3), ""),
    (
        "input-type-999",
        lambda: _changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 999)),
        "'x'|type",
    ),
    (
        "input-of-type-0",
        lambda: _changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0)),
        "'x' declares no element type",
    ),
    ("input-without-type", lambda: _changed(lambda m: m.graph.input[0].ClearField("type")), "type"),
    (
        "input-without-shape",
        lambda: _changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
        "",
    ),
    ("input-without-name", lambda: _changed(lambda m: m.graph.input[0].ClearField("name")), ""),
    ("output-without-type", lambda: _changed(lambda m: m.graph.output[0].ClearField("type")), ""),
    (
        "output-of-another-type",
        lambda: _changed(lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 7)),
        "",
    ),
    (
        "attribute-of-kind-99",
        lambda: (
            _attribute(AttributeProto.INT, i=1)
            .SerializeToString()
            .replace(b"\xa0\x01\x02", b"\xa0\x01\x63")
        ),
        "",
    ),
    ("attribute-without-kind", lambda: _attribute(0, i=1), "axis"),
    ("attribute-of-another-kind", lambda: _attribute(AttributeProto.STRING, i=1), "axis"),
    ("attribute-of-a-graph", lambda: _attribute(AttributeProto.GRAPH), "add"),
    ("attribute-of-a-tensor", lambda: _attribute(AttributeProto.TENSOR), "axis"),
    ("attribute-of-a-function", lambda: _attribute(AttributeProto.INT, ref_attr_name="a"), ""),
    (
        "attribute-twice",
        lambda: _changed(
            lambda m: [m.graph.node[0].attribute.add(name="a", type=2, i=i) for i in (1, 2)]
        ),
        "",
    ),
    ("external-outside", lambda: _external(location="../../etc/passwd"), "folder"),
    ("external-absolute", lambda: _external(location="/etc/passwd"), "folder"),
    ("external-nowhere", lambda: _external(), "folder"),
    ("external-nul", lambda: _external(location="a\0b"), "folder|there is no such file"),
    ("external-long", lambda: _external(location="a" * 100000), "folder|there is no such file"),
    ("external-offset", lambda: _external(location="a", offset="-1"), "folder|offset"),
    ("external-length", lambda: _external(location="a", length="1e9"), "folder|length"),
    ("sparse-index", lambda: _sparse([3], [0, 7]), "'b'"),
    ("sparse-negative-index", lambda: _sparse([3], [-1, 0]), "'b'"),
    ("sparse-sizes", lambda: _sparse([1 << 40], [0, 1]), "'b'"),
    ("sparse-negative-sizes", lambda: _sparse([-3], [0, 1]), "'b'"),
    ("sparse-overflow", lambda: _sparse([1 << 62, 1 << 62], [0, 1]), "'b'"),
    ("sparse-counts", lambda: _sparse([3], [0]), "'b'"),
    ("sparse-of-two-places", lambda: _sparse([3], [1, 1]), ""),
)
