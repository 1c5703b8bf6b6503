"""Ops whose rows run one after another inside, in parallel outside."""

from test.codegen.meaning.cases import Case, between, check, values


def same(name: str, type_: str, body: str) -> Case:
    return Case(name, f"%x: {type_}", f"%y = mgx.{body} : {type_}", f"%y: {type_}")


def test_prefix_sums_run_along_the_axis() -> None:
    check(
        [
            same("plain", "tensor<2x5x3xf32>", "prefix_scan_sum %x axis = 1"),
            same("exclusive", "tensor<2x5xi32>", "prefix_scan_sum %x axis = 1 {exclusive = true}"),
            same("reversed", "tensor<5xf16>", "prefix_scan_sum %x axis = 0 {reverse = true}"),
            same(
                "both",
                "tensor<4x3xf64>",
                "prefix_scan_sum %x axis = 0 {exclusive = true, reverse = true}",
            ),
        ]
    )


def test_prefix_products_run_along_the_axis() -> None:
    check(
        [
            same("product", "tensor<2x5x3xf32>", "prefix_scan_prod %x axis = 1"),
            same(
                "product_both",
                "tensor<4x3xi32>",
                "prefix_scan_prod %x axis = 0 {exclusive = true, reverse = true}",
            ),
        ]
    )


def suppress(name: str, threshold: float, most: int) -> Case:
    return Case(
        name,
        "%b: tensor<2x30x4xf32>, %c: tensor<2x30xi1>",
        f"%y = mgx.suppress %b, %c threshold = {threshold} most = {most} "
        ": tensor<2x30x4xf32>, tensor<2x30xi1>",
        "%y: tensor<2x30xi1>",
        inputs={"%b": between(-9, 9)},
    )


def test_boxes_are_kept_in_order() -> None:
    check([suppress("few", 0.1, 3), suppress("all", 0.4, 30), suppress("none", 0.0, 0)])


def topk(
    name: str, source: str, k: int, axis: int, result: str, attributes: str = "", **rest
) -> Case:
    indices = result.rpartition("x")[0] + "xi64"
    return Case(
        name,
        f"%x: tensor<{source}>",
        f"%y, %i = mgx.topk %x k = {k} axis = {axis} {attributes} "
        f": tensor<{source}> -> tensor<{result}>, tensor<{indices}>",
        f"%y: tensor<{result}>, %i: tensor<{indices}>",
        **rest,
    )


def test_topk_sorts_and_prefers_the_lower_index() -> None:
    check(
        [
            topk("largest", "2x9xf32", 3, 1, "2x3xf32"),
            topk("smallest", "9x2xf16", 4, 0, "4x2xf16", "{largest = false}"),
            topk("ties", "3x8xi32", 8, 1, "3x8xi32", inputs={"%x": between(0, 3)}),
            topk("unsigned", "8xui8", 2, 0, "2xui8", inputs={"%x": between(0, 255)}),
            topk("nan", "6xf32", 4, 0, "4xf32", inputs={"%x": values(1, float("nan"), 3, -1)}),
            topk(
                "nan_last",
                "6xf32",
                6,
                0,
                "6xf32",
                "{largest = false}",
                inputs={"%x": values(1, float("nan"), 3, -1)},
            ),
            topk(
                "infinite",
                "6xf32",
                6,
                0,
                "6xf32",
                inputs={"%x": values(float("-inf"), 1, float("inf"), 0, float("-inf"), 2)},
            ),
        ]
    )


def scatter(kind: str, name: str, type_: str = "f32", **rest) -> Case:
    return Case(
        name,
        f"%x: tensor<5x4x{type_}>, %i: tensor<3x2xi64>, %u: tensor<3x2x{type_}>",
        f"%y = mgx.scatter_{kind} %x[%i], %u axis = 0 : tensor<5x4x{type_}>, "
        f"tensor<3x2xi64>, tensor<3x2x{type_}> -> tensor<5x4x{type_}>",
        f"%y: tensor<5x4x{type_}>",
        inputs={"%i": between(-5, 5)},
        **rest,
    )


def scatternd(kind: str, name: str, type_: str = "f32") -> Case:
    return Case(
        name,
        f"%x: tensor<5x4x{type_}>, %i: tensor<3x2x1xi32>, %u: tensor<3x2x4x{type_}>",
        f"%y = mgx.scatternd_{kind} %x[%i], %u : tensor<5x4x{type_}>, "
        f"tensor<3x2x1xi32>, tensor<3x2x4x{type_}> -> tensor<5x4x{type_}>",
        f"%y: tensor<5x4x{type_}>",
        inputs={"%i": between(-5, 5)},
    )


def test_scatters_apply_updates_in_order() -> None:
    kinds = ("none", "add", "mul", "min", "max")
    check(
        [
            *(scatter(kind, f"elements_{kind}") for kind in kinds),
            scatter("add", "half", "f16"),
            scatter("max", "unsigned", "ui8"),
            *(scatternd(kind, f"nd_{kind}") for kind in kinds),
            Case(
                "nd_elements",
                "%x: tensor<3x4xi32>, %i: tensor<5x2xi64>, %u: tensor<5xi32>",
                "%y = mgx.scatternd_none %x[%i], %u "
                ": tensor<3x4xi32>, tensor<5x2xi64>, tensor<5xi32> -> tensor<3x4xi32>",
                "%y: tensor<3x4xi32>",
                inputs={"%i": between(-3, 3)},
            ),
            Case(
                "nd_ones",
                "%x: tensor<6x1x2x1xf16>, %i: tensor<3x3xi64>, %u: tensor<3x1xf16>",
                "%y = mgx.scatternd_add %x[%i], %u : tensor<6x1x2x1xf16>, tensor<3x3xi64>, "
                "tensor<3x1xf16> -> tensor<6x1x2x1xf16>",
                "%y: tensor<6x1x2x1xf16>",
                inputs={"%i": between(-1, 1)},
            ),
            Case(
                "other_axis",
                "%x: tensor<2x6xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>",
                "%y = mgx.scatter_none %x[%i], %u axis = 1 : tensor<2x6xf32>, tensor<2x3xi64>, "
                "tensor<2x3xf32> -> tensor<2x6xf32>",
                "%y: tensor<2x6xf32>",
                inputs={"%i": between(0, 6)},
            ),
        ]
    )


def test_nonzero_fills_the_rest_with_zeros() -> None:
    check(
        [
            Case(
                "nonzero",
                "%x: tensor<3x4xi32>",
                "%y = mgx.nonzero %x : tensor<3x4xi32> -> tensor<2x12xi64>",
                "%y: tensor<2x12xi64>",
                inputs={"%x": between(0, 2)},
            ),
        ]
    )
