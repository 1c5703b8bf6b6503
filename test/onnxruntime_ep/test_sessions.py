"""Models that the provider has compiled while their session is made."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from test.onnxruntime_ep import provider


def array(*sizes: int) -> np.ndarray:
    return np.random.default_rng(len(sizes)).standard_normal(sizes, np.float32)


def model_of(text: str, *weights: tuple[str, np.ndarray]) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights)
    return model


def product() -> onnx.ModelProto:
    text = "g (float[n, 40] x) => (float[n, 40] y) { a = MatMul(x, w)  y = Relu(a) }"
    return model_of(text, ("w", array(40, 40)))


def expect_results_of_the_cpu(session: Any, model: onnx.ModelProto, *feeds: Any) -> None:
    of_cpu = ["CPUExecutionProvider"]
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=of_cpu)
    for feed in feeds:
        wanted = reference.run(None, feed)
        for found, expected in zip(session.run(None, feed), wanted, strict=True):
            if isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, expected)


@pytest.fixture
def counted() -> Iterator[Any]:
    """How much each of the library's counters grew."""
    provider.devices()
    before = provider.counters()
    yield lambda: {name: n - before[name] for name, n in provider.counters().items()}


def test_one_compile_serves_all_sizes(tmp_path: Path, counted: Any) -> None:
    session = provider.session(product(), fallback=False, cache_dir=str(tmp_path))
    feeds = [{"x": array(n, 40)} for n in (1, 3, 2, 17)]
    expect_results_of_the_cpu(session, product(), *feeds)
    assert (counted()["compiled"], counted()["programs"], counted()["runs"]) == (1, 1, 4)


def test_a_second_session_needs_no_compiler(tmp_path: Path, counted: Any) -> None:
    provider.session(product(), cache_dir=str(tmp_path))
    session = provider.session(product(), cache_dir=str(tmp_path), compiler="/none")
    expect_results_of_the_cpu(session, product(), {"x": array(2, 40)})
    assert (counted()["compiled"], counted()["found"]) == (1, 1)


def test_a_newer_compiler_compiles_again(tmp_path: Path, counted: Any) -> None:
    newer = tmp_path / "mgx"
    newer.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo mgx-mlir 999 && exit\n'
        f'exec {provider.COMPILER} "$@"\n'
    )
    newer.chmod(0o755)
    for compiler in (provider.COMPILER, str(newer), str(newer), "/none"):
        session = provider.session(product(), cache_dir=str(tmp_path), compiler=compiler)
        expect_results_of_the_cpu(session, product(), {"x": array(2, 40)})
    assert (counted()["compiled"], counted()["found"]) == (2, 2)


def test_other_weights_are_another_model(tmp_path: Path, counted: Any) -> None:
    for scale in (1, 2):
        model = product()
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(scale * array(40, 40), "w"))
        session = provider.session(model, cache_dir=str(tmp_path))
        expect_results_of_the_cpu(session, model, {"x": array(2, 40)})
    assert counted()["compiled"] == 2


def test_a_missing_compiler_is_an_error_that_names_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"the compiler '/none' cannot be run: .*mgx ep-context"):
        provider.session(product(), cache_dir=str(tmp_path), compiler="/none")
    assert not list(tmp_path.glob("onnxruntime/*"))


def test_a_folder_that_is_not_there_is_no_fault_of_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = str(tmp_path / "none/w.onnx")
    entries = {"ep.context_enable": "1", "ep.context_file_path": written}
    with pytest.raises(Exception, match=r"MGXExecutionProvider: filesystem error: .*none/w_0\.mgx"):
        provider.session(product(), cache_dir=str(tmp_path), entries=entries)
    monkeypatch.setenv("TMPDIR", written)
    expect_results_of_the_cpu(
        provider.session(product(), cache_dir=str(tmp_path)), product(), {"x": array(2, 40)}
    )


def test_the_compilers_words_are_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="'fastest'"):
        provider.session(product(), cache_dir=str(tmp_path), mode="fastest")


def test_nodes_that_do_not_compile_run_on_the_cpu(tmp_path: Path) -> None:
    model = model_of("""g (float[n, 8] x) => (int64[2, m] places, float[n, 8] y, float[n, 8] z)
        { y = MatMul(x, w)  places = NonZero(y)  z = MatMul(y, w) }""",
        ("w", array(8, 8)))  # fmt: skip
    session = provider.session(model, cache_dir=str(tmp_path))
    expect_results_of_the_cpu(session, model, {"x": array(3, 8)})


def test_strings_and_sequences_stay_with_the_cpu(tmp_path: Path) -> None:
    model = model_of("""g (string[2] s, float[n, 8] x, int64 i) => (string t, float[m, 8] z) {
        t = Gather(s, i)  y = MatMul(x, w)
        both = SequenceConstruct(x, y)  z = SequenceAt(both, i) }""",
        ("w", array(8, 8)))  # fmt: skip
    session = provider.session(model, cache_dir=str(tmp_path))
    feed = {"s": np.array(["a", "b"], object), "x": array(3, 8), "i": np.array(1)}
    expect_results_of_the_cpu(session, model, feed)
    assert provider.counters()["runs"]


def test_attributes_and_bodies_reach_the_compiler(tmp_path: Path, counted: Any) -> None:
    """Integers, floats, texts, tensors, lists of them, and a branch that reads from outside."""
    model = model_of("""g (float[1, 2, n, n] x, bool[1] c) => (float[1, 2, k, k] y) {
        p = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], auto_pad = "NOTSET">(x, w)
        q = LeakyRelu<alpha = 0.25>(p)
        r = AveragePool<kernel_shape = [2, 2], ceil_mode = 0>(q)
        y = If(c) <then_branch = a () => (float[1, 2, k, k] s) { s = Mul(r, r) },
                   else_branch = b () => (float[1, 2, k, k] t) { t = Sigmoid(r) }> }""",
        ("w", array(2, 2, 3, 3)))  # fmt: skip
    session = provider.session(model, cache_dir=str(tmp_path), fallback=False)
    feeds = [{"x": array(1, 2, n, n), "c": np.array([c])} for n, c in ((5, True), (8, False))]
    expect_results_of_the_cpu(session, model, *feeds)
    assert counted()["runs"] == 2


def test_weights_of_bodies_reach_the_compiler(tmp_path: Path) -> None:
    """They have more bytes than a model holds of the weights of its main graph."""
    model = model_of("""g (float[n, 40] x, bool[1] c) => (float[n, 40] y) {
        y = If(c) <then_branch = a () => (float[n, 40] s) { s = MatMul(x, v) },
                  else_branch = b () => (float[n, 40] t) { t = Relu(x) }> }""")
    body = model.graph.node[0].attribute[0].g
    assert body.name == "a"
    body.initializer.append(numpy_helper.from_array(array(40, 40), "v"))
    session = provider.session(model, cache_dir=str(tmp_path), fallback=False)
    feeds = [{"x": array(3, 40), "c": np.array([c])} for c in (True, False)]
    expect_results_of_the_cpu(session, model, *feeds)


def test_the_compiler_is_told_no_rank_that_onnxruntime_does_not_know(tmp_path: Path) -> None:
    """It shows the result of a branch as a scalar then."""
    given, compiler = tmp_path / "given.onnx", tmp_path / "mgx"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = ep-context ] && cp "$2" {given}\nexec {provider.COMPILER} "$@"\n'
    )
    compiler.chmod(0o755)
    model = model_of("""g (float[n, 40] x, bool[1] c) => (float y) {
        t = If(c) <then_branch = a () => (s) { s = Squeeze(x) },
                  else_branch = b () => (u) { u = Mul(x, x) }>
        y = ReduceSum<keepdims = 0>(t) }""")
    session = provider.session(model, cache_dir=str(tmp_path), compiler=str(compiler))
    expect_results_of_the_cpu(session, model, {"x": array(3, 40), "c": np.array([True])})
    (node,) = [node for node in onnx.load(given).graph.node if node.op_type == "If"]
    outputs = [a.g.output[0].type.tensor_type for a in node.attribute]
    assert sorted(o.HasField("shape") for o in outputs) == [False, True]


def test_functions_of_the_model_are_compiled(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[n, 8] x) => (float[n, 8] y) { y = own.Twice(x) }""")
    function = """<domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }"""
    model.functions.append(parser.parse_function(function))
    session = provider.session(model, cache_dir=str(tmp_path), fallback=False)
    expect_results_of_the_cpu(session, model, {"x": array(3, 8)})


def test_a_node_whose_body_does_not_compile_stays_with_the_cpu(
    tmp_path: Path, counted: Any
) -> None:
    model = model_of("""g (float[n, 8] x, bool c) => (int64[2, k] y) {
        p = MatMul(x, w)
        y = If(c) <then_branch = a () => (int64[2, k] s) { q = Relu(p)  s = NonZero(q) },
                  else_branch = b () => (int64[2, k] t) { t = NonZero(p) }> }""",
        ("w", array(8, 8)))  # fmt: skip
    session = provider.session(model, cache_dir=str(tmp_path))
    feeds = [{"x": array(3, 8), "c": np.array(c)} for c in (True, False)]
    expect_results_of_the_cpu(session, model, *feeds)
    assert counted()["runs"] == 2


def test_options_of_the_compiler_make_another_program(tmp_path: Path, counted: Any) -> None:
    x = array(2, 40)
    exact, narrow = (
        provider.session(product(), cache_dir=str(tmp_path), fp16=fp16).run(None, {"x": x})[0]
        for fp16 in "01"
    )
    assert counted()["compiled"] == 2
    assert not np.array_equal(exact, narrow)
    np.testing.assert_allclose(narrow, exact, rtol=0.1, atol=0.1)


def test_external_weights_reach_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(product(), path, save_as_external_data=True, size_threshold=0)
    session = provider.session(path, cache_dir=str(tmp_path / "cache"), fallback=False)
    expect_results_of_the_cpu(session, product(), {"x": array(2, 40)})


@pytest.mark.parametrize("kind", ["INT2", "UINT2", "INT4", "UINT4", "FLOAT8E8M0"])
def test_weights_of_few_bits_keep_their_type(tmp_path: Path, kind: str) -> None:
    """onnxruntime counts some types otherwise than ONNX does."""
    bits = 8 if kind == "FLOAT8E8M0" else int(kind[-1])
    raw = np.random.default_rng(bits).integers(120, 135, 8 * 16 * bits // 8, np.uint8)
    weight = helper.make_tensor("w", getattr(TensorProto, kind), (16, 8), raw.tobytes(), raw=True)
    step = "DequantizeLinear(w, s)" if bits < 8 else f"Cast<to = {TensorProto.FLOAT}>(w)"
    model = parser.parse_model(f"""<ir_version: 13, opset_import: ["" : 25]>
        g (float[n, 16] x) => (float[n, 8] y) {{ s = Constant<value_float = 0.5>()
        d = {step}  y = MatMul(x, d) }}""")
    model.graph.initializer.append(weight)
    # Unoptimised, so that no constant is folded, and no other product with bytes taken.
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    of_cpu = onnxruntime.InferenceSession(
        model.SerializeToString(), sess_options=plain, providers=["CPUExecutionProvider"]
    )
    options = provider.options_for(compiler=provider.COMPILER, cache_dir=str(tmp_path))
    options.graph_optimization_level = plain.graph_optimization_level
    session = onnxruntime.InferenceSession(model.SerializeToString(), sess_options=options)
    x = {"x": array(3, 16)}
    np.testing.assert_allclose(
        session.run(None, x)[0], of_cpu.run(None, x)[0], rtol=1e-4, atol=1e-4
    )


def test_a_context_holds_no_node_with_fp8(tmp_path: Path, counted: Any) -> None:
    """onnxruntime passes fp8 to nodes that are claimed, and to no EPContext node."""
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[n, 40] x, float[40, 40] w) => (float8e4m3fn[n, 40] z) {{
        y = MatMul(x, w)  z = Cast<to = {TensorProto.FLOAT8E4M3FN}>(y) }}""")
    given, written = {"x": array(2, 40), "w": array(40, 40)}, tmp_path / "w.onnx"
    entries = {"ep.context_enable": "1", "ep.context_file_path": str(written)}
    claimed = provider.session(model, cache_dir=str(tmp_path), fallback=False)
    (wanted,) = provider.run(claimed, given)
    of_context = provider.session(model, cache_dir=str(tmp_path), entries=entries)
    assert [node.op_type for node in onnx.load(written).graph.node] == ["EPContext", "Cast"]
    for session in (of_context, provider.session(written, cache_dir=str(tmp_path))):
        (found,) = provider.run(session, given)
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_session_writes_the_compiled_model(tmp_path: Path, embed: str) -> None:
    path, written = tmp_path / "m.onnx", tmp_path / "w.onnx"
    onnx.save(product(), path)
    entries = {
        "ep.context_enable": "1",
        "ep.context_embed_mode": embed,
        "ep.context_file_path": str(written),
    }
    cache = str(tmp_path / "cache")
    provider.session(path, cache_dir=cache, entries=entries)
    assert [node.op_type for node in onnx.load(written).graph.node] == ["EPContext"]
    session = provider.session(written, cache_dir=cache, compiler="/none", fallback=False)
    expect_results_of_the_cpu(session, product(), {"x": array(4, 40)})


def test_an_error_for_another_target_than_the_devices_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"it is for: gfx942.*; option arch is 'gfx942'"):
        provider.session(product(), cache_dir=str(tmp_path), arch="gfx942")


@pytest.mark.parametrize("embed", [False, True])
def test_onnxruntimes_compiler_makes_models_for_chips_that_are_not_there(
    tmp_path: Path, embed: bool
) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    where = {"cache_dir": str(tmp_path / "cache")}
    options = provider.options_for(compiler=provider.COMPILER, arch="gfx942,gfx1100", **where)
    made = onnxruntime.ModelCompiler(
        options, str(tmp_path / "m.onnx"), embed_compiled_data_into_model=embed
    )
    made.compile_to_file(str(tmp_path / "w.onnx"))
    for chip in provider.CHIPS:
        session = provider.session(tmp_path / "w.onnx", target=chip, fallback=False, **where)
        expect_results_of_the_cpu(session, product(), {"x": array(4, 40)})


def test_onnxruntimes_log_says_what_is_compiled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether it was compiled now or before, with libmgx's words."""
    for begins in ("compiling 2 nodes", "compiled before"):
        options = provider.options_for(compiler=provider.COMPILER, cache_dir=str(tmp_path))
        options.log_severity_level = 1
        onnxruntime.InferenceSession(product().SerializeToString(), sess_options=options)
        lines = [line for line in capfd.readouterr().err.splitlines() if provider.NAME in line]
        for words in (begins, "2 of 2 nodes compile, in 1 part", "its code for x86-64"):
            assert any(words in line for line in lines)


def profiled(tmp_path: Path, target: str) -> tuple[Any, list[Any]]:
    """A session, and the events of its profile: of runs of this thread and of another."""
    options = provider.options_for(
        target=target, compiler=provider.COMPILER, cache_dir=str(tmp_path)
    )
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(product().SerializeToString(), sess_options=options)
    other = threading.Thread(target=lambda: session.run(None, {"x": array(2, 40)}))
    other.start()
    session.run(None, {"x": array(3, 40)})
    other.join()
    return session, json.loads(Path(session.end_profiling()).read_text())


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_onnxruntimes_profile_has_the_launches_of_nodes(tmp_path: Path, target: str) -> None:
    session, events = profiled(tmp_path, target)
    nodes = {
        (event["tid"], event["name"].removesuffix("_kernel_time")): event
        for event in events
        if event["cat"] == "Node" and event["args"]["provider"] == provider.NAME
    }
    launches = [event for event in events if event["cat"] == "Kernel"]
    assert len(nodes) == 2
    assert {(e["tid"], e["args"]["parent_name"]) for e in launches} == nodes.keys()
    for launch in launches:
        assert "MatMul" in launch["args"]["op_name"]
        assert int(launch["args"]["bytes"]) > 0
        node = nodes[launch["tid"], launch["args"]["parent_name"]]
        assert 0 <= launch["ts"] - node["ts"] <= node["dur"]
    expect_results_of_the_cpu(session, product(), {"x": array(2, 40)})


def test_threads_share_a_session(tmp_path: Path, counted: Any) -> None:
    session = provider.session(product(), cache_dir=str(tmp_path))
    failed: list[str] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(20):
            x = generator.standard_normal((int(generator.integers(1, 13)), 40), np.float32)
            (y,) = session.run(None, {"x": x})
            wanted = np.maximum(x @ array(40, 40), 0)
            if not np.allclose(y, wanted, rtol=1e-4, atol=1e-4):
                failed.append(f"{x.shape}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert (counted()["compiled"], counted()["programs"], counted()["runs"]) == (1, 1, 320)
