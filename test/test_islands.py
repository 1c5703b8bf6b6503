"""The parts of a model that compile, and the model in which they are EPContext nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import mgx_mlir
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer import loading
from mgx_mlir.models.ep_context import context_model
from mgx_mlir.models.islands import Islands, find_islands


class EPContext(OpRun):
    """Runs the artifact that a node holds, as the provider does: inputs and outputs by place."""

    op_domain = "com.microsoft"

    def _run(self, *inputs: Any, ep_cache_context: str = "", **_: Any) -> tuple[Any, ...]:
        data = ep_cache_context.encode("latin-1")
        program = mgx_mlir.compile(mgx_mlir.Artifact.from_bytes(data))
        given = {spec.name: a for spec, a in zip(program.inputs, inputs, strict=True)}
        return tuple(program.run(given).values())


def model_of(text: str, domain: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17{domain}]> {text}')


def islands_of(model: onnx.ModelProto, **options: Any) -> Islands:
    whole_nodes = options.pop("whole_nodes", False)
    return find_islands(
        loading.load(model), CompileOptions(**options), "cpu", whole_nodes=whole_nodes
    )


def expect_equal_results(model: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The context model, whose results are those of the model for each of the inputs."""
    contexts = context_model(islands_of(model))
    onnx.checker.check_model(model)
    evaluator = ReferenceEvaluator(_as_text(contexts), new_ops=[EPContext])
    for feed in feeds:
        wanted = ReferenceEvaluator(model).run(None, feed)
        for found, expected in zip(evaluator.run(None, feed), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return contexts


def array(*sizes: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(sizes, np.float32)


def _as_text(model: onnx.ModelProto) -> onnx.ModelProto:
    """onnx's evaluator takes every attribute of bytes for UTF-8."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for node in copy.graph.node:
        for attribute in node.attribute:
            attribute.s = attribute.s.decode("latin-1").encode()
    return copy


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


# Products before and after a node whose result has a size that the data decide.
DECIDED = """g (float[n, 4] x, float[4, 4] w) => (float[m, 4] y) {
    zero = Constant<value_float = 0.0>()  axis = Constant<value_ints = [0]>()
    a = MatMul(x, w)  first = ReduceMax<axes = [1], keepdims = 0>(a)  q = Greater(first, zero)
    places = NonZero(q)  where = Squeeze(places, axis)
    rows = Gather(a, where)  y = MatMul(rows, w) }"""


def test_a_model_that_compiles_is_one_node_for_any_sizes() -> None:
    model = model_of("g (float[n, 4] x, float[4, 3] w) => (float[n, 3] y)"
                     "{ a = MatMul(x, w) y = Relu(a) }")  # fmt: skip
    feeds = [{"x": array(n, 4), "w": array(4, 3)} for n in (1, 5)]
    assert operators(expect_equal_results(model, *feeds)) == ["EPContext"]


def test_a_node_whose_data_decide_sizes_stays_between_two_parts() -> None:
    model = model_of(DECIDED)
    feeds = [{"x": array(n, 4), "w": array(4, 4)} for n in (2, 7)]
    contexts = expect_equal_results(model, *feeds)
    assert operators(contexts) == ["EPContext", "NonZero", "EPContext"]


def test_sizes_of_other_nodes_that_a_run_may_broadcast_are_not_taken_for_equal() -> None:
    """As many rows as NonZero finds, and one row or as many of another: sums of both."""
    text = """g (float[n] p, float[m] q, float[4, 4] w) => (float[k, 4] y) {
        i = NonZero(p)  j = NonZero(q)  a = Transpose(i)  b = Transpose(j)
        c = CastLike(a, w)  d = CastLike(b, w)  s = Add(c, d)
        e = Concat<axis = 1>(s, s, s, s)  y = MatMul(e, w) }"""
    many, one = np.ones(3, np.float32), np.ones(1, np.float32)
    feeds = [{"p": p, "q": q, "w": array(4, 4)} for p, q in ((many, many), (many, one))]
    expect_equal_results(model_of(text), *feeds)


def test_the_report_says_why_a_node_is_outside() -> None:
    (entry,) = islands_of(model_of(DECIDED)).outside
    assert entry.operator == "NonZero"
    assert "a size that is known only when the model runs" in entry.reason


def test_a_few_cheap_nodes_are_no_part_beside_nodes_of_the_host() -> None:
    model = model_of("g (float[n] x) => (int64[1, m] y) { a = Relu(x) y = NonZero(a) }")
    found = islands_of(model)
    assert not found.islands
    with pytest.raises(UnsupportedError, match="no node of the model compiles"):
        context_model(found)


def test_strings_stay_outside() -> None:
    model = model_of("""g (float[2, 2] x, string[2] s) => (float[2, 2] y, string[k] t) {
        y = MatMul(x, x)  t = StringNormalizer<case_change_action = "UPPER">(s) }""")
    assert sorted(operators(context_model(islands_of(model)))) == ["EPContext", "StringNormalizer"]


def test_unknown_operators_stay_outside() -> None:
    model = model_of("g (float[2, 2] x) => (float[2, 2] y) { a = MatMul(x, x) y = own.Op(a) }",
                     ', "own" : 1')  # fmt: skip
    contexts = context_model(islands_of(model))
    assert operators(contexts) == ["EPContext", "Op"]
    assert [v.name for v in contexts.graph.value_info] == ["a"]


def test_functions_are_inlined() -> None:
    model = model_of("g (float[n, 2] x) => (float[n, 2] y) { y = own.Twice(x) }", ', "own" : 1')
    function = parser.parse_function(
        '<domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }'
    )
    model.functions.append(function)
    expect_equal_results(model, {"x": array(3, 2)})


def test_parts_keep_no_weights_outside() -> None:
    model = model_of("g (float[n, 40] x) => (float[n, 40] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(array(40, 40), "w"))
    contexts = expect_equal_results(model, {"x": array(3, 40)})
    assert not contexts.graph.initializer
    assert [v.name for v in contexts.graph.input] == ["x"]


def test_nodes_outside_keep_their_weights() -> None:
    model = model_of("g (float[n, 40] x) => (float[n, 40] y) { a = MatMul(x, w) y = own.Op(a, w) }",
                     ', "own" : 1')  # fmt: skip
    model.graph.initializer.append(onnx.numpy_helper.from_array(array(40, 40), "w"))
    contexts = context_model(islands_of(model))
    assert [t.name for t in contexts.graph.initializer] == ["w"]


def test_given_sizes_are_those_of_the_artifact() -> None:
    model = model_of("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    (island,) = islands_of(model, dim_params={"n": 3}).islands
    assert island.artifact.plan.inputs[0].shape == (3, 4)


def test_a_host_that_claims_nodes_gets_each_in_one_part() -> None:
    found = islands_of(model_of(DECIDED), whole_nodes=True)
    nodes = [node for island in found.islands for node in island.nodes]
    assert len(nodes) == len({*nodes})


def test_artifacts_of_more_than_protobuf_reads_are_written_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mgx_mlir.models.ep_context.MOST_BYTES", 100)
    model = model_of("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    with pytest.raises(UsageError, match="--beside"):
        context_model(islands_of(model))


def test_constants_that_a_caller_may_replace_are_in_the_artifact() -> None:
    model = model_of("g (float[n, 40] x, float[40, 40] w) => (float[n, 40] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(array(40, 40), "w"))
    contexts = expect_equal_results(model, {"x": array(3, 40)})
    assert [v.name for v in contexts.graph.input] == ["x"]


def test_a_host_that_claims_nodes_gives_away_those_that_nothing_needs() -> None:
    model = model_of("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) a = Neg(y) b = Neg(a) }")
    (island,) = islands_of(model, whole_nodes=True).islands
    assert (island.nodes, island.outputs) == ((0, 1, 2), ("y",))


def test_a_host_that_claims_nodes_reads_results_for_nodes_that_nothing_needs() -> None:
    model = model_of(
        """g (float[n, 4] x) => (float[n, 4] y) {
        a = Relu(x)  y = MatMul(a, w)  z = own.Op(a) }""",
        ', "own" : 1',
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(array(4, 4), "w"))
    (island,) = islands_of(model, whole_nodes=True).islands
    assert island.outputs == ("a", "y")
