"""Artifacts of models in parts: one file, for any target, and nothing in it is trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import loader
from mgx_mlir.artifact.parts import Parts
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ArtifactError, UnsupportedError, UsageError
from mgx_mlir.models.staged.partition import stored_steps
from mgx_mlir.tools.mgx import main

DETECT = """<ir_version: 8, opset_import: ["": 17]>
detect (float[1, 6, 4] boxes, float[1, 2, 6] scores) => (int64[n, 3] kept, float[n] best) <
    int64 most = {4}, float overlap = {0.5}, float least = {0.1}, float[2, 6] bias = {
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6}
> {
    shifted = Add(scores, bias)
    kept = NonMaxSuppression(boxes, shifted, most, overlap, least)
    found = Gather<axis = 1>(kept, column)
    top = Gather<axis = 2>(shifted, found)
    best = ReduceMax<axes = [0, 1], keepdims = 0>(top)
    column = Constant<value = int64 {2}>()
}"""
RANDOM = """<ir_version: 8, opset_import: ["": 17]>
noisy (float[3] x) => (float[3] y) { n = RandomNormalLike(x) s = Relu(n) y = Add(s, x) }"""
ROWS = """<ir_version: 8, opset_import: ["": 17]>
rows (float[b, 3] x) => (float[n] y) { r = Relu(x) i = NonZero(r) t = Transpose(i)
    k = GatherND(x, t) y = Mul(k, k) }"""
IN_LOOP = """<ir_version: 8, opset_import: ["": 17]>
loop (float[3] x, int64 trips) => (float[3] last, int64[m] counts) {
    last, counts = Loop(trips, , x) <body = b (int64 i, bool go, float[3] v)
        => (bool on, float[3] w, int64 count) {
        on = Identity(go) w = Add(v, x) p = NonZero(w) count = Size(p)
    }>
}"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def random_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    found = {}
    for value in model.graph.input:
        shape = [d.dim_value or 5 for d in value.type.tensor_type.shape.dim]
        found[value.name] = rng.standard_normal(shape).astype(np.float32)
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            found[value.name] = np.array(3)
    if "boxes" in found:
        corner = rng.random((1, 6, 2), np.float32)
        found["boxes"] = np.concatenate([corner, corner + 1], 2)
    return found


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize(
    "text", [DETECT, RANDOM, ROWS, IN_LOOP], ids=lambda t: t.split()[4] if " " in t else t
)
def test_a_file_gives_the_results_of_the_model(text: str, target: str, tmp_path: Path) -> None:
    model = parsed(text)
    artifact = mgx_mlir.compile_to_bytecode(model)
    mgx_mlir.save(artifact, tmp_path / "model.mgx")
    assert mgx_mlir.compile_to_bytecode(model).to_bytes() == artifact.to_bytes()
    inputs = random_inputs(model)
    expected = mgx_mlir.Model(model).run(inputs)
    found = mgx_mlir.Model(tmp_path / "model.mgx", target).run(inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, 1e-5)


def test_segments_are_finalized_for_several_chips_and_compile_nothing_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = mgx_mlir.compile_to_bytecode(parsed(ROWS))
    artifact = mgx_mlir.finalize(artifact, ["gfx942", "gfx1100", "cpu"])
    mgx_mlir.save(artifact, tmp_path / "rows.mgx")
    again = mgx_mlir.load(tmp_path / "rows.mgx")
    assert {name.partition(":")[0] for name in again.code_objects} == {
        "gfx942",
        "gfx1100",
        os.environ.get("MGX_CPU", "x86-64"),
    }

    def compiled(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("everything is compiled")

    monkeypatch.setattr("mgx_mlir.models.specialize.compile_to_bytecode", compiled)
    for target in ("cpu", "gfx1100"):
        model = mgx_mlir.Model(again, target)
        for rows in (1, 4):  # one program for any sizes
            x = np.arange(-1, 3 * rows - 1, dtype=np.float32).reshape(rows, 3)
            np.testing.assert_array_equal(model.run({"x": x})["y"], x[x > 0] ** 2)


def test_weights_are_there_once_and_raw_only_where_the_host_reads_them() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[2, 40] x) => (float[n] y) {
        m = MatMul(x, w) s = Mul(m, v) i = NonZero(s) t = Transpose(i) y = GatherND(table, t)
    }"""
    model = parsed(text)
    rng = np.random.default_rng(3)
    for name, shape in {"w": (40, 30), "v": (30,), "table": (2, 30)}.items():
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    artifact = mgx_mlir.compile_to_bytecode(model)
    assert artifact.parts is not None and not artifact.parts.weights
    sizes = sorted(weight.nbytes for weight in artifact.weights.values())
    assert sum(sizes) < 2 * 4 * (40 * 30 + 60)
    x = {"x": rng.standard_normal((2, 40)).astype(np.float32)}
    expected = mgx_mlir.Model(model).run(x)["y"]
    found = mgx_mlir.Model(Artifact.from_bytes(artifact.to_bytes())).run(x)["y"]
    np.testing.assert_allclose(found, expected, 1e-5)


def test_a_model_that_the_host_does_not_run_has_no_parts() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[2] x) => (float[2] y) { a = Relu(x) y = com.acme.Foo(a) }"""
    with pytest.raises(UnsupportedError, match=r"com\.acme::Foo"):
        mgx_mlir.compile_to_bytecode(parsed(text))


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([[0, 1], [0, 2]], ""),  # sizes are computed in each part
        ([[0, 0, 1, 2]], "not distinct"),
        ([[0, 1], [0, 1, 2]], "node 1 of 3"),
        ([[0, 1, 3]], "node 3 of 3"),
        ([[2, 0, 1]], "node 2 runs before"),
    ],
)
def test_steps_of_a_file_are_steps_of_its_graph(groups: list[list[int]], why: str) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x) => (float[m] y, float[n] z) { s = Shape(x) z = Relu(x) y = Expand(z, s) }"""
    expected = pytest.raises(ArtifactError, match=why) if why else nullcontext()
    with expected:
        assert len(stored_steps(parsed(text).graph, (), groups, ())) == len(groups)


def test_the_words_about_parts(tmp_path: Path) -> None:
    artifact = mgx_mlir.compile_to_bytecode(parsed(DETECT))
    with pytest.raises(UsageError, match=r"the host runs NonMaxSuppression .* mgx_mlir\.Model"):
        loader.compile(artifact)  # mgx-mlir-runtime's, which has nothing for the host's nodes
    assert isinstance(mgx_mlir.compile(artifact), mgx_mlir.Model)
    with pytest.raises(UsageError, match="options of its own"):
        mgx_mlir.compile(artifact, exact=True)
    whole = mgx_mlir.compile_to_bytecode(parsed(RANDOM.replace("RandomNormalLike", "Neg")))
    with pytest.raises(UsageError, match=r"no artifact in parts; mgx_mlir\.compile runs it"):
        mgx_mlir.Model(whole)
    with pytest.raises(UsageError, match="options of its own"):
        mgx_mlir.Model(artifact, exact=True)
    with pytest.raises(UsageError, match=r"cannot hold; the oldest that can is 1\.1"):
        artifact.save(tmp_path / "old.mgx", version=(1, 0))
    assert not (tmp_path / "old.mgx").exists()


@pytest.mark.parametrize("text", [DETECT, RANDOM.replace("RandomNormalLike", "Neg")])
def test_runs_in_other_threads_give_what_runs_give(text: str) -> None:
    model = mgx_mlir.Model(parsed(text))
    inputs = random_inputs(parsed(text))
    expected = model.run(inputs)
    handles = [model.run_async(inputs) for _ in range(8)]
    for handle in handles:
        found = handle.result()
        assert handle.done()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    with pytest.raises(UsageError, match="no input 'other'"):
        model.run_async({"other": np.ones(1)}).result()


def test_the_verbs_take_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, file = tmp_path / "detect.onnx", tmp_path / "detect.mgx"
    onnx.save(parsed(DETECT), model)
    assert main(["check", str(model)]) == 0
    assert main(["compile", str(model), "-o", str(file), "--arch", "gfx942"]) == 0
    assert "on the host: NonMaxSuppression" in capsys.readouterr().out
    assert main(["finalize", str(file), "--arch", "gfx1100"]) == 0
    assert main(["inspect", str(file)]) == 0
    assert "code objects  gfx1100" in capsys.readouterr().out
    assert main(["inspect", str(file), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["parts"]["graphs"]) == {""}
    assert main(["params", str(file)]) == 0
    assert "input   boxes: float32 1x6x4" in capsys.readouterr().out
    for target in ("cpu", "gfx942"):
        assert main(["run", str(file), "--target", target, "--json"]) == 0
        found = capsys.readouterr()
        assert json.loads(found.out)["outputs"]["kept"]["dtype"] == "int64"
        assert "on the host: NonMaxSuppression" in found.err
    assert main(["perf", str(file), "--runs", "1", "--json"]) == 0
    assert "in parts" in json.loads(capsys.readouterr().out)["run_ms"]
    assert main(["verify", str(file)]) == 2


# What is not sound --------------------------------------------------------------------------


def forged(artifact: Artifact, change: Callable[[Any], Any]) -> Artifact:
    """The artifact of a file whose parts were changed by someone who knows how to hash."""
    assert artifact.parts is not None
    record = json.loads(json.dumps(artifact.parts.to_json()))
    change(record)
    changed = replace(artifact, parts=_raw(record, artifact.parts.model))
    return Artifact.from_bytes(changed.to_bytes())


def _raw(record: Any, model: bytes) -> Parts:
    """Parts whose record is the given one, whatever is in it."""

    class Raw(Parts):
        def to_json(self, *, counts: bool = True) -> Any:
            return record if counts else _uncounted(record)

    return Raw(model, (), {}, {})


def _uncounted(value: Any) -> Any:
    """A record as its hash has it: without the operations of its steps."""
    if isinstance(value, dict):
        return {k: _uncounted(v) for k, v in value.items() if k not in ("flops", "work")}
    return [_uncounted(v) for v in value] if isinstance(value, list) else value


def steps(record: Any) -> list[Any]:
    return record["graphs"][""]


HOSTILE: dict[str, Callable[[Any], Any]] = {
    "no graphs": lambda r: r.pop("graphs"),
    "graphs of a list": lambda r: r.update(graphs=[]),
    "no main graph": lambda r: r.update(graphs={}),
    "a step is a number": lambda r: steps(r).append(7),
    "a step is missing": lambda r: steps(r).pop(0),
    "the last step is missing": lambda r: steps(r).pop(),
    "steps in another order": lambda r: steps(r).reverse(),
    "a step twice": lambda r: steps(r).append(steps(r)[0]),
    "a node beyond the graph": lambda r: steps(r)[0].update(nodes=[10**6]),
    "a node below 0": lambda r: steps(r)[0].update(nodes=[-1]),
    "no nodes": lambda r: steps(r)[0].update(nodes=[]),
    "a node of text": lambda r: steps(r)[0].update(nodes=["0"]),
    "another operator": lambda r: steps(r)[1].update(operator="ImageDecoder"),
    "an operator of Python": lambda r: steps(r)[1].update(operator="os.system"),
    "a segment is the host's": lambda r: steps(r)[0].update(operator="Relu"),
    "a program of nothing": lambda r: steps(r)[0]["plans"].append({}),
    "a kernel beyond": lambda r: steps(r)[0]["plans"][0]["steps"][0].update(kernel=99),
    "a buffer beyond": lambda r: steps(r)[0]["plans"][0]["steps"][0].update(arguments=[99]),
    "other outputs": lambda r: steps(r)[0]["plans"][0]["outputs"][0].update(name="other"),
    "an input of the model is missing": lambda r: r.update(inputs=["nothing"]),
    "inputs of numbers": lambda r: r.update(inputs=[1]),
    "a weight without bytes": lambda r: r.update(weights={"w": "nothing"}),
    "weights of a list": lambda r: r.update(weights=[]),
    "a signature of a number": lambda r: r.update(signature=1),
}


@pytest.fixture(scope="module")
def rows() -> Artifact:
    return mgx_mlir.compile_to_bytecode(parsed(ROWS))


def test_forging_changes_what_it_means_to(rows: Artifact) -> None:
    assert forged(rows, lambda record: None).to_json() == rows.to_json()


@pytest.mark.parametrize("name", HOSTILE)
def test_forged_parts_are_refused(name: str, rows: Artifact) -> None:
    x = np.arange(-2, 4, dtype=np.float32).reshape(2, 3)
    with pytest.raises((ArtifactError, UsageError), match=r"\w"):
        mgx_mlir.Model(forged(rows, HOSTILE[name])).run({"x": x})


def test_another_model_in_the_file_is_refused_or_runs(rows: Artifact) -> None:
    """Each byte of the stored model is changed, and hashed anew: no other kind of error."""
    assert rows.parts is not None
    data, x = rows.parts.model, np.ones((2, 3), np.float32)
    for place in range(0, len(data), 7):
        other = bytearray(data)
        other[place] ^= 0x15
        changed = replace(rows, parts=replace(rows.parts, model=bytes(other)))
        try:
            mgx_mlir.Model(Artifact.from_bytes(changed.to_bytes())).run({"x": x})
        except mgx_mlir.MgxError as error:
            assert "fault of mgx-mlir" not in str(error), (place, error)


def test_a_changed_model_section_is_found(rows: Artifact) -> None:
    data = bytearray(rows.to_bytes())
    assert rows.parts is not None
    place = bytes(data).index(rows.parts.model)
    data[place + 3] ^= 1
    with pytest.raises(ArtifactError, match="does not have the recorded hash"):
        Artifact.from_bytes(bytes(data))
