"""Ops that move elements: concat, gather, pad, resize."""

import pytest

from test.codegen.meaning.cases import Case, between, check


def test_concat_puts_operands_one_after_another() -> None:
    check(
        [
            Case(
                "rows",
                "%a: tensor<1x3xf32>, %b: tensor<2x3xf32>, %c: tensor<4x3xf32>",
                "%y = mgx.concat %a, %b, %c axis = 0 : tensor<1x3xf32>, tensor<2x3xf32>, "
                "tensor<4x3xf32> -> tensor<7x3xf32>",
                "%y: tensor<7x3xf32>",
            ),
            Case(
                "columns",
                "%a: tensor<2x1xi8>, %b: tensor<2x3xi8>",
                "%y = mgx.concat %a, %b axis = 1 "
                ": tensor<2x1xi8>, tensor<2x3xi8> -> tensor<2x4xi8>",
                "%y: tensor<2x4xi8>",
            ),
            Case(
                "of_computed",
                "%a: tensor<2x2xf16>, %b: tensor<2x3xf16>",
                """
          %e = mgx.exp %a : tensor<2x2xf16>
          %c = mgx.concat %e, %b, %a axis = 1
              : tensor<2x2xf16>, tensor<2x3xf16>, tensor<2x2xf16> -> tensor<2x7xf16>
          %y = mgx.relu %c : tensor<2x7xf16>
          """,
                "%y: tensor<2x7xf16>",
            ),
        ]
    )


def gather(name: str, op: str, x: str, i: str, y: str) -> Case:
    return Case(
        name,
        f"%x: tensor<{x}>, %i: tensor<{i}>",
        f"%y = mgx.{op} : tensor<{x}>, tensor<{i}> -> tensor<{y}>",
        f"%y: tensor<{y}>",
        inputs={"%i": between(-4, 4)},
    )


def test_gathers_read_where_indices_say() -> None:
    check(
        [
            gather("rows", "gather %x[%i] axis = 0", "4x3xf32", "2x3xi64", "2x3x3xf32"),
            gather("columns", "gather %x[%i] axis = 1", "3x4xf16", "5xi32", "3x5xf16"),
            gather("scalar", "gather %x[%i] axis = 0", "4x3xi1", "i64", "3xi1"),
            gather("out_of_bounds", "gather %x[%i] axis = 0", "2x3xf32", "6xi64", "6x3xf32"),
            gather("elements", "gather_elements %x[%i] axis = 0", "4x3xf32", "2x3xi64", "2x3xf32"),
            gather(
                "elements_last", "gather_elements %x[%i] axis = 1", "2x4xi64", "2x3xi32", "2x3xi64"
            ),
            gather("nd", "gathernd %x[%i]", "4x4x3xf32", "5x2xi64", "5x3xf32"),
            gather(
                "nd_batch",
                "gathernd %x[%i] {batch_dims = 1 : i64}",
                "2x4x3xf32",
                "2x5x1xi64",
                "2x5x3xf32",
            ),
        ]
    )


def pad(name: str, x: str, low: str, high: str, y: str, attributes: str = "") -> Case:
    return Case(
        name,
        f"%x: tensor<{x}>",
        f"%y = mgx.pad %x low = {low} high = {high} {attributes} : tensor<{x}> -> tensor<{y}>",
        f"%y: tensor<{y}>",
    )


def test_pads_take_elements_by_mode() -> None:
    check(
        [
            pad("constant", "2x3xf32", "[0, 1]", "[1, 2]", "3x6xf32", "{value = 1.5 : f64}"),
            pad("integers", "2x3xi32", "[1, 0]", "[0, 1]", "3x4xi32", "{value = -7.0 : f64}"),
            pad("negative", "4x5xf32", "[-1, 1]", "[0, -2]", "3x4xf32"),
            pad(
                "reflect",
                "4x3xf32",
                "[2, 1]",
                "[3, 2]",
                "9x6xf32",
                "{mode = #mgx<pad_mode reflect>}",
            ),
            pad("reflect_most", "3xf32", "[2]", "[2]", "7xf32", "{mode = #mgx<pad_mode reflect>}"),
            pad("edge", "4x3xf16", "[2, 1]", "[3, 2]", "9x6xf16", "{mode = #mgx<pad_mode edge>}"),
            pad("wrap", "4x3xui8", "[2, 1]", "[5, 2]", "11x6xui8", "{mode = #mgx<pad_mode wrap>}"),
            pad("wrap_negative", "6xf32", "[-2]", "[3]", "7xf32", "{mode = #mgx<pad_mode wrap>}"),
        ]
    )


def resize(name: str, x: str, scales: str, y: str, attributes: str = "", **rest) -> Case:
    return Case(
        name,
        f"%x: tensor<{x}>",
        f"%y = mgx.resize %x scales = {scales} {attributes} : tensor<{x}> -> tensor<{y}>",
        f"%y: tensor<{y}>",
        **rest,
    )


COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_resize_interpolates(coordinates: str) -> None:
    mode = f"coordinate_mode = #mgx<coordinate_mode {coordinates}>"
    linear, cubic = "mode = #mgx<resize_mode linear>", "mode = #mgx<resize_mode cubic>"
    up, down = "[1.0, 1.0, 2.0, 2.5]", "[1.0, 1.0, 0.6, 0.5]"
    nearest = [
        resize(
            f"nearest_{how}_{i}",
            "1x2x5x4xf32",
            scales,
            result,
            f"{{{mode}, nearest_mode = #mgx<nearest_mode {how}>}}",
        )
        for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for i, (scales, result) in enumerate([(up, "1x2x10x10xf32"), (down, "1x2x3x2xf32")])
    ]
    check(
        [
            *nearest,
            resize(
                "linear_up", "1x2x5x4xf32", up, "1x2x10x10xf32", f"{{{mode}, {linear}}}", atol=1e-5
            ),
            resize("linear_down", "1x2x5x4xf16", down, "1x2x3x2xf16", f"{{{mode}, {linear}}}"),
            resize(
                "cubic_up", "1x2x5x4xf32", up, "1x2x10x10xf32", f"{{{mode}, {cubic}}}", atol=1e-5
            ),
            resize(
                "cubic_excluding",
                "1x1x5x4xf32",
                down,
                "1x1x3x2xf32",
                f"{{{mode}, {cubic}, exclude_outside = true, cubic_coeff_a = -0.5 : f32}}",
                atol=1e-5,
            ),
        ]
    )


def test_resize_antialiases_and_crops() -> None:
    linear = "mode = #mgx<resize_mode linear>"
    crop = (
        "coordinate_mode = #mgx<coordinate_mode tf_crop_and_resize>, "
        "extrapolation_value = 9.0 : f32, "
        "roi = array<f32: 0.0, 0.0, -0.2, 0.1, 1.0, 1.0, 0.8, 1.3>"
    )
    check(
        [
            resize(
                "antialias",
                "1x1x8x8xf32",
                "[1.0, 1.0, 0.5, 0.4]",
                "1x1x4x3xf32",
                f"{{{linear}, antialias = true}}",
                atol=1e-5,
            ),
            resize(
                "antialias_cubic",
                "1x1x9x8xf32",
                "[1.0, 1.0, 0.34, 0.5]",
                "1x1x3x4xf32",
                "{mode = #mgx<resize_mode cubic>, antialias = true}",
                atol=1e-5,
            ),
            resize(
                "crop",
                "1x1x5x5xf32",
                "[1.0, 1.0, 1.2, 0.8]",
                "1x1x6x4xf32",
                f"{{{linear}, {crop}}}",
                atol=1e-5,
            ),
            resize(
                "crop_nearest", "1x1x5x5xf32", "[1.0, 1.0, 1.2, 0.8]", "1x1x6x4xf32", f"{{{crop}}}"
            ),
        ]
    )


def test_unpack_gives_the_low_bits_first() -> None:
    check(
        [
            Case(
                name,
                "%x: tensor<3x5xui8>",
                f"%u = mgx.unpack %x : tensor<3x5xui8> -> tensor<3x{count}x{name}>\n"
                f"%y = mgx.convert %u : tensor<3x{count}x{name}> -> tensor<3x{count}xf32>",
                f"%y: tensor<3x{count}xf32>",
            )
            for name, count in (("ui4", 10), ("i4", 10), ("ui2", 20), ("i2", 20), ("f4E2M1FN", 10))
        ]
    )
