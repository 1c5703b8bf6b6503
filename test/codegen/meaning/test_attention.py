"""Attention: scores, masks, causal order, heads that share keys."""

from test.codegen.meaning.cases import Case, check

SCALED = """
  ^bb0(%s: {w}{more}):
    %c = mgx.constant 3.000000e-01 : {w}
    %t = mgx.mul %s, %c : {w}, {w} -> {w}
    {rest}
"""


def attention(
    name: str,
    q: str,
    k: str,
    v: str,
    y: str,
    extra: str = "",
    causal: str = "",
    rest: str = "",
    before: str = "",
    keys: str = "",
    more: str = "",
    first: str = "",
) -> Case:
    wide = "f64" if q.endswith("f64") else "f32"
    body = SCALED.format(
        w=wide,
        more=f", %m: {extra.rpartition('x')[2]}" if extra else "",
        rest=rest or f"mgx.yield %t : {wide}",
    )
    types = [q, keys or k, keys or v] + ([more or extra] if extra else [])
    names = ["%q", "%k", "%v", "%e"][: len(types)]
    inner = ["%q", "%kk" if keys else "%k", "%vv" if keys else "%v", "%ee" if more else "%e"]
    listed = ", ".join(f"tensor<{t}>" for t in [q, k, v] + ([extra] if extra else []))
    op = (
        f"{before}\n%y = mgx.attention({', '.join(inner[:3])})"
        + (f" extras({inner[3]})" if extra else "")
        + (
            f" {{causal = {causal} : i64{f', earliest = {first} : i64' * bool(first)}}}"
            if causal
            else ""
        )
        + f" : ({listed}) -> tensor<{y}> {{{body}}}"
    )
    arguments = ", ".join(f"{n}: tensor<{t}>" for n, t in zip(names, types, strict=True))
    return Case(name, arguments, op, f"%y: tensor<{y}>")


def test_attention_is_softmax_of_scores_times_values() -> None:
    add = "%u = mgx.add %t, %m : f32, f32 -> f32\nmgx.yield %u : f32"
    low = "%l = mgx.constant -3.402823466e+38 : f32\n"
    where = low + "%u = mgx.where %m, %t, %l : i1, f32, f32 -> f32\nmgx.yield %u : f32"
    check(
        [
            attention("plain", "5x4xf32", "7x4xf32", "7x3xf32", "5x3xf32"),
            attention("half", "2x5x8xf16", "2x7x8xf16", "2x7x3xf16", "2x5x3xf16"),
            attention("brain", "2x5x8xbf16", "2x7x8xbf16", "2x7x3xbf16", "2x5x3xbf16"),
            attention("double", "5x4xf64", "7x4xf64", "7x3xf64", "5x3xf64"),
            attention("causal", "6x4xf32", "6x4xf32", "6x3xf32", "6x3xf32", causal="0"),
            attention("window", "6x4xf32", "6x4xf32", "6x3xf32", "6x3xf32", causal="1", first="-2"),
            attention("cached", "2x4xf32", "6x4xf32", "6x3xf32", "2x3xf32", causal="4"),
            attention(
                "bias", "5x4xf32", "7x4xf32", "7x3xf32", "5x3xf32", extra="5x7xf32", rest=add
            ),
            attention(
                "mask", "5x4xf32", "7x4xf32", "7x3xf32", "5x3xf32", extra="5x7xi1", rest=where
            ),
            attention(
                "padding",
                "2x3x5x4xf32",
                "2x3x7x4xf32",
                "2x3x7x3xf32",
                "2x3x5x3xf32",
                extra="2x3x5x7xf32",
                more="2x1x1x7xf32",
                rest=add,
                before="%ee = mgx.multibroadcast %e : tensor<2x1x1x7xf32> -> tensor<2x3x5x7xf32>",
            ),
            attention(
                "grouped",
                "4x5x4xf32",
                "4x7x4xf32",
                "4x7x4xf32",
                "4x5x4xf32",
                keys="2x7x4xf32",
                before="""
          %k1 = mgx.unsqueeze %k axes = [1] : tensor<2x7x4xf32> -> tensor<2x1x7x4xf32>
          %k2 = mgx.multibroadcast %k1 : tensor<2x1x7x4xf32> -> tensor<2x2x7x4xf32>
          %kk = mgx.reshape %k2 : tensor<2x2x7x4xf32> -> tensor<4x7x4xf32>
          %v1 = mgx.unsqueeze %v axes = [1] : tensor<2x7x4xf32> -> tensor<2x1x7x4xf32>
          %v2 = mgx.multibroadcast %v1 : tensor<2x1x7x4xf32> -> tensor<2x2x7x4xf32>
          %vv = mgx.reshape %v2 : tensor<2x2x7x4xf32> -> tensor<4x7x4xf32>""",
            ),
        ]
    )
