"""Cases of ONNX's backend tests that do not pass, and why. The slow tests run them: a case
that passes has to leave this table."""

from __future__ import annotations

import re

STRINGS = "strings have no form in a compiled program"
SEQUENCES = "sequences and optionals as inputs or outputs of a program"
DATA_SIZES = "the sizes of results depend on the data of large inputs"
RANDOM = "random numbers: the expected ones are those of numpy's generator"
TRAINING = "gradients of a graph are not computed"
CLASSICAL = "an operator of classical machine learning (ai.onnx.ml)"
IMAGES = "image files are decoded by a library of the host"
ROUNDING = "the case expects rounding errors of its own: of sums in f16, of a fast transform"
OPEN = "ONNX leaves the result open; the case expects one of several"
MISSING = "the operator, or this form of it, is not implemented"

# A reason, and the beginnings of the names of its cases (regular expressions, without 'test_').
EXCLUDED: tuple[tuple[str, str], ...] = (
    (STRINGS, r"ai_onnx_ml_label_encoder|equal_string|regex_|string_|strnorm|tfidfvectorizer"),
    (
        SEQUENCES,
        r"identity_opt|identity_sequence|if_opt|if_seq|loop13_seq|loop16_seq_none"
        r"|optional_get_element_(optional_)?sequence|optional_has_element_empty_optional_input"
        r"|sequence_(insert|map)|split_to_sequence",
    ),
    (DATA_SIZES, r"nonmaxsuppression|nonzero|unique_"),
    (RANDOM, r"bernoulli|training_dropout(?!_zero)"),
    (TRAINING, r"gradient_"),
    (CLASSICAL, r"ai_onnx_ml_(array_feature|binarizer|tree_ensemble)"),
    (IMAGES, r"image_decoder"),
    (ROUNDING, r"attention_4d_causal_fp16|dft_inverse(_opset19)?_cpu"),
    (OPEN, r"cast(like)?_FLOAT(16)?_to_FLOAT4E2M1|resize_downsample_scales_(cubic|linear)_align"),
    (MISSING, r"basic_deform|deform_conv|melweightmatrix|scan_sum"),
)


def reason(name: str) -> str | None:
    """Why a case is excluded, by its name in onnx's runner; None where it is not."""
    for why, pattern in EXCLUDED:
        if re.match(f"test_({pattern})", name):
            return why
    return None
