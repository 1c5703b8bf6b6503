"""Pointwise ops, for every element type that they take."""

import pytest

from test.codegen.meaning.cases import Case, Fill, between, check, values

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
FLOATS = ("f16", "bf16", "f32", "f64")
BYTES = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
SPECIAL = values(0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 0.25, -3.0, 2.5)

DOMAIN = {
    "acos": between(-1, 1),
    "acosh": between(1, 9),
    "asin": between(-1, 1),
    "atanh": between(-0.9, 0.9),
    "log": between(0.01, 9),
    "log1p": between(-0.9, 9),
    "log2": between(0.01, 9),
    "rsqrt": between(0.01, 9),
    "sqrt": between(0, 9),
}


def unary(op: str, type_: str, fill: Fill | None = None, name: str = "", **rest) -> Case:
    inputs = {"%x": fill or DOMAIN[op]} if fill or op in DOMAIN else {}
    return Case(
        f"{op}_{type_}{name}",
        f"%x: tensor<3x5x{type_}>",
        f"%y = mgx.{op} %x : tensor<3x5x{type_}>",
        f"%y: tensor<3x5x{type_}>",
        inputs,
        **rest,
    )


def binary(op: str, type_: str, result: str | None = None, name: str = "", **inputs) -> Case:
    t, r = f"tensor<3x5x{type_}>", f"tensor<3x5x{result or type_}>"
    return Case(
        f"{op}_{type_}{name}",
        f"%a: {t}, %b: {t}",
        f"%y = mgx.{op} %a, %b : {t}, {t} -> {r}",
        f"%y: {r}",
        {"%" + k: v for k, v in inputs.items()},
    )


def convert(
    source: str, target: str, fill: Fill | None = None, name: str = "", attributes: str = ""
) -> Case:
    return Case(
        f"convert_{source}_{target}{name}",
        f"%x: tensor<11x{source}>",
        f"%y = mgx.convert %x {attributes} : tensor<11x{source}> -> tensor<11x{target}>",
        f"%y: tensor<11x{target}>",
        {"%x": fill} if fill else {},
    )


FUNCTIONS = (
    "acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log log1p log2 nearbyint recip "
    "rsqrt sigmoid sin sinh sqrt tan tanh elu leaky_relu"
).split()


@pytest.mark.parametrize("type_", FLOATS)
def test_functions_of_floats(type_: str) -> None:
    check([unary(op, type_) for op in (*FUNCTIONS, "abs", "neg", "relu", "sign")])


@pytest.mark.parametrize("type_", ("f32", "f64"))
def test_functions_of_large_numbers(type_: str) -> None:
    check(
        [
            unary("asinh", type_, values(1e-4, -1.0, -1e4, 1e10, -3e38)),
            unary("acosh", type_, values(1.0, 1.001, 1e4, 1e10, 3e38)),
        ]
    )


def test_functions_keep_nan_and_infinity() -> None:
    ops = (
        "abs",
        "neg",
        "relu",
        "sign",
        "sigmoid",
        "tanh",
        "exp",
        "floor",
        "nearbyint",
        "erf",
        "leaky_relu",
        "sqrt",
        "log",
    )
    predicates = [
        Case(
            f"{op}{i}",
            "%x: tensor<10xf32>",
            f"%y = mgx.{op} %x {attributes} : tensor<10xf32> -> tensor<10xi1>",
            "%y: tensor<10xi1>",
            {"%x": SPECIAL},
        )
        for i, (op, attributes) in enumerate(
            [
                ("isnan", ""),
                ("isinf", ""),
                ("isinf", "{detect_negative = false}"),
                ("isinf", "{detect_positive = false}"),
            ]
        )
    ]
    check([*(unary(op, "f32", SPECIAL) for op in ops), *predicates])


@pytest.mark.parametrize("types", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
def test_integers(types: tuple[str, ...]) -> None:
    binaries = (
        "add",
        "sub",
        "mul",
        "div",
        "fmod",
        "mod",
        "max",
        "min",
        "sqdiff",
        "prelu",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    )
    check(
        [
            *(unary(op, t) for t in types for op in ("abs", "neg", "relu", "sign", "bitwise_not")),
            *(binary(op, t) for t in types for op in binaries),
            *(binary("pow", t, b=between(0, 5)) for t in types),
            *(
                binary(op, t, b=between(0, 8))
                for t in types
                for op in ("shift_left", "shift_right")
            ),
            *(binary(op, t, "i1") for t in types for op in ("equal", "greater", "less")),
        ]
    )


def test_integer_edges_are_defined() -> None:
    lowest = values(-128, 127, 5, -7)
    check(
        [
            binary("div", "i8", a=lowest, b=values(-1, 0, -2, 3)),
            binary("mod", "i8", a=lowest, b=values(-1, 0, -2, 3)),
            binary("fmod", "i8", a=lowest, b=values(-1, 0, -2, 3)),
            binary("shift_right", "i8", a=lowest, b=values(9, 100, 8, 1)),
            binary("shift_left", "ui8", a=values(255, 3), b=values(8, 1, 200)),
            binary("pow", "i32", a=values(2, -1, 1, 3, -2), b=values(-1, -3, -2, 19, 31)),
            unary("abs", "i8", lowest),
        ]
    )


@pytest.mark.parametrize("type_", FLOATS)
def test_binary_ops_of_floats(type_: str) -> None:
    ops = ("add", "sub", "mul", "div", "fmod", "mod", "max", "min", "sqdiff", "prelu")
    check(
        [
            *(binary(op, type_) for op in ops),
            binary("pow", type_, a=between(0.1, 4), b=between(-3, 3)),
            binary(
                "pow",
                type_,
                name="_of_negative",
                a=values(-2, -2, -2, -1, -0.5, -3, 0, 0),
                b=values(2, 3, -1, 7, 0, 0.5, 0, 2),
            ),
            *(
                binary(op, type_, "i1", a=values(1, 2, float("nan")), b=values(1, 1.5, 3))
                for op in ("equal", "greater", "less")
            ),
            *(
                binary(op, type_, name="_nan", a=SPECIAL, b=values(float("nan"), 1.0, -1.0))
                for op in ("max", "min")
            ),
        ]
    )


def test_bools_where_and_clip() -> None:
    check(
        [
            *(binary(f"logical_{op}", "i1") for op in ("and", "or", "xor")),
            binary("equal", "i1"),
            binary("bitwise_xor", "i1"),
            unary("not", "i1"),
            *(
                Case(
                    f"where_{t}",
                    f"%c: tensor<9xi1>, %a: tensor<9x{t}>, %b: tensor<9x{t}>",
                    f"%y = mgx.where %c, %a, %b : tensor<9xi1>, tensor<9x{t}>, tensor<9x{t}> "
                    f"-> tensor<9x{t}>",
                    f"%y: tensor<9x{t}>",
                )
                for t in ("f32", "bf16", "ui8", "i1", "f8E4M3FN", "i4")
            ),
            *(
                Case(
                    f"clip_{t}",
                    f"%x: tensor<9x{t}>, %a: tensor<9x{t}>, %b: tensor<9x{t}>",
                    f"%y = mgx.clip %x, %a, %b : tensor<9x{t}>, tensor<9x{t}>, tensor<9x{t}> "
                    f"-> tensor<9x{t}>",
                    f"%y: tensor<9x{t}>",
                    {"%x": between(0, 9), "%a": between(2, 4), "%b": between(5, 7)},
                )
                for t in ("f32", "f16", "i32", "ui8")
            ),
        ]
    )


def test_byte_floats_are_computed_in_f32() -> None:
    check(
        [
            *(binary(op, t) for t in BYTES for op in ("add", "mul", "max", "div")),
            *(unary(op, t) for t in BYTES for op in ("tanh", "relu", "neg")),
            *(binary("less", t, "i1") for t in BYTES),
            binary("add", "f4E2M1FN"),
            binary("add", "i4"),
            binary("mul", "ui4"),
            unary("neg", "i4"),
        ]
    )


def test_convert_between_floats() -> None:
    wide = values(0.1, -3.7, 65504.0, 7e4, 1e-8, 3e-6, float("inf"), float("-inf"), 1.0, 240.0, 449)
    check(
        [
            *(convert(s, t, wide) for s in FLOATS for t in FLOATS if s != t),
            *(convert("f32", t, wide) for t in (*BYTES, "f4E2M1FN")),
            *(convert("f32", t, wide, "_wrapping", "{saturate = false}") for t in BYTES),
            *(convert("f16", t) for t in BYTES),
            *(convert(t, "f32") for t in (*BYTES, "f4E2M1FN")),
            *(convert(t, "bf16") for t in BYTES),
            *(
                convert("f32", t, values(float("nan"), 2.0, -0.0), "_nan")
                for t in (*BYTES, "f16", "bf16")
            ),
            convert("f8E8M0FNU", "f32", between(0.01, 64)),
            convert("f32", "f8E8M0FNU", between(0.1, 64)),
        ]
    )


def test_a_conversion_there_and_back_rounds() -> None:
    def there_and_back(wide: str, narrow: str) -> Case:
        return Case(
            f"{wide}_{narrow}",
            f"%x: tensor<11x{wide}>",
            f"%n = mgx.convert %x : tensor<11x{wide}> -> tensor<11x{narrow}>\n"
            f"%y = mgx.convert %n : tensor<11x{narrow}> -> tensor<11x{wide}>",
            f"%y: tensor<11x{wide}>",
            rtol=1e-12,
            atol=1e-12,
        )

    check(
        [there_and_back("f32", t) for t in ("f16", "bf16", "f8E5M2")]
        + [there_and_back("f64", t) for t in ("f32", "f16")]
    )


def test_convert_of_integers_and_bools() -> None:
    integers = (*SIGNED, *UNSIGNED)
    beyond = values(0.5, -0.5, 3.7, -3.7, 300.0, -300.0, 3e9, -3e9, 1e20, -1e20, float("nan"))
    check(
        [
            *(convert(s, t) for s in integers for t in integers if s != t),
            *(convert(t, f) for t in integers for f in ("f16", "bf16", "f32", "f64", "f8E4M3FN")),
            *(convert("f32", t, beyond) for t in (*integers, "i4", "ui4")),
            *(convert("f64", t, beyond) for t in ("i8", "i32", "i64", "ui64")),
            *(convert("f16", t) for t in ("i8", "ui8", "i64")),
            *(convert(t, "i1") for t in ("i32", "ui8", "f16")),
            convert("f32", "i1", values(0.0, -0.0, 0.1, float("nan"))),
            *(convert("i1", t) for t in ("i8", "ui32", "f32", "f16", "f8E5M2")),
            *(convert(s, t) for s in ("i4", "ui4") for t in ("i8", "i32", "f32", "ui8")),
            *(convert(s, t) for s in ("i32", "ui8", "i8") for t in ("i4", "ui4")),
        ]
    )


def test_bit_cast_keeps_the_bits() -> None:
    check(
        [
            Case(
                f"bits_{s}_{t}",
                f"%x: tensor<6x{s}>",
                f"%y = mgx.bit_cast %x : tensor<6x{s}> -> tensor<6x{t}>",
                f"%y: tensor<6x{t}>",
            )
            for s, t in [
                ("f32", "i32"),
                ("i32", "f32"),
                ("f16", "i16"),
                ("ui8", "i8"),
                ("f8E4M3FN", "ui8"),
                ("i64", "f64"),
                ("bf16", "f16"),
            ]
        ]
    )


def test_quantizing_divides_in_the_precision_asked_for() -> None:
    # 3001 / 2 is 1500.5 in f32, 1500 in f16 (spaced by 1 there), 1504 in bf16 (by 8).
    check(
        [
            Case(
                f"quantize_{x}_in_{precision}",
                f"%x: tensor<9x{x}>, %s: tensor<9x{x}>",
                f"%y = mgx.quantizelinear %x scale %s {{precision = {precision}}} "
                f": tensor<9x{x}>, tensor<9x{x}> -> tensor<9xi16>",
                "%y: tensor<9xi16>",
                {"%x": values(3001, -3001, 1001.5, 0.25, 70000, 3, 7, -0.3, 1.7), "%s": values(2)},
            )
            for x in ("f32", "f64")
            for precision in ("f16", "bf16", "f32", "f64")
        ]
    )


def test_quantizing_rounds_to_even_and_saturates() -> None:
    def quantize(x: str, t: str, zero: bool) -> Case:
        extra = (f", %z: tensor<9x{t}>", "zero_point %z", f", tensor<9x{t}>") if zero else ("",) * 3
        return Case(
            f"quantize_{x}_{t}_{int(zero)}",
            f"%x: tensor<9x{x}>, %s: tensor<9xf32>{extra[0]}",
            f"%y = mgx.quantizelinear %x scale %s {extra[1]} : tensor<9x{x}>, tensor<9xf32>"
            f"{extra[2]} -> tensor<9x{t}>",
            f"%y: tensor<9x{t}>",
            {
                "%x": values(0.25, 0.75, -3.0, 100.0, -100.0, 1.3, 3, 7, -0.25),
                "%s": values(0.5),
                "%z": values(0 if t.startswith("f8") else 3),
            },
        )

    def dequantize(t: str, y: str, zero: bool) -> Case:
        extra = (f", %z: tensor<9x{t}>", "zero_point %z", f", tensor<9x{t}>") if zero else ("",) * 3
        return Case(
            f"dequantize_{t}_{y}_{int(zero)}",
            f"%x: tensor<9x{t}>, %s: tensor<9x{y}>{extra[0]}",
            f"%y = mgx.dequantizelinear %x scale %s {extra[1]} : tensor<9x{t}>, "
            f"tensor<9x{y}>{extra[2]} -> tensor<9x{y}>",
            f"%y: tensor<9x{y}>",
        )

    check(
        [
            *(
                quantize("f32", t, zero)
                for t in ("i8", "ui8", "i16", "i4", "ui4")
                for zero in (False, True)
            ),
            quantize("f32", "f8E4M3FN", True),
            quantize("f16", "ui8", True),
            quantize("i32", "i8", False),
            *(
                dequantize(t, "f32", zero)
                for t in ("i8", "ui8", "i32", "i4")
                for zero in (False, True)
            ),
            dequantize("f8E4M3FN", "f32", False),
            dequantize("i8", "f16", True),
        ]
    )


def test_regions_become_one_loop_nest() -> None:
    check(
        [
            Case(
                "pointwise",
                "%x: tensor<4x5xf32>, %b: tensor<5xf32>",
                """
          %c = mgx.multibroadcast %b : tensor<5xf32> -> tensor<4x5xf32>
          %y, %z = mgx.pointwise(%x, %c) : (tensor<4x5xf32>, tensor<4x5xf32>)
              -> (tensor<4x5xf32>, tensor<4x5xi1>) {
          ^bb0(%p: f32, %q: f32):
            %k = mgx.constant 0.5 : f32
            %s = mgx.add %p, %q : f32, f32 -> f32
            %t = mgx.mul %s, %k : f32, f32 -> f32
            %u = mgx.erf %t : f32
            %g = mgx.greater %u, %k : f32, f32 -> i1
            mgx.yield %u, %g : f32, i1
          }
          """,
                "%y: tensor<4x5xf32>, %z: tensor<4x5xi1>",
            ),
            Case(
                "layernorm",
                "%x: tensor<4x32xf16>, %w: tensor<32xf16>",
                """
          %c = mgx.multibroadcast %w : tensor<32xf16> -> tensor<4x32xf16>
          %y = mgx.fused_reduce(%x, %c) axes = [1]
              : (tensor<4x32xf16>, tensor<4x32xf16>) -> tensor<4x32xf16> {
          ^bb0(%a: tensor<4x32xf16>, %g: tensor<4x32xf16>):
            %m = mgx.reduce_mean %a axes = [1] : tensor<4x32xf16> -> tensor<4x1xf16>
            %mb = mgx.multibroadcast %m : tensor<4x1xf16> -> tensor<4x32xf16>
            %d = mgx.sqdiff %a, %mb : tensor<4x32xf16>, tensor<4x32xf16> -> tensor<4x32xf16>
            %v = mgx.reduce_mean %d axes = [1] : tensor<4x32xf16> -> tensor<4x1xf16>
            %e = mgx.constant dense<1.0e-3> : tensor<4x1xf16>
            %s = mgx.add %v, %e : tensor<4x1xf16>, tensor<4x1xf16> -> tensor<4x1xf16>
            %r = mgx.rsqrt %s : tensor<4x1xf16>
            %rb = mgx.multibroadcast %r : tensor<4x1xf16> -> tensor<4x32xf16>
            %c0 = mgx.sub %a, %mb : tensor<4x32xf16>, tensor<4x32xf16> -> tensor<4x32xf16>
            %n = mgx.mul %c0, %rb : tensor<4x32xf16>, tensor<4x32xf16> -> tensor<4x32xf16>
            %o = mgx.mul %n, %g : tensor<4x32xf16>, tensor<4x32xf16> -> tensor<4x32xf16>
            mgx.yield %o : tensor<4x32xf16>
          }
          """,
                "%y: tensor<4x32xf16>",
                rtol=2e-2,
                atol=2e-3,
            ),
        ]
    )
