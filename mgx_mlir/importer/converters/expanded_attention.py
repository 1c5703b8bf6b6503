"""Attention, which onnx's library expands: shapes that its body would broadcast."""

from __future__ import annotations

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import checked


@checked("Attention")
def check_attention(node: Node) -> None:
    """q, k and v are (batch, length, hidden) each, or (batch, heads, length, size)."""
    q, k, v = (node.value(i).dims for i in range(3))
    shown = ", ".join(tensors.show(dims) for dims in (q, k, v))
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        raise ModelError(f"q, k and v of {shown}; all have 3 dimensions, or 4 in heads")
    in_heads = len(q) == 4
    equal = [(q[0], k[0]), (k[0], v[0]), (k[-2], v[-2])]
    if in_heads:
        equal += [(k[1], v[1]), (q[3], k[3])]
    if any(a != b for a, b in equal if isinstance(a, int) and isinstance(b, int)):
        raise ModelError(f"q, k and v of {shown} do not fit")
    if k[-2] == 0 and not node.given(4):
        raise ModelError(f"q, k and v of {shown}: there are no keys; give one or more, or a past")
    heads = (
        (q[1], k[1]) if in_heads else tuple(map(node.attribute, ("q_num_heads", "kv_num_heads")))
    )
    if None in heads:
        raise ModelError("q_num_heads and kv_num_heads go with 3 dimensions")
    if all(isinstance(n, int) for n in heads) and heads[0] % heads[1]:
        raise ModelError(f"{heads[0]} heads of queries for {heads[1]} of keys")
