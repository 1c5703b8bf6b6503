"""Modules of PyTorch and transformers, as PyTorch's exporter writes them."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from test.exported.torch_examples import (
    BATCH,
    Block,
    Example,
    UNet,
    Wrapper,
    example,
    image,
    images,
    tagger,
)

_TEXT = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_IMAGES = {"num_labels": 10}


@example
def resnet() -> Example:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic", **_IMAGES
    )
    return _classifier(transformers.ResNetForImageClassification(config))


@example
def mobilenet() -> Example:
    config = transformers.MobileNetV2Config(depth_multiplier=0.35, tf_padding=False, **_IMAGES)
    return _classifier(transformers.MobileNetV2ForImageClassification(config))


@example
def efficientnet() -> Example:
    config = transformers.EfficientNetConfig(
        width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640, image_size=64, **_IMAGES
    )
    return _classifier(transformers.EfficientNetForImageClassification(config))


@example
def convnext() -> Example:
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, **_IMAGES
    )
    return _classifier(transformers.ConvNextForImageClassification(config))


def _classifier(module: nn.Module) -> Example:
    return images(Wrapper(module, lambda m, x: m(pixel_values=x).logits, "x"))


@example
def unet() -> Example:
    return images(UNet(), 32)


class Detector(nn.Module):
    """A grid of boxes with scores, as YOLO's, and the best of them."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(Block(3, 8), nn.MaxPool2d(4), Block(8, 16), nn.MaxPool2d(2))
        self.head = nn.Conv2d(16, 3 * 6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.head(self.backbone(x))
        _, _, height, width = features.shape
        y = features.reshape(3, 6, height, width).permute(2, 3, 0, 1)
        rows = torch.arange(height, dtype=torch.float32)[:, None, None]
        columns = torch.arange(width, dtype=torch.float32)[None, :, None]
        places = torch.stack(torch.broadcast_tensors(columns, rows), -1)
        centres = (torch.sigmoid(y[..., :2]) + places) * 8
        sides = torch.exp(y[..., 2:4]) * 12
        boxes = torch.cat([centres - sides / 2, centres + sides / 2], -1).reshape(-1, 4)
        scores = (torch.sigmoid(y[..., 4]) * torch.sigmoid(y[..., 5])).reshape(-1)
        best = scores.topk(5).indices
        return boxes[best], boxes[scores > 0.25], best


@example
def detector() -> Example:
    return Example(Detector(), {"x": torch.randn(1, 3, 64, 64)})


def _tokens(length: int = 7) -> dict[str, Tensor]:
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    return {"input_ids": torch.randint(0, 100, (2, length)), "attention_mask": mask}


_SENTENCES = {name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}


@example
def bert() -> Example:
    config = transformers.BertConfig(**_TEXT, intermediate_size=64)
    module = Wrapper(
        transformers.BertModel(config),
        lambda m, **inputs: m(**inputs).last_hidden_state,
        *_SENTENCES,
    )
    return Example(module, _tokens(), _SENTENCES)


@example
def distilbert() -> Example:
    config = transformers.DistilBertConfig(
        vocab_size=100, dim=32, hidden_dim=64, n_layers=2, n_heads=4
    )
    module = Wrapper(
        transformers.DistilBertForSequenceClassification(config),
        lambda m, **inputs: m(**inputs).logits,
        *_SENTENCES,
    )
    return Example(module, _tokens(), _SENTENCES)


def _gpt2_step(module: nn.Module, input_ids: Tensor, keys: Tensor, values: Tensor) -> Any:
    """One call of a decoder: keys and values [layers, batch, heads, past, width] grow."""
    past = transformers.DynamicCache()
    for layer in range(len(keys)):
        past.update(keys[layer], values[layer], layer)
    made = module(input_ids=input_ids, past_key_values=past, use_cache=True)
    layers = made.past_key_values.layers
    return (
        made.logits,
        torch.stack([layer.keys for layer in layers]),
        torch.stack([layer.values for layer in layers]),
    )


@example
def gpt2() -> Example:
    config = transformers.GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    past = {name: torch.randn(2, 2, 4, 5, 8) for name in ("keys", "values")}
    inputs = {"input_ids": torch.randint(0, 100, (2, 3)), **past}
    sizes = {"input_ids": {0: "batch", 1: "length"}}
    sizes |= {name: {1: "batch", 3: "past"} for name in past}
    module = Wrapper(transformers.GPT2LMHeadModel(config), _gpt2_step, *inputs)
    return Example(module, inputs, sizes)


@example
def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=100,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    names = (*_SENTENCES, "decoder_input_ids")
    module = Wrapper(
        transformers.T5ForConditionalGeneration(config),
        lambda m, **inputs: m(**inputs, use_cache=False).logits,
        *names,
    )
    inputs = {**_tokens(), "decoder_input_ids": torch.randint(0, 100, (2, 4))}
    sizes = {**_SENTENCES, "decoder_input_ids": {0: "batch", 1: "answer"}}
    return Example(module, inputs, sizes)


@example
def vit() -> Example:
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    )
    module = Wrapper(
        transformers.ViTForImageClassification(config), lambda m, x: m(pixel_values=x).logits, "x"
    )
    return Example(module, image(32), BATCH)


@example
def whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=20,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    encoder = transformers.WhisperModel(config).encoder
    module = Wrapper(encoder, lambda m, x: m(x).last_hidden_state, "x")
    return Example(module, {"x": torch.randn(2, 8, 40)}, BATCH)


@example
def lstm() -> Example:
    return tagger(nn.LSTM)


@example
def gru() -> Example:
    return tagger(nn.GRU)


@example
def attention_with_rotations() -> Example:
    config = transformers.LlamaConfig(
        **_TEXT, intermediate_size=64, num_key_value_heads=2, max_position_embeddings=64
    )
    module = Wrapper(
        transformers.LlamaForCausalLM(config),
        lambda m, input_ids: m(input_ids=input_ids, use_cache=False).logits,
        "input_ids",
    )
    inputs = {"input_ids": torch.randint(0, 100, (2, 7))}
    return Example(module, inputs, {"input_ids": {0: "batch", 1: "length"}})
