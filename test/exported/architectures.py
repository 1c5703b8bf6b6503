"""Architectures of transformers, small, with open sizes, as TorchScript's exporter writes them.

Each has one program for any sizes, which the test counts.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from test.exported.torch_examples import Example, Wrapper, example

_HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, **_HEADS}
_LONG = {**_TEXT, "max_position_embeddings": 64}
_GROUPS = {**_LONG, "num_key_value_heads": 2, "head_dim": 8}
_PAIR = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "max_position_embeddings": 64, "decoder_start_token_id": 0,
}  # fmt: skip
_T5 = {
    "vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_WINDOWS = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
    "window_size": 4,
}  # fmt: skip
_SPEECH = {
    **_TEXT, "conv_dim": [16, 16, 16], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}  # fmt: skip

# The class, the kind of its inputs, and its configuration.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "albert": ("AlbertForMaskedLM", "text", {**_LONG, "embedding_size": 16}),
    "canine": ("CanineForSequenceClassification", "text", _LONG),
    "convbert": ("ConvBertForMaskedLM", "text", _LONG),
    "deberta": (
        "DebertaV2ForSequenceClassification",
        "text",
        {**_LONG, "relative_attention": True, "position_buckets": 8, "share_att_key": True,
         "pos_att_type": ["p2c", "c2p"]},
    ),
    "funnel": (
        "FunnelForSequenceClassification",
        "text",
        {"vocab_size": 100, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32,
         "n_head": 4, "d_head": 8, "d_inner": 64},
    ),
    "mpnet": ("MPNetForMaskedLM", "text", _LONG),
    "roformer": ("RoFormerForMaskedLM", "text", _LONG),
    "squeezebert": ("SqueezeBertForMaskedLM", "text", {**_LONG, "embedding_size": 32}),
    "xlnet": (
        "XLNetForSequenceClassification",
        "text",
        {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
    ),
    "bloom": ("BloomForCausalLM", "decoder", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2,
                                              "n_head": 4}),
    "falcon": ("FalconForCausalLM", "decoder", _LONG),
    "gemma2": ("Gemma2ForCausalLM", "decoder", _GROUPS),
    "gptneo": (
        "GPTNeoForCausalLM",
        "decoder",
        {"vocab_size": 100, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8,
         "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64},
    ),
    "mpt": ("MptForCausalLM", "decoder", {"vocab_size": 100, "d_model": 32, "n_layers": 2,
                                          "n_heads": 4, "max_seq_len": 64}),
    "qwen3": ("Qwen3ForCausalLM", "decoder", _GROUPS),
    "bart": ("BartForConditionalGeneration", "pair", _PAIR),
    "longt5": ("LongT5ForConditionalGeneration", "pair", {**_T5, "local_radius": 3}),
    "prophetnet": (
        "ProphetNetForConditionalGeneration",
        "pair",
        {"vocab_size": 100, "hidden_size": 32, "num_encoder_layers": 1, "num_decoder_layers": 1,
         "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4,
         "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64},
    ),
    "convnextv2": ("ConvNextV2ForImageClassification", "image", _STAGES),
    "mobilevit": (
        "MobileViTForImageClassification",
        "picture",
        {"image_size": 32, "hidden_sizes": [16, 24, 32], "num_attention_heads": 2,
         "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 64]},
    ),
    "pvtv2": (
        "PvtV2ForImageClassification",
        "image",
        {**_STAGES, "image_size": 64, "num_attention_heads": [1, 2, 2, 4]},
    ),
    "segformer": (
        "SegformerForSemanticSegmentation",
        "image",
        {**_STAGES, "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32},
    ),
    "swin": ("SwinForImageClassification", "picture", _WINDOWS),
    "swinv2": ("Swinv2ForImageClassification", "picture", _WINDOWS),
    "hubert": ("HubertForCTC", "sound", _SPEECH),
    "wav2vec2": ("Wav2Vec2ForCTC", "sound", _SPEECH),
    "wavlm": ("WavLMForCTC", "sound", {**_SPEECH, "num_buckets": 16, "max_bucket_distance": 32}),
}  # fmt: skip
_WORDS = {0: "batch", 1: "length"}


def _tokens(length: int) -> Tensor:
    return torch.randint(2, 90, (2, length))


def _inputs(kind: str) -> tuple[dict[str, Tensor], dict[str, dict[int, str]]]:
    """Inputs to export with, and the sizes that stay open."""
    if kind in ("image", "picture"):
        size = 64 if kind == "image" else 32
        x = torch.randn(2, 3, size, size)
        sides = {2: "height", 3: "width"} if kind == "image" else {}
        return {"pixel_values": x}, {"pixel_values": {0: "batch", **sides}}
    if kind == "sound":
        return {"input_values": torch.randn(2, 2000)}, {"input_values": {0: "batch", 1: "samples"}}
    inputs = {"input_ids": _tokens(7), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    sizes = dict.fromkeys(inputs, _WORDS)
    if kind == "pair":
        inputs["decoder_input_ids"] = _tokens(4)
        sizes["decoder_input_ids"] = {0: "batch", 1: "answer"}
    return inputs, sizes


def _logits(kind: str) -> Any:
    options = {"use_cache": False} if kind in ("decoder", "pair") else {}
    return lambda module, **inputs: module(**inputs, **options).logits


def _register(name: str) -> None:
    kind = MODELS[name][1]

    def build() -> Example:
        architecture = getattr(transformers, MODELS[name][0])
        module: nn.Module = architecture(architecture.config_class(**MODELS[name][2]))
        inputs, sizes = _inputs(kind)
        wrapped = Wrapper(module, _logits(kind), *inputs)
        return Example(wrapped, inputs, sizes, 17, script=True)

    build.__name__ = name
    example(build)


for _name in MODELS:
    _register(_name)
