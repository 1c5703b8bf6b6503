"""Contractions, pooling and resize against onnxruntime (or onnx's evaluator)."""

import functools

import numpy as np
import pytest

from test.reference.twins import Twin, check_twins, integers


def convolution(
    name: str,
    x: tuple,
    w: tuple,
    pads: list,
    strides: list,
    dilations: list,
    group: int = 1,
    backwards: list | None = None,
) -> Twin:
    extra = f", output_pads = array<i64: {', '.join(map(str, backwards))}>" if backwards else ""
    op = "convolution_backwards" if backwards else "convolution"
    attributes = {"pads": pads, "strides": strides, "dilations": dilations, "group": group}
    if backwards:
        attributes["output_padding"] = backwards
    return Twin(
        name,
        f"{op} %0, %1 pads = {pads} strides = {strides} dilations = {dilations} "
        f"{{group = {group} : i64{extra}}}",
        "ConvTranspose" if backwards else "Conv",
        [x, w],
        attributes,
        rtol=1e-4,
    )


def test_contractions_are_those_of_onnx() -> None:
    check_twins(
        [
            Twin("dot", "dot %0, %1", "MatMul", [(2, 3, 5, 7), (2, 3, 7, 4)], rtol=1e-4),
            Twin(
                "quant_dot",
                "quant_dot %0, %1",
                "MatMulInteger",
                [integers(-99, 99, 5, 7, dtype=np.int8), integers(-99, 99, 7, 4, dtype=np.int8)],
            ),
            Twin(
                "quant_convolution",
                "quant_convolution %0, %1 pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]",
                "ConvInteger",
                [
                    integers(0, 99, 1, 3, 6, 6, dtype=np.uint8),
                    integers(0, 99, 4, 3, 3, 3, dtype=np.uint8),
                ],
            ),
            convolution("plain", (2, 3, 8, 8), (4, 3, 3, 3), [0] * 4, [1, 1], [1, 1]),
            convolution("padded", (1, 3, 8, 8), (4, 3, 3, 3), [1, 1, 1, 2], [2, 1], [1, 1]),
            convolution("dilated", (1, 3, 9, 8), (4, 3, 3, 2), [0] * 4, [1, 1], [2, 2]),
            convolution("grouped", (1, 6, 5, 5), (4, 3, 3, 3), [1] * 4, [1, 1], [1, 1], 2),
            convolution("depthwise", (1, 6, 5, 5), (6, 1, 3, 3), [1] * 4, [1, 1], [1, 1], 6),
            convolution("line", (2, 3, 9), (4, 3, 3), [0, 1], [2], [1]),
            convolution(
                "volume", (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), [0, 1, 1, 0, 1, 1], [1, 1, 2], [1, 1, 1]
            ),
            convolution("back", (1, 3, 4, 4), (3, 4, 3, 3), [0] * 4, [1, 1], [1, 1], 1, [0, 0]),
            convolution(
                "back_strided", (1, 3, 4, 4), (3, 4, 3, 3), [1] * 4, [2, 2], [1, 1], 1, [1, 0]
            ),
            convolution(
                "back_dilated", (1, 2, 4, 4), (2, 3, 3, 2), [0] * 4, [1, 1], [2, 2], 1, [0, 0]
            ),
            convolution(
                "back_grouped", (1, 4, 3, 3), (4, 3, 2, 2), [0] * 4, [2, 2], [1, 1], 2, [0, 0]
            ),
            convolution(
                "back_uneven", (1, 3, 4, 4), (3, 4, 3, 3), [1, 0, 0, 2], [2, 3], [1, 1], 1, [0, 0]
            ),
        ]
    )


GEOMETRIES = [
    ([2, 2], [0, 0, 0, 0], [2, 2], 0),
    ([3, 2], [1, 0, 2, 1], [2, 2], 0),
    ([3, 3], [1, 1, 1, 1], [1, 1], 0),
    ([3, 3], [0, 0, 1, 1], [2, 2], 1),
    ([3, 3], [1, 1, 1, 1], [3, 3], 1),
]


def _pooling(geometry: str, ceil: str, mode: str, more: str = "") -> str:
    return f"pooling {mode} %0 {geometry} {{ceil_mode = {ceil}{more}}}"


def test_pooling_and_lrn_are_those_of_onnx() -> None:
    twins = []
    for i, (lengths, pads, strides, ceil) in enumerate(GEOMETRIES):
        common = {"kernel_shape": lengths, "pads": pads, "strides": strides}
        flag = str(bool(ceil)).lower()

        geometry = f"lengths = {lengths} pads = {pads} strides = {strides} dilations = [1, 1]"
        op = functools.partial(_pooling, geometry, flag)

        shape = (1, 2, 8, 7)
        twins += [
            Twin(f"max{i}", op("max"), "MaxPool", [shape], {**common, "ceil_mode": ceil}),
            Twin(
                f"average{i}", op("average"), "AveragePool", [shape], {**common, "ceil_mode": ceil}
            ),
            Twin(
                f"counted{i}",
                op("average", ", count_include_pad = true"),
                "AveragePool",
                [shape],
                {**common, "ceil_mode": ceil, "count_include_pad": 1},
            ),
            *(
                []
                if ceil
                else [
                    Twin(
                        f"norm{i}",
                        op("lpnorm", ", lp_order = 3 : i64"),
                        "LpPool",
                        [shape],
                        {**common, "p": 3},
                        opset=18,
                    )
                ]
            ),
        ]
    check_twins(
        [
            *twins,
            Twin(
                "dilated",
                "pooling max %0 lengths = [2, 3] pads = [1, 1, 1, 1] strides = [1, 1] "
                "dilations = [4, 3]",
                "MaxPool",
                [(1, 2, 9, 9)],
                {"kernel_shape": [2, 3], "pads": [1] * 4, "dilations": [4, 3]},
            ),
            Twin(
                "lrn",
                "lrn %0 size = 5 {alpha = 0.1 : f32, bias = 2.0 : f32} : tensor<2x7x3x3xf32>",
                "LRN",
                [(2, 7, 3, 3)],
                {"size": 5, "alpha": 0.1, "bias": 2.0},
            ),
            # onnxruntime takes odd sizes only; onnx's evaluator does as many channels as batches.
            Twin(
                "lrn_even",
                "lrn %0 size = 4 {alpha = 0.1 : f32, beta = 0.5 : f32} : tensor<7x7x3x3xf32>",
                "LRN",
                [(7, 7, 3, 3)],
                {"size": 4, "alpha": 0.1, "beta": 0.5},
                reference=True,
            ),
        ]
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_is_that_of_onnx(mode: str) -> None:
    def resize(
        name: str,
        shape: tuple,
        scales: list,
        more: str = "",
        reference: bool = False,
        **attributes: object,
    ) -> Twin:
        text = ", ".join(f"{float(s)}" for s in scales)
        return Twin(
            name,
            f"resize %0 scales = [{text}] {{mode = #mgx<resize_mode {mode}>{more}}}",
            "Resize",
            [shape],
            {"mode": mode, **attributes},
            [None, np.array(scales, np.float32)],
            reference=reference,
            atol=1e-4,
        )

    twins = [
        resize(
            f"{coordinates}{i}",
            (1, 2, 5, 4),
            scales,
            f", coordinate_mode = #mgx<coordinate_mode {coordinates}>"
            f", nearest_mode = #mgx<nearest_mode {nearest}>",
            coordinate_transformation_mode=coordinates,
            nearest_mode=nearest,
        )
        for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
        for nearest in (
            ("round_prefer_floor", "floor") if mode == "nearest" else ("round_prefer_floor",)
        )
        for i, scales in enumerate([[1, 1, 2, 2.5], [1, 1, 0.6, 0.5]])
    ]
    if mode != "nearest":
        twins.append(
            resize(
                "antialias",
                (1, 1, 8, 8),
                [1, 1, 0.5, 0.5],
                ", antialias = true",
                reference=True,
                antialias=1,
            )
        )
    if mode == "cubic":
        twins.append(
            resize(
                "excluding",
                (1, 1, 5, 4),
                [1, 1, 0.8, 0.6],
                ", exclude_outside = true",
                exclude_outside=1,
            )
        )
    check_twins(twins)
