"""Models with branches and loops, and what they give."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.importer import parse_onnx
from mgx_mlir.reference import evaluate

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SIDE = 4


def _matrices(*names: str) -> list[Any]:
    return [helper.make_tensor_value_info(name, F32, [SIDE, SIDE]) for name in names]


def _scalars(**types: int) -> list[Any]:
    return [helper.make_tensor_value_info(name, kind, []) for name, kind in types.items()]


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Any) -> bytes:
    weights = [
        helper.make_tensor(
            name, helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype), np.shape(a), np.ravel(a)
        )
        for name, a in constants.items()
    ]
    graph = helper.make_graph(nodes, "control", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@functools.cache
def search() -> bytes:
    """A loop until a sum is large, or `n` trips are done; then one of two branches.

    The loop counts, carries two matrices one of which is the other's last, and decides
    after each trip. The branches read what the loop gives.
    """
    node = helper.make_node
    body = helper.make_graph(
        [
            node("MatMul", ["v", "w"], ["product"], "product"),
            node("Tanh", ["product"], ["squashed"]),
            node("Cast", ["i"], ["number"], to=F32),
            node("Add", ["squashed", "number"], ["following"]),
            node("ReduceSum", ["following"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["again"]),
            node("Identity", ["v"], ["last"]),
        ],
        "body",
        [*_scalars(i=I64, go=BOOL), *_matrices("v", "u")],
        [*_scalars(again=BOOL), *_matrices("following", "last")],
    )
    then = helper.make_graph([node("Exp", ["found"], ["a"], "exp")], "then", [], _matrices("a"))
    other = helper.make_graph([node("Identity", ["before"], ["b"])], "else", [], _matrices("b"))
    return _model(
        [
            node("Loop", ["n", "", "x", "x"], ["found", "before"], "search", body=body),
            node("If", ["which"], ["z"], "choose", then_branch=then, else_branch=other),
        ],
        [*_matrices("x", "w"), *_scalars(n=I64, which=BOOL, limit=F32)],
        _matrices("z", "found"),
    )


@functools.cache
def rows(count: int = 1200) -> bytes:
    """A loop of constant, many trips that stacks two results, and changes places of two values."""
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Add", ["a", "step"], ["a2"]),
            node("Identity", ["b"], ["first"]),
            node("CumSum", ["a2", "first_axis"], ["sums"]),  # in the body of no kernel's loop
            node("ReduceMax", ["sums"], ["row"], axes=[0], keepdims=0),
            node("Identity", ["a"], ["entry"]),
            node("Identity", ["go"], ["again"]),
        ],
        "body",
        [*_scalars(i=I64, go=BOOL), *_matrices("a", "b")],
        [
            *_scalars(again=BOOL),
            *_matrices("first", "a2"),
            helper.make_tensor_value_info("row", F32, [SIDE]),
            *_matrices("entry"),
        ],
    )
    return _model(
        [node("Loop", ["n", "", "x", "y"], ["p", "q", "rows", "entries"], "stack", body=body)],
        _matrices("x", "y"),
        [
            *_matrices("p", "q"),
            helper.make_tensor_value_info("rows", F32, [count, SIDE]),
            helper.make_tensor_value_info("entries", F32, [count, SIDE, SIDE]),
        ],
        n=np.array(count),
        step=np.float32(0.25),
        first_axis=np.int64(0),
    )


@functools.cache
def nested() -> bytes:
    """A loop in a loop in a branch; the inner one stops as the counters of both say."""
    node = helper.make_node
    inner = helper.make_graph(
        [
            node("Mul", ["y", "half"], ["y2"]),
            node("Add", ["i", "j"], ["both"]),
            node("Less", ["both", "three"], ["on"]),
        ],
        "inner",
        [*_scalars(j=I64, going=BOOL), *_matrices("y")],
        [*_scalars(on=BOOL), *_matrices("y2")],
    )
    outer = helper.make_graph(
        [
            node("Loop", ["m", "which", "v"], ["w"], "inner", body=inner),
            node("Add", ["w", "x"], ["v2"]),
            node("Identity", ["go"], ["again"]),
        ],
        "outer",
        [*_scalars(i=I64, go=BOOL), *_matrices("v")],
        [*_scalars(again=BOOL), *_matrices("v2")],
    )
    then = helper.make_graph(
        [node("Loop", ["n", "", "x"], ["a"], "outer", body=outer)], "then", [], _matrices("a")
    )
    other = helper.make_graph([node("Neg", ["x"], ["b"])], "else", [], _matrices("b"))
    return _model(
        [node("If", ["which"], ["z"], "choose", then_branch=then, else_branch=other)],
        [*_matrices("x"), *_scalars(n=I64, m=I64, which=BOOL)],
        _matrices("z"),
        half=np.float32(0.5),
        three=np.int64(3),
    )


# Written by hand: an importer gives no loop that can make another number of trips.
ROWS = """
    func.func @main(%n: tensor<i64> {mgx.name = "n"}, %x: tensor<4xf32> {mgx.name = "x"})
        -> (tensor<3x4xf32> {mgx.name = "y"}) {
      %c = mgx.constant dense<true> : tensor<i1>
      %r:2 = mgx.loop %n, %c init(%x)
          : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32>, tensor<3x4xf32> {
      ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
        %1 = mgx.exp %v : tensor<4xf32>
        mgx.yield %go, %1, %v : tensor<i1>, tensor<4xf32>, tensor<4xf32>
      } loc("repeat")
      return %r#1 : tensor<3x4xf32>
    }"""

MODELS = {"search": search, "rows": functools.partial(rows, 1200), "nested": nested}


@functools.cache
def artifact(name: str, *targets: str) -> Artifact:
    """The model, finalized for the targets."""
    return mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(MODELS[name]()), list(targets))


def inputs(name: str, seed: int) -> dict[str, np.ndarray]:
    """Inputs that take another way through the model for another seed."""
    generator = np.random.default_rng(seed)
    x, w = generator.random((2, SIDE, SIDE), np.float32)
    if name == "rows":
        return {"x": x, "y": w}
    counts = {"n": np.array(seed % 7), "which": np.array(seed % 3 != 0)}
    if name == "nested":
        return {"x": x, "m": np.array(seed % 4), **counts}
    return {"x": x, "w": w, "limit": np.float32(30 if seed % 2 else 3), **counts}


def expected(name: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The reference's outputs."""
    graph = _graph(name)
    return evaluate(graph.module, graph.weights, given)


@functools.cache
def _graph(name: str) -> Any:
    return parse_onnx(MODELS[name]())


def check(name: str, found: dict[str, Any], given: dict[str, np.ndarray]) -> None:
    """Compares results with the reference's."""
    for output, want in expected(name, given).items():
        value = found[output]
        array = value if isinstance(value, np.ndarray) else value.numpy()
        np.testing.assert_allclose(array, want, rtol=1e-4, atol=1e-5, err_msg=f"{name} {output}")


def check_threads(name: str, program: Any, runs: int) -> None:
    """Eight threads run one program at once, each `runs` times with inputs of its own."""
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for seed in range(first, first + 8 * runs, 8):
                given = inputs(name, seed)
                check(name, program.run(given), given)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
