"""Tree ensembles (ai.onnx.ml): all trees walked at once, a step for each level.

The nodes of all trees are rows of one table, and a leaf is followed by itself. A step reads, for
each example and tree, the current node: the feature, the threshold, and the next nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.classical import DOMAIN, labels_of, transformed
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.tensor_data import small_array

_OPS = "gather gather_elements less greater equal where reduce_sum"
# By number, as TreeEnsemble has them; older operators prefix the names with BRANCH_.
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_LEAF = -1
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass
class Forest:
    """Tables with a row for each node. `next` (nodes, 2) holds the next node if false, if true.

    `weights` (nodes, targets) are those of leaves; `voted` says which a leaf has. `members` is a
    table of the values that a node of mode MEMBER looks for, filled up with NaN.
    """

    roots: np.ndarray
    modes: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    next: np.ndarray
    missing_is_true: np.ndarray
    weights: np.ndarray
    voted: np.ndarray
    members: np.ndarray

    def depth(self) -> int:
        """Steps from a root to the last leaf. Raises ModelError where nodes form a cycle."""
        here, steps = set(self.roots.tolist()), 0
        while True:
            inner = [n for n in here if self.modes[n] != _LEAF]
            if not inner:
                return steps
            here = set(self.next[inner].reshape(-1).tolist())
            steps += 1
            if steps > len(self.modes):
                raise ModelError("the nodes of its trees form a circle")


def leaves_of(node: Node, x: ir.Value, forest: Forest) -> ir.Value:
    """The number of the leaf (batch, trees) that each row of x (batch, features) reaches."""
    batch, most = tensors.dims(x)[0], tensors.size_of(x, -1, "the number of features") - 1
    dtype = emit.numpy_type(x)
    inner = forest.modes != _LEAF
    read = forest.features[inner]
    if np.any(beyond := (read < 0) | (read > most)):
        raise ModelError(
            f"its trees read feature {read[beyond][0]}, and examples have features 0 to {most}"
        )
    # A model of more nodes than 32 bits number would be too large for a file.
    columns = (
        np.arange(len(inner), dtype=np.int32),
        np.where(inner, forest.features, 0).astype(np.int32),
        forest.splits.astype(dtype),
    )
    # A step reads the number, the feature and the threshold of its node.
    here, feature, split = (
        emit.broadcast(node.make(column[forest.roots][None]), (batch, len(forest.roots)))
        for column in columns
    )
    # The next nodes if false come first in the tables, then those if true.
    after = forest.next.T.reshape(-1)
    tables = [node.make(column[after]) for column in columns]
    modes = sorted(set(forest.modes.tolist()) - {_LEAF})
    for _ in range(forest.depth()):
        value = mgx.gather_elements(x, feature, 1)
        holds = None
        for mode in modes:
            found = _compared(node, forest, mode, value, split, here)
            if holds is None:
                holds = found
                continue
            is_mode = mgx.gather(node.make(forest.modes == mode), here, 0)
            holds = mgx.where(is_mode, found, holds)
        assert holds is not None
        if forest.missing_is_true.any():
            tracks = mgx.gather(node.make(forest.missing_is_true), here, 0)
            holds = mgx.logical_or(holds, mgx.logical_and(tracks, mgx.isnan(value)))
        row = mgx.add(here, emit.mul(emit.convert(holds, "i32"), len(forest.modes)))
        here, feature, split = (mgx.gather(table, row, 0) for table in tables)
    return here


def _compared(
    node: Node, forest: Forest, mode: int, value: ir.Value, split: ir.Value, here: ir.Value
) -> ir.Value:
    """Whether the comparison of one mode holds."""
    name = _MODES[mode]
    if name == "MEMBER":
        sets = mgx.gather(node.make(forest.members.astype(emit.numpy_type(value))), here, 0)
        same = emit.binary(mgx.equal, sets, emit.unsqueeze(value, [2]))
        return emit.squeeze(mgx.reduce_any(same, [2]), [2])
    equal = mgx.equal(value, split)
    if name in ("EQ", "NEQ"):
        return equal if name == "EQ" else mgx.not_(equal)
    beyond = (mgx.less if name.startswith("L") else mgx.greater)(value, split)
    return mgx.logical_or(beyond, equal) if name in ("LEQ", "GTE") else beyond


def scores_of(
    node: Node, x: ir.Value, forest: Forest, aggregate: str, base: np.ndarray | None
) -> ir.Value:
    """The score of each target, over the leaves of all trees: (batch, targets)."""
    leaves = leaves_of(node, x, forest)
    dtype = emit.numpy_type(x)
    table = forest.weights.astype(dtype)
    if aggregate in ("MIN", "MAX"):  # a leaf counts for the targets that it votes for
        table = np.where(forest.voted, table, np.inf if aggregate == "MIN" else -np.inf)
    votes = mgx.gather(node.make(table.astype(dtype)), leaves, 0)
    reductions = {"MIN": mgx.reduce_min, "MAX": mgx.reduce_max}
    total = emit.squeeze(reductions.get(aggregate, mgx.reduce_sum)(votes, [1]), [1])
    if aggregate in reductions:
        total = emit.where(mgx.isinf(total), 0, total)
    if aggregate == "AVERAGE":
        total = emit.div(total, len(forest.roots))
    return total if base is None else emit.add(total, node.make(base.astype(dtype)))


# The operators -------------------------------------------------------------------------------


@operator("TreeEnsemble", (5, 5), _OPS, DOMAIN)
def tree_ensemble(node: Node) -> ir.Value:
    x = node.tensor(0)
    node.attribute("nodes_hitrates")  # for speed only
    forest = _forest_of_tensors(node)
    scores = scores_of(node, x, forest, _named(node, "aggregate_function", _AGGREGATES), None)
    return transformed(scores, _named(node, "post_transform", _TRANSFORMS))


def _named(node: Node, attribute: str, names: tuple[str, ...]) -> str:
    number = int(node.attribute(attribute))
    if not 0 <= number < len(names):
        raise ModelError(f"{attribute} = {number}; 0 to {len(names) - 1} are defined")
    return names[number]


def _forest_of_tensors(node: Node) -> Forest:
    """Inner nodes first, then the leaves."""
    modes = small_array(node.attribute("nodes_modes"), node.name).astype(np.int64)
    inner = len(modes)
    targets = np.array(node.attribute("leaf_targetids"), np.int64)
    leaf_weights = small_array(node.attribute("leaf_weights"), node.name)
    count = inner + len(targets)
    following = np.stack([np.arange(count)] * 2, 1)
    for column, side in enumerate(("false", "true")):
        ids = np.array(node.attribute(f"nodes_{side}nodeids"), np.int64)
        is_leaf = np.array(node.attribute(f"nodes_{side}leafs"), np.int64)
        following[:inner, column] = ids + inner * is_leaf
    weights = np.zeros((count, int(node.required("n_targets"))), leaf_weights.dtype)
    weights[inner + np.arange(len(targets)), targets] = leaf_weights
    voted = np.zeros(weights.shape, bool)
    voted[inner + np.arange(len(targets)), targets] = True
    tracks = node.attribute("nodes_missing_value_tracks_true")
    return Forest(
        np.array(node.attribute("tree_roots"), np.int64),
        np.concatenate([modes, np.full(len(targets), _LEAF)]),
        _filled(node.attribute("nodes_featureids"), count).astype(np.int64),
        _filled(small_array(node.attribute("nodes_splits"), node.name), count),
        following,
        _filled(tracks if tracks is not None else [], count).astype(bool),
        weights,
        voted,
        _members(node, modes, count),
    )


def _members(node: Node, modes: np.ndarray, count: int) -> np.ndarray:
    """The sets of values of nodes of mode MEMBER; in the attribute a NaN ends each."""
    stated = node.attribute("membership_values")
    if stated is None:
        return np.full((count, 1), np.nan)
    values = small_array(stated, node.name)
    ends = np.flatnonzero(np.isnan(values))
    sets = [part[~np.isnan(part)] for part in np.split(values, ends + 1)]
    table = np.full((count, max([1, *map(len, sets)])), np.nan)
    for place, members in zip(np.flatnonzero(modes == 6), sets, strict=False):
        table[place, : len(members)] = members
    return table


def _filled(values: Any, count: int) -> np.ndarray:
    """A column of the table with zeros for the nodes that have no value."""
    given = np.asarray(values)
    return np.concatenate([given, np.zeros(count - len(given), given.dtype)])


@operator("TreeEnsembleRegressor", (1, 5), _OPS, DOMAIN)
def tree_ensemble_regressor(node: Node) -> ir.Value:
    x = _as_float(node)
    forest = _forest_of_lists(node, "target", int(node.attribute("n_targets")))
    base = _numbers(node, "base_values")
    scores = scores_of(node, x, forest, str(node.attribute("aggregate_function")), base)
    return emit.convert(transformed(scores, str(node.attribute("post_transform"))), "f32")


@operator("TreeEnsembleClassifier", (1, 5), _OPS + " argmax", DOMAIN)
def tree_ensemble_classifier(node: Node) -> list[ir.Value]:
    """The best class, and the scores. With two, votes for the first alone score the second."""
    x = _as_float(node)
    labels = labels_of(node, "classlabels_int64s")
    forest = _forest_of_lists(node, "class", len(labels))
    base = _numbers(node, "base_values")
    transform = str(node.attribute("post_transform"))
    first_only = not forest.voted[:, 1:].any() and (base is None or len(base) == 1)
    if len(labels) != 2 or not first_only:
        scores = scores_of(node, x, forest, "SUM", base)
        if len(labels) == 1:  # onnxruntime gives the decision, not the label
            above = emit.squeeze(mgx.greater(scores, emit.like(scores, 0)), [1])
            scores = emit.convert(transformed(scores, transform), "f32")
            return [emit.convert(above, "i64"), scores]
        chosen = emit.squeeze(mgx.argmax(scores, 1), [1])
        scores = transformed(scores, transform)
        return [mgx.gather(node.make(labels), chosen, 0), emit.convert(scores, "f32")]
    positive = bool((forest.weights >= 0).all())
    forest.weights, forest.voted = forest.weights[:, :1], forest.voted[:, :1]
    score = scores_of(node, x, forest, "SUM", base)
    is_second = mgx.greater(score, emit.like(score, 0.5 if positive else 0))
    chosen = emit.squeeze(emit.convert(is_second, "i64"), [1])
    if transform == "PROBIT":
        raise UnsupportedError("post_transform = PROBIT of one class' votes")
    opposite = mgx.neg(score)
    if transform == "LOGISTIC":
        scores = mgx.sigmoid(emit.concat([opposite, score], 1))
    else:
        scores = emit.concat([emit.add(opposite, 1) if positive else opposite, score], 1)
    return [mgx.gather(node.make(labels), chosen, 0), emit.convert(scores, "f32")]


def _as_float(node: Node) -> ir.Value:
    """x in the type that is computed in: f64 where thresholds are, else f32."""
    x = node.tensor(0)
    doubles = node.version >= 3 and node.has_attribute("nodes_values_as_tensor")
    return emit.convert(x, "f64" if doubles else "f32")


def _numbers(node: Node, name: str) -> np.ndarray | None:
    """A list of floats, or the tensor given instead."""
    if node.version >= 3 and node.has_attribute(f"{name}_as_tensor"):
        return small_array(node.attribute(f"{name}_as_tensor"), node.name)
    stated = node.attribute(name)
    return None if stated is None else np.array(stated, np.float32)


def _forest_of_lists(node: Node, votes: str, targets: int) -> Forest:
    """Nodes named by tree and number, leaves among them; `votes` is 'target' or 'class'."""
    _numbers(node, "nodes_hitrates")  # for speed only
    trees, numbers = node.required("nodes_treeids"), node.required("nodes_nodeids")
    rows = {key: row for row, key in enumerate(zip(trees, numbers, strict=True))}
    names = [str(mode).removeprefix("BRANCH_") for mode in node.required("nodes_modes")]
    modes = np.array([_LEAF if n == "LEAF" else _MODES.index(n) for n in names])
    count = len(modes)
    following = np.stack([np.arange(count)] * 2, 1)
    for column, side in enumerate(("false", "true")):
        ids = node.required(f"nodes_{side}nodeids")
        for row in np.flatnonzero(modes != _LEAF):
            following[row, column] = rows[trees[row], ids[row]]
    values = _numbers(node, f"{votes}_weights")
    assert values is not None
    weights = np.zeros((count, targets), values.dtype)
    voted = np.zeros(weights.shape, bool)
    places = zip(node.required(f"{votes}_treeids"), node.required(f"{votes}_nodeids"), strict=True)
    for key, target, value in zip(places, node.required(f"{votes}_ids"), values, strict=True):
        weights[rows[key], target] += value
        voted[rows[key], target] = True
    splits = _numbers(node, "nodes_values")
    first = {tree: row for row, tree in reversed(list(enumerate(trees)))}
    tracks = node.attribute("nodes_missing_value_tracks_true")
    return Forest(
        np.array([first[tree] for tree in sorted(first)], np.int64),
        modes,
        np.array(node.required("nodes_featureids"), np.int64),
        np.zeros(count) if splits is None else splits,
        following,
        _filled(tracks if tracks is not None else [], count).astype(bool),
        weights,
        voted,
        np.full((count, 1), np.nan),
    )
