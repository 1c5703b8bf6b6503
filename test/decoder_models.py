"""Small decoders: as optimum exports LLaMA, with a growing cache, rotations, heads that share keys,
and as onnxruntime-genai writes it, by GroupQueryAttention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from test.onnx_models import Builder

VOCABULARY, WIDTH, INNER, HEADS, SHARED, EACH, LAYERS, POSITIONS = 48, 32, 64, 4, 2, 8, 2, 64


def step(tokens: int = 1, past: int = 127) -> dict[str, int]:
    """The sizes of a step with so many tokens after others."""
    return {
        "batch_size": 1,
        "sequence_length": tokens,
        "past_sequence_length": past,
        "total_sequence_length": past + tokens,
    }


def _norm(b: Builder, x: str, name: str) -> str:
    square = b.op("Pow", x, b.constant(2, np.float32))
    mean = b.op("ReduceMean", square, axes=[-1], keepdims=1)
    root = b.op("Sqrt", b.op("Add", mean, b.constant(1e-6, np.float32)))
    scaled = b.op("Mul", x, b.op("Div", b.constant(1, np.float32), root))
    return b.op("Mul", b.weight(name, WIDTH, scale=1.0), scaled)


def _rotated(b: Builder, x: str, cosines: str, sines: str) -> str:
    """x * cos + rotate_half(x) * sin, with tables of (batch, 1, length, EACH)."""
    half, end, first, last = ([EACH // 2], [1 << 62], [0], [3])
    right = b.op("Slice", x, *map(b.constant, (half, end, last)))
    left = b.op("Slice", x, *map(b.constant, (first, half, last)))
    turned = b.op("Concat", b.op("Neg", right), left, axis=-1)
    return b.op("Add", b.op("Mul", x, cosines), b.op("Mul", turned, sines))


def _repeated(b: Builder, x: str) -> str:
    """repeat_kv: Unsqueeze, Expand, Reshape."""
    shape, zero = b.op("Shape", x), b.constant([0])
    batch, _, length, _ = (
        b.op("Unsqueeze", b.op("Gather", shape, b.constant(i), axis=0), zero) for i in range(4)
    )
    count = b.constant([HEADS // SHARED])
    heads, each, all_heads = (b.constant([n]) for n in (SHARED, EACH, HEADS))
    wide = b.op("Expand", b.op("Unsqueeze", x, b.constant([2])),
                b.op("Concat", batch, heads, count, length, each, axis=0))  # fmt: skip
    return b.op("Reshape", wide, b.op("Concat", batch, all_heads, length, each, axis=0))


def _hidden(b: Builder, x: str, total: str, places: str = "") -> str:
    """(batch, 1, length, total): 0 where a query sees a key, else the least f32.

    `places`: those of the queries among the keys; without it they are the last.
    """
    scalar = b.constant(0)
    length = b.op("Gather", b.op("Shape", x), b.constant(1), axis=0)
    count = b.op("Gather", b.op("Shape", total), b.constant(1), axis=0)
    keys = b.op("Range", scalar, count, b.constant(1))
    queries = places or b.op(
        "Add", b.op("Range", scalar, length, b.constant(1)), b.op("Sub", count, length)
    )
    causal = b.op("LessOrEqual", keys, b.op("Unsqueeze", queries, b.constant([1])))
    seen = b.op("Unsqueeze", b.op("Cast", total, to=TensorProto.BOOL), b.constant([1, 2]))
    least = b.constant(np.finfo(np.float32).min, np.float32)
    return b.op("Where", b.op("And", causal, seen), b.constant(0, np.float32), least)


def _placed(b: Builder, cache: str, new: str) -> str:
    """The cache with new entries at cache_position, as index_copy is exported."""
    places = b.op("Unsqueeze", "cache_position", b.constant([0, 1, 3]))
    places = b.op("Expand", places, b.op("Shape", new))
    return b.op("ScatterElements", cache, places, new, axis=2)


def llama(positions: bool = True, seed: int = 0, static: int = 0) -> onnx.ModelProto:
    """input_ids, attention_mask, position_ids and past_key_values.N to logits and present.N.

    Without `positions` they follow from the mask, as older exports have it. `static`: the places
    of a cache of fixed length, whose new entries come to cache_position.
    """
    b = Builder(seed)
    x = b.op("Gather", b.weight("embeddings", VOCABULARY, WIDTH, scale=1.0), "input_ids")
    angles = np.outer(np.arange(POSITIONS), 100.0 ** (-np.arange(EACH // 2) / (EACH // 2)))
    tables = [b.constant(np.tile(f(angles), 2), np.float32) for f in (np.cos, np.sin)]
    places = "position_ids"
    if not positions:
        count = b.op("CumSum", "attention_mask", b.constant(1))
        length = b.op("Gather", b.op("Shape", "input_ids"), b.constant([1]), axis=0)
        count = b.op("Slice", count, b.op("Neg", length), b.constant([1 << 62]), b.constant([1]))
        places = b.op("Max", b.op("Sub", count, b.constant(1)), b.constant(0))
    one = b.constant([1])
    cosines, sines = (b.op("Unsqueeze", b.op("Gather", t, places), one) for t in tables)
    hidden = _hidden(b, x, "attention_mask", "cache_position" if static else "")
    outputs = {}
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        normal = _norm(b, x, f"{name}.first")
        q, k, v = (
            b.op("Transpose", b.op("Reshape", b.op("MatMul", normal, b.weight(
                f"{name}.{part}", WIDTH, heads * EACH)), b.constant([0, 0, heads, EACH])),
                perm=[0, 2, 1, 3])
            for part, heads in (("q", HEADS), ("k", SHARED), ("v", SHARED))
        )  # fmt: skip
        q, k = _rotated(b, q, cosines, sines), _rotated(b, k, cosines, sines)
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        k, v = (
            _placed(b, cache, new) if static else b.op("Concat", cache, new, axis=2)
            for cache, new in zip(past, (k, v), strict=True)
        )
        outputs |= {f"present.{layer}.key": k, f"present.{layer}.value": v}
        k, v = _repeated(b, k), _repeated(b, v)
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.op("Mul", scores, b.constant(EACH**-0.5, np.float32))
        shares = b.op("Softmax", b.op("Add", scores, hidden), axis=-1)
        y = b.op("Transpose", b.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        y = b.op("Reshape", y, b.constant([0, 0, WIDTH]))
        x = b.op("Add", x, b.op("MatMul", y, b.weight(f"{name}.o", WIDTH, WIDTH)))
        normal = _norm(b, x, f"{name}.second")
        gate = b.op("MatMul", normal, b.weight(f"{name}.gate", WIDTH, INNER))
        gate = b.op("Mul", gate, b.op("Sigmoid", gate))
        up = b.op("Mul", gate, b.op("MatMul", normal, b.weight(f"{name}.up", WIDTH, INNER)))
        x = b.op("Add", x, b.op("MatMul", up, b.weight(f"{name}.down", INNER, WIDTH)))
    logits = b.op("MatMul", _norm(b, x, "last"), b.weight("head", WIDTH, VOCABULARY, scale=1.0))
    cache = ["batch_size", SHARED, static or "past_sequence_length", EACH]
    total = static or "total_sequence_length"
    inputs = {
        "input_ids": (TensorProto.INT64, ["batch_size", "sequence_length"]),
        "attention_mask": (TensorProto.INT64, ["batch_size", total]),
        **({"cache_position": (TensorProto.INT64, ["sequence_length"])} if static else {}),
        **({"position_ids": (TensorProto.INT64, ["batch_size", "sequence_length"])}
           if positions else {}),
        **{f"past_key_values.{layer}.{part}": (TensorProto.FLOAT, cache)
           for layer in range(LAYERS) for part in ("key", "value")},
    }  # fmt: skip
    length = static or "past_sequence_length + sequence_length"
    present = ["batch_size", SHARED, length, EACH]
    results = {
        "logits": (logits, ["batch_size", "sequence_length", VOCABULARY]),
        **{name: (value, present) for name, value in outputs.items()},
    }
    return b.model(inputs, results, "llama")


def _contributed(b: Builder, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
    return b.op(kind, *inputs, outputs=outputs, domain="com.microsoft", **attributes)


def grouped(packed: bool = True, window: int = -1) -> onnx.ModelProto:
    """input_ids, attention_mask and past_key_values.N to logits and present.N.

    The mask has the total length; the cache may have it already. `packed`: one product for
    queries, keys and values, and rotations inside of the attention, else apart from it, by
    position_ids.
    """
    b = Builder()
    width, each = 2 * WIDTH, 2 * EACH
    x = b.op("Gather", b.weight("embeddings", VOCABULARY, width, scale=1.0), "input_ids")
    angles = np.outer(np.arange(POSITIONS), 100.0 ** (-np.arange(each // 2) / (each // 2)))
    tables = [b.constant(f(angles), np.float32) for f in (np.cos, np.sin)]
    one = b.constant([1])
    ends = b.op("Sub", b.op("ReduceSum", "attention_mask", one, keepdims=1), one)
    ends = b.op("Cast", ends, to=TensorProto.INT32)
    total = b.op("Gather", b.op("Shape", "attention_mask"), b.constant(1), axis=0)
    total = b.op("Cast", total, to=TensorProto.INT32)
    forms = {"num_heads": HEADS, "kv_num_heads": SHARED, "local_window_size": window}
    outputs = {}
    ones = b.constant(np.ones(width), np.float32)
    normal, skipped = b.op("SimplifiedLayerNormalization", x, ones, axis=-1, epsilon=1e-6), x
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        if packed:
            sizes = (HEADS + 2 * SHARED) * each
            qkv = b.op("MatMul", normal, b.weight(f"{name}.qkv", width, sizes))
            given = (qkv, "", "", *past, ends, total, *tables)
            y, k, v = _contributed(
                b, "GroupQueryAttention", *given, outputs=3, do_rotary=1, **forms
            )
        else:
            q, k, v = (b.op("MatMul", normal, b.weight(f"{name}.{part}", width, heads * each))
                       for part, heads in (("q", HEADS), ("k", SHARED), ("v", SHARED)))  # fmt: skip
            q, k = (_contributed(b, "RotaryEmbedding", part, "position_ids", *tables)
                    for part in (q, k))  # fmt: skip
            given = (q, k, v, *past, ends, total)
            y, k, v = _contributed(b, "GroupQueryAttention", *given, outputs=3, **forms)
        outputs |= {f"present.{layer}.key": k, f"present.{layer}.value": v}
        y = b.op("MatMul", y, b.weight(f"{name}.o", width, width))
        normal, _, _, skipped = _contributed(
            b, "SkipSimplifiedLayerNormalization", y, skipped, ones, outputs=4, epsilon=1e-6
        )
        gate = b.op("MatMul", normal, b.weight(f"{name}.gate", width, INNER))
        gate = b.op("Mul", gate, b.op("Sigmoid", gate))
        up = b.op("Mul", gate, b.op("MatMul", normal, b.weight(f"{name}.up", width, INNER)))
        y = b.op("MatMul", up, b.weight(f"{name}.down", INNER, width))
        normal, _, _, skipped = _contributed(
            b, "SkipSimplifiedLayerNormalization", y, skipped, ones, outputs=4, epsilon=1e-6
        )
    logits = b.op("MatMul", normal, b.weight("head", width, VOCABULARY, scale=1.0))
    cache = ["batch_size", SHARED, "past_sequence_length", each]
    inputs = {
        "input_ids": (TensorProto.INT64, ["batch_size", "sequence_length"]),
        "attention_mask": (TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        **({} if packed else {"position_ids": (TensorProto.INT64,
                                               ["batch_size", "sequence_length"])}),
        **{f"past_key_values.{layer}.{part}": (TensorProto.FLOAT, cache)
           for layer in range(LAYERS) for part in ("key", "value")},
    }  # fmt: skip
    present = ["batch_size", SHARED, "total_sequence_length", each]
    results = {
        "logits": (logits, ["batch_size", "sequence_length", VOCABULARY]),
        **{name: (value, present) for name, value in outputs.items()},
    }
    model = b.model(inputs, results, "grouped")
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model
