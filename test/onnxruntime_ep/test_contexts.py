"""Models whose parts were compiled before, in a session of a stock onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.models.ep_context import context_model, save_context_model
from mgx_mlir.tools.mgx import main
from test.onnxruntime_ep import provider


def array(*sizes: int) -> np.ndarray:
    return np.random.default_rng(len(sizes)).standard_normal(sizes, np.float32)


def model_of(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


PRODUCT = """g (float[n, 4] x, float[4, 3] w) => (float[n, 3] y, float[n] s) {
    y = MatMul(x, w)  s = ReduceSum<keepdims = 0>(y, axis)  axis = Constant<value_ints = [1]>() }"""
# A product, a node whose data decide the size of its result, and a product of what it finds.
DECIDED = """g (float[n, 4] x, float[4, 4] w) => (float[m, 4] y) {
    zero = Constant<value_float = 0.0>()  axis = Constant<value_ints = [0]>()
    a = MatMul(x, w)  first = ReduceMax<axes = [1], keepdims = 0>(a)  q = Greater(first, zero)
    places = NonZero(q)  where = Squeeze(places, axis)
    rows = Gather(a, where)  y = MatMul(rows, w) }"""


def test_results_are_those_of_the_compiled_program_for_any_sizes() -> None:
    model = model_of(PRODUCT)
    session = provider.context_session(model)
    program = mgx_mlir.compile(model, options=mgx_mlir.CompileOptions(mode="full-dynamic"))
    for n in (1, 7, 2):
        given = {"x": array(n, 4), "w": array(4, 3)}
        wanted = program.run(given)
        for found, name in zip(session.run(None, given), ("y", "s"), strict=True):
            np.testing.assert_array_equal(found, wanted[name])


def test_nodes_between_parts_run_on_the_cpu() -> None:
    model = model_of(DECIDED)
    session = provider.context_session(model)
    for n in (3, 9):
        given = {"x": array(n, 4), "w": array(4, 4)}
        (found,) = session.run(None, given)
        (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, given)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_no_node_of_a_compiled_model_is_left_to_the_cpu() -> None:
    provider.session(context_model(provider.islands_of(model_of(PRODUCT))), fallback=False)


def test_onnxruntime_says_that_nodes_are_left_to_the_cpu() -> None:
    contexts = context_model(provider.islands_of(model_of(DECIDED)))
    with pytest.raises(Exception, match="fallback"):
        provider.session(contexts, fallback=False)


def test_artifacts_beside_the_model_are_found(tmp_path: Path) -> None:
    path = tmp_path / "c.onnx"
    save_context_model(provider.islands_of(model_of(PRODUCT)), path, beside=True)
    session = provider.session(path)
    assert session.run(["y"], {"x": array(2, 4), "w": array(4, 3)})[0].shape == (2, 3)


def test_artifacts_beside_a_model_from_memory_need_its_place(tmp_path: Path) -> None:
    path = tmp_path / "c.onnx"
    save_context_model(provider.islands_of(model_of(PRODUCT)), path, beside=True)
    with pytest.raises(Exception, match=r"from memory here: .* ep\.context_file_path"):
        provider.session(onnx.load(path))
    session = provider.session(onnx.load(path), entries={"ep.context_file_path": str(path)})
    assert session.run(["y"], {"x": array(2, 4), "w": array(4, 3)})[0].shape == (2, 3)


@pytest.mark.parametrize("name", ["../c_0.mgx", "/etc/passwd"])
def test_artifacts_outside_of_the_models_folder_are_refused(tmp_path: Path, name: str) -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)), {0: name})
    with pytest.raises(Exception, match="is not in the folder of the model"):
        provider.session(contexts)


def test_a_node_with_fewer_inputs_than_its_artifact_is_refused() -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    del contexts.graph.node[0].input[1]
    with pytest.raises(Exception, match="has 1 inputs and 2 outputs, and its artifact 2 and 2"):
        provider.session(contexts)


def test_outputs_that_nothing_reads_may_be_left_out() -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    contexts.graph.value_info.append(contexts.graph.output.pop())
    (found,) = provider.session(contexts).run(None, {"x": array(2, 4), "w": array(4, 3)})
    assert found.shape == (2, 3)


def test_a_damaged_artifact_is_an_error_of_the_session() -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    for attribute in contexts.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = attribute.s[:-10]
    with pytest.raises(Exception, match="MGXExecutionProvider: damaged"):
        provider.session(contexts)


def test_machine_code_of_others_needs_consent(tmp_path: Path) -> None:
    """Another cache is that of a machine which made none of it."""
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    with pytest.raises(Exception, match=r"nothing vouches .*; option trust of the provider"):
        provider.session(contexts, cache_dir=str(tmp_path))
    session = provider.session(contexts, cache_dir=str(tmp_path), trust="all")
    assert len(session.run(None, {"x": array(2, 4), "w": array(4, 3)})) == 2


def test_an_option_of_nobody_s_trust_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGX_TRUST", "all")
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    provider.session(contexts, cache_dir=str(tmp_path))
    with pytest.raises(Exception, match="nothing vouches"):
        provider.session(contexts, cache_dir=str(tmp_path), trust="none")


def test_machine_code_that_a_trusted_key_signed_runs(tmp_path: Path) -> None:
    model, key = tmp_path / "m.onnx", tmp_path / "key.pem"
    onnx.save(model_of(PRODUCT), model)
    assert main(["sign", "--new-key", str(key)]) == 0
    assert main(["ep-context", str(model), "--key", str(key)]) == 0
    contexts, cache = tmp_path / "m_ctx.onnx", str(tmp_path / "empty")
    session = provider.session(contexts, cache_dir=cache, trust=str(key.with_suffix(".pub.pem")))
    assert len(session.run(None, {"x": array(2, 4), "w": array(4, 3)})) == 2
    assert main(["sign", "--new-key", str(tmp_path / "other.pem")]) == 0
    with pytest.raises(Exception, match="trust"):
        provider.session(contexts, cache_dir=cache, trust=str(tmp_path / "other.pub.pem"))


def test_an_artifact_without_code_for_the_device_names_the_command() -> None:
    found = provider.islands_of(model_of(PRODUCT), "gfx942")
    with pytest.raises(Exception, match="mgx finalize"):
        provider.session(context_model(found))


def test_an_input_of_a_wrong_size_is_an_error_of_the_run() -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    contexts.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "any"
    session = provider.session(contexts)
    with pytest.raises(Exception, match="'w'"):
        session.run(None, {"x": array(2, 4), "w": array(4, 5)})


def test_nodes_of_other_providers_are_left_alone() -> None:
    contexts = context_model(provider.islands_of(model_of(PRODUCT)))
    for attribute in contexts.graph.node[0].attribute:
        if attribute.name == "source":
            attribute.s = b"OtherExecutionProvider"
    with pytest.raises(Exception, match="EPContext"):
        provider.session(contexts)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("speed", "1", "there is no option 'speed'; there are: arch"),
        ("fp16", "yes", "option fp16 is 'yes'; use 0 or 1"),
        ("threads", "-1", "option threads is '-1'; use a whole number"),
        ("threads", "5000", "a CPU has at most 4096 threads"),
        ("trust", "/none.pem", "option trust is '/none.pem'; use none, all, or files"),
    ],
)
def test_wrong_options_are_named(name: str, value: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        provider.session(model_of(PRODUCT), **{name: value})


def test_options_may_be_entries_of_the_configuration() -> None:
    with pytest.raises(Exception, match="option threads is 'many'"):
        provider.session(model_of(PRODUCT), entries={"ep.mgx.threads": "many"})
