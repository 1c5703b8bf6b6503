"""Models that onnxruntime's optimiser saves at its level "all", in blocks of 8 or 16 channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import channel_blocks, parse_onnx
from test.importer.agreement import assert_close, expected, floats, outputs_of

Array = np.ndarray


def saved(text: str, weights: dict[str, Array], folder: Path) -> tuple[onnx.ModelProto, ...]:
    """A model, and what onnxruntime makes of it."""
    header = '<ir_version: 8, opset_import: ["": 17]>'
    model = parser.parse_model(f"{header} g {text}")
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(folder / "saved.onnx")
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return model, onnx.load(folder / "saved.onnx")


def filters(*shape: int, seed: int = 0) -> Array:
    return floats(*shape, seed=seed) / np.float32(np.sqrt(np.prod(shape[1:])))


NETWORKS = {
    "residual": (
        """(float[2, 3, 12, 12] x) => (float[?, ?, ?, ?] y) {
            a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w0)
            b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
            c = Conv <pads = [1, 1, 1, 1]> (b, w1, b1)
            d = Add (c, b)
            e = Relu (d)
            y = GlobalAveragePool (e)
        }""",
        {
            "w0": filters(24, 3, 3, 3),
            "w1": filters(24, 24, 3, 3, seed=1),
            "b1": floats(24, seed=2),
        },
    ),
    "depthwise": (
        """(float[1, 3, 9, 9] x) => (float[?, ?, ?, ?] y) {
            a = Conv (x, w0)
            b = LeakyRelu <alpha = 0.2> (a)
            c = Conv <group = 32> (b, w1)
            d = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 0, 0], count_include_pad = 1> (c)
            e = Conv <group = 2> (d, w2)
            y = GlobalMaxPool (e)
        }""",
        {
            "w0": filters(32, 3, 3, 3),
            "w1": filters(32, 1, 3, 3, seed=1),
            "w2": filters(32, 16, 1, 1, seed=2),
        },
    ),
    "larger": (
        """(float[1, 3, 6, 6] x) => (float[?, ?, ?, ?] y) {
            a = Conv (x, w0)
            b = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric">
                (a, none, scales)
            c = Concat <axis = 1> (b, b)
            d = Conv (c, w1)
            y = Transpose <perm = [0, 2, 3, 1]> (d)
        }""",
        {
            "w0": filters(16, 3, 3, 3),
            "w1": filters(10, 32, 1, 1, seed=1),
            "none": np.zeros(0, np.float32),
            "scales": np.array([1, 1, 2, 2], np.float32),
        },
    ),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_saved_networks_are_the_networks(network, tmp_path):
    text, weights = NETWORKS[network]
    text = text.replace("?, ?, ?, ?", "n, c, h, w")
    model, optimised = saved(text, weights, tmp_path)
    assert {n.domain for n in optimised.graph.node} >= {channel_blocks.DOMAIN}
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    fed = {"x": floats(*shape)}
    assert_close(outputs_of(parse_onnx(optimised), fed), expected(model, fed))


def in_blocks(w: Array, width: int) -> Array:
    """Filters as MLAS lays them out: blocks of filters and, where they fill one, of channels."""
    count, channels, *window = w.shape
    inner = width if channels >= width else 1
    grown = [(0, -count % width), (0, -channels % inner), (0, 0), (0, 0)]
    w = np.pad(w, grown)
    rows, columns = w.shape[:2]
    apart = w.reshape(rows // width, width, columns // inner, inner, *window)
    return apart.transpose(0, 2, 4, 5, 3, 1).reshape(w.shape)


def blocked(sizes: list[int], width: int) -> tuple[onnx.ModelProto, Array]:
    """Two convolutions of one pixel, in blocks, of so many channels, and their product."""
    first, second, third = sizes
    matrices = [filters(second, first, 1, 1), filters(third, second, 1, 1, seed=1)]
    names = ["x"]
    nodes = []
    for kind, of, options in (
        ("ReorderInput", ["x"], {}),
        ("Conv", ["w0"], {"kernel_shape": [1, 1]}),
        ("Conv", ["w1"], {"kernel_shape": [1, 1]}),
        ("ReorderOutput", [], {"channels": third}),
    ):
        if kind == "ReorderInput" and first < width:
            continue  # an image of few channels is read as it is
        names.append(f"v{len(nodes)}")
        inputs = [names[-2], *(n for n in of if n != "x")]
        nodes.append(
            helper.make_node(kind, inputs, [names[-1]], domain=channel_blocks.DOMAIN, **options)
        )
    infos = [
        helper.make_tensor_value_info("x", 1, [1, first, 2, 2]),
        helper.make_tensor_value_info(names[-1], 1, None),
    ]
    held = [in_blocks(w, width) for w in matrices]
    weights = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(held)]
    graph = helper.make_graph(nodes, "blocked", infos[:1], infos[1:], weights)
    product = matrices[1][:, :, 0, 0] @ matrices[0][:, :, 0, 0]
    return helper.make_model(graph, ir_version=8), product


@pytest.mark.parametrize(
    ("sizes", "width"),
    [
        ([3, 24, 10], 8),
        ([3, 16, 3], 8),
        ([3, 16, 3], 16),
        ([8, 16, 16], 8),
        ([8, 16, 16], 16),
        ([12, 16, 16], 16),
        ([24, 16, 16], 8),
    ],
)
def test_sizes_tell_the_width_of_blocks(sizes, width, caplog):
    model, product = blocked(sizes, width)
    x = floats(1, sizes[0], 2, 2)
    (y,) = outputs_of(parse_onnx(model), {"x": x})
    assert_close([y], [np.einsum("oi,nihw->nohw", product, x)])
    assert not caplog.text


@pytest.mark.parametrize("width", [8, 16])
def test_where_no_size_tells_blocks_are_the_machines(width, caplog, monkeypatch):
    flags = frozenset(("avx", "avx2") if width == 8 else ("avx", "avx512f"))
    monkeypatch.setattr(channel_blocks.host, "machine_flags", lambda: flags)
    model, product = blocked([3, 16, 16], width)
    x = floats(1, 3, 2, 2)
    (y,) = outputs_of(parse_onnx(model), {"x": x})
    assert_close([y], [np.einsum("oi,nihw->nohw", product, x)])
    assert f"in blocks of {width}" in caplog.text


def test_filters_that_fill_no_block_are_refused():
    model, _ = blocked([3, 24, 10], 16)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(filters(12, 3, 1, 1), "w0"))
    with pytest.raises(ModelError, match="12 filters in blocks of 8"):
        parse_onnx(model)
