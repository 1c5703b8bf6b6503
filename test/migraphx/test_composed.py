"""MIGraphX's operators that several ops of mgx compute, against numpy and onnxruntime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UnsupportedError, UsageError

from .test_programs import built, results

RANDOM = np.random.default_rng(0)
TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])


def floats(*lens):
    return RANDOM.standard_normal(lens, np.float32)


def found(name, *arrays, target="ref", **attributes):
    """The operator's result for arrays, all of which are inputs."""
    shapes = [migraphx.argument(np.ascontiguousarray(a)).get_shape() for a in arrays]
    p = built(name, *shapes, **attributes)
    given = {f"x{i}": np.ascontiguousarray(a) for i, a in enumerate(arrays)}
    (made,) = results(p, target, **given)
    assert list(made.shape) == p.get_output_shapes()[0].lens()
    return made


@TARGETS
def test_sizes_are_given_or_taken_from_another_tensor(target):
    x = floats(2, 3)
    wide = found("broadcast_for_dot", x, floats(4, 1, 3, 5), target=target)
    np.testing.assert_array_equal(wide, np.broadcast_to(x, (4, 1, 2, 3)))
    filled = found("fill", np.array([7], np.int32), np.zeros((2, 2), np.int32), target=target)
    assert filled.tolist() == [[7, 7], [7, 7]]
    padded = found("fixed_pad", x, output_lens=[3, 5], target=target)
    np.testing.assert_array_equal(padded, np.pad(x, [(0, 1), (0, 2)]))


@TARGETS
@pytest.mark.parametrize("padding", [[1, 0], [1, 0, 0, 2]])
def test_im2col_makes_a_convolution_a_product(target, padding):
    x, w = floats(1, 3, 6, 7), floats(4, 3, 3, 2)
    window = {"padding": padding, "stride": [2, 1], "dilation": [1, 2]}
    rows = found("im2col", x, w, target=target, **window)
    expected = found("convolution", x, w, **window)[0]
    product = rows @ w.reshape(4, -1).T
    np.testing.assert_allclose(product.T.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


@TARGETS
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_four_bit_numbers_go_into_bytes_and_back(target, axis, kind):
    low, high = (-8, 8) if kind == "int8" else (0, 16)
    x = RANDOM.integers(low, high, (4, 6)).astype(kind)
    packed = found("pack_int4", x, axis=axis, target=target)
    even, odd = (np.take(x.view(np.uint8), range(i, x.shape[axis], 2), axis) for i in (0, 1))
    np.testing.assert_array_equal(packed.view(np.uint8), (even & 15) | (odd << 4))
    np.testing.assert_array_equal(found("unpack_int4", packed, axis=axis, target=target), x)


@TARGETS
@pytest.mark.parametrize("axis", [0, 1])
def test_floats_of_four_bits_go_into_bytes_and_back(target, axis):
    x = floats(4, 6) * 3
    packed = found("pack_fp4", x, axis=axis, target=target)
    assert packed.dtype == np.uint8 and packed.shape[axis] == x.shape[axis] // 2
    back = found("unpack_fp4", packed, axis=axis, target=target)
    np.testing.assert_array_equal(
        back.astype(np.float32), x.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    )


@TARGETS
def test_random_numbers_follow_from_the_seed(target):
    like = np.zeros((64, 64), np.float32)
    one = found("random_uniform", np.array([1]), like, target=target)
    np.testing.assert_array_equal(one, found("random_uniform", np.array([1]), like))
    two = found("random_uniform", np.array([2]), like, target=target)
    for numbers in (one, two):
        assert numbers.min() >= 0 and numbers.max() < 1 and len(np.unique(numbers)) > 4090
        counts, _ = np.histogram(numbers, 16, (0, 1))
        assert counts.min() > 190 and counts.max() < 330  # 256 each, within 4.5 sigma
    pairs = (one, two), (one[:, 1:], one[:, :-1]), (one[1:], one[:-1])
    assert all(abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.06 for a, b in pairs)


LENGTHS = np.array([2, 4, 1], np.int32)


@TARGETS
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_their_own_lengths_are_moved(target, direction):
    directions = 2 if direction == "bidirectional" else 1
    x, y = floats(4, 3, 5), floats(4, directions, 3, 5)
    moved, shifted = np.zeros_like(x), np.zeros_like(y)
    last = np.zeros_like(y[0])
    for row, n in enumerate(LENGTHS):
        moved[4 - n :, row] = x[:n, row]
        for d in range(directions):
            backward = direction == "reverse" or d == 1
            shifted[:n, d, row] = y[4 - n :, d, row] if backward else y[:n, d, row]
            last[d, row] = y[0 if backward else n - 1, d, row]
    run = lambda name, array, **more: found(name, array, LENGTHS, target=target, **more)  # noqa: E731
    np.testing.assert_array_equal(run("rnn_var_sl_shift_sequence", x), moved)
    kind = getattr(migraphx.op.rnn_direction, direction)
    np.testing.assert_array_equal(run("rnn_var_sl_shift_output", y, direction=kind), shifted)
    np.testing.assert_array_equal(run("rnn_var_sl_last_output", y, direction=kind), last)


@TARGETS
def test_scan_slice_takes_an_element_from_either_end(target):
    x, index = floats(2, 5), np.array([1], np.int64)
    for direction, place in ((0, 1), (1, 3)):
        taken = found("scan_slice", x, index, axis=1, direction=direction, target=target)
        np.testing.assert_array_equal(taken, x[:, place : place + 1])


@TARGETS
@pytest.mark.parametrize("steps", [1, 3, 6])
def test_a_cache_takes_new_steps(target, steps):
    present, past = floats(2, 2, steps, 4), floats(2, 2, 6, 4)
    lengths = np.array([[5], [2]], np.int32)
    expected = past.copy()
    for row, n in enumerate(lengths[:, 0] if steps == 1 else (0, 0)):
        expected[row, :, n : n + steps] = present[row]
    cache = found("concat_past_present", present, lengths, past, kv_num_heads=2, target=target)
    np.testing.assert_array_equal(cache, expected)


@TARGETS
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("interleaved", [False, True])
def test_queries_and_keys_turn_by_their_positions(target, steps, interleaved):
    qkv, angles = floats(2, 7, steps, 6), floats(8, 2)
    lengths = np.array([4, 7], np.int32)
    attributes = {"num_heads": 3, "kv_num_heads": 2, "interleaved": interleaved}
    caches = np.cos(angles), np.sin(angles)
    made = found("gqa_rotary_embedding", qkv, lengths, *caches, target=target, **attributes)
    expected = qkv.copy()
    pairs = [(0, 1), (2, 3)] if interleaved else [(0, 2), (1, 3)]
    for row, step in np.ndindex(2, steps):
        turn = angles[lengths[row] if steps == 1 else step]
        for (i, j), angle in zip(pairs, turn, strict=True):
            number = (qkv[row, :5, step, i] + 1j * qkv[row, :5, step, j]) * np.exp(1j * angle)
            expected[row, :5, step, i], expected[row, :5, step, j] = number.real, number.imag
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


@TARGETS
@pytest.mark.parametrize(("classes", "centred"), [(1, 0), (2, 1)])
def test_boxes_fill_rows_and_zeros_follow(target, classes, centred):
    import onnxruntime

    corners = np.sort(RANDOM.random((2, 8, 2, 2), np.float32), 2)
    boxes, scores = corners.reshape(2, 8, 4), RANDOM.random((2, classes, 8), np.float32)
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[2, 8, 4] b, float[2, {classes}, 8] s) => (int64[n, 3] y)
        <int64 most = {{3}}, float iou = {{0.3}}, float least = {{0.2}}> {{
        y = NonMaxSuppression<center_point_box = {centred}>(b, s, most, iou, least) }}"""
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    (expected,) = session.run(None, {"b": boxes, "s": scores})
    p = migraphx.program()
    m = p.get_main_module()
    given = [m.add_parameter(n, migraphx.argument(a).get_shape())
             for n, a in (("b", boxes), ("s", scores))]  # fmt: skip
    limits = [m.add_literal(a) for a in (np.array([3]), np.float32([0.3]), np.float32([0.2]))]
    operator = migraphx.op("nonmaxsuppression", center_point_box=bool(centred))
    m.add_return([m.add_instruction(operator, [*given, *limits])])
    assert p.get_output_shapes()[0].lens() == [16, 3]
    (rows,) = results(p, target, b=boxes, s=scores)
    assert 0 < len(expected) < 16
    np.testing.assert_array_equal(rows, np.pad(expected, [(0, 16 - len(expected)), (0, 0)]))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: migraphx.op("unique"), "the data decide its size"),
        (lambda: migraphx.op("random_seed"), "pass the seed of random_uniform"),
        (lambda: found("pack_int4", np.zeros((2, 3), np.int8)), "3 elements"),
        (lambda: found("im2col", floats(2, 1, 3, 3), floats(1, 1, 2, 2)), "one image"),
        (lambda: found("random_uniform", np.array([1]), np.zeros(2, np.int32)), "makes floats"),
        (lambda: found("fixed_pad", floats(2, 3), output_lens=[1, 3]), "fixed_pad"),
        (lambda: found("nonmaxsuppression", floats(1, 2, 4), floats(1, 1, 2), use_dyn_output=1),
         "known sizes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(act, said):
    with pytest.raises(UsageError, match=said):
        act()


def test_files_of_tensorflow_are_refused():
    with pytest.raises(UnsupportedError, match=r"model.pb: .* export the model to ONNX"):
        migraphx.parse_tf("model.pb", is_nhwc=True)
