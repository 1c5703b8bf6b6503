"""Operators of torch in others that it exports, or exports with the same results.

So are layers that torch runs by one operator outside of training, sums of truth values, and signs,
which in torch are 0 for NaN.
"""

from __future__ import annotations

import math
from typing import Any

# The kinds of a mask: of queries and keys, of the keys of each sequence, of each head.
_QUERIES, _KEYS = 0, 1


def _hidden(mask: Any, kind: int | None) -> Any:
    """Which scores (batch, heads, queries, keys) do not count: those of a mask that are not 0."""
    hidden = mask.bool()
    if kind == _QUERIES:
        return hidden[None, None]
    return hidden[:, None, None] if kind == _KEYS else hidden


def attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any,
    proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """`aten::_native_multi_head_attention`: the result, and the weights of keys."""
    from torch.nn import functional

    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    heads = [
        functional.linear(x, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, weight, bias in parts
    ]
    scores = heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(embed_dim // num_head)
    if mask is not None:
        scores = scores.masked_fill(_hidden(mask, mask_type), -math.inf)
    weights = scores.softmax(-1)
    joined = (weights @ heads[2]).transpose(1, 2).flatten(-2)
    result = functional.linear(joined, proj_weight, proj_bias)
    if not need_weights:
        return result, result.new_empty(0)
    return result, weights.mean(1) if average_attn_weights else weights


def encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any,
    norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any,
    ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """`aten::_transformer_encoder_layer_fwd`."""
    from torch.nn import functional

    size = (embed_dim,)

    def attended(x: Any) -> Any:
        given = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)
        return attention(x, x, x, *given, mask, False, True, mask_type)[0]

    def computed(x: Any) -> Any:
        x = functional.linear(x, ffn_weight_1, ffn_bias_1)
        x = functional.gelu(x) if use_gelu else functional.relu(x)
        return functional.linear(x, ffn_weight_2, ffn_bias_2)

    def first(x: Any) -> Any:
        return functional.layer_norm(x, size, norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return functional.layer_norm(x, size, norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attended(first(src))
        return src + computed(second(src))
    src = first(src + attended(src))
    return second(src + computed(src))


def added(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """`aten::add` of truth values: whether one of them is so."""
    return input | other if _true_or_false(input, other) and alpha else NotImplemented


def sign(input: Any) -> Any:
    """`aten::sign`, and `aten::sgn` of real numbers."""
    if not input.is_floating_point():
        return NotImplemented
    return (input > 0).to(input.dtype) - (input < 0).to(input.dtype)


def _true_or_false(*values: Any) -> bool:
    import torch

    return all(getattr(value, "dtype", None) == torch.bool for value in values)


def divided(exported: Any) -> Any:
    """An ExportedProgram whose operators of these kinds are others; itself where it has none."""
    from torch import ops

    whole = {
        ops.aten._native_multi_head_attention.default: attention,
        ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
        ops.aten.sgn.default: sign,
        ops.aten.sign.default: sign,
    }
    targets = {node.target for node in exported.graph.nodes}
    plus = ops.aten.add.Tensor
    if any(n.target is plus and _true_or_false(n.meta.get("val")) for n in exported.graph.nodes):
        whole[plus] = added
    return exported.run_decompositions(whole) if targets & whole.keys() else exported
