"""Losses, which onnx's library expands: shapes that its bodies would take silently."""

from __future__ import annotations

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import checked


@checked("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def check_loss(node: Node) -> None:
    """Scores (batch, classes, ...), labels (batch, ...), and a weight for each class."""
    scores, labels = node.value(0).dims, node.value(1).dims
    if len(scores) < 2:
        raise ModelError(f"scores {tensors.show(scores)}; (batch, classes, ...) are needed")
    wanted = (scores[0], *scores[2:])
    if len(labels) != len(wanted) or any(
        a != b for a, b in zip(labels, wanted, strict=True) if isinstance(a, int | str) and b
    ):
        raise ModelError(f"labels {tensors.show(labels)} for scores {tensors.show(scores)}")
    weights = node.value(2).dims if node.given(2) else (scores[1],)
    if len(weights) != 1 or (weights[0] != scores[1] and isinstance(scores[1], int)):
        raise ModelError(f"weights {tensors.show(weights)} for {scores[1]} classes")
