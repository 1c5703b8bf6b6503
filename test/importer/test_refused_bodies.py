"""Refusals inside the bodies of If, Loop and Scan leave the process's memory whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test.importer.agreement import simple_model

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_value = helper.make_tensor_value_info
X = _value("x", F32, [1, 4])


def _uses_of_outer(refused: str) -> list[onnx.NodeProto]:
    """Nodes that read outer values and end in `r`, which the refused part makes from `x`."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"], "t"),
        helper.make_node("MatMul", ["t", "w"], ["m"], "m"),
        helper.make_node("Mul", ["m", "outer"], ["u"], "u"),
        helper.make_node("Add", ["u", "v"], ["a"], "a"),
    ]
    end = {
        "operator": helper.make_node("Nothing", ["a"], ["r"], "r", domain="not.known"),
        "shape": helper.make_node("MatMul", ["a", "a"], ["r"], "r"),
        "type": helper.make_node("Concat", ["a", "a"], ["r"], "r", axis=0),
    }
    return [*nodes, end[refused]]


def _growing() -> list[onnx.NodeProto]:
    """Each trip appends a row of an outer weight to the carried tensor."""
    return [
        helper.make_node("Gather", ["rows", "i"], ["row"], "row"),
        helper.make_node("Unsqueeze", ["row", "zero"], ["one"], "one"),
        helper.make_node("Concat", ["c", "one"], ["r"], "r", axis=0),
    ]


def _loop(nodes: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    body = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["go"], ["again"])],
        "body",
        [_value("i", I64, []), _value("go", BOOL, []), _value("c", F32, None)],
        [_value("again", BOOL, []), _value("r", F32, None)],
    )
    return helper.make_node("Loop", ["n", "b", "x"], ["y"], "loop", body=body)


def _scan(nodes: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    body = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["entry"], ["each"])],
        "body",
        [_value("c", F32, None), _value("entry", F32, None)],
        [_value("r", F32, None), _value("each", F32, None)],
    )
    return helper.make_node("Scan", ["x", "s"], ["y", "z"], "scan", body=body, num_scan_inputs=1)


def _if(nodes: Sequence[onnx.NodeProto], first: bool) -> onnx.NodeProto:
    refused = helper.make_graph(nodes, "refused", [], [_value("r", F32, None)])
    fine = helper.make_graph(
        [helper.make_node("Add", ["outer", "v"], ["f"], "f")], "fine", [], [_value("f", F32, None)]
    )
    branches = (refused, fine) if first else (fine, refused)
    return helper.make_node(
        "If", ["b"], ["y"], "if", then_branch=branches[0], else_branch=branches[1]
    )


def _nested(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The node inside a body, behind an op that reads an outer value there too."""
    own = helper.make_node("Mul", ["x", "outer"], ["o"], "o")
    return [own, node, helper.make_node("Add", ["y", "o"], ["r"], "last")]


def _refused() -> dict[str, onnx.ModelProto]:
    """Models that are refused, by what is refused and where."""
    makers = {
        "loop": _loop,
        "scan": _scan,
        "then": lambda nodes: _if(nodes, first=True),
        "else": lambda nodes: _if(nodes, first=False),
    }
    nodes = {
        f"{kind}-{refused}": make(_uses_of_outer(refused))
        for kind, make in makers.items()
        for refused in ("operator", "shape", "type")
    }
    nodes |= {
        f"{name} in {kind}": make(_nested(nodes[name]))
        for name in ("loop-operator", "scan-type", "else-operator", "then-shape")
        for kind, make in makers.items()
    }
    nodes["loop-grows"] = _loop(_growing())
    weights = [numpy_helper.from_array(np.ones((1, 4), np.float32), "v")]
    weights += [numpy_helper.from_array(np.ones((4, 4), np.float32), "w")]
    weights += [numpy_helper.from_array(np.ones((16, 4), np.float32), "rows")]
    weights += [numpy_helper.from_array(np.array([0]), "zero")]
    outer = helper.make_node("Relu", ["x"], ["outer"], "relu")
    inputs = [X, _value("n", I64, []), _value("b", BOOL, []), _value("s", F32, [5000, 4])]
    return {
        name: simple_model(
            nodes=[outer, node], inputs=inputs, outputs=[_value("y", F32, None)],
            initializer=weights,
        )
        for name, node in nodes.items()
    }  # fmt: skip


def _import_all() -> None:
    """Imports each model, and frees all that the import left before the next one."""
    import gc

    from mgx_mlir.errors import UserError
    from mgx_mlir.importer import parse_onnx

    accepted = []
    for name, model in _refused().items():
        try:
            parse_onnx(model)
            accepted.append(name)
        except UserError:
            pass
        gc.collect()
    print(f"accepted: {sorted(accepted)}")


def _run(*command: str, **environment: str) -> str:
    """The messages of a process that imports the models."""
    result = subprocess.run(
        [*command, sys.executable, "-m", "test.importer.test_refused_bodies"],
        env=os.environ | {"PYTHONMALLOC": "malloc"} | environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, f"{result.returncode}: {result.stderr[-4000:]}"
    assert result.stdout == "accepted: []\n"
    return result.stderr


def test_memory_stays_whole():
    """glibc overwrites what is freed, and ends a process that wrote there."""
    _run(MALLOC_PERTURB_="165")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind (apt: valgrind)")
def test_valgrind_finds_no_use_of_freed_memory():
    messages = _run("valgrind", "--quiet", "--undef-value-errors=no")
    # The dynamic linker's own string functions read whole words, which valgrind reports.
    reports = messages.split("Invalid ")[1:]
    assert [report for report in reports if "mlir" in report] == []


if __name__ == "__main__":
    _import_all()
