"""Models as PyTorch's exporter writes them: small configurations with random, seeded weights.

Needs torch, torchvision, transformers and onnxscript (`pip install mgx-mlir[models]`).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch
import torchvision
import transformers
from torch import Tensor, nn

_TEXT = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


@dataclass
class Example:
    """A module, the tensors that it is exported with, and the sizes that stay symbolic.

    `dynamic` names, for each input, the dimensions that a run may choose.
    """

    module: nn.Module
    inputs: dict[str, Tensor]
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)
    opset: int = 18


EXAMPLES: dict[str, Callable[[], Example]] = {}


def example(build: Callable[[], Example]) -> Callable[[], Example]:
    """Registers a model under the function's name."""
    EXAMPLES[build.__name__] = build
    return build


def export(name: str) -> onnx.ModelProto:
    """The model as the exporter writes it."""
    torch.manual_seed(0)
    made = EXAMPLES[name]()
    symbols = {s: torch.export.Dim(s) for sizes in made.dynamic.values() for s in sizes.values()}
    shapes = tuple(
        {axis: symbols[symbol] for axis, symbol in made.dynamic.get(key, {}).items()}
        for key in made.inputs
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            made.module.eval(),
            tuple(made.inputs.values()),
            dynamo=True,
            dynamic_shapes=shapes,
            opset_version=made.opset,
            input_names=list(made.inputs),
        )
    return program.model_proto


class Wrapper(nn.Module):
    """A function of a module's, with tensors in and out."""

    def __init__(self, module: nn.Module, call: Callable[..., Any], *names: str) -> None:
        super().__init__()
        self.module = module
        self.call = call
        self.names = names

    def forward(self, first: Tensor, second: Any = None, third: Any = None) -> Any:
        given = zip(self.names, (first, second, third), strict=False)
        return self.call(self.module, **dict(given))


def _image(size: int = 64) -> dict[str, Tensor]:
    return {"x": torch.randn(2, 3, size, size)}


_BATCH = {"x": {0: "batch"}}


def _images(module: nn.Module, size: int = 64) -> Example:
    """A network for images, its statistics those of the example, so that values do not vanish."""
    inputs = _image(size)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        module.train()(**inputs)
    return Example(module, inputs, _BATCH)


@example
def resnet() -> Example:
    return _images(torchvision.models.resnet18(num_classes=10))


@example
def mobilenet() -> Example:
    return _images(torchvision.models.mobilenet_v3_small(num_classes=10))


@example
def efficientnet() -> Example:
    return _images(torchvision.models.efficientnet_b0(num_classes=10))


class _Block(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """Down by pooling, up by a transposed convolution and by interpolation, with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bottom = _Block(3, 8), _Block(8, 16), _Block(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.join, self.last = _Block(32, 16), nn.Conv2d(24, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(nn.functional.max_pool2d(second, 2))
        y = self.join(torch.cat([second, self.up(bottom)], 1))
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.last(torch.cat([first, y], 1))


@example
def unet() -> Example:
    return _images(UNet(), 32)


class Detector(nn.Module):
    """A grid of boxes with scores, as YOLO's, and non-maximum suppression of them."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(_Block(3, 8), nn.MaxPool2d(4), _Block(8, 16), nn.MaxPool2d(2))
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
        kept = torchvision.ops.nms(boxes, scores, 0.4)
        return boxes[kept], scores[kept], kept


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
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0, attn_implementation="eager",
    )  # fmt: skip
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
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=32, patch_size=8,
    )  # fmt: skip
    module = Wrapper(
        transformers.ViTForImageClassification(config), lambda m, x: m(pixel_values=x).logits, "x"
    )
    return Example(module, _image(32), _BATCH)


@example
def whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=2, encoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
        num_mel_bins=8, max_source_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    encoder = transformers.WhisperModel(config).encoder
    module = Wrapper(encoder, lambda m, x: m(x).last_hidden_state, "x")
    return Example(module, {"x": torch.randn(2, 8, 40)}, _BATCH)


class Tagger(nn.Module):
    """Token numbers (batch, length) to scores of labels (batch, length, 5)."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.layers = kind(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.layers(self.embedding(tokens))[0]), -1)


def _tagger(kind: type[nn.RNNBase]) -> Example:
    sizes = {"tokens": {0: "batch", 1: "length"}}
    return Example(Tagger(kind), {"tokens": torch.randint(0, 100, (2, 6))}, sizes)


@example
def lstm() -> Example:
    return _tagger(nn.LSTM)


@example
def gru() -> Example:
    return _tagger(nn.GRU)
