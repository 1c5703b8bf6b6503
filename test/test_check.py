"""`mgx_mlir.check`: an artifact, parts, sizes or a refusal; compile and Model say the same."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx.backend.test.case.node import collect_testcases

import mgx_mlir
from mgx_mlir import advice
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import check_model
from mgx_mlir.models.staged import check as check_module
from mgx_mlir.models.staged.check import State, check

HEAD = '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]>'

# A model, and what becomes of it: the state, and the nodes that are named for it.
CASES = {
    "artifact": ("g (float[2] x) => (float[2] y) { y = Relu(x) }", State.ARTIFACT, []),
    "any sizes": ("g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }", State.ANY, []),
    "data decide": (
        "g (float[2, 3] x) => (int64[2, n] y) { r = Relu(x) y = NonZero(r) }",
        State.PARTS,
        ["NonZero"],
    ),
    "a size of the data behind a size": (
        "g (float[b, 3] x) => (int64[2, n] y) { r = Relu(x) y = NonZero(r) }",
        State.PARTS,
        ["NonZero"],
    ),
    "values decide": (
        "g (float[6] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }",
        State.PARTS,
        ["Reshape"],
    ),
    "a constant that is computed": (
        "g (float[1, 2] x, float[4] w, float q) => (int8[4] y) "
        "{ s = Abs(q) z = Cast<to = 3>(s) y = QuantizeLinear(w, s, z) }",
        State.ARTIFACT,
        [],
    ),
    "custom": (
        "g (float[2] x) => (float[2] y) { a = Relu(x) b = com.acme.Foo(a) y = Relu(b) }",
        State.REFUSED,
        ["com.acme::Foo"],
    ),
    "custom, sizes missing": (
        "g (float[n] x) => (float[n] y) { a = Relu(x) b = com.acme.Foo(a) y = Relu(b) }",
        State.REFUSED,
        ["com.acme::Foo"],
    ),
    "custom in an If": (
        "g (float[2] x, bool c) => (float[2] y) { y = If(c) <"
        "then_branch = t () => (float[2] a) { a = com.acme.Foo(x) }, "
        "else_branch = e () => (float[2] b) { b = Relu(x) }> }",
        State.REFUSED,
        ["com.acme::Foo"],
    ),
    "custom in a Loop in an If": (
        "g (float[2] x, bool c, int64 n) => (float[2] y) { y = If(c) <"
        "then_branch = t () => (float[2] a) { k = Constant<value = bool {1}>() a = Loop(n, k, x) "
        "<body = l (int64 i, bool ci, float[2] v) => (bool co, float[2] vo) "
        "{ co = Identity(ci) vo = com.acme.Foo(v) }> }, "
        "else_branch = e () => (float[2] b) { b = Relu(x) }> }",
        State.REFUSED,
        ["com.acme::Foo"],
    ),
    "custom in a Scan": (
        "g (float[2] x, float[4, 2] s) => (float[2] y, float[4, 2] z) "
        "{ y, z = Scan <num_scan_inputs = 1, body = l (float[2] v, float[2] e) => "
        "(float[2] vo, float[2] o) { vo = com.acme.Foo(v) o = Add(v, e) }> (x, s) }",
        State.REFUSED,
        ["com.acme::Foo"],
    ),
}


def model_of(name: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_check_compile_and_model_agree(name: str) -> None:
    _, state, operators = CASES[name]
    model = model_of(name)
    found = check(model)
    assert found.state is state, str(found)
    named = [*found.host, *found.late, *found.unsupported]
    assert [entry.operator for entry in named] == operators
    if state is State.ARTIFACT:
        assert "cpu" in found.targets and "gfx942" in found.targets
        compile_to_bytecode(model)
        return
    with pytest.raises(UnsupportedError):
        compile_to_bytecode(model)
    if state is State.PARTS:
        assert mgx_mlir.compile_to_bytecode(model).parts is not None
    arrays = {
        v.name: np.ones(
            [d.dim_value or 2 for d in v.type.tensor_type.shape.dim],
            onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type),
        )
        for v in model.graph.input
    }
    if "s" in arrays and state is State.PARTS:
        arrays["s"] = np.array([2, 3])
    if state is State.REFUSED:
        with pytest.raises(UnsupportedError, match=r"com.acme::Foo \(node 'Foo_\d'\)"):
            mgx_mlir.Model(model).run(arrays)
    else:
        mgx_mlir.Model(model).run(arrays)


def test_functions_of_the_model_are_looked_into() -> None:
    text = (
        HEAD.replace("]>", ', "local": 1]>') + "g (float[2] x) => (float[2] y) { y = local.F(x) }"
    )
    text += '<domain: "local", opset_import: ["": 17, "com.acme": 1]> '
    text += "F (a) => (b) { t = com.acme.Bar(a) b = Relu(t) }"
    found = check(onnx.parser.parse_model(text))
    assert found.state is State.REFUSED
    assert [entry.operator for entry in found.unsupported] == ["com.acme::Bar"]


def test_bodies_that_the_host_runs_are_looked_into() -> None:
    text = """g (float[1, 70, 70] x, bool c) => (seq(float[1]) y) { y = If(c) <
        then_branch = t () => (seq(float[1]) a) { d = Det(x) a = SequenceConstruct(d) },
        else_branch = e () => (seq(float[1]) b) { b = SequenceEmpty() }> }"""
    found = check(onnx.parser.parse_model(HEAD + text))
    assert found.state is State.REFUSED
    (entry,) = found.unsupported
    assert entry.operator == "Det" and "70 by 70" in entry.reason


def test_a_missing_size_is_named_with_what_gives_it() -> None:
    text = "g (float[n, 3] x, float[1, ?] z) => (float[n, m] y) { s = ReduceSum(z) y = Add(x, s) }"
    model = onnx.parser.parse_model(HEAD + text)
    with pytest.raises(OpenError) as caught:
        compile_to_bytecode(model)
    python = str(caught.value)
    assert "'n' (dimension 0 of input 'x'), 'z_d1' (dimension 1 of input 'z')" in python
    assert "dim_params={'n': N}" in python and "input_dims={'x': [N, 3]}" in python
    assert "--dim-param @n N, by --input-dim @x N 3" in advice.on_command_line(python)
    found = check(model, CompileOptions(dim_params={"n": 4, "z_d1": 3}))
    assert found.state is State.ARTIFACT
    assert check(model, CompileOptions(mode="full-dynamic", dim_params={"z_d1": 3})).state is (
        State.ARTIFACT
    )


def test_the_sizes_of_one_program_are_told() -> None:
    """Bounds that the model itself gives, and conditions; slow products with their nodes."""
    text = """g (float[n, m] x, float[8, 3] t) => (float[a, 3] y, float[b] z) {
        s = Shape <start = 0, end = 1> (x) zero = Constant <value_ints = [0]> ()
        p = Slice(t, zero, s) q = Transpose <perm = [1, 0]> (p)
        r = MatMul(q, x) y = Transpose(r) two = Constant <value_ints = [-1, 2]> ()
        w = Reshape(x, two) z = ReduceSum <keepdims = 0> (w, zero)
    }"""
    found = check(onnx.parser.parse_model(HEAD + text))
    assert found.state is State.ANY and found.to_json()["state"] == "any"
    assert found.sizes[:2] == ("n from 0 to 8", "m from 0")
    assert any("0 or more" in one for one in found.sizes[2:])
    assert not found.slow  # products of activations have their generators
    assert not check(onnx.parser.parse_model(HEAD + text), target="gpu").slow


def test_nodes_that_ask_for_a_size_are_not_called_unsupported() -> None:
    text = """g (float[4, n, n] x) => (float[a] y) {
        y = Det(x)
    }"""
    found = check(onnx.parser.parse_model(HEAD + text))
    assert found.state is State.SIZES and not found.unsupported
    assert found.tried == {"n": 64}
    assert [entry.operator for entry in found.late] == ["Det"]
    assert "not supported" not in str(found)


def test_operators_that_nothing_knows_are_named_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def optimize(*arguments: object, **options: object) -> None:
        raise AssertionError("no pass runs")

    monkeypatch.setattr("mgx_mlir.compiler.optimize", optimize)
    model = mgx_mlir.Model(model_of("custom in a Loop in an If"))
    values = {"x": np.ones(2, np.float32), "c": np.array(True), "n": np.array(2)}
    with pytest.raises(UnsupportedError, match=r"com\.acme::Foo"):
        model.run(values)


def test_a_refused_node_is_not_the_fault_of_those_behind_it() -> None:
    """The shape that a Reshape gets is a stand-in; so is what the Slice gets."""
    text = """g (float[6] x, int64[2] p) => (float[a, b] y, float[c] z) {
        s = com.acme.Sizes(p)
        h = Unique<sorted = 1>(p)
        y = Reshape(x, s)
        o = Constant<value = int64[1] {0}>()
        z = Slice(x, o, h)
    }"""
    report = check_model(onnx.parser.parse_model(HEAD + text))
    assert [entry.operator for entry in report.unsupported] == ["com.acme::Sizes", "Unique"]


def test_a_function_whose_branches_differ_waits_for_the_values_that_choose() -> None:
    """The branches for images and for volumes give tensors of different ranks."""
    model = onnx.parser.parse_model(
        HEAD.replace("17", "20")
        + "g (float[1, 3, 4] theta, int64[5] size) => (float[a, b, c, d, 3] y)"
        "{ y = AffineGrid<align_corners = 1>(theta, size) }"
    )
    found = check(model)
    assert found.state is not State.REFUSED, str(found)
    given = {"theta": np.ones((1, 3, 4), np.float32), "size": np.array([1, 1, 2, 3, 2])}
    (want,) = onnx.reference.ReferenceEvaluator(model).run(None, given)
    np.testing.assert_allclose(mgx_mlir.Model(model).run(given)["y"], want, rtol=1e-6)


def test_a_refusal_says_that_the_model_runs_in_parts() -> None:
    with pytest.raises(UnsupportedError, match=r"run the model as it is, 1 of 2 nodes on the host"):
        mgx_mlir.compile(model_of("data decide"))
    with pytest.raises(UnsupportedError) as caught:
        mgx_mlir.compile(model_of("custom"))
    assert "run the model" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_check_and_model_agree_on_the_cases_of_onnx(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = sorted(collect_testcases(None), key=lambda case: case.name)[part::8]
    wrong = []
    for case in cases:
        found = check(case.model)
        names = [value.name for value in case.model.graph.input]
        inputs = dict(zip(names, case.data_sets[0][0], strict=False))
        if found.state is State.ARTIFACT:
            continue  # compile has just been done
        try:
            mgx_mlir.Model(case.model).run(inputs)
        except UnsupportedError:
            runs = False
        else:
            runs = True
        if runs != (found.state is not State.REFUSED):
            wrong.append((case.name, str(found)))
    assert not wrong


def test_sizes_that_would_fill_the_memory_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each open dimension gets the trial size: 64 in three of them is tried, 224 is not."""
    model = onnx.parser.parse_model(
        HEAD + "g (float[a, 64, b, c] x, float[64, 1, 1, 1] w) => (float[d] y)"
        "{ y = ConvTranspose<output_shape = [9, 9]>(x, w) }"
    )
    tried = []

    def refuse(_: object, options: CompileOptions) -> None:
        if options.mode != "full-dynamic":
            tried.append({*options.dim_params.values()})
        raise ModelError("no")

    monkeypatch.setattr(check_module, "compile_to_bytecode", refuse)
    check(model)
    assert tried == [{64}, {8}, {1}]
