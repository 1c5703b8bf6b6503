"""Pooling and lrn."""

from test.codegen.meaning.cases import Case, between, check, values


def pool(
    name: str,
    mode: str,
    x: str,
    y: str,
    lengths: str,
    pads: str,
    strides: str,
    dilations: str = "[1, 1]",
    attributes: str = "",
    **rest,
) -> Case:
    return Case(
        name,
        f"%x: tensor<{x}>",
        f"%y = mgx.pooling {mode} %x lengths = {lengths} pads = {pads} strides = {strides} "
        f"dilations = {dilations} {attributes} : tensor<{x}> -> tensor<{y}>",
        f"%y: tensor<{y}>",
        **rest,
    )


def geometries(mode: str, type_: str = "f32", attributes: str = "") -> list[Case]:
    t = f"x{type_}"
    return [
        pool(
            f"{mode}_plain_{type_}",
            mode,
            f"2x3x8x8{t}",
            f"2x3x4x4{t}",
            "[2, 2]",
            "[0, 0, 0, 0]",
            "[2, 2]",
            attributes=attributes,
        ),
        pool(
            f"{mode}_padded_{type_}",
            mode,
            f"1x3x8x7{t}",
            f"1x3x5x4{t}",
            "[3, 2]",
            "[1, 0, 2, 1]",
            "[2, 2]",
            attributes=attributes,
        ),
        pool(
            f"{mode}_dilated_{type_}",
            mode,
            f"1x2x9x9{t}",
            f"1x2x7x5{t}",
            "[2, 3]",
            "[1, 1, 1, 1]",
            "[1, 1]",
            "[4, 3]",
            attributes,
        ),
        pool(
            f"{mode}_whole_{type_}",
            mode,
            f"1x3x5x6{t}",
            f"1x3x1x1{t}",
            "[5, 6]",
            "[0, 0, 0, 0]",
            "[1, 1]",
            attributes=attributes,
        ),
        pool(
            f"{mode}_line_{type_}",
            mode,
            f"1x3x9{t}",
            f"1x3x4{t}",
            "[3]",
            "[0, 0]",
            "[2]",
            "[1]",
            attributes,
        ),
        pool(
            f"{mode}_volume_{type_}",
            mode,
            f"1x2x4x4x4{t}",
            f"1x2x2x2x2{t}",
            "[2, 2, 2]",
            "[1, 1, 1, 0, 0, 0]",
            "[2, 2, 2]",
            "[1, 1, 1]",
            attributes,
        ),
    ]


def test_pooling_in_every_geometry() -> None:
    check(
        [
            *geometries("max"),
            *geometries("average"),
            *geometries("lpnorm"),
            *geometries("average", "f16", "{count_include_pad = true}"),
            *geometries("max", "bf16"),
            *geometries("lpnorm", "f64", "{lp_order = 3 : i64}"),
        ]
    )


def test_windows_may_reach_beyond_the_padding_with_ceil_mode() -> None:
    ceil = "{ceil_mode = true}"
    both = "{ceil_mode = true, count_include_pad = true}"
    check(
        [
            pool(
                f"ceil_{mode}_{i}",
                mode,
                "1x2x7x7xf32",
                f"1x2x{y}xf32",
                "[3, 3]",
                pads,
                strides,
                attributes=attributes,
            )
            for mode in ("max", "average", "lpnorm")
            for i, (y, pads, strides, attributes) in enumerate(
                [
                    ("4x4", "[0, 0, 1, 1]", "[2, 2]", ceil),
                    ("3x3", "[1, 1, 1, 1]", "[3, 3]", both),
                    ("3x4", "[0, 1, 0, 1]", "[2, 2]", both),
                ]
            )
        ]
    )


def test_pooling_of_integers_and_of_negative_numbers() -> None:
    check(
        [
            pool(
                "bytes",
                "max",
                "1x2x5x5xui8",
                "1x2x3x3xui8",
                "[3, 3]",
                "[1, 1, 1, 1]",
                "[2, 2]",
                inputs={"%x": between(0, 255)},
            ),
            pool(
                "signed",
                "max",
                "1x2x5x5xi8",
                "1x2x3x3xi8",
                "[3, 3]",
                "[1, 1, 1, 1]",
                "[2, 2]",
                inputs={"%x": between(-128, -5)},
            ),
            pool(
                "byte_means",
                "average",
                "1x2x5x5xui8",
                "1x2x3x3xui8",
                "[3, 3]",
                "[1, 1, 1, 1]",
                "[2, 2]",
                inputs={"%x": between(100, 255)},
            ),
            pool(
                "negative",
                "max",
                "1x2x5x5xf32",
                "1x2x3x3xf32",
                "[3, 3]",
                "[1, 1, 1, 1]",
                "[2, 2]",
                inputs={"%x": between(-9, -1)},
            ),
            pool(
                "byte_floats",
                "max",
                "1x2x5x5xf8E4M3FN",
                "1x2x3x3xf8E4M3FN",
                "[3, 3]",
                "[1, 1, 1, 1]",
                "[2, 2]",
                inputs={"%x": between(-9, -1)},
            ),
            pool(
                "nan",
                "max",
                "1x1x4x4xf32",
                "1x1x2x2xf32",
                "[2, 2]",
                "[0, 0, 0, 0]",
                "[2, 2]",
                inputs={"%x": values(1.0, float("nan"), 3.0, 4.0, 5.0)},
            ),
        ]
    )


def test_lrn_sums_neighbouring_channels() -> None:
    check(
        [
            Case(
                f"lrn_{size}_{t}",
                f"%x: tensor<2x7x3x3x{t}>",
                f"%y = mgx.lrn %x size = {size} {{{attributes}}} : tensor<2x7x3x3x{t}>",
                f"%y: tensor<2x7x3x3x{t}>",
            )
            for size, t, attributes in [
                (5, "f32", "alpha = 0.1 : f32"),
                (4, "f32", "alpha = 2.0 : f32, beta = 0.6 : f32"),
                (3, "f16", "bias = 2.0 : f32, alpha = 0.5 : f32"),
                (19, "f32", "alpha = 1.0 : f32"),
            ]
        ]
    )
