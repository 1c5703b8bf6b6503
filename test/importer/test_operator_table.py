"""The table of operators: what it says is true."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import check_model, operators, parse_onnx, registry
from test.importer.agreement import simple_model

TABLE = operators()
ONNX = [row for row in TABLE if row.domain == "" and registry.is_listed(row)]


def test_rows_are_sorted_and_unique():
    keys = [(row.domain, row.name) for row in TABLE]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("row", ONNX, ids=lambda row: row.name)
def test_versions_are_those_of_onnx(row):
    """A new version of an operator in onnx's library asks for a look at its converter."""
    history = {
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.domain == "" and s.name == row.name
    }
    assert row.versions[0] in history
    if not onnx.defs.get_schema(row.name).deprecated:
        assert row.versions[1] == max(history)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_ops_exist(row):
    assert all(f"mgx.{name}" in mgx.OPS for name in row.to)
    host_only = row.name.startswith(("Sequence", "Optional"))
    assert row.expanded or row.to or host_only or row.name in ("Dropout", "Identity")


def test_most_of_onnx_is_there():
    current = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    assert len({row.name for row in ONNX} & current) >= 150


def several_problems() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["s"], "fine"),
        helper.make_node("Unique", ["s"], ["d"], "distinct"),
        helper.make_node("Mystery", ["s"], ["m"], "riddle", domain="com.example"),
        helper.make_node("Det", ["p"], ["q"], "determinant"),
        helper.make_node("Cast", ["q"], ["f"], "cast", to=1),
        helper.make_node("Add", ["s", "m"], ["y"], "sum"),
    ]
    infos = [
        helper.make_tensor_value_info("x", 1, [2, 3]),
        helper.make_tensor_value_info("p", 1, [1, 1, 70, 70]),
    ]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in ("y", "q", "f", "d")]
    model = simple_model(nodes=nodes, inputs=infos, outputs=outputs)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    return model


def test_one_error_lists_every_node_that_is_not_supported():
    report = check_model(several_problems())
    assert not report.supported
    assert [entry.node for entry in report.unsupported] == ["distinct", "riddle", "determinant"]
    text = str(report)
    assert "3 of 6 nodes cannot be compiled" in text
    assert "Unique (node 'distinct'): this operator is not supported" in text
    assert "com.example::Mystery (node 'riddle'): operators of domain 'com.example'" in text
    assert "Det (node 'determinant'): matrices of 70 by 70; up to 64 by 64 are supported" in text


def test_importing_raises_the_same_list():
    with pytest.raises(UnsupportedError, match="3 of 6 nodes") as caught:
        parse_onnx(several_problems())
    assert caught.value.nodes == ("distinct", "riddle", "determinant")


def test_a_supported_model_reports_its_operators():
    report = check_model(simple_model())
    assert report.supported
    assert report.operators == {"Add": 1, "Relu": 1}
    assert str(report) == "model: all 2 nodes are supported"


def test_an_attribute_value_without_meaning_here_is_refused():
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", mystery=1)
    infos = [helper.make_tensor_value_info(n, 1, [1, 1, 4, 4]) for n in ("x", "w")]
    with pytest.raises(Exception, match="mystery"):
        parse_onnx(simple_model(nodes=[node], inputs=infos))


def test_functions_of_the_model_are_inlined():
    body = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["r"],
        [helper.make_node("Add", ["a", "a"], ["r"], "inner")],
        [helper.make_opsetid("", 17)],
    )
    model = simple_model(nodes=[helper.make_node("Twice", ["x"], ["y"], "twice", domain="local")])
    model.functions.append(body)
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert "mgx.add" in str(parse_onnx(model).module)


def test_old_opsets_are_converted():
    nodes = [helper.make_node("Add", ["x", "b"], ["y"], "add", broadcast=1, axis=1)]
    model = simple_model(nodes=nodes)
    model.opset_import[0].version = 6
    assert "mgx.multibroadcast" in str(parse_onnx(model).module)


def test_nodes_in_function_bodies_are_named_by_the_node_they_stand_for():
    node = helper.make_node("Mish", ["x"], ["y"], "smooth")
    model = simple_model(nodes=[node])
    model.opset_import[0].version = 18
    text = parse_onnx(model).module.operation.get_asm(enable_debug_info=True)
    assert 'loc("smooth")' in text


def test_a_reason_inside_a_function_body_names_the_node_it_stands_for():
    inputs = [
        helper.make_tensor_value_info("x", 1, [2, 3, 4]),
        helper.make_tensor_value_info("shape", 7, [2]),
    ]
    node = helper.make_node("CenterCropPad", ["x", "shape"], ["y"], "crop", axes=[1, 2])
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    model = simple_model(nodes=[node], inputs=inputs, outputs=outputs)
    model.opset_import[0].version = 18
    (entry, *_) = check_model(model).unsupported
    assert entry.node == "crop"
    assert entry.operator == "CenterCropPad"
    assert entry.reason.startswith("in its body, ")
