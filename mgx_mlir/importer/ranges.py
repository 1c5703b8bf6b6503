"""The values that attributes of ONNX's own operators may have, where its checker takes any.

Source: the operators' definitions, github.com/onnx/onnx/blob/main/docs/Operators.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import AttributeProto, NodeProto

from mgx_mlir.errors import ModelError
from mgx_mlir.importer.structure import display_name

# Attributes of any operator whose numbers are at least 1.
_POSITIVE = frozenset(
    """block_size blocksize dilations group hidden_size kernel_shape kv_num_heads num_groups
    num_outputs q_num_heads sample_size strides""".split()
)
_POSITIVE_OF = frozenset({("LRN", "size")})
# 0 says that the attribute is absent.
_POSITIVE_OR_ABSENT = frozenset({"block_size"})
# Attributes that are 0 or 1.
_FLAGS = frozenset(
    {
        ("CumProd", "exclusive"),
        ("CumProd", "reverse"),
        ("CumSum", "exclusive"),
        ("CumSum", "reverse"),
        ("GRU", "layout"),
        ("GRU", "linear_before_reset"),
        ("LSTM", "input_forget"),
        ("LSTM", "layout"),
        ("Mod", "fmod"),
        ("RNN", "layout"),
    }
)
# Attributes that name dimensions. onnx's inference cuts them to 32 bits and may end the process.
_AXES = frozenset({"axes", "axis", "batch_axis", "batch_dims", "perm", "time_axis"})
_MAX_RANK = 64
# No size is a number beyond it.
_MOST = 1 << 48

_REDUCTIONS = ("none", "mean", "sum")
_SCATTERED = ("none", "add", "mul", "max", "min")
_DIRECTIONS = ("forward", "reverse", "bidirectional")

_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("GRU", "direction"): _DIRECTIONS,
    ("Gelu", "approximate"): ("none", "tanh"),
    ("GridSample", "mode"): ("bilinear", "linear", "nearest", "bicubic", "cubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("LSTM", "direction"): _DIRECTIONS,
    ("NegativeLogLikelihoodLoss", "reduction"): _REDUCTIONS,
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("RNN", "direction"): _DIRECTIONS,
    ("Resize", "coordinate_transformation_mode"): (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_half_pixel_for_nn",
        "tf_crop_and_resize",
    ),
    ("Resize", "nearest_mode"): ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    ("Resize", "keep_aspect_ratio_policy"): ("stretch", "not_larger", "not_smaller"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("ScatterElements", "reduction"): _SCATTERED,
    ("ScatterND", "reduction"): _SCATTERED,
    ("SoftmaxCrossEntropyLoss", "reduction"): _REDUCTIONS,
    ("SpaceToDepth", "mode"): ("DCR", "CRD"),
    ("TensorScatter", "mode"): ("linear", "circular"),
    ("TfIdfVectorizer", "mode"): ("TF", "IDF", "TFIDF"),
    ("Upsample", "mode"): ("nearest", "linear", "bilinear"),
}


def check(nodes: Iterable[NodeProto]) -> None:
    """Raises ModelError where an attribute is out of its range, with the node."""
    for node in nodes:
        if node.domain not in ("", "ai.onnx"):
            continue
        for attribute in node.attribute:
            fault = _fault(node.op_type, attribute)
            if fault:
                raise ModelError(f"{display_name(node)}: {fault}")


def _fault(operator: str, attribute: AttributeProto) -> str:
    name = attribute.name
    if attribute.type == AttributeProto.STRING:
        choices = _CHOICES.get((operator, name))
        text = attribute.s.decode("utf-8", "replace")
        if choices is not None and text not in choices:
            return f"{name} = {text:.80}; {', '.join(choices)} are defined"
    if (operator, name) in _FLAGS and attribute.i not in (0, 1):
        return f"{name} = {attribute.i}; 0 and 1 are defined"
    if name in _AXES:
        least, most = -_MAX_RANK, _MAX_RANK
    elif name in _POSITIVE or (operator, name) in _POSITIVE_OF:
        least, most = 0 if name in _POSITIVE_OR_ABSENT else 1, _MOST
    else:
        return ""
    numbers = [attribute.i] if attribute.type == AttributeProto.INT else list(attribute.ints)
    wrong = next((n for n in numbers if not least <= n <= most), None)
    return "" if wrong is None else f"{name} holds {wrong}; {least} to {most} are possible"
