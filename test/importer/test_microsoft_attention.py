"""Attention of com.microsoft agrees with onnxruntime, and becomes one pattern."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.errors import ModelError, UnsupportedError, UsageError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    expected,
    floats,
    op_names,
    outputs_of,
)

BATCH, ROWS, HEADS, SIZE = 2, 3, 2, 16
HIDDEN = HEADS * SIZE


def i32(values: object) -> np.ndarray:
    return np.array(values, np.int32)


PADDING = {
    "none": None,
    "ends": i32([2, 3]),
    "ends_and_starts": i32([3, 3, 1, 0]),
    "of_keys": i32([[1, 1, 0], [1, 1, 1]]),
    "of_pairs": i32([[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 1, 1]] * 3]),
}


def projection(**changes: np.ndarray | None) -> dict[str, np.ndarray | None]:
    inputs = {
        "x": floats(BATCH, ROWS, 5),
        "w": floats(5, 3 * HIDDEN, seed=1),
        "b": floats(3 * HIDDEN, seed=2),
        "mask": None,
        "past": None,
        "bias": None,
    }
    return inputs | changes


@pytest.mark.parametrize("mask", PADDING.values(), ids=PADDING)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask, unidirectional):
    inputs = projection(mask=mask)
    assert_agrees(*contributed("Attention", inputs, num_heads=HEADS, unidirectional=unidirectional))


def test_attention_becomes_the_pattern_that_is_fused():
    """The scores' product, scaled, masked, through softmax, times the values."""
    mask = i32([[1, 1, 0], [1, 1, 1]])
    model, _ = contributed("Attention", projection(mask=mask), num_heads=HEADS)
    kinds = ("dot", "mul", "add", "softmax")
    names = [name for name in op_names(parse_onnx(model)) if name in kinds]
    assert names == ["dot", "add", "dot", "mul", "add", "softmax", "dot"]


def test_attention_with_a_past():
    inputs = projection(past=floats(2, BATCH, HEADS, 4, SIZE, seed=3))
    types = (np.float32, np.float32)
    assert_agrees(*contributed("Attention", inputs, types, num_heads=HEADS, unidirectional=1))


def test_attention_with_values_of_another_size_and_a_bias():
    inputs = projection(
        w=floats(5, 2 * HIDDEN + 8, seed=1),
        b=floats(2 * HIDDEN + 8, seed=2),
        bias=floats(1, HEADS, ROWS, ROWS, seed=4),
    )
    sizes = [HIDDEN, HIDDEN, 8]
    assert_agrees(
        *contributed("Attention", inputs, num_heads=HEADS, qkv_hidden_sizes=sizes, scale=0.3)
    )


def test_attention_refuses_rotations():
    model, _ = contributed("Attention", projection(), num_heads=HEADS, do_rotary=1)
    with pytest.raises(UnsupportedError, match="do_rotary = 1; 0 is supported"):
        parse_onnx(model)


def test_quantized_attention():
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.integers(0, 255, (BATCH, ROWS, 5)).astype(np.uint8),
        "w": rng.integers(-127, 127, (5, 3 * HIDDEN)).astype(np.int8),
        "b": floats(3 * HIDDEN, seed=2),
        "xs": np.array(0.02, np.float32),
        "ws": np.array(0.03, np.float32),
        "mask": i32([2, 3]),
        "xz": np.array(120, np.uint8),
        "wz": np.array(0, np.int8),
    }
    scalars = ("xs", "ws", "xz", "wz")
    assert_agrees(*contributed("QAttention", inputs, constants=scalars, num_heads=HEADS), atol=1e-3)


def queries(keys: int = 4, **changes: np.ndarray | None) -> dict[str, np.ndarray | None]:
    inputs = {
        "q": floats(BATCH, ROWS, HIDDEN),
        "k": floats(BATCH, keys, HIDDEN, seed=1),
        "v": floats(BATCH, keys, HIDDEN + 8, seed=2),
        "b": None,
        "padding": None,
        "bias": None,
        "pk": None,
        "pv": None,
    }
    return inputs | changes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"b": floats(3 * HIDDEN + 8, seed=3)},
        {"padding": i32([[1, 1, 1, 0], [1, 1, 0, 0]])},
        {"padding": i32([3, 2])},
        {"bias": floats(BATCH, 1, ROWS, 4, seed=4)},
        {
            "k": floats(BATCH, HEADS, 4, SIZE, seed=1),
            "v": floats(BATCH, HEADS, 4, SIZE, seed=2),
        },
    ],
    ids=["plain", "bias", "padding", "ends", "bias_of_scores", "keys_in_heads"],
)
def test_multi_head_attention(changes):
    assert_agrees(*contributed("MultiHeadAttention", queries(**changes), num_heads=HEADS))


def test_multi_head_attention_with_a_past():
    inputs = queries(
        ROWS,
        v=floats(BATCH, ROWS, HIDDEN, seed=2),
        pk=floats(BATCH, HEADS, 2, SIZE, seed=5),
        pv=floats(BATCH, HEADS, 2, SIZE, seed=6),
    )
    types = (np.float32,) * 3
    model, fed = contributed(
        "MultiHeadAttention", inputs, types, num_heads=HEADS, unidirectional=1, scale=0.2
    )
    assert_agrees(model, fed)


SHARED = {
    "plain": {},
    "bias": {"bias": floats(3 * HIDDEN, seed=3)},
    "ends": {"padding": i32([3, 4])},
    "of_keys": {"padding": i32([[1, 0, 1, 1], [1, 1, 1, 0]])},
    "of_pairs": {"padding": i32([[[1, 0, 1, 1]] * ROWS] * BATCH)},
    "bias_of_scores": {"scores": floats(1, 1, ROWS, ROWS + 1, seed=4)},
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("change", SHARED)
def test_a_past_that_is_a_buffer_with_room(change, causal):
    given = {"bias": None, "padding": None, "scores": None} | SHARED[change]
    inputs = {
        "q": floats(BATCH, ROWS, HIDDEN),
        "k": floats(BATCH, ROWS, HIDDEN, seed=1),
        "v": floats(BATCH, ROWS, HIDDEN, seed=2),
        **given,
        "pk": floats(BATCH, HEADS, 6, SIZE, seed=5),
        "pv": floats(BATCH, HEADS, 6, SIZE, seed=6),
        "length": i32([1]),
    }
    types = (np.float32,) * 3
    model, fed = contributed(
        "MultiHeadAttention", inputs, types, num_heads=HEADS, unidirectional=causal
    )
    assert_agrees(model, fed)


def test_a_buffer_and_its_mask_of_symbolic_lengths():
    text = """<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]>
        g (float[b, l, 8] q, float[b, l, 8] k, float[b, l, 8] v, int32[b, t] mask,
           float[b, 2, room, 4] pk, float[b, 2, room, 4] pv, int32[1] n)
        => (float[b, l, 8] y, float[b, 2, room, 4] kk, float[b, 2, room, 4] vv) {
            y, kk, vv = com.microsoft.MultiHeadAttention <num_heads = 2>
                (q, k, v, , mask, , pk, pv, n)
        }"""
    fed = {
        **{name: floats(2, 2, 8, seed=i) for i, name in enumerate("qkv")},
        "mask": i32([[1, 0, 1], [1, 1, 1]]),
        **{name: floats(2, 2, 6, 4, seed=i) for i, name in enumerate(("pk", "pv"))},
        "n": i32([1]),
    }
    model = parser.parse_model(text)
    program = mgx_mlir.Model(model.SerializeToString(), target="cpu")
    assert_close(list(program.run(fed).values()), expected(model, fed))


def test_the_scores_before_the_softmax():
    inputs = queries(ROWS, v=floats(BATCH, ROWS, HIDDEN, seed=2)) | {"bias": None}
    inputs |= {"padding": i32([[1, 1, 0], [1, 1, 1]])}
    types = (np.float32, None, None, np.float32)
    assert_agrees(*contributed("MultiHeadAttention", inputs, types, num_heads=HEADS))


def test_a_key_of_one_dimension_is_a_placeholder():
    packed = floats(1, 1, 6 * SIZE)
    rest = {
        "pk": floats(1, 1, 10, SIZE, seed=1),
        "pv": floats(1, 1, 10, SIZE, seed=2),
        "ends": i32([3]),
        "total": i32([10]),
    }
    one = np.ones(1, np.float32)
    types = (np.float32,) * 3
    heads = {"num_heads": 4, "kv_num_heads": 1}
    found = [
        outputs_of(parse_onnx(model), fed)
        for model, fed in (
            contributed(
                "GroupQueryAttention",
                {"q": packed, "k": k, "v": k} | rest,
                types,
                ("total",),
                **heads,
            )
            for k in (None, one)
        )
    ]
    assert_close(found[1], found[0])


@pytest.mark.parametrize("parts", [2, 3])
def test_packed_keys_and_values_are_those_that_were_packed(parts):
    names = ("q", "k", "v")[3 - parts :]
    apart = queries(ROWS, v=floats(BATCH, ROWS, HIDDEN, seed=2))
    split = [apart[n].reshape(BATCH, ROWS, HEADS, SIZE) for n in names]
    packed = {names[0]: np.stack(split, 3)}
    together = {"q": apart["q"], **packed} if parts == 2 else packed
    found = [
        outputs_of(parse_onnx(model), fed)
        for model, fed in (
            contributed("MultiHeadAttention", inputs, num_heads=HEADS)
            for inputs in (together, apart)
        )
    ]
    assert_close(*found)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("partial", [0, 4])
@pytest.mark.parametrize("heads_first", [False, True])
def test_rotary_embedding(interleaved, partial, heads_first):
    width = (partial or SIZE) // 2
    inputs = {
        "x": floats(*((BATCH, HEADS, ROWS, SIZE) if heads_first else (BATCH, ROWS, HIDDEN))),
        "places": np.array([[0, 1, 2], [4, 5, 6]]),
        "cos": floats(8, width, seed=1),
        "sin": floats(8, width, seed=2),
    }
    for places in (inputs["places"], np.array([3])):
        model, fed = contributed(
            "RotaryEmbedding",
            inputs | {"places": places},
            interleaved=interleaved,
            num_heads=HEADS if partial else 0,
            rotary_embedding_dim=partial,
        )
        assert_agrees(model, fed)


GROUPS, QUERIES = 2, 4


def decoding(rows: int, past: int, ends: list[int], total: int, **changes: object) -> dict:
    """Queries in 4 heads, keys in 2; `ends` are the last places, `total` the longest sequence."""
    batch = len(ends)
    cache = (batch, GROUPS, past, SIZE)
    inputs: dict[str, object] = {
        "q": floats(batch, rows, QUERIES * SIZE),
        "k": floats(batch, rows, GROUPS * SIZE, seed=1),
        "v": floats(batch, rows, GROUPS * SIZE, seed=2),
        "pk": floats(*cache, seed=3),
        "pv": floats(*cache, seed=4),
        "ends": i32(ends),
        "total": i32(total),
        "cos": None,
        "sin": None,
        "places": None,
        "bias": None,
        "sink": None,
        "ks": None,
        "vs": None,
        "qw": None,
        "kw": None,
    }
    inputs |= changes
    while list(inputs.values())[-1] is None:
        inputs.popitem()
    return inputs


ANGLES = {"cos": floats(16, SIZE // 2, seed=5), "sin": floats(16, SIZE // 2, seed=6)}


def assert_decodes(inputs: dict, cache: type = np.float32, **attributes: object) -> None:
    model, fed = contributed(
        "GroupQueryAttention",
        inputs,
        (np.float32, cache, cache),
        constants=("total",),
        num_heads=QUERIES,
        kv_num_heads=GROUPS,
        **attributes,
    )
    found, wanted = outputs_of(parse_onnx(model), fed), expected(model, fed)
    # The cache's elements behind a sequence's end are left open.
    for b, end in enumerate(inputs["ends"]):
        for number in (1, 2):
            found[number][b, :, end + 1 :] = wanted[number][b, :, end + 1 :] = 0
    assert_close(found, wanted)


def test_first_entries_of_group_query_attention():
    assert_decodes(decoding(3, 0, [2, 2], 3))
    assert_decodes(decoding(3, 0, [2, 2], 3, **ANGLES), do_rotary=1)


def test_one_more_entry_in_a_cache_that_grows():
    assert_decodes(decoding(1, 4, [4, 4], 5))


def test_one_more_entry_in_a_cache_of_full_length():
    assert_decodes(decoding(1, 8, [4, 2], 5, **ANGLES), do_rotary=1, rotary_interleaved=1)
    assert_decodes(decoding(1, 8, [4, 6], 7), local_window_size=3, scale=0.4)


@pytest.mark.parametrize(
    "attributes",
    [{"softcap": 2.0}, {"smooth_softmax": 1}, {"local_window_size": 2}],
    ids=lambda a: next(iter(a)),
)
def test_forms_of_scores(attributes):
    assert_decodes(decoding(3, 0, [2, 2], 3), **attributes)


def test_scores_with_a_bias_and_a_sink():
    assert_decodes(decoding(3, 0, [2, 2], 3, bias=floats(1, QUERIES, 3, 3, seed=7)))
    assert_decodes(decoding(3, 0, [2, 2], 3, sink=floats(QUERIES, seed=8)))


@pytest.mark.parametrize("target", ["cpu", "x86-64-v2"])
@pytest.mark.parametrize("places", [8, "places"])
def test_a_total_length_beyond_the_cache_is_an_error_of_the_run(target, places):
    """A run says the length; no entry has a place in the cache that is full."""
    inputs = decoding(1, 8, [4, 6], 7)
    model, fed = contributed("GroupQueryAttention", inputs, num_heads=QUERIES, kv_num_heads=GROUPS)
    for value in model.graph.input:
        if value.name in ("pk", "pv"):
            dim = value.type.tensor_type.shape.dim[2]
            if places != 8:
                dim.dim_param = places
    mode = "default" if places == 8 else "full-dynamic"
    artifact = compile_to_bytecode(parse_onnx(model), CompileOptions(mode=mode))
    program = mgx_mlir.compile(Artifact.from_bytes(artifact.to_bytes()), target)
    program.run(fed)
    with pytest.raises(UsageError, match="'total' is 9, and the program's cache has 8 places"):
        program.run(fed | {"total": i32(9), "ends": i32([8, 6])})


def test_a_total_length_that_a_mask_sums_up_limits_no_input():
    inputs = decoding(1, 8, [4, 4], 5)
    model, fed = contributed("GroupQueryAttention", inputs, num_heads=QUERIES, kv_num_heads=GROUPS)
    wanted = mgx_mlir.compile(model, "cpu").run(fed)
    graph, mask = model.graph, i32([1] * 5 + [0] * 3)
    (total,) = (value for value in graph.input if value.name == "total")
    graph.input.remove(total)
    graph.input.append(helper.make_tensor_value_info("mask", TensorProto.INT32, [8]))
    graph.node.insert(0, helper.make_node("ReduceSum", ["mask"], ["total"], keepdims=1))
    fed = {name: array for name, array in fed.items() if name != "total"}
    found = mgx_mlir.compile(model, "cpu").run(fed | {"mask": mask})
    assert_close([found["y0"]], [wanted["y0"]])


def test_queries_and_keys_may_be_normalised():
    """onnxruntime does this on GPUs only: here it gets what is normalised already."""
    inputs = decoding(2, 0, [1], 2, **ANGLES)
    weights = {"qw": floats(SIZE, seed=7), "kw": floats(SIZE, seed=8)}
    apart = dict(inputs)
    for name, weight in (("q", "qw"), ("k", "kw")):
        heads = inputs[name].reshape(1, 2, -1, SIZE)
        root = np.sqrt(np.mean(heads**2, -1, keepdims=True) + 1e-6)
        apart[name] = (heads / root * weights[weight]).reshape(inputs[name].shape)
    together = decoding(2, 0, [1], 2, **ANGLES, **weights)
    found = []
    for given in (together, apart):
        model, fed = contributed(
            "GroupQueryAttention",
            given,
            constants=("total",),
            num_heads=QUERIES,
            kv_num_heads=GROUPS,
            do_rotary=1,
        )
        found.append(outputs_of(parse_onnx(model), fed))
    assert_close(*found)


def test_one_tensor_may_hold_queries_keys_and_values():
    inputs = decoding(2, 0, [1], 2)
    packed = np.concatenate([inputs[n] for n in ("q", "k", "v")], 2)
    assert_decodes(inputs | {"q": packed, "k": None, "v": None})


def quantized(shape=(1,), dtype=np.int8, **attributes):
    """A cache of 8-bit numbers, with scales of a shape, and the attributes that say so."""
    kind = "PER_TENSOR" if shape == (1,) else "PER_CHANNEL"
    scales = {n: np.abs(floats(*shape, seed=s)) * 0.02 + 0.02 for n, s in (("ks", 9), ("vs", 10))}
    inputs = decoding(1, 8, [4, 6], 7, **scales, **ANGLES)
    for name, scale in (("pk", "ks"), ("pv", "vs")):
        wide = np.broadcast_to(scales[scale].reshape(1, -1, 1, shape[-1]), (1, GROUPS, 1, SIZE))
        codes = np.round(inputs[name] / wide) if dtype == np.int8 else inputs[name] / wide
        inputs[name] = np.clip(codes, -127, 127).astype(dtype)
    forms = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8}
    return inputs, {**forms, "do_rotary": 1, **attributes}


@pytest.mark.parametrize("shape", [(1,), (1, GROUPS, 1, SIZE)])
def test_a_cache_of_int8(shape):
    inputs, attributes = quantized(shape)
    assert_decodes(inputs, np.int8, **attributes)


@pytest.mark.parametrize("shape", [(1,), (1, GROUPS, 1, SIZE)])
def test_a_cache_of_4_bits_has_two_numbers_in_a_byte(shape):
    inputs, attributes = quantized(shape)
    for name in ("pk", "pv"):
        codes = np.clip(inputs[name], -8, 7) + 8
        inputs[name] = (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)
    for name in ("ks", "vs"):
        inputs[name] = inputs[name] * 8  # so that some new entries are out of range, not all
    assert_decodes(inputs, np.uint8, **{**attributes, "kv_cache_bit_width": 4})


@pytest.mark.parametrize("shape", [(1,), (1, GROUPS, 1, SIZE)])
def test_a_cache_of_fp8_is_that_of_floats_rounded(shape):
    dtype = ml_dtypes.float8_e4m3fn
    inputs, attributes = quantized(shape, dtype)
    found = _decoded(inputs, (np.float32, dtype, dtype), attributes)
    plain = dict(inputs)
    for name, scale in (("pk", "ks"), ("pv", "vs")):
        wide = np.broadcast_to(inputs[scale].reshape(1, -1, 1, shape[-1]), (1, GROUPS, 1, SIZE))
        plain[name] = inputs[name].astype(np.float32) * wide
        del plain[scale]
    wanted = _decoded(plain, (np.float32,) * 3, {"do_rotary": 1})
    for number, scale in ((1, "ks"), (2, "vs")):
        wide = np.broadcast_to(inputs[scale].reshape(1, -1, 1, shape[-1]), (1, GROUPS, 1, SIZE))
        codes = (wanted[number] / wide).astype(dtype).astype(np.float32)
        np.testing.assert_allclose(found[number].astype(np.float32), codes, atol=1e-3)
    np.testing.assert_allclose(found[0], wanted[0], atol=0.05)
    assert np.abs(found[0] - wanted[0]).max() > 0  # the new entries are rounded


def _decoded(inputs, types, attributes):
    heads = {"num_heads": QUERIES, "kv_num_heads": GROUPS}
    model, fed = contributed(
        "GroupQueryAttention", inputs, types, ("total",), **heads, **attributes
    )
    return outputs_of(parse_onnx(model), fed)


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        (
            {"kv_cache_bit_width": 4},
            UnsupportedError,
            "of int8; numbers of 4 bits are in uint8",
        ),
        ({"kv_cache_bit_width": 2}, UnsupportedError, "kv_cache_bit_width = 2; 4 and 8 are"),
        ({"k_quant_type": "NONE"}, ModelError, "k_scale for a cache whose k_quant_type is NONE"),
        ({"v_quant_type": "PER_CHANNEL"}, ModelError, "cannot have the shape"),
    ],
)
def test_other_quantized_caches_are_refused(attributes, error, message):
    inputs, forms = quantized(**attributes)
    with pytest.raises(error, match=message):
        _decoded(inputs, (np.float32, np.int8, np.int8), forms)
