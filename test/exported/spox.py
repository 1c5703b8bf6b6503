"""Graphs that spox builds."""

from __future__ import annotations

import numpy as np
import spox.opset.ai.onnx.ml.v3 as ml
import spox.opset.ai.onnx.v17 as op
from spox import Tensor, argument, build, inline

from test.exported.registry import Made, floats, integers, model


def _built(call, *inputs: np.ndarray, dynamic=("N",)) -> Made:
    names = [f"x{i}" for i in range(len(inputs))]
    arguments = {}
    for name, x in zip(names, inputs, strict=True):
        kind = np.str_ if x.dtype == object else x.dtype
        arguments[name] = argument(Tensor(kind, (*dynamic, *x.shape[len(dynamic) :])))
    results = call(*arguments.values())
    results = results if isinstance(results, tuple) else (results,)
    made = build(arguments, {f"y{i}": y for i, y in enumerate(results)})
    return made, dict(zip(names, inputs, strict=True))


def _f(*values: float):
    return op.constant(value=np.array(values, np.float32))


def _i(*values: int):
    return op.constant(value=np.array(values, np.int64))


def _weight(*shape: int):
    return op.constant(value=floats(*shape, seed=3))


@model
def dense() -> Made:
    def call(x):
        return op.softmax(op.gemm(op.relu(op.matmul(x, _weight(6, 8))), _weight(8, 3), _weight(3)))

    return _built(call, floats(3, 6))


@model
def attention() -> Made:
    def call(x):
        q, k, v = (op.matmul(x, op.constant(value=floats(8, 8, seed=s))) for s in range(3))
        scores = op.div(op.matmul(q, op.transpose(k, perm=[0, 2, 1])), _f(2.8))
        return op.layer_normalization(op.matmul(op.softmax(scores), v), _weight(8))[0]

    return _built(call, floats(2, 5, 8))


@model
def cnn() -> Made:
    def call(x):
        y = op.conv(x, _weight(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
        return op.global_average_pool(op.hard_swish(y))

    return _built(call, floats(2, 3, 9, 10))


@model
def loop() -> Made:
    def call(x):
        def body(i, going, y):
            less = op.less(
                op.reduce_sum(op.abs(y), keepdims=False), op.constant(value=np.float32(50))
            )
            return less, op.mul(y, _f(1.5)), y

        return op.loop(op.constant(value=np.int64(12)), v_initial=[x], body=body)[0]

    return _built(call, floats(4))


@model
def branches() -> Made:
    def call(x):
        positive = op.greater(op.reduce_sum(x, keepdims=False), op.constant(value=np.float32(0)))
        return op.if_(positive, then_branch=lambda: [op.exp(x)], else_branch=lambda: [op.neg(x)])[0]

    made, inputs = _built(call, np.abs(floats(5)))
    return made, [inputs, {"x0": -inputs["x0"]}]


@model
def sequences() -> Made:
    def call(x):
        parts = op.split_to_sequence(x, op.constant(value=np.int64(2)), axis=0)
        return op.concat_from_sequence(
            op.sequence_insert(parts, x, op.constant(value=np.int64(0))), axis=0
        )

    return _built(call, floats(6, 3))


@model
def strings() -> Made:
    def call(words):
        numbers = ml.label_encoder(
            words, keys_strings=["a", "b"], values_floats=[0.5, 2.0], default_float=-1.0
        )
        return numbers, ml.label_encoder(
            words, keys_strings=["a"], values_int64s=[7], default_int64=0
        )

    return _built(call, np.array(["a", "b", "c", "a"], object))


@model
def trees() -> Made:
    def call(x):
        return ml.tree_ensemble_regressor(
            x,
            n_targets=1,
            nodes_treeids=[0, 0, 0],
            nodes_nodeids=[0, 1, 2],
            nodes_featureids=[1, 0, 0],
            nodes_values=[0.1, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_truenodeids=[1, 0, 0],
            nodes_falsenodeids=[2, 0, 0],
            target_treeids=[0, 0],
            target_nodeids=[1, 2],
            target_ids=[0, 0],
            target_weights=[1.5, -2.0],
        )

    return _built(call, floats(6, 3))


@model
def a_model_inside_another() -> Made:
    inner, _ = dense()

    def call(x):
        return op.log(next(iter(inline(inner)(op.mul(x, _f(2.0))).values())))

    return _built(call, floats(3, 6))


@model
def rows_of_data() -> Made:
    def call(x):
        places = op.non_zero(op.greater(x, _f(0.2)))
        values, counts = op.unique(op.floor(x), sorted=True)[0], op.shape(places)
        return places, op.compress(x, op.cast(_i(1, 0, 1), to=np.bool_), axis=1), values, counts

    return _built(call, floats(4, 3))


@model
def einsum_and_gathers() -> Made:
    def call(x, i):
        return (
            op.einsum([x, x], equation="nij,nkj->nik"),
            op.gather_elements(x, i, axis=1),
            op.one_hot(i, _i(4), _f(0, 1)),
        )

    return _built(call, floats(2, 3, 4), integers(3, 2, 2, 4))
