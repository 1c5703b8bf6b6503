"""Matrix products and convolutions."""

import pytest

from test.codegen.meaning.cases import Case, check


def dot(name: str, a: str, b: str, c: str, op: str = "dot") -> Case:
    return Case(
        name,
        f"%a: tensor<{a}>, %b: tensor<{b}>",
        f"%c = mgx.{op} %a, %b : tensor<{a}>, tensor<{b}> -> tensor<{c}>",
        f"%c: tensor<{c}>",
    )


def test_dot_sums_over_the_common_dimension() -> None:
    check(
        [
            dot("plain", "5x7xf32", "7x3xf32", "5x3xf32"),
            dot("batched", "2x3x5x7xf32", "2x3x7x3xf32", "2x3x5x3xf32"),
            dot("half", "5x64xf16", "64x3xf16", "5x3xf16"),
            dot("brain", "5x64xbf16", "64x3xbf16", "5x3xbf16"),
            dot("double", "5x7xf64", "7x3xf64", "5x3xf64"),
            dot("integers", "5x7xi32", "7x3xi32", "5x3xi32"),
            dot("vector", "1x7xf32", "7x1xf32", "1x1xf32"),
            dot("quantized", "5x7xi8", "7x3xi8", "5x3xi32", "quant_dot"),
            dot("unsigned", "5x7xui8", "7x3xui8", "5x3xi32", "quant_dot"),
            dot("byte_floats", "5x7xf8E4M3FN", "7x3xf8E4M3FN", "5x3xf32", "quant_dot"),
            Case(
                "with_views_and_epilogue",
                "%a: tensor<7x2x5xf32>, %b: tensor<3x7xf16>, %z: tensor<3xf32>",
                """
          %t = mgx.transpose %a permutation = [1, 2, 0] : tensor<7x2x5xf32> -> tensor<2x5x7xf32>
          %u = mgx.transpose %b permutation = [1, 0] : tensor<3x7xf16> -> tensor<7x3xf16>
          %w = mgx.convert %u : tensor<7x3xf16> -> tensor<7x3xf32>
          %v = mgx.multibroadcast %w : tensor<7x3xf32> -> tensor<2x7x3xf32>
          %c = mgx.dot %t, %v : tensor<2x5x7xf32>, tensor<2x7x3xf32> -> tensor<2x5x3xf32>
          %s = mgx.multibroadcast %z : tensor<3xf32> -> tensor<2x5x3xf32>
          %y = mgx.pointwise(%c, %s) : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
          ^bb0(%p: f32, %q: f32):
            %k = mgx.add %p, %q : f32, f32 -> f32
            %r = mgx.relu %k : f32
            mgx.yield %r : f32
          }
          """,
                "%y: tensor<2x5x3xf32>",
            ),
        ]
    )


def conv(
    name: str,
    x: str,
    w: str,
    y: str,
    pads: str,
    strides: str,
    dilations: str,
    group: int = 1,
    op: str = "convolution",
    extra: str = "",
) -> Case:
    attributes = ", ".join(filter(None, [f"group = {group} : i64", extra]))
    return Case(
        name,
        f"%x: tensor<{x}>, %w: tensor<{w}>",
        f"%y = mgx.{op} %x, %w pads = {pads} strides = {strides} dilations = {dilations} "
        f"{{{attributes}}} : tensor<{x}>, tensor<{w}> -> tensor<{y}>",
        f"%y: tensor<{y}>",
    )


def test_convolution_in_every_geometry() -> None:
    check(
        [
            conv(
                "plain",
                "2x3x8x8xf32",
                "4x3x3x3xf32",
                "2x4x6x6xf32",
                "[0, 0, 0, 0]",
                "[1, 1]",
                "[1, 1]",
            ),
            conv(
                "padded",
                "1x3x8x8xf32",
                "4x3x3x3xf32",
                "1x4x4x9xf32",
                "[1, 1, 1, 2]",
                "[2, 1]",
                "[1, 1]",
            ),
            conv(
                "dilated",
                "1x3x9x8xf32",
                "4x3x3x2xf32",
                "1x4x5x6xf32",
                "[0, 0, 0, 0]",
                "[1, 1]",
                "[2, 2]",
            ),
            conv(
                "grouped",
                "1x6x5x5xf32",
                "4x3x3x3xf32",
                "1x4x5x5xf32",
                "[1, 1, 1, 1]",
                "[1, 1]",
                "[1, 1]",
                2,
            ),
            conv(
                "depthwise",
                "1x6x5x5xf32",
                "6x1x3x3xf32",
                "1x6x5x5xf32",
                "[1, 1, 1, 1]",
                "[1, 1]",
                "[1, 1]",
                6,
            ),
            conv(
                "multiplied",
                "1x3x5x5xf32",
                "6x1x3x3xf32",
                "1x6x5x5xf32",
                "[1, 1, 1, 1]",
                "[1, 1]",
                "[1, 1]",
                3,
            ),
            conv(
                "pointwise",
                "1x6x5x5xf32",
                "4x6x1x1xf32",
                "1x4x3x3xf32",
                "[0, 0, 0, 0]",
                "[2, 2]",
                "[1, 1]",
            ),
            conv("line", "2x3x9xf32", "4x3x3xf32", "2x4x4xf32", "[0, 1]", "[2]", "[1]"),
            conv(
                "volume",
                "1x2x4x5x6xf32",
                "3x2x2x3x3xf32",
                "1x3x3x5x3xf32",
                "[0, 1, 1, 0, 1, 1]",
                "[1, 1, 2]",
                "[1, 1, 1]",
            ),
            conv(
                "half",
                "1x16x6x6xf16",
                "4x16x3x3xf16",
                "1x4x6x6xf16",
                "[1, 1, 1, 1]",
                "[1, 1]",
                "[1, 1]",
            ),
            conv(
                "quantized",
                "1x3x6x6xi8",
                "4x3x3x3xi8",
                "1x4x6x6xi32",
                "[1, 1, 1, 1]",
                "[1, 1]",
                "[1, 1]",
                op="quant_convolution",
            ),
            conv(
                "unsigned",
                "1x3x6x6xui8",
                "4x3x3x3xui8",
                "1x4x4x4xi32",
                "[0, 0, 0, 0]",
                "[1, 1]",
                "[1, 1]",
                op="quant_convolution",
            ),
        ]
    )


def back(
    name: str,
    x: str,
    w: str,
    y: str,
    pads: str,
    strides: str,
    dilations: str,
    output_pads: str,
    group: int = 1,
) -> Case:
    return conv(
        name,
        x,
        w,
        y,
        pads,
        strides,
        dilations,
        group,
        "convolution_backwards",
        f"output_pads = array<i64: {output_pads}>",
    )


def test_transposed_convolution_gathers_what_reaches_each_element() -> None:
    check(
        [
            back(
                "plain",
                "1x3x4x4xf32",
                "3x4x3x3xf32",
                "1x4x6x6xf32",
                "[0, 0, 0, 0]",
                "[1, 1]",
                "[1, 1]",
                "0, 0",
            ),
            back(
                "strided",
                "1x3x4x4xf32",
                "3x4x2x2xf32",
                "1x4x8x8xf32",
                "[0, 0, 0, 0]",
                "[2, 2]",
                "[1, 1]",
                "0, 0",
            ),
            back(
                "padded",
                "1x3x4x4xf32",
                "3x4x3x3xf32",
                "1x4x8x7xf32",
                "[1, 1, 1, 1]",
                "[2, 2]",
                "[1, 1]",
                "1, 0",
            ),
            back(
                "uneven",
                "1x3x4x4xf32",
                "3x4x3x3xf32",
                "1x4x8x12xf32",
                "[1, 0, 0, 0]",
                "[2, 3]",
                "[1, 1]",
                "0, 0",
            ),
            back(
                "dilated",
                "1x2x4x4xf32",
                "2x3x3x2xf32",
                "1x3x8x6xf32",
                "[0, 0, 0, 0]",
                "[1, 1]",
                "[2, 2]",
                "0, 0",
            ),
            back(
                "grouped",
                "1x4x3x3xf32",
                "4x3x2x2xf32",
                "1x6x6x6xf32",
                "[0, 0, 0, 0]",
                "[2, 2]",
                "[1, 1]",
                "0, 0",
                2,
            ),
            back("line", "2x3x5xf16", "3x2x4xf16", "2x2x10xf16", "[1, 1]", "[2]", "[1]", "0"),
        ]
    )


@pytest.mark.parametrize("type_", ["f32", "f16"])
def test_convolution_takes_an_epilogue(type_: str) -> None:
    check(
        [
            Case(
                "epilogue",
                f"%x: tensor<1x3x6x6x{type_}>, %w: tensor<4x3x3x3x{type_}>, %b: tensor<4x{type_}>",
                f"""
          %c = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
              : tensor<1x3x6x6x{type_}>, tensor<4x3x3x3x{type_}> -> tensor<1x4x6x6x{type_}>
          %s = mgx.broadcast %b axis = 1 : tensor<4x{type_}> -> tensor<1x4x6x6x{type_}>
          %y = mgx.pointwise(%c, %s) : (tensor<1x4x6x6x{type_}>, tensor<1x4x6x6x{type_}>)
              -> tensor<1x4x6x6x{type_}> {{
          ^bb0(%p: {type_}, %q: {type_}):
            %k = mgx.add %p, %q : {type_}, {type_} -> {type_}
            %r = mgx.relu %k : {type_}
            mgx.yield %r : {type_}
          }}
          """,
                f"%y: tensor<1x4x6x6x{type_}>",
            )
        ]
    )
