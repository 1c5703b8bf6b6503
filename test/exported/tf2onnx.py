"""Functions of TensorFlow, as tf2onnx writes them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tf2onnx

from test.exported.registry import Made, floats, integers, model


def _converted(function, *inputs, dynamic=(), opset: int = 17, **more) -> Made:
    """The function's model; sizes of the axes of `dynamic` are left open in each input."""
    signature = [
        tf.TensorSpec(
            [None if k in dynamic else n for k, n in enumerate(x.shape)], x.dtype, f"x{i}"
        )
        for i, x in enumerate(map(np.asarray, inputs))
    ]
    tf.random.set_seed(0)
    made, _ = tf2onnx.convert.from_function(
        tf.function(function), input_signature=signature, opset=opset, **more
    )
    return made, {f"x{i}": np.asarray(x) for i, x in enumerate(inputs)}


def _weight(*shape: int, seed: int = 9) -> tf.Tensor:
    return tf.constant(floats(*shape, seed=seed) / np.sqrt(shape[0]).astype(np.float32))


@model
def dense() -> Made:
    def call(x):
        return tf.nn.softmax(tf.nn.relu(x @ _weight(8, 16) + 0.1) @ _weight(16, 4))

    return _converted(call, floats(3, 8), dynamic=(0,))


@model
def convolutions() -> Made:
    def call(x):
        y = tf.nn.relu6(tf.nn.conv2d(x, _weight(3, 3, 3, 8), 2, "SAME"))
        y = tf.nn.depthwise_conv2d(y, _weight(3, 3, 8, 1), [1, 1, 1, 1], "VALID")
        y = tf.nn.leaky_relu(tf.nn.conv2d(y, _weight(1, 1, 8, 8), 1, "SAME", dilations=1), 0.3)
        y = tf.nn.max_pool2d(y, 3, 2, "SAME")
        return tf.nn.avg_pool2d(y, 2, 1, "SAME")

    return _converted(call, floats(2, 17, 19, 3), dynamic=(0,))


@model
def convolutions_channels_first() -> Made:
    def call(x):
        return tf.nn.conv2d(x, _weight(3, 3, 3, 8), 2, "SAME")

    return _converted(call, floats(2, 17, 19, 3), inputs_as_nchw=["x0:0"])[0], {
        "x0": floats(2, 3, 17, 19)
    }


@model
def transposed_convolution() -> Made:
    def call(x):
        return tf.nn.conv2d_transpose(x, _weight(3, 3, 4, 8), [2, 16, 14, 4], 2, "SAME")

    return _converted(call, floats(2, 8, 7, 8))


@model
def convolution_3d() -> Made:
    def call(x):
        return tf.nn.max_pool3d(
            tf.nn.conv3d(x, _weight(2, 3, 3, 2, 4), [1] * 5, "SAME"), 2, 2, "SAME"
        )

    return _converted(call, floats(1, 5, 6, 7, 2))


@model
def dilated_by_batches() -> Made:
    def call(x):
        return tf.nn.conv2d(x, _weight(3, 3, 3, 4), 1, "SAME", dilations=2)

    return _converted(call, floats(2, 9, 9, 3))


@model
def resizes() -> Made:
    def call(x):
        return (
            tf.image.resize(x, [9, 13]),
            tf.image.resize(x, [4, 12], method="nearest"),
            tf.compat.v1.image.resize_bilinear(x, [12, 10], align_corners=True),
            tf.compat.v1.image.resize_nearest_neighbor(x, [11, 5]),
        )

    return _converted(call, floats(2, 6, 7, 3))


@model
def resize_by_given_sizes() -> Made:
    def call(x, size):
        return tf.image.resize(x, size)

    return _converted(call, floats(2, 6, 7, 3), np.array([5, 11], np.int32))


@model
def pads() -> Made:
    def call(x):
        edges = [[0, 0], [1, 2], [3, 0]]
        return (
            tf.pad(x, edges, constant_values=1.5),
            tf.pad(x, edges, "REFLECT"),
            tf.pad(x, edges, "SYMMETRIC"),
        )

    return _converted(call, floats(2, 5, 6))


@model
def while_loop() -> Made:
    def call(x):
        def step(i, y):
            return i + 1, tf.tanh(y @ _weight(4, 4)) + tf.cast(i, tf.float32)

        return tf.while_loop(lambda i, y: i < 5, step, (tf.constant(0), x))[1]

    return _converted(call, floats(3, 4))


@model
def while_loop_of_data() -> Made:
    def call(x):
        return tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) > 1.0, lambda y: y * 0.7, (x,))[0]

    return _converted(call, floats(3, 4))


@model
def while_loop_of_a_list() -> Made:
    def call(x):
        rows = tf.TensorArray(tf.float32, 6)
        for i in tf.range(6):
            rows = rows.write(i, tf.sin(x[i]) + tf.cast(i, tf.float32))
        return rows.stack()

    return _converted(call, floats(6, 4))


@model
def cond() -> Made:
    def call(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2 + 1, lambda: tf.exp(-x))

    made, _ = _converted(call, floats(3, 4))
    return made, [{"x0": np.abs(floats(3, 4))}, {"x0": -np.abs(floats(3, 4))}]


@model
def map_of_rows() -> Made:
    return _converted(lambda x: tf.map_fn(lambda r: tf.reduce_max(r) * r, x), floats(5, 4))


@model
def einsums() -> Made:
    def call(x, y):
        return (
            tf.einsum("bij,bjk->bik", x, y),
            tf.einsum("bij,bkj->bki", x, x),
            tf.einsum("bij->ib", x),
            tf.einsum("bij,bjk->", x, y),
        )

    return _converted(call, floats(2, 3, 4), floats(2, 4, 5), dynamic=(0,))


@model
def attention() -> Made:
    def call(x):
        q, k, v = (
            tf.transpose(
                tf.reshape(x @ _weight(16, 16, seed=s), [-1, tf.shape(x)[1], 4, 4]), [0, 2, 1, 3]
            )
            for s in range(3)
        )
        scores = tf.matmul(q, k, transpose_b=True) / 2.0
        size = tf.shape(scores)[-1]
        mask = tf.linalg.band_part(tf.ones([size, size]), -1, 0)
        y = tf.nn.softmax(scores - (1 - mask) * 1e9) @ v
        return tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [-1, size, 16])

    return _converted(call, floats(2, 5, 16), dynamic=(0, 1))


@model
def embedding_and_bag() -> Made:
    def call(tokens):
        rows = tf.nn.embedding_lookup(_weight(20, 8), tokens)
        mask = tf.cast(tokens != 0, tf.float32)[..., None]
        return tf.reduce_sum(rows * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)

    return _converted(call, integers(20, 3, 6, dtype=np.int32), dynamic=(0, 1))


@model
def slices() -> Made:
    def call(x):
        return (
            x[:, ::-1, 1:-1],
            x[..., tf.newaxis, 2],
            x[:, 1::2],
            tf.strided_slice(x, [0, 3, 0], [2, 0, 4], [1, -1, 2]),
            tf.slice(x, [0, 1, 2], [-1, 2, -1]),
            *tf.split(x, [1, 3], 1),
            *tf.unstack(x, axis=2)[:2],
        )

    return _converted(call, floats(2, 4, 5), dynamic=(0,))


@model
def gathers() -> Made:
    def call(x, i):
        wide = tf.stack([i, (i + 1) % 4], -1)
        return (
            tf.gather(x, i, axis=1),
            tf.gather(x, i % 2, axis=1, batch_dims=1),
            tf.gather_nd(x, wide % 2),
            tf.tensor_scatter_nd_update(x, wide[0] % 2, tf.zeros([3, 5])),
            tf.tensor_scatter_nd_add(x, wide[0] % 2, tf.ones([3, 5])),
            tf.one_hot(i, 4, 2.0, -1.0),
        )

    return _converted(call, floats(2, 4, 5), integers(4, 2, 3, dtype=np.int32))


@model
def sorts() -> Made:
    def call(x):
        best, places = tf.math.top_k(x, 3)
        return best, places, tf.argsort(x, 1), tf.sort(x, 0, "DESCENDING"), tf.argmax(x, 1)

    return _converted(call, floats(4, 6))


@model
def sizes_of_data() -> Made:
    def call(x):
        return (
            tf.where(x > 0),
            tf.boolean_mask(x, x > 0.5),
            tf.unique(tf.cast(x * 2, tf.int32)[0])[0],
        )

    return _converted(call, floats(3, 6))


@model
def boxes() -> Made:
    def call(boxes, scores):
        kept = tf.image.non_max_suppression(boxes, scores, 5, 0.4, 0.1)
        return kept, tf.gather(boxes, kept)

    low = np.abs(floats(12, 2))
    corners = np.concatenate([low, low + 1 + np.abs(floats(12, 2, seed=1))], 1)
    return _converted(call, corners, np.abs(floats(12, seed=2)))


@model
def crops() -> Made:
    def call(x, boxes):
        return tf.image.crop_and_resize(x, boxes, [1, 0, 1], [4, 5])

    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [0.3, 0.1, 0.6, 0.5]], np.float32)
    return _converted(call, floats(2, 8, 9, 3), boxes)


@model
def reductions() -> Made:
    def call(x):
        return (
            tf.reduce_logsumexp(x, -1),
            tf.math.reduce_std(x, [0, 2], keepdims=True),
            tf.norm(x, axis=1),
            tf.reduce_prod(x, 0),
            tf.reduce_any(x > 1, 1),
            tf.cumsum(x, 1, exclusive=True, reverse=True),
            tf.math.segment_sum(x[0], [0, 0, 1, 2]),
        )

    return _converted(call, floats(3, 4, 5))


@model
def arithmetic() -> Made:
    def call(x, i):
        return (
            tf.math.floormod(i, 3),
            tf.math.floordiv(i - 5, 2),
            tf.bitwise.left_shift(i, 2),
            tf.math.squared_difference(x, 1.0),
            tf.math.softplus(x),
            tf.nn.gelu(x, True),
            tf.nn.selu(x),
            tf.math.erf(x),
            tf.math.atan2(x, x + 1),
            tf.round(x * 3),
            tf.sign(x),
            tf.exp(x) - 1.0,
            tf.math.is_nan(x),
            tf.clip_by_value(x, -0.5, 0.5),
            tf.math.divide_no_nan(x, tf.nn.relu(x)),
        )

    return _converted(call, floats(3, 5), integers(10, 3, 5, dtype=np.int32))


@model
def rearranged() -> Made:
    def call(x):
        return (
            tf.nn.space_to_depth(x, 2),
            tf.nn.depth_to_space(x, 2),
            tf.reverse(x, [1, 2]),
            tf.roll(x, 2, 1),
            tf.tile(x, [1, 2, 1, 1]),
            tf.repeat(x, 2, 2),
            tf.batch_to_space(x, [2, 1], [[0, 0], [0, 0]]),
            tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
            tf.linalg.band_part(x, 1, 2),
            tf.reverse_sequence(x, [1, 3], seq_axis=1, batch_axis=0),
        )

    return _converted(call, floats(2, 4, 6, 4))


@model
def normalizations() -> Made:
    def call(x):
        mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
        y = tf.nn.batch_normalization(x, mean, variance, _weight(4), _weight(4, seed=3), 1e-3)
        z, _, _ = tf.compat.v1.nn.fused_batch_norm(
            y, _weight(4) + 1.0, _weight(4), _weight(4), tf.abs(_weight(4)) + 0.5, is_training=False
        )
        return y, z, tf.nn.local_response_normalization(x, 2), tf.nn.l2_normalize(x, -1)

    return _converted(call, floats(2, 5, 6, 4))


@model
def spectrum() -> Made:
    return _converted(lambda x: tf.abs(tf.signal.rfft(x)), floats(3, 16))


@model
def opset_9() -> Made:
    def call(x):
        y = tf.nn.relu(tf.nn.conv2d(x, _weight(3, 3, 3, 4), 1, "SAME"))
        return tf.nn.softmax(y), tf.pad(y, [[0, 0], [1, 2], [0, 0], [0, 0]])

    return _converted(call, floats(2, 6, 6, 3), opset=9)


@model
def graph_of_tf1() -> Made:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 3], "x")
        y = tf.nn.bias_add(tf.nn.conv2d(x, _weight(3, 3, 3, 4), 1, "VALID"), _weight(4))
        y = tf.reshape(tf.nn.tanh(y), [-1, 64])
        tf.identity(tf.compat.v1.nn.xw_plus_b(y, _weight(64, 3), _weight(3)), "y")
        definition = graph.as_graph_def()
    made, _ = tf2onnx.convert.from_graph_def(
        definition, input_names=["x:0"], output_names=["y:0"], opset=13
    )
    return made, {"x:0": floats(2, 6, 6, 3)}
