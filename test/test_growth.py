"""The cost of a compilation grows as the model does: twice the nodes, about twice the work.

Work is counted in calls of functions, which does not depend on the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode, options_for
from mgx_mlir.finalizer import finalize_kernel
from mgx_mlir.reference import evaluate_op
from test.importer.agreement import simple_model

F32 = onnx.TensorProto.FLOAT
# Calls that do not depend on the number of nodes, and how much more twice as many may take.
FIXED, MOST = 20_000, 2.5


def _model(
    nodes: list[onnx.NodeProto], result: str, arrays: dict[str, Any], dims: list[int]
) -> Any:
    return simple_model(
        nodes=nodes,
        inputs=[helper.make_tensor_value_info("x", F32, dims)],
        outputs=[helper.make_tensor_value_info(result, F32, None)],
        initializer=[numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )


def _chain(step: Callable[[int, str], list[onnx.NodeProto]], arrays: Any = None) -> Any:
    """A model of `count` times the step, which makes its last result of the one before."""

    def make(count: int, dims: list[int]) -> onnx.ModelProto:
        nodes, x = [], "x"
        for i in range(count):
            nodes += step(i, x)
            x = nodes[-1].output[0]
        return _model(nodes, x, arrays or {}, dims)

    return make


def _op(kind: str, i: int, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), [f"{kind}{i}"], f"{kind}{i}", **attributes)


def _diamond(i: int, x: str) -> list[onnx.NodeProto]:
    return [_op("Relu", i, x), _op("Tanh", i, x), _op("Sub", i, f"Relu{i}", f"Tanh{i}")]


def _scaled(i: int, x: str) -> list[onnx.NodeProto]:
    return [_op("Mul", i, x, "scale"), _op("Add", i, f"Mul{i}", "shift")]


def _turned(i: int, x: str) -> list[onnx.NodeProto]:
    return [_op("Transpose", i, x, perm=[1, 0]), _op("Add", i, x, f"Transpose{i}")]


def _rows(i: int, x: str) -> list[onnx.NodeProto]:
    return [_op("Softmax", i, x), _op("Transpose", i, f"Softmax{i}", perm=[1, 0])]


def _product(i: int, x: str) -> list[onnx.NodeProto]:
    return [_op("MatMul", i, x, "w"), _op("Relu", i, f"MatMul{i}")]


_CONSTANTS = {"scale": np.float32([1, 2, 3, 4]), "shift": np.float32([4, 3, 2, 1])}
MODELS = {
    "x + x": _chain(lambda i, x: [_op("Add", i, x, x)]),
    "x * x": _chain(lambda i, x: [_op("Mul", i, x, x)]),
    "diamonds": _chain(_diamond),
    "scales and offsets": _chain(_scaled, _CONSTANTS),
    "x + transpose(x)": _chain(_turned),
    "softmax and transpose": _chain(_rows),
    "products": _chain(_product, {"w": np.eye(4, dtype=np.float32) * 2}),
}


def _calls(model: onnx.ModelProto, options: CompileOptions | None = None) -> int:
    """How many functions a compilation calls."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        compile_to_bytecode(model, options)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.every(3)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("exact", [False, True], ids=["", "exact"])
def test_twice_the_nodes_take_twice_the_work(name, exact):
    options = CompileOptions(exact=exact)
    small, large = (_calls(MODELS[name](n, [4, 4]), options) for n in (150, 300))
    assert large <= FIXED + MOST * small


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x + x", "scales and offsets", "softmax and transpose"])
def test_thousands_of_nodes_need_no_deep_recursion(name):
    compile_to_bytecode(MODELS[name](4000, [4, 4]))


def test_chains_of_doublings_on_few_elements_compile():
    """In a process of its own: LLVM's loop vectorizer takes twice as long for each addition."""
    command = [sys.executable, "-m", "test.test_growth"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, env=os.environ)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout == "compiled\n" * 2


def _compile_doublings() -> None:
    for kind in ("Add", "Mul"):
        model = _chain(lambda i, x, kind=kind: [_op(kind, i, x, x)])(60, [4])
        artifact = compile_to_bytecode(model, options_for(None, "cpu"))
        for kernel in artifact.kernels:
            finalize_kernel(kernel.bytecode, Target.get("cpu"))
        print("compiled")


def test_concats_of_a_tensor_with_itself_are_taken_apart_once():
    doubled = _chain(lambda i, x: [_op("Concat", i, x, x, axis=0)])
    small, large = (_calls(doubled(n, [2])) for n in (8, 16))
    assert large <= FIXED + MOST * small


@pytest.mark.parametrize("kind", ["ReduceSum", "Concat", "Expand"])
def test_folding_leaves_what_is_too_much_work(kind, monkeypatch):
    """A constant that grows with each node is not computed: its work is counted before."""
    evaluated: list[int] = []

    def counted(op: Any, operands: Any) -> Any:
        made = evaluate_op(op, operands)
        evaluated.append(sum(a.size for a in (*operands, *made)))
        return made

    monkeypatch.setattr("mgx_mlir.passes.fold_constants.evaluate_op", counted)
    arrays: dict[str, Any] = {"row": np.arange(1 << 13, dtype=np.float32)}
    if kind == "Concat":
        nodes = [_op(kind, 0, "row", "row", axis=0)]
        nodes += [_op(kind, i, f"{kind}{i - 1}", f"{kind}{i - 1}", axis=0) for i in range(1, 24)]
    else:
        arrays["sizes"] = np.array([1 << 15, 1 << 13])
        nodes = [_op("Expand", 0, "row", "sizes"), _op("Exp", 0, "Expand0")]
        nodes += [_op(kind, 0, "Exp0", keepdims=0)] if kind == "ReduceSum" else []
    last = _op("Mul", 1, "x", nodes[-1].output[0])
    compile_to_bytecode(_model([*nodes, last], "Mul1", arrays, [1]))
    assert sum(evaluated) <= 1 << 29


if __name__ == "__main__":
    _compile_doublings()
