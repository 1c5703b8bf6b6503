"""Graphs of a few bytes that ask for more memory or time than there is.

Each row: inputs of a graph, its nodes, words of the refusal ('' where the model may run as well),
and the graph's constants.
"""

from __future__ import annotations

import itertools

BIG = 1 << 40
MOST, LEAST = (1 << 63) - 1, -(1 << 63)
X = "float[2,3] x"


def _doubled(node: str, times: int) -> str:
    """`node`, applied to its own result again and again: {0} is its input."""
    names = ["c", *(f"t{i}" for i in range(times - 1)), "y"]
    return "\n".join(f"{b} = {node.format(a)}" for a, b in itertools.pairwise(names))


ROWS: tuple[tuple[str, str, str, str], ...] = (
    # Sizes that operators take as values.
    (
        X,
        "z = ConstantOfShape (n) s = ReduceSum <keepdims = 0> (z) y = Add (x, s)",
        "TiB",
        f"int64[1] n = {{{BIG}}}",
    ),
    (X, "y = ConstantOfShape (n)", "TiB", f"int64[2] n = {{{1 << 20}, {1 << 20}}}"),
    (X, "y = ConstantOfShape (n)", "ConstantOfShape", f"int64[2] n = {{{MOST}, {MOST}}}"),
    (X, "y = ConstantOfShape (n)", "ConstantOfShape", "int64[2] n = {-1, 4}"),
    (X, "y = ConstantOfShape (n)", "", "int64[2] n = {0, 4}"),
    (X, "y = Range (a, n, s)", "Range", f"int64 a = {{0}}, int64 n = {{{BIG}}}, int64 s = {{1}}"),
    (X, "y = Range (a, n, s)", "Range", "int64 a = {0}, int64 n = {5}, int64 s = {0}"),
    (
        X,
        "y = Range (a, n, s)",
        "Range",
        f"int64 a = {{{LEAST}}}, int64 n = {{{MOST}}}, int64 s = {{1}}",
    ),
    (X, "y = Range (a, n, s)", "Range", "float a = {0}, float n = {1}, float s = {1e-30}"),
    (X, "y = Range (a, n, s)", "", "float a = {0}, float n = {5}, float s = {-1}"),
    ("int64[2] x", "y = OneHot (x, d, v)", "OneHot", f"int64 d = {{{BIG}}}, float[2] v = {{0, 1}}"),
    ("int64[2] x", "y = OneHot (x, d, v)", "OneHot", "int64 d = {-3}, float[2] v = {0, 1}"),
    (
        "int64[2] x",
        "y = OneHot <axis = 7> (x, d, v)",
        "OneHot",
        "int64 d = {3}, float[2] v = {0, 1}",
    ),
    ("int64[2] x", "y = OneHot (x, d, v)", "OneHot", "int64 d = {3}, float[3] v = {0, 1, 2}"),
    (
        X,
        "o = OneHot (i, d, v) y = Slice (o, a, b)",
        "OneHot",
        f"int64[2] i = {{0, 1}}, int64 d = {{{BIG}}}, float[2] v = {{0, 1}}, "
        "int64[2] a = {0, 0}, "
        "int64[2] b = {1, 1}",
    ),
    (X, "y = Tile (x, r)", "Tile", f"int64[2] r = {{{BIG}, 1}}"),
    (X, "y = Tile (x, r)", "Tile", f"int64[2] r = {{{MOST}, {MOST}}}"),
    (X, "y = Tile (x, r)", "Tile", "int64[2] r = {-1, 1}"),
    (X, "y = Tile (x, r)", "Tile", "int64[1] r = {2}"),
    (X, "y = Tile (x, r)", "", "int64[2] r = {0, 1}"),
    (X, "y = Expand (x, r)", "Expand", f"int64[3] r = {{{BIG}, 2, 3}}"),
    (X, "y = Expand (x, r)", "Expand", "int64[2] r = {5, 3}"),
    (X, "y = Expand (x, r)", "Expand", "int64[2] r = {-1, 3}"),
    (
        X,
        "e = Expand (x, r) y = ReduceMax <keepdims = 0> (e)",
        "Expand",
        f"int64[3] r = {{{BIG}, 2, 3}}",
    ),
    (X, "y = Pad (x, p)", "Pad", f"int64[4] p = {{0, {1 << 39}, 0, {1 << 39}}}"),
    (X, "y = Pad (x, p)", "Pad", f"int64[4] p = {{{MOST}, {MOST}, {MOST}, {MOST}}}"),
    (X, "y = Pad (x, p)", "Pad", f"int64[4] p = {{{LEAST}, 0, 0, 0}}"),
    (X, "y = Pad (x, p)", "Pad", "int64[4] p = {-2, 0, -2, 0}"),
    (X, "y = Pad (x, p)", "Pad", "int64[3] p = {1, 1, 1}"),
    (X, 'y = Pad <mode = "reflect"> (x, p)', "Pad", "int64[4] p = {5, 5, 5, 5}"),
    (X, 'y = Pad <mode = "wrap"> (x, p)', "Pad", f"int64[4] p = {{{BIG}, 0, 0, 0}}"),
    (X, 'y = Pad <mode = "none"> (x, p)', "Pad", "int64[4] p = {1, 1, 1, 1}"),
    ("float[1,1,4,4] x", "y = Resize (x, , s)", "Resize", "float[4] s = {1, 1, 1e9, 1e9}"),
    ("float[1,1,4,4] x", "y = Resize (x, , s)", "Resize", "float[4] s = {1, 1, 0, -1}"),
    ("float[1,1,4,4] x", "y = Resize (x, , s)", "Resize", "float[4] s = {1, 1, 1e38, 1e38}"),
    ("float[1,1,4,4] x", "y = Resize (x, , s)", "Resize", "float[3] s = {1, 1, 2}"),
    ("float[1,1,4,4] x", "y = Resize (x, , , n)", "Resize", f"int64[4] n = {{1, 1, {BIG}, 4}}"),
    ("float[1,1,4,4] x", "y = Resize (x, , , n)", "Resize", "int64[4] n = {1, 1, -4, 4}"),
    (
        "float[1,1,4,4] x",
        'y = Resize <mode = "linear", antialias = 1> (x, , , n)',
        "",
        "int64[4] n = {1, 1, 1, 1}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize <mode = "cubic", cubic_coeff_a = 1e30> (x, , s)',
        "",
        "float[4] s = {1, 1, 2, 2}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize <mode = "worst"> (x, , s)',
        "Resize",
        "float[4] s = {1, 1, 2, 2}",
    ),
    (X, "y = HannWindow (n)", "HannWindow", f"int64 n = {{{BIG}}}"),
    (X, "y = HammingWindow (n)", "", "int64 n = {-5}"),
    (X, "y = BlackmanWindow (n)", "BlackmanWindow", f"int64 n = {{{MOST}}}"),
    (
        X,
        "y = MelWeightMatrix (a, b, c, d, e)",
        "MelWeightMatrix",
        f"int64 a = {{{1 << 30}}}, int64 b = {{{1 << 30}}}, int64 c = {{8192}}, float d = {{0}}, "
        "float e = {4096}",
    ),
    (
        X,
        "y = MelWeightMatrix (a, b, c, d, e)",
        "MelWeightMatrix",
        "int64 a = {-8}, int64 b = {16}, int64 c = {0}, float d = {0}, float e = {-1}",
    ),
    (X, f"y = RandomNormal <shape = [{BIG}]> ()", "RandomNormal", ""),
    (X, "y = RandomUniform <shape = [-2]> ()", "RandomUniform", ""),
    (X, "e = Expand (x, r) y = Bernoulli (e)", "Expand|Bernoulli", f"int64[3] r = {{{BIG}, 2, 3}}"),
    (
        X,
        "e = Expand (x, r) y = RandomNormalLike (e)",
        "Expand|RandomNormal",
        f"int64[3] r = {{{BIG}, 2, 3}}",
    ),
    (X, f"y = Multinomial <sample_size = {BIG}> (x)", "Multinomial", ""),
    (X, "y = Multinomial <sample_size = -1> (x)", "Multinomial", ""),
    (
        X,
        "e = Expand (s, r) y = EyeLike (e)",
        "",
        f"float s = {{1}}, int64[2] r = {{{1 << 19}, {1 << 19}}}",
    ),
    (
        X,
        "e = Expand (s, r) y = Trilu (e)",
        "",
        f"float s = {{1}}, int64[2] r = {{{1 << 21}, {1 << 21}}}",
    ),
    ("float[1,8,1] x", "y = DFT (x, n)", "DFT", f"int64 n = {{{BIG}}}"),
    ("float[1,8,1] x", "y = DFT (x, n)", "DFT", "int64 n = {-8}"),
    ("float[1,8] x", "y = STFT (x, s, , n)", "STFT", "int64 s = {0}, int64 n = {4}"),
    ("float[1,8] x", "y = STFT (x, s, , n)", "STFT", "int64 s = {2}, int64 n = {99}"),
    (X, "y = CenterCropPad (x, n)", "CenterCropPad", f"int64[2] n = {{{BIG}, 4}}"),
    (X, "y = CenterCropPad (x, n)", "", "int64[2] n = {-2, 4}"),
    (
        "float[1,1,2,2] x, int64[1,1,2,2] i",
        "y = MaxUnpool <kernel_shape = [2, 2]> (x, i, n)",
        "MaxUnpool",
        f"int64[4] n = {{1, 1, {BIG}, 4}}",
    ),
    # Steps, places and shapes.
    (
        X,
        "y = Slice (x, a, b, c, s)",
        "Slice",
        "int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {0}, int64[1] s = {0}",
    ),
    (
        X,
        "y = Slice (x, a, b, c, s)",
        "",
        f"int64[1] a = {{{MOST}}}, int64[1] b = {{{LEAST}}}, int64[1] c = {{0}}, "
        f"int64[1] s = {{{LEAST}}}",
    ),
    (
        X,
        "y = Slice (x, a, b, c, s)",
        "",
        f"int64[1] a = {{0}}, int64[1] b = {{{MOST}}}, int64[1] c = {{1}}, int64[1] s = {{{MOST}}}",
    ),
    (X, "y = Slice (x, a, b, c)", "Slice", "int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {8}"),
    (
        X,
        "y = Slice (x, a, b, c)",
        "Slice",
        "int64[2] a = {0, 0}, int64[2] b = {2, 2}, int64[2] c = {1, 1}",
    ),
    (X, "y = Slice (x, a, b)", "Slice", "int64[2] a = {0, 0}, int64[1] b = {2}"),
    (X, "y = Reshape (x, n)", "Reshape", "int64[2] n = {4, 4}"),
    (X, "y = Reshape (x, n)", "Reshape", "int64[2] n = {-1, -1}"),
    (X, "y = Reshape (x, n)", "Reshape", "int64[2] n = {-2, 3}"),
    (X, "y = Reshape (x, n)", "Reshape", "int64[3] n = {0, 0, 0}"),
    (X, "y = Reshape (x, n)", "Reshape", f"int64[2] n = {{{1 << 32}, {1 << 32}}}"),
    (X, "y = Reshape <allowzero = 1> (x, n)", "Reshape", "int64[2] n = {0, -1}"),
    (X, "y, z = Split (x, n)", "Split", "int64[2] n = {1, 9}"),
    (X, "y, z = Split (x, n)", "Split", "int64[2] n = {-1, 3}"),
    # Chains that double what they hold.
    (X, _doubled("Concat <axis = 0> ({0}, {0})", 44), "Concat", "float[2] c = {1, 2}"),
    (X, _doubled("Tile ({0}, r)", 44), "Tile", "float[2] c = {1, 2}, int64[1] r = {2}"),
    (X, _doubled("Add ({0}, {0})", 60), "", "float[2] c = {1, 2}"),
    (X, _doubled("Mul ({0}, {0})", 60), "", "int64[2] c = {3, 7}"),
    (X, _doubled("MatMul ({0}, {0})", 60), "", "float[2,2] c = {1, 2, 3, 4}"),
    ("float[2] c", _doubled("Concat <axis = 0> ({0}, {0})", 44), "Concat", ""),
    ("float[2] c", _doubled("Tile ({0}, r)", 44), "Tile", "int64[1] r = {2}"),
    ("float[N] c", _doubled("Concat <axis = 0> ({0}, {0})", 44), "", ""),
    (
        "float[1,1,4] c",
        _doubled('Resize <mode = "linear"> ({0}, , r)', 40),
        "Resize",
        "float[3] r = {1, 1, 2}",
    ),
    ("float[2] c", _doubled("Pad ({0}, p)", 44), "", f"int64[2] p = {{{1 << 35}, 0}}"),
    ("float[1,1] c", _doubled('Einsum <equation = "ij,kl->ijkl"> ({0}, {0})', 7), "", ""),
    ("float[2,2] c", _doubled("Unsqueeze ({0}, a)", 80), "", "int64[1] a = {0}"),
    # Einsum.
    (X, 'y = Einsum <equation = "......ii,...jj->...ij"> (x, x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "...i...j->ij"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "i....j->ij"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ij->......"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "..ij->ij"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ij->ik"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ij->ii"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ii->i"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ij->"> (x)', "", ""),
    (X, 'y = Einsum <equation = ""> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "->->"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "i1->i"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ijk->k"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "...ijk"> (x)', "Einsum", ""),
    (X, 'y = Einsum <equation = "ij,jk,kl->il"> (x, x)', "Einsum", ""),
    (X, 'y = Einsum <equation = ",,,ij->ij"> (x)', "Einsum", ""),
)
