# ruff: noqa: E501
"""Graphs whose structure harms: names, cycles, bodies, loops and functions.

Each row: a name, the text of a model's graph (and functions), and words of the refusal ('' where
the model may run as well).
"""

from __future__ import annotations

import itertools

BIG = 1 << 40

_LOOP = """g (float[2] x) => (y) <int64 n = {{{trips}}}, bool c = {{1}}> {{
  y{scanned} = Loop (n, c, x) <body = b (int64 i, bool go, float[{size}] a) => (bool on, {results}) {{
    on = Identity (go) {body} }}> }}"""


def _loop(
    body: str, results: str = "r", trips: int = BIG, size: str = "2", scanned: str = ""
) -> str:
    return _LOOP.format(body=body, results=results, trips=trips, size=size, scanned=scanned)


def _nested(levels: int, calls: int) -> str:
    """Functions that call the one before several times: `calls` to the power of `levels` nodes."""
    parts = ["g (float[2] x) => (float[2] y) { y = f.f0 (x) }"]
    for level in range(levels):
        last = level == levels - 1
        names = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        callee = "Neg" if last else f"f.f{level + 1}"
        calls_of = "\n".join(
            f"{after} = {callee} ({before})" for before, after in itertools.pairwise(names)
        )
        parts.append(
            f'<domain: "f", opset_import: ["": 21, "f": 1]> f{level} (a) => (b) {{ {calls_of} }}'
        )
    return "\n".join(parts)


def _deep(levels: int) -> str:
    """Ifs inside of Ifs."""
    inner = "z = Neg (x)"
    for level in range(levels):
        inner = (
            f"z = If (c) <then_branch = t{level} () => (float[2] z) {{ {inner} }}, "
            f"else_branch = e{level} () => (float[2] w) {{ w = Abs (x) }}>"
        )
    return f"g (bool c, float[2] x) => (y) {{ {inner} y = Neg (z) }}"


def _chain(node: str, length: int, kind: str = "float[2] x") -> str:
    names = ["x", *(f"t{i}" for i in range(length - 1)), "y"]
    text = "\n".join(f"{b} = {node.format(a)}" for a, b in itertools.pairwise(names))
    return f"g ({kind}) => (y) {{ {text} }}"


def _function(body: str, call: str = "y = f.f (x)", more: str = "") -> str:
    return (
        f"g (float[2] x) => (float[2] y) {{ {call} }}\n"
        f'<domain: "f", opset_import: ["": 21, "f": 1]> f (a) => (b) {{ {body} }} {more}'
    )


ROWS: tuple[tuple[str, str, str], ...] = (
    ("cycle-of-one", "g (float[2] x) => (y) { y = Add (x, y) }", "depend on each other"),
    (
        "cycle-of-three",
        "g (float[2] x) => (y) { a = Add (x, c) b = Neg (a) c = Abs (b) y = Neg (c) }",
        "depend on each other",
    ),
    ("output-of-nothing", "g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x) }", "'z'"),
    ("input-of-nothing", "g (float[2] x) => (y) { y = Add (x, nowhere) }", "nowhere"),
    ("defined-twice", "g (float[2] x) => (y) { y = Neg (x) y = Abs (x) }", "'y'"),
    ("shadowed-input", "g (float[2] x) => (x) { x = Neg (x) }", "'x'"),
    ("no-nodes", "g (float[2] x) => (float[2] x) { }", ""),
    ("no-outputs", "g (float[2] x) => () { y = Neg (x) }", ""),
    ("unknown-operator", "g (float[2] x) => (y) { y = Nonsense (x) }", "Nonsense"),
    ("unknown-domain", "g (float[2] x) => (y) { y = far.away.Nonsense (x) }", "Nonsense"),
    ("too-many-inputs", "g (float[2] x) => (y) { y = Relu (x, x, x) }", "Relu"),
    ("too-few-inputs", "g (float[2] x) => (y) { y = Add (x) }", "Add"),
    ("too-many-outputs", "g (float[2] x) => (y) { y, z = Relu (x) }", "Relu"),
    ("no-inputs", "g (float[2] x) => (y) { y = Concat <axis = 0> () }", "Concat"),
    ("absent-input", "g (float[2] x) => (y) { y = Add (x, ) }", "Add"),
    ("missing-attribute", "g (float[2] x) => (y) { y = Concat (x, x) }", "axis"),
    ("unknown-attribute", "g (float[2] x) => (y) { y = Relu <depth = 3> (x) }", "depth"),
    ("attribute-of-floats", "g (float[2] x) => (y) { y = Softmax <axis = 1.5> (x) }", "axis"),
    ("attribute-of-text", 'g (float[2] x) => (y) { y = Softmax <axis = "last"> (x) }', "axis"),
    (
        "attribute-of-lists",
        "g (float[2,2] x) => (y) { y = Transpose <perm = [0.5, 1.5]> (x) }",
        "perm",
    ),
    ("strings-as-numbers", "g (string[2] x) => (y) { y = Neg (x) }", "Neg"),
    ("numbers-as-conditions", "g (float[2] x) => (y) { y = Where (x, x, x) }", ""),
    ("types-that-differ", "g (float[2] x, double[2] z) => (y) { y = Add (x, z) }", ""),
    ("shapes-that-differ", "g (float[2] x, float[3] z) => (y) { y = Add (x, z) }", "Add"),
    ("zero-sized", "g (float[0,3] x) => (y) { y = ReduceMax (x) }", ""),
    ("zero-sized-product", "g (float[4,0] x, float[0,4] z) => (y) { y = MatMul (x, z) }", ""),
    ("zero-sized-argmax", "g (float[0,3] x) => (y) { y = ArgMax <axis = 0> (x) }", ""),
    ("zero-sized-softmax", "g (float[3,0] x) => (y) { y = Softmax (x) }", ""),
    (
        "zero-sized-pool",
        "g (float[0,3,8,8] x) => (y) { y = MaxPool <kernel_shape = [2, 2]> (x) }",
        "",
    ),
    (
        "zero-sized-sequence",
        "g (float[0,2,3] x) => (y) <float[1,8,3] w = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, float[1,8,2] r = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}> { y = LSTM <hidden_size = 2> (x, w, r) }",
        "",
    ),
    ("huge-input", f"g (float[{BIG}] x) => (y) {{ y = Neg (x) }}", "TiB"),
    (
        "huge-inputs",
        f"g (float[{1 << 20},1] x, float[1,{1 << 20}] z) => (y) {{ y = Add (x, z) }}",
        "Add",
    ),
    (
        "huge-intermediate",
        f"g (float[{1 << 20},1] x, float[1,{1 << 20}] z) => (y) {{ a = Add (x, z) b = Neg (a) y = ReduceMax (b) }}",
        "Add",
    ),
    (
        "huge-product",
        f"g (float[{1 << 20},1] x, float[1,{1 << 20}] z) => (y) {{ y = MatMul (x, z) }}",
        "MatMul",
    ),
    (
        "huge-outer-einsum",
        f'g (float[{1 << 20}] x) => (y) {{ y = Einsum <equation = "i,j->ij"> (x, x) }}',
        "Einsum",
    ),
    ("overflowing-sizes", f"g (float[{1 << 62},{1 << 62}] x) => (y) {{ y = Neg (x) }}", "'x'"),
    ("negative-size", "g (float[-3,2] x) => (y) { y = Neg (x) }", ""),
    ("huge-nonzero", f"g (float[{1 << 33}] x) => (y) {{ y = NonZero (x) }}", ""),
    ("huge-rank", f"g (float[{','.join(['1'] * 70)}] x) => (y) {{ y = Neg (x) }}", ""),
    ("deep-ifs", _deep(20), ""),
    ("deeper-ifs", _deep(30), "nested|not an ONNX model"),
    (
        "if-without-else",
        "g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (float[2] z) { z = Neg (x) }> }",
        "else_branch",
    ),
    (
        "if-of-many-results",
        "g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (float[2] z, float[2] v) { z = Neg (x) v = Abs (x) }, else_branch = e () => (float[2] w) { w = Abs (x) }> }",
        "If",
    ),
    (
        "if-of-two-types",
        "g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (float[2] z) { z = Neg (x) }, else_branch = e () => (double[2] w) { w = Cast <to = 11> (x) }> }",
        "",
    ),
    (
        "if-of-two-shapes",
        "g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (float[2] z) { z = Neg (x) }, else_branch = e () => (float[4] w) { w = Concat <axis = 0> (x, x) }> }",
        "",
    ),
    (
        "if-of-numbers",
        "g (float[2] c, float[2] x) => (y) { y = If (c) <then_branch = t () => (float[2] z) { z = Neg (x) }, else_branch = e () => (float[2] w) { w = Abs (x) }> }",
        "If",
    ),
    (
        "if-with-inputs",
        "g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t (float[2] a) => (float[2] z) { z = Neg (a) }, else_branch = e () => (float[2] w) { w = Abs (x) }> }",
        "If",
    ),
    ("endless-loop-of-values", _loop("r = Add (a, a)"), ""),
    ("loop-that-doubles", _loop("r = Concat <axis = 0> (a, a)", trips=50, size="K"), ""),
    ("loop-that-stacks", _loop("r = Neg (a) s = Abs (a)", "r, s", trips=BIG, scanned=", z"), ""),
    ("loop-of-negative-trips", _loop("r = Neg (a)", trips=-5), ""),
    ("loop-of-few-results", _loop("", "on", trips=3), ""),
    ("loop-of-other-types", _loop("r = Cast <to = 11> (a)", trips=3), ""),
    (
        "loop-of-sequences",
        "g (float[2] x) => (y) <int64 n = {1099511627776}, bool c = {1}> { s = SequenceEmpty () q = Loop (n, c, s) <body = b (int64 i, bool go, seq(float[2]) a) => (bool on, seq(float[2]) r) { on = Identity (go) r = SequenceInsert (a, x) }> y = ConcatFromSequence <axis = 0> (q) }",
        "",
    ),
    (
        "scan-of-nothing",
        "g (float[0,2] x) => (y) { y = Scan <num_scan_inputs = 1, body = b (float[2] a) => (float[2] r) { r = Neg (a) }> (x) }",
        "",
    ),
    (
        "scan-of-many-inputs",
        "g (float[3,2] x) => (y) { y = Scan <num_scan_inputs = 9, body = b (float[2] a) => (float[2] r) { r = Neg (a) }> (x) }",
        "Scan",
    ),
    (
        "scan-backwards-twice",
        "g (float[3,2] x) => (y) { y = Scan <num_scan_inputs = 1, scan_input_directions = [7], body = b (float[2] a) => (float[2] r) { r = Neg (a) }> (x) }",
        "Scan",
    ),
    (
        "scan-of-a-billion",
        f"g (float[{1 << 30},1] x) => (y) {{ y = Scan <num_scan_inputs = 1, body = b (float[1] a) => (float[1] r) {{ r = Neg (a) }}> (x) }}",
        "",
    ),
    (
        "sequence-place",
        "g (float[2] x) => (y) <int64 n = {7}> { s = SequenceConstruct (x, x) y = SequenceAt (s, n) }",
        "",
    ),
    (
        "sequence-of-two-types",
        "g (float[2] x, double[2] z) => (y) { s = SequenceConstruct (x, z) y = ConcatFromSequence <axis = 0> (s) }",
        "SequenceConstruct",
    ),
    (
        "sequence-split",
        "g (float[4] x) => (y) <int64 n = {0}> { s = SplitToSequence (x, n) y = ConcatFromSequence <axis = 0> (s) }",
        "",
    ),
    (
        "recurrent-without-size",
        "g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN (x, w, r) }",
        "",
    ),
    (
        "recurrent-directions",
        'g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 2, direction = "sideways"> (x, w, r) }',
        "RNN",
    ),
    (
        "recurrent-one-direction",
        'g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 2, direction = "bidirectional"> (x, w, r) }',
        "RNN",
    ),
    (
        "recurrent-activations",
        'g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 2, activations = ["Wonder"]> (x, w, r) }',
        "RNN",
    ),
    (
        "recurrent-layout",
        "g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 2, layout = 5> (x, w, r) }",
        "RNN",
    ),
    (
        "recurrent-hidden-size",
        "g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 1099511627776> (x, w, r) }",
        "RNN",
    ),
    (
        "recurrent-widths",
        "g (float[2,1,3] x, float[1,8,5] w, float[1,8,2] r) => (y) { y = LSTM <hidden_size = 2> (x, w, r) }",
        "LSTM",
    ),
    (
        "recurrent-lengths",
        "g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) <int32[1] n = {9}> { y = RNN <hidden_size = 2> (x, w, r, , n) }",
        "",
    ),
    (
        "recurrent-clip",
        "g (float[2,1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) { y = RNN <hidden_size = 2, clip = -1.0> (x, w, r) }",
        "",
    ),
    (
        "recurrent-peepholes",
        "g (float[2,1,3] x, float[1,8,3] w, float[1,8,2] r, float[1,5] p) => (y) { y = LSTM <hidden_size = 2> (x, w, r, , , , , p) }",
        "LSTM",
    ),
    (
        "long-recurrence",
        "g (float[100000,1,3] x, float[1,8,3] w, float[1,8,2] r) => (y) { y = LSTM <hidden_size = 2> (x, w, r) }",
        "",
    ),
    ("calls-ten-by-ten", _nested(10, 10), r"'f::f\d'.*nodes"),
    ("calls-two-by-forty", _nested(40, 2), r"'f::f\d+'.*nodes"),
    ("calls-a-thousand-deep", _nested(1000, 1), "deep"),
    ("function-of-itself", _function("b = f.f (a)"), "f::f"),
    (
        "functions-of-each-other",
        _function(
            "b = f.h (a)",
            more='<domain: "f", opset_import: ["": 21, "f": 1]> h (a) => (b) { b = f.f (a) }',
        ),
        "f::f|f::h",
    ),
    ("function-of-many-inputs", _function("b = Neg (a)", "y = f.f (x, x)"), "f::f"),
    ("function-of-no-inputs", _function("b = Neg (a)", "y = f.f ()"), ""),
    ("function-of-no-result", _function("c = Neg (a)"), "f"),
    ("function-of-a-cycle", _function("b = Add (a, c) c = Neg (b)"), ""),
    ("function-that-captures", _function("b = Add (a, x)"), "x"),
    (
        "function-twice",
        _function(
            "b = Neg (a)", more='<domain: "f", opset_import: ["": 21]> f (a) => (b) { b = Abs (a) }'
        ),
        "f",
    ),
    ("long-chain", _chain("Neg ({0})", 3000), ""),
    ("long-chain-of-sizes", _chain("Add ({0}, {0})", 3000, "int64[2] x"), ""),
    (
        "long-chain-of-shapes",
        "g (float[N,2] x) => (y) { s = Shape (x) "
        + " ".join(f"s{i} = Add ({f's{i - 1}' if i else 's'}, s)" for i in range(1500))
        + " y = ConstantOfShape (s1499) }",
        "",
    ),
    (
        "many-outputs",
        "g (float[2] x) => ("
        + ", ".join(f"y{i}" for i in range(400))
        + ") { "
        + " ".join(f"y{i} = Neg (x)" for i in range(400))
        + " }",
        "",
    ),
    ("many-inputs", "g (float[2] x) => (y) { y = Sum (" + ", ".join(["x"] * 500) + ") }", ""),
    (
        "huge-concat",
        "g (float[2] x) => (y) { y = Concat <axis = 0> (" + ", ".join(["x"] * 500) + ") }",
        "",
    ),
    (
        "huge-split",
        "g (float[2000] x) => (y0) { "
        + ", ".join(f"y{i}" for i in range(2000))
        + " = Split <num_outputs = 2000> (x) }",
        "",
    ),
    (
        "gradient-of-nothing",
        'g (float[2] x) => (y) { y = ai.onnx.preview.training.Gradient <xs = ["x"], y = "nothing"> (x) }',
        "Gradient",
    ),
)
