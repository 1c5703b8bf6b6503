"""Reductions and softmax."""

import pytest

from test.codegen.meaning.cases import Case, between, check, values

RESULTS = {"[1]": "3x1x5", "[0, 2]": "1x4x1", "[0, 1, 2]": "1x1x1"}
SHAPE = "3x4x5"


def reduce(op: str, type_: str, axes: str, name: str = "", **rest) -> Case:
    x, y = f"tensor<{SHAPE}x{type_}>", f"tensor<{RESULTS[axes]}x{type_}>"
    kind = "".join(c for c in axes if c.isdigit())
    return Case(
        f"{op}_{type_}_{kind}{name}",
        f"%x: {x}",
        f"%y = mgx.reduce_{op} %x axes = {axes} : {x} -> {y}",
        f"%y: {y}",
        **rest,
    )


@pytest.mark.parametrize("type_", ["f32", "f16", "bf16", "f64", "i32", "ui8", "i64", "f8E4M3FN"])
def test_reductions_keep_dimensions(type_: str) -> None:
    ops = ("sum", "max", "min", "mean", "prod")
    check([reduce(op, type_, axes) for op in ops for axes in RESULTS])


def test_reductions_of_bools_and_of_nan() -> None:
    nans = {"%x": values(1.0, float("nan"), -2.0, 3.0, 4.0, 5.0, 6.0)}
    check(
        [
            *(reduce(op, "i1", axes) for op in ("any", "all") for axes in RESULTS),
            *(reduce(op, "f32", "[1]", "_nan", inputs=nans) for op in ("max", "min", "sum")),
        ]
    )


def test_means_of_bytes_do_not_overflow() -> None:
    check(
        [
            reduce("mean", "ui8", "[0, 2]", "_large", inputs={"%x": between(200, 255)}),
            reduce("mean", "i8", "[0, 2]", "_large", inputs={"%x": between(-128, -100)}),
        ]
    )


def test_half_sums_are_kept_in_f32() -> None:
    check(
        [
            Case(
                "long_sum",
                "%x: tensor<2x4096xf16>",
                "%y = mgx.reduce_sum %x axes = [1] : tensor<2x4096xf16> -> tensor<2x1xf16>",
                "%y: tensor<2x1xf16>",
                {"%x": between(0.0, 2.0)},
            )
        ]
    )


def arg(
    op: str, type_: str, axis: int, result: str, attributes: str = "", name: str = "", **rest
) -> Case:
    x = f"tensor<{SHAPE}x{type_}>"
    return Case(
        f"{op}_{type_}_{axis}{name}",
        f"%x: {x}",
        f"%y = mgx.{op} %x axis = {axis} {attributes} : {x} -> tensor<{result}xi64>",
        f"%y: tensor<{result}xi64>",
        **rest,
    )


def test_argmax_prefers_the_first_or_the_last() -> None:
    few = {"%x": between(0, 3)}
    nans = {"%x": values(1.0, float("nan"), -2.0, 3.0, 4.0, 5.0, float("nan"))}
    check(
        [
            *(arg(op, t, 1, "3x1x5") for op in ("argmax", "argmin") for t in ("f32", "f16", "ui8")),
            arg("argmax", "i32", 2, "3x4x1", name="_ties", inputs=few),
            arg("argmin", "i32", 0, "1x4x5", "{select_last_index = true}", "_last", inputs=few),
            arg("argmax", "f32", 2, "3x4x1", "{select_last_index = true}", "_last"),
            arg("argmax", "f32", 2, "3x4x1", name="_nan", inputs=nans),
            arg("argmin", "f32", 2, "3x4x1", name="_nan", inputs=nans),
            arg("argmax", "f32", 1, "3x1x5", name="_lowest", inputs={"%x": values(float("-inf"))}),
        ]
    )


def softmax(op: str, type_: str, axis: int, name: str = "", **rest) -> Case:
    x = f"tensor<{SHAPE}x{type_}>"
    return Case(
        f"{op}_{type_}_{axis}{name}",
        f"%x: {x}",
        f"%y = mgx.{op} %x axis = {axis} : {x}",
        f"%y: {x}",
        **rest,
    )


def test_softmax_is_stable() -> None:
    ops = ("softmax", "logsoftmax")
    check(
        [
            *(
                softmax(op, t, axis)
                for op in ops
                for t in ("f32", "f16", "bf16", "f64")
                for axis in (0, 2)
            ),
            *(softmax(op, "f32", 1, "_large", inputs={"%x": between(-900, 900)}) for op in ops),
            *(softmax(op, "f16", 1, "_large", inputs={"%x": between(-9000, 9000)}) for op in ops),
        ]
    )


def test_producers_and_consumers_of_a_reduction_are_part_of_it() -> None:
    check(
        [
            Case(
                "root_mean_square",
                "%x: tensor<4x8xf32>",
                """
          %y = mgx.fused_reduce(%x) axes = [1] : (tensor<4x8xf32>) -> tensor<4x1xf32> {
          ^bb0(%a: tensor<4x8xf32>):
            %s = mgx.mul %a, %a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
            %t = mgx.reduce_mean %s axes = [1] : tensor<4x8xf32> -> tensor<4x1xf32>
            %u = mgx.sqrt %t : tensor<4x1xf32>
            mgx.yield %u : tensor<4x1xf32>
          }
          """,
                "%y: tensor<4x1xf32>",
            ),
            Case(
                "softmax_of_transposed",
                "%x: tensor<4x8xf16>",
                """
          %t = mgx.transpose %x permutation = [1, 0] : tensor<4x8xf16> -> tensor<8x4xf16>
          %y = mgx.softmax %t axis = 0 : tensor<8x4xf16>
          """,
                "%y: tensor<8x4xf16>",
            ),
            Case(
                "of_padded",
                "%x: tensor<4x6xf32>",
                """
          %p = mgx.pad %x low = [0, 1] high = [0, 2] {value = 1.0 : f64}
              : tensor<4x6xf32> -> tensor<4x9xf32>
          %y = mgx.reduce_sum %p axes = [1] : tensor<4x9xf32> -> tensor<4x1xf32>
          """,
                "%y: tensor<4x1xf32>",
            ),
        ]
    )
