"""Models of classical learning as exporters write them: maps and strings beside compiled parts."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, TypeProto, helper, numpy_helper

from mgx_mlir.errors import ModelError, UsageError
from mgx_mlir.models.host.machines import coupled
from mgx_mlir.models.staged import Model
from mgx_mlir.models.staged.check import check
from mgx_mlir.tools import mgx
from test.importer.agreement import floats

FLOAT, INT64, STRING, DOUBLE = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.STRING,
    TensorProto.DOUBLE,
)
ML = "ai.onnx.ml"


def texts(*words: str) -> np.ndarray:
    return np.array(words, object)


def map_type(key: int, value: int) -> TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def model_of(nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], version: int = 3):
    """Types of inputs are those of arrays, or stated; those of outputs are numbers or stated."""
    values = []
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            kind = STRING if value.dtype == object else helper.np_dtype_to_tensor_dtype(value.dtype)
            value = helper.make_tensor_type_proto(kind, value.shape)
        values.append(helper.make_value_info(name, value))
    results = [
        helper.make_value_info(
            n, helper.make_tensor_type_proto(t, None) if isinstance(t, int) else t
        )
        for n, t in outputs.items()
    ]
    graph = helper.make_graph(nodes, "classical", values, results)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), kind, domain=ML, **attributes)


def expected(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def assert_same(found: Any, want: Any) -> None:
    if isinstance(want, list):
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            assert a.keys() == b.keys()
            np.testing.assert_allclose(list(a.values()), list(b.values()), 1e-4, 1e-5)
    elif want.dtype.kind in "OU":
        np.testing.assert_array_equal(found, want)
    else:
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, 1e-4, 1e-5)


def agrees(nodes, feeds: dict[str, Any], outputs: dict[str, Any], version: int = 3, types=None):
    model = model_of(nodes, types or feeds, outputs, version)
    found = Model(model).run(feeds)
    for name, want in zip(outputs, expected(model, feeds), strict=True):
        assert_same(found[name], want)


# Support vector machines ---------------------------------------------------------------------


def machine(classes: int, kernel: str, probabilities: bool, strings: bool, **more: Any):
    """An SVMClassifier with random vectors of three features."""
    rng = np.random.default_rng(classes)
    counts = rng.integers(1, 4, classes)
    total, pairs = int(counts.sum()), classes * (classes - 1) // 2
    labels = {"classlabels_strings": list("dcba")[:classes]}
    attributes: dict[str, Any] = {
        "coefficients": rng.normal(size=(classes - 1) * total).tolist(),
        "kernel_params": [0.5, 0.3, 3.0],
        "kernel_type": kernel,
        "rho": rng.normal(size=pairs).tolist(),
        "support_vectors": rng.normal(size=total * 3).tolist(),
        "vectors_per_class": counts.tolist(),
        **(labels if strings else {"classlabels_ints": [5, 7, -9, 11][:classes]}),
        **more,
    }
    if probabilities:
        attributes["prob_a"] = (-2 * rng.random(pairs)).tolist()
        attributes["prob_b"] = (0.3 * rng.normal(size=pairs)).tolist()
    return node("SVMClassifier", "x", "label scores", **attributes)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_support_vector_machines(kernel, classes):
    for probabilities, strings in product((True, False), repeat=2):
        made = machine(classes, kernel, probabilities, strings)
        outputs = {"label": STRING if strings else INT64, "scores": FLOAT}
        agrees([made], {"x": floats(6, 3)}, outputs)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_transforms_of_support_vector_machines(transform):
    for classes, probabilities in product((2, 3), (True, False)):
        made = machine(classes, "RBF", probabilities, False, post_transform=transform)
        agrees([made], {"x": floats(6, 3)}, {"label": INT64, "scores": FLOAT})


def test_linear_machines_have_no_vectors():
    for classes, strings in product((1, 2, 3), (True, False)):
        labels = {"classlabels_strings": list("abc")[:classes]}
        made = node(
            "SVMClassifier", "x", "label scores", coefficients=floats(classes * 3).tolist(),
            rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0],
            **(labels if strings else {"classlabels_ints": [3, 1, 2][:classes]}),
        )  # fmt: skip
        outputs = {"label": STRING if strings else INT64, "scores": FLOAT}
        agrees([made], {"x": floats(6, 3, seed=1)}, outputs)


def test_probabilities_of_pairs_that_agree_give_those_of_the_classes():
    want = np.array([0.5, 0.3, 0.15, 0.05])
    first, second = np.triu_indices(4, 1)
    found = coupled(want[first] / (want[first] + want[second]), 4)
    np.testing.assert_allclose(found, want, atol=5e-3)
    assert found.sum() == pytest.approx(1)


def test_a_machine_of_wrong_sizes_is_refused():
    few = machine(3, "RBF", False, False, support_vectors=[1.0, 2.0])
    outputs = {"label": INT64, "scores": FLOAT}
    with pytest.raises(ModelError, match=r"SVMClassifier.*support_vectors has 2 numbers"):
        Model(model_of([few], {"x": floats(6, 3)}, outputs)).run({"x": floats(6, 3)})


# Maps ----------------------------------------------------------------------------------------


def classifier(strings: bool) -> list[onnx.NodeProto]:
    """A model as exporters of scikit-learn write it: scores, labels, and a map for each row."""
    names = {"classlabels_strings": ["no", "yes", "maybe"]}
    numbers = [4, -5, 6]
    return [
        node(
            "LinearClassifier", "x", "label scores", coefficients=floats(12).tolist(),
            intercepts=[0.5, 0.0, -0.5], post_transform="SOFTMAX",
            **(names if strings else {"classlabels_ints": numbers}),
        ),
        node("Normalizer", "scores", "normal", norm="L1"),
        node("ZipMap", "normal", "maps", **(names if strings else {"classlabels_int64s": numbers})),
    ]  # fmt: skip


def classifier_outputs(strings: bool) -> dict[str, Any]:
    key = STRING if strings else INT64
    return {"label": key, "maps": helper.make_sequence_type_proto(map_type(key, FLOAT))}


@pytest.mark.parametrize("strings", [True, False])
def test_a_classifier_gives_a_map_for_each_row(strings):
    agrees(classifier(strings), {"x": floats(5, 4)}, classifier_outputs(strings))


def test_trees_with_labels_that_are_strings_compile():
    tree = node(
        "TreeEnsembleClassifier", "x", "label scores", classlabels_strings=["a", "b", "c"],
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
        nodes_values=[0.0, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0, 0], class_nodeids=[1, 2, 2], class_ids=[2, 0, 1],
        class_weights=[1.0, 0.25, 0.75],
    )  # fmt: skip
    feeds = {"x": floats(8, 2)}
    agrees([tree], feeds, {"label": STRING, "scores": FLOAT})
    model = Model(model_of([tree], feeds, {"label": STRING, "scores": FLOAT}))
    model.run(feeds)
    assert [entry.operator for entry in model.host_nodes] == ["ai.onnx.ml::CategoryMapper"]


@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
@pytest.mark.parametrize(
    ("kind", "type_"), [("TO_FLOAT", FLOAT), ("TO_INT64", INT64), ("TO_STRING", STRING)]
)
def test_maps_become_tensors(form, kind, type_):
    cast = node("CastMap", "m", "y", map_form=form, cast_to=kind, max_map=5)
    agrees([cast], {"m": {3: 1.75, 0: -2.5}}, {"y": type_}, types={"m": map_type(INT64, FLOAT)})


@pytest.mark.parametrize(
    ("key", "value", "given"),
    [
        (STRING, FLOAT, {"b": 1.5, "z": 2.0}),
        (INT64, FLOAT, {3: 1.5}),
    ],
)
def test_maps_become_vectors_of_a_vocabulary(key, value, given):
    words = (
        {"string_vocabulary": ["a", "b", "c"]} if key == STRING else {"int64_vocabulary": [1, 3]}
    )
    vector = node("DictVectorizer", "m", "y", **words)
    agrees([vector], {"m": given}, {"y": value}, types={"m": map_type(key, value)})


def test_vectors_have_the_type_of_the_map():
    vector = node("DictVectorizer", "m", "y", int64_vocabulary=[1, 3])
    model = Model(model_of([vector], {"m": map_type(INT64, DOUBLE)}, {"y": DOUBLE}))
    np.testing.assert_array_equal(model.run({"m": {1: 0.1}})["y"], np.array([[0.1, 0.0]]))


def test_a_map_of_another_type_is_refused():
    vector = node("DictVectorizer", "m", "y", string_vocabulary=["a"])
    model = Model(model_of([vector], {"m": map_type(STRING, FLOAT)}, {"y": FLOAT}))
    for wrong in ({3: 1.0}, {"a": "b"}, 1.0):
        with pytest.raises(UsageError, match="input 'm' is a map"):
            model.run({"m": wrong})


# Tables --------------------------------------------------------------------------------------


def test_categories_are_mapped_both_ways():
    table = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    agrees([node("CategoryMapper", "x", "y", **table)], {"x": texts("b", "q")}, {"y": INT64})
    agrees([node("CategoryMapper", "x", "y", **table, default_string="?")],
           {"x": np.array([[5, 9]])}, {"y": STRING})  # fmt: skip


KEYS = {
    "strings": (texts("a", "zz", "b", "a"), STRING, ["a", "b", "a"]),
    "int64s": (np.array([1, 5, 3, 2]), INT64, [1, 2, 1]),
    "floats": (np.array([1, np.nan, 3, 2.5], np.float32), FLOAT, [1.0, 2.5, float("nan")]),
}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize(("keys", "values"), list(product(KEYS, KEYS)))
def test_labels_are_encoded(keys, values, version):
    """The first of equal keys counts; what is not a number is a key from version 4 on."""
    (x, _, given), (_, type_, found) = KEYS[keys], KEYS[values]
    table = {f"keys_{keys}": given, f"values_{values}": found}
    agrees([node("LabelEncoder", "x", "y", **table)], {"x": x}, {"y": type_}, version)


def test_labels_were_encoded_by_their_places():
    old = node("LabelEncoder", "x", "y", classes_strings=["a", "b"], default_int64=9)
    agrees([old], {"x": texts("b", "q")}, {"y": INT64}, 1)
    agrees([old], {"x": np.array([1, 7])}, {"y": STRING}, 1)


def test_labels_are_encoded_by_tensors():
    made = node(
        "LabelEncoder", "x", "y", keys_tensor=helper.make_tensor("k", STRING, [2], ["a", "b"]),
        values_tensor=numpy_helper.from_array(np.array([7, 8], np.int16)),
        default_tensor=numpy_helper.from_array(np.array([-3], np.int16)),
    )  # fmt: skip
    agrees([made], {"x": texts("b", "q")}, {"y": TensorProto.INT16}, 4)


def test_strings_become_ones():
    made = node("OneHotEncoder", "x", "y", cats_strings=["b", "a"], zeros=1)
    agrees([made], {"x": texts("a", "q", "b").reshape(3, 1)}, {"y": FLOAT})
    strict = node("OneHotEncoder", "x", "y", cats_strings=["b", "a"], zeros=0)
    model = Model(model_of([strict], {"x": texts("q")}, {"y": FLOAT}))
    np.testing.assert_array_equal(model.run({"x": texts("a")})["y"], [[0, 1]])
    with pytest.raises(ModelError, match="'q' is no category"):
        model.run({"x": texts("q")})


# The command line ----------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    model = model_of(classifier(True), {"x": floats(2, 4)}, classifier_outputs(True))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_maps_are_printed_and_saved_as_json(saved, capsys):
    assert mgx.main(["run", str(saved), "--output", str(saved.parent / "out")]) == 0
    rows = json.loads((saved.parent / "out" / "maps.json").read_text())
    assert [sorted(row) for row in rows] == [["maybe", "no", "yes"]] * 2
    assert 'maps: [{"maybe": ' in capsys.readouterr().out
    assert (saved.parent / "out" / "label.npy").is_file()


def test_a_model_with_maps_is_verified_and_checked(saved, capsys):
    assert mgx.main(["verify", str(saved)]) == 0
    report = check(str(saved))
    assert not report.unsupported
    assert {entry.operator for entry in report.host} == {
        "ai.onnx.ml::CategoryMapper",
        "ai.onnx.ml::ZipMap",
    }


MODELS_OF_ANY_ROWS = {
    "features": [node("ArrayFeatureExtractor", "x places", "y")],
    "vectors": [node("FeatureVectorizer", "x x", "y", inputdimensions=[2, 5])],
    "classifier": [
        node(
            "LinearClassifier", "x", "label y", coefficients=[0.5 * n for n in range(8)],
            intercepts=[0.5, -1.0],
            classlabels_ints=[3, 7],
        )
    ],
    "forest": [
        node(
            "TreeEnsembleRegressor", "x", "y", n_targets=1, nodes_treeids=[0] * 3,
            nodes_nodeids=[0, 1, 2], nodes_featureids=[2, 0, 0], nodes_values=[0.1, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0],
            nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2],
            target_ids=[0, 0], target_weights=[1.5, -2.0],
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("name", MODELS_OF_ANY_ROWS)
def test_any_number_of_rows(name: str, target: str) -> None:
    """One program, as exporters leave the number of examples open."""
    nodes = MODELS_OF_ANY_ROWS[name]
    outputs = {o: INT64 if o == "label" else FLOAT for o in nodes[-1].output}
    x = helper.make_tensor_type_proto(FLOAT, [None, 4])
    model = model_of(nodes, {"x": x}, outputs)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 0, 2]), "places"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    ours = Model(model, target=target)
    for rows in (5, 1, 300):
        inputs = {"x": floats(rows, 4, seed=rows)}
        for array, wanted in zip(ours.run(inputs).values(), session.run(None, inputs), strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-5)
    assert ours.compiled == 1
