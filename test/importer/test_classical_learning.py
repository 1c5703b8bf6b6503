"""Operators of ai.onnx.ml agree with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    expected,
    floats,
    ints,
    outputs_of,
)

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def agrees(kind: str, *inputs: np.ndarray, outputs: tuple = (np.float32,), **attributes: Any):
    named = {f"x{i}": x for i, x in enumerate(inputs)}
    model, fed = contributed(kind, named, outputs, domain="ai.onnx.ml", **attributes)
    assert_agrees(model, fed)


def test_features_are_chosen_and_joined():
    agrees("ArrayFeatureExtractor", floats(3, 4), np.array([[3, 0]]))
    agrees("FeatureVectorizer", floats(2, 3), floats(2, 2, seed=1), inputdimensions=[3, 2])


def test_features_are_prepared():
    agrees("Binarizer", floats(3, 4), threshold=0.5)
    agrees("Scaler", floats(3, 4), offset=[1.0], scale=[0.5])
    agrees("Scaler", floats(3, 2), offset=[1.0, 2.0], scale=[0.5, 0.25])
    missing = np.where(floats(3, 4) > 0, np.float32(np.nan), floats(3, 4))
    replaced = {"replaced_value_float": float("nan")}
    agrees("Imputer", missing, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], **replaced)
    agrees("Imputer", ints(1, -1, 2)[None], outputs=(np.int64,), imputed_value_int64s=[7],
           replaced_value_int64=-1)  # fmt: skip


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_normalised(norm):
    x = np.abs(floats(3, 4))
    x[1] = 0
    agrees("Normalizer", x, norm=norm)


def test_categories_become_ones():
    agrees("OneHotEncoder", ints(2, 5, 9, 1)[None], cats_int64s=[1, 2, 9], zeros=1)


def test_labels_are_looked_up():
    x = ints(3, 1, 4, 1, 5)
    agrees("LabelEncoder", x, keys_int64s=[1, 4, 3], values_floats=[0.5, 0.25, 2.0],
           default_float=-1.0)  # fmt: skip
    x = {"x": np.array([0.5, np.nan, 2.0], np.float32)}
    model, fed = contributed("LabelEncoder", x, (np.int64,), domain="ai.onnx.ml",
                             keys_floats=[float("nan"), 0.5], values_int64s=[7, 8])  # fmt: skip
    model.opset_import[2].version = 4
    assert_agrees(model, fed)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform):
    options = {"intercepts": [0.5, -0.5, 0.1], "post_transform": transform}
    coefficients = floats(12).tolist()
    agrees("LinearRegressor", floats(5, 4, seed=1), coefficients=coefficients, targets=3, **options)
    types = (np.int64, np.float32)
    agrees("LinearClassifier", floats(5, 4, seed=1), outputs=types, coefficients=coefficients,
           classlabels_ints=[10, 20, 30], **options)  # fmt: skip


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors(kernel, one_class):
    agrees(
        "SVMRegressor",
        floats(4, 3),
        coefficients=floats(5, seed=1).tolist(),
        support_vectors=floats(15, seed=2).tolist(),
        n_supports=5,
        rho=[0.25],
        kernel_type=kernel,
        kernel_params=[0.3, 0.5, 2.0],
        one_class=one_class,
    )


# Trees -----------------------------------------------------------------------------------


def forest(trees: int, depth: int, features: int, targets: int, seed: int = 0) -> dict[str, list]:
    """Random trees, not all of one depth, as the operators of lists have them."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list] = {
        name: []
        for name in (
            "treeids nodeids featureids values modes truenodeids falsenodeids "
            "missing_value_tracks_true"
        ).split()
    }
    votes: dict[str, list] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        count = 0

        def grow(level: int, tree: int = tree) -> int:
            nonlocal count
            number = count
            count += 1
            leaf = level == 0 or (level < depth and rng.random() < 0.2)
            row = len(nodes["treeids"])
            for name, value in (
                ("treeids", tree),
                ("nodeids", number),
                ("featureids", 0 if leaf else int(rng.integers(features))),
                ("values", 0.0 if leaf else float(rng.normal())),
                ("modes", "LEAF" if leaf else "BRANCH_LEQ"),
                ("truenodeids", 0),
                ("falsenodeids", 0),
                ("missing_value_tracks_true", int(rng.integers(2))),
            ):
                nodes[name].append(value)
            if leaf:
                for target in {int(t) for t in rng.integers(targets, size=2)}:
                    votes["treeids"].append(tree)
                    votes["nodeids"].append(number)
                    votes["ids"].append(target)
                    votes["weights"].append(float(rng.normal()))
            else:
                nodes["truenodeids"][row] = grow(level - 1)
                nodes["falsenodeids"][row] = grow(level - 1)
            return number

        grow(depth)
    return {
        **{f"nodes_{k}": v for k, v in nodes.items()},
        **{f"votes_{k}": v for k, v in votes.items()},
    }


def voting(attributes: dict[str, list], prefix: str) -> dict[str, list]:
    return {k.replace("votes_", f"{prefix}_"): v for k, v in attributes.items()}


def examples(features: int) -> np.ndarray:
    x = floats(7, features, seed=5)
    x[0, 0] = np.nan
    return x


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_by_trees(aggregate):
    attributes = voting(forest(4, 3, 3, 2), "target")
    agrees("TreeEnsembleRegressor", examples(3), n_targets=2, aggregate_function=aggregate,
           base_values=[0.5, -1.0], **attributes)  # fmt: skip


def test_nodes_may_compare_in_different_ways():
    attributes = voting(forest(3, 3, 3, 1, seed=2), "target")
    names = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
    inner = 0
    for place, mode in enumerate(attributes["nodes_modes"]):
        if mode != "LEAF":
            attributes["nodes_modes"][place] = f"BRANCH_{names[inner % 6]}"
            inner += 1
    agrees("TreeEnsembleRegressor", floats(7, 3), n_targets=1, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_classification_by_trees(transform):
    attributes = voting(forest(4, 3, 3, 3), "class")
    agrees("TreeEnsembleClassifier", examples(3), outputs=(np.int64, np.float32),
           classlabels_int64s=[5, 6, 9], post_transform=transform, **attributes)  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("positive", [False, True])
def test_votes_for_one_of_two_classes(transform, positive):
    attributes = voting(forest(4, 2, 3, 1), "class")
    attributes["class_ids"] = [0] * len(attributes["class_ids"])
    if positive:
        attributes["class_weights"] = [abs(w) / 4 for w in attributes["class_weights"]]
    agrees("TreeEnsembleClassifier", examples(3), outputs=(np.int64, np.float32),
           classlabels_int64s=[5, 6], post_transform=transform, **attributes)  # fmt: skip


def test_votes_for_two_classes():
    """onnxruntime gives 0 or 1 here, whatever the labels are: its scores say what is best."""
    attributes = voting(forest(3, 2, 3, 2), "class")
    model, fed = contributed("TreeEnsembleClassifier", {"x": examples(3)}, (np.int64, np.float32),
                             domain="ai.onnx.ml", classlabels_int64s=[5, 6],
                             **attributes)  # fmt: skip
    _, scores = expected(model, fed)
    assert_close(outputs_of(parse_onnx(model), fed), [5 + scores.argmax(1), scores])


def tensor(values: object, dtype: type) -> Any:
    return numpy_helper.from_array(np.array(values, dtype))


def test_trees_whose_nodes_look_for_members():
    """x0 in {1, 3}: leaf 0; otherwise x1 < 2: leaf 1, else leaf 2."""
    model, fed = contributed(
        "TreeEnsemble",
        {"x": np.array([[1, 0], [2, 1], [3, 9], [4, 9]], np.float32)},
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_modes=tensor([6, 1], np.uint8),
        nodes_featureids=[0, 1],
        nodes_splits=tensor([0, 2], np.float32),
        nodes_truenodeids=[0, 1],
        nodes_trueleafs=[1, 1],
        nodes_falsenodeids=[1, 2],
        nodes_falseleafs=[0, 1],
        leaf_targetids=[0, 0, 0],
        leaf_weights=tensor([10, 20, 30], np.float32),
        membership_values=tensor([1, 3, np.nan], np.float32),
    )
    model.opset_import[2].version = 5
    model.opset_import[0].version = 21
    (found,) = outputs_of(parse_onnx(model), fed)
    assert_close([found], [np.array([[10], [20], [10], [30]], np.float32)])


def test_nodes_in_a_circle_are_refused():
    attributes = voting(forest(1, 2, 3, 1), "target")
    attributes["nodes_truenodeids"][0] = 0
    model, _ = contributed("TreeEnsembleRegressor", {"x": floats(2, 3)}, domain="ai.onnx.ml",
                           n_targets=1, **attributes)  # fmt: skip
    with pytest.raises(ModelError, match="form a circle"):
        parse_onnx(model)


@pytest.mark.parametrize("feature", [-1, 3, (1 << 32) + 1])
def test_features_that_examples_lack_are_refused(feature: int):
    attributes = voting(forest(1, 2, 3, 1), "target")
    attributes["nodes_featureids"][0] = feature
    model, _ = contributed("TreeEnsembleRegressor", {"x": floats(2, 3)}, domain="ai.onnx.ml",
                           n_targets=1, **attributes)  # fmt: skip
    with pytest.raises(ModelError, match=f"read feature {feature}, and .* features 0 to 2"):
        parse_onnx(model)


def test_labels_that_are_strings_are_no_part_of_a_compiled_program():
    model, _ = contributed("LinearClassifier", {"x": floats(2, 3)}, (object, np.float32),
                           domain="ai.onnx.ml", coefficients=[1.0] * 6,
                           classlabels_strings=["a", "b"])  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"CategoryMapper .*'the_LinearClassifier/labels'"):
        parse_onnx(model)
