"""Runs one node on the host."""

from __future__ import annotations

from typing import Any

from onnx import helper

from mgx_mlir.models import host
from mgx_mlir.models.host.evaluate import Evaluator
from mgx_mlir.models.host.values import normal
from mgx_mlir.models.staged.context import Context


def run(kind: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
    """The results of the operator's newest definition; None is an absent input."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, "node", domain=domain, **attributes)
    row = host.find(domain, kind)
    assert row is not None
    draw = Context(0).generator
    found = Evaluator(node, row, {domain: 5 if domain else 23}).run(
        [normal(value) for value in inputs], lambda seed: draw("node", seed)
    )
    return found[0] if outputs == 1 else found
