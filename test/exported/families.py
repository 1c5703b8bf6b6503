"""Families of models, small, with open sizes, as both exporters of PyTorch write them.

`table.py` runs them and says how many programs each takes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import onnx
import torch
import transformers
from torch import Tensor, nn

from test.exported.registry import Made, named
from test.exported.torch_examples import Block, Example, Wrapper, made_of

_TEXT = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
_GROUPS = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_EXPERTS = {**_GROUPS, "num_local_experts": 4, "num_experts_per_tok": 2}
_TOKENS = {0: "batch", 1: "length"}
_PAST = {0: "batch", 2: "past"}
_LENGTHS = [{"batch": 2, "length": 7}, {"batch": 1, "length": 12}, {"batch": 3, "length": 1}]
_STEPS = [
    {"batch": 2, "length": 3, "past": 5, "total": 8},
    {"batch": 1, "length": 1, "past": 17, "total": 18},
    {"batch": 3, "length": 9, "past": 1, "total": 10},
]
_PAIRS = [
    {"batch": 2, "length": 7, "answer": 4},
    {"batch": 1, "length": 12, "answer": 1},
    {"batch": 3, "length": 5, "answer": 9},
]
_WAVES = [{"batch": 2, "samples": n} for n in (400, 333, 1000)]


def family(build: Callable[[], Example]) -> Callable[[], Example]:
    """Registers a model as each exporter writes it: NAME_script and NAME_dynamo."""

    def maker(script: bool) -> Callable[[], Made]:
        def make() -> Made:
            return made_of(build, script)

        return make

    for kind, script in (("script", True), ("dynamo", False)):
        named(f"{build.__name__}_{kind}", maker(script))
    return build


def _ids(*shape: int) -> Tensor:
    return torch.randint(2, 90, shape)


def _text(module: nn.Module) -> Example:
    inputs = {"input_ids": _ids(2, 7), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    wrapped = Wrapper(module, lambda m, **given: m(**given, use_cache=False).logits, *inputs)
    return Example(wrapped, inputs, dict.fromkeys(inputs, _TOKENS), choices=_LENGTHS)


class Step(nn.Module):
    """A decoder with its cache as inputs and outputs, as optimum exports one."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, k0: Tensor, v0: Tensor, k1: Tensor,
        v1: Tensor,
    ) -> Any:  # fmt: skip
        cache, past = transformers.DynamicCache(), (k0, v0, k1, v1)
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.module(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache,
            use_cache=True,
        )  # fmt: skip
        present = [t for layer in made.past_key_values.layers for t in (layer.keys, layer.values)]
        return made.logits, *present


def _step(module: nn.Module) -> Example:
    config = module.config
    names = [f"{kind}{n}" for n in range(config.num_hidden_layers) for kind in "kv"]
    past = {name: torch.randn(2, config.num_key_value_heads, 5, config.head_dim) for name in names}
    inputs = {
        "input_ids": _ids(2, 3),
        "attention_mask": torch.ones(2, 8, dtype=torch.int64),
        **past,
    }
    sizes: dict[str, dict[int, str]] = dict.fromkeys(names, _PAST)
    sizes |= {"input_ids": _TOKENS, "attention_mask": {0: "batch", 1: "total"}}
    return Example(Step(module), inputs, sizes, choices=_STEPS)


@family
def llama() -> Example:
    return _text(transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPS)))


@family
def llama_step() -> Example:
    return _step(transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPS)))


@family
def qwen3_step() -> Example:
    return _step(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_GROUPS)))


@family
def gemma2_step() -> Example:
    config = transformers.Gemma2Config(**_GROUPS, sliding_window=6)
    return _step(transformers.Gemma2ForCausalLM(config))


@family
def mixtral_batched() -> Example:
    """Experts as products of the rows' own weights."""
    config = transformers.MixtralConfig(**_EXPERTS, experts_implementation="batched_mm")
    return _text(transformers.MixtralForCausalLM(config))


class Mixture(nn.Module):
    """Experts that see the rows that the router gives them, as transformers 4 has them."""

    def __init__(self, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
            for _ in range(experts)
        )
        self.head = nn.Linear(width, 100)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        rows = x.reshape(-1, x.shape[-1])
        shares, chosen = torch.topk(torch.softmax(self.router(rows), -1), 2, dim=-1)
        shares = shares / shares.sum(-1, keepdim=True)
        marks = nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        total = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            place, row = torch.where(marks[number] > 0)
            own = expert(rows[row]) * shares[row, place, None]
            total.index_add_(0, row, own)
        return self.head(total.reshape(x.shape))


@family
def mixture_of_experts() -> Example:
    return Example(Mixture(), {"input_ids": _ids(2, 7)}, {"input_ids": _TOKENS}, choices=_LENGTHS)


@family
def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    inputs = {
        "input_ids": _ids(2, 7),
        "attention_mask": torch.ones(2, 7, dtype=torch.int64),
        "decoder_input_ids": _ids(2, 4),
    }
    wrapped = Wrapper(
        transformers.T5ForConditionalGeneration(config),
        lambda m, **given: m(**given, use_cache=False).logits,
        *inputs,
    )
    sizes = {**dict.fromkeys(inputs, _TOKENS), "decoder_input_ids": {0: "batch", 1: "answer"}}
    return Example(wrapped, inputs, sizes, choices=_PAIRS)


@family
def whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=1, encoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
        num_mel_bins=8, max_source_positions=20, max_target_positions=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": _ids(2, 4)}
    wrapped = Wrapper(
        transformers.WhisperForConditionalGeneration(config),
        lambda m, **given: m(**given, use_cache=False).logits,
        *inputs,
    )
    sizes = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "answer"}}
    return Example(wrapped, inputs, sizes, choices=_PAIRS)


@family
def clip() -> Example:
    text = {**_TEXT, "eos_token_id": 99, "bos_token_id": 98, "pad_token_id": 1}
    sight = {**text, "image_size": 32, "patch_size": 8}
    for name in ("vocab_size", "max_position_embeddings"):
        del sight[name]
    config = transformers.CLIPConfig(text_config=text, vision_config=sight, projection_dim=16)
    inputs = {
        "input_ids": _ids(3, 7),
        "pixel_values": torch.randn(2, 3, 32, 32),
        "attention_mask": torch.ones(3, 7, dtype=torch.int64),
    }
    wrapped = Wrapper(
        transformers.CLIPModel(config), lambda m, **given: m(**given).logits_per_image, *inputs
    )
    words = {0: "texts", 1: "length"}
    sizes = {"input_ids": words, "attention_mask": words, "pixel_values": {0: "images"}}
    choices = [
        {"texts": 3, "length": 7, "images": 2},
        {"texts": 2, "length": 12, "images": 4},
        {"texts": 5, "length": 3, "images": 1},
    ]
    return Example(wrapped, inputs, sizes, choices=choices)


class Graph(nn.Module):
    """Sums and weighted means over neighbours, by scatters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, 24)
        self.score, self.last = nn.Linear(48, 1), nn.Linear(24, 5)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        x = torch.relu(self.first(x))
        total = torch.zeros_like(x).index_add(0, target, x[source])
        x = torch.relu(self.second(total + x))
        score = self.score(torch.cat([x[source], x[target]], 1))[:, 0]
        weight = torch.exp(torch.tanh(score))
        below = torch.zeros_like(x[:, 0]).scatter_add(0, target, weight)
        wide = target[:, None].expand(-1, x.shape[1])
        seen = torch.zeros_like(x).scatter_add(0, wide, x[source] * weight[:, None])
        return self.last(seen / (below[:, None] + 1e-6))


@family
def graph() -> Example:
    inputs = {"x": torch.randn(40, 12), "edges": torch.randint(0, 40, (2, 20))}
    choices = [{"nodes": n, "links": m} for n, m in ((40, 20), (70, 11), (45, 64))]
    sizes = {"x": {0: "nodes"}, "edges": {1: "links"}}
    return Example(Graph(), inputs, sizes, choices=choices)


class Recommender(nn.Module):
    """Tables of features, products of each two, as DLRM has them. Bags are exported as loops."""

    def __init__(self, bags: bool) -> None:
        super().__init__()
        self.bags = bags
        table = partial(nn.EmbeddingBag, mode="sum") if bags else nn.Embedding
        self.tables = nn.ModuleList(table(50, 8) for _ in range(4))
        self.bottom, self.top = nn.Linear(6, 8), nn.Linear(18, 1)

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        x = torch.relu(self.bottom(dense))
        rows = [table(ids[:, number]) for number, table in enumerate(self.tables)]
        rows = rows if self.bags else [row.sum(1) for row in rows]
        all_rows = torch.stack([x, *rows], 1)
        products = torch.bmm(all_rows, all_rows.transpose(1, 2))
        i, j = torch.tril_indices(5, 5, -1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, i, j]], 1)))


@family
def dlrm() -> Example:
    return _recommender(bags=False)


@family
def dlrm_of_bags() -> Example:
    return _recommender(bags=True)


def _recommender(bags: bool) -> Example:
    inputs = {"dense": torch.randn(3, 6), "ids": torch.randint(0, 50, (3, 4, 3))}
    choices = [{"batch": n} for n in (3, 1, 40)]
    sizes = {key: {0: "batch"} for key in inputs}
    return Example(Recommender(bags), inputs, sizes, choices=choices)


class Spectrum(nn.Module):
    """Power by time and pitch, and convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.pitches = nn.Linear(17, 12, bias=False)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.last = nn.Linear(8, 5)

    def forward(self, wave: Tensor) -> Tensor:
        x = torch.stft(wave, 32, 16, window=self.window, center=False, return_complex=True)
        power = torch.view_as_real(x).square().sum(-1).transpose(1, 2)
        x = torch.log(self.pitches(power).abs() + 1)
        return self.last(self.layers(x[:, None]))


@family
def spectrum() -> Example:
    inputs = {"wave": torch.randn(2, 400)}
    return Example(Spectrum(), inputs, {"wave": {0: "batch", 1: "samples"}}, choices=_WAVES)


class Kept(torch.autograd.Function):
    """Which boxes NonMaxSuppression keeps: rows of image, class, box."""

    @staticmethod
    def forward(_: Any, boxes: Tensor, scores: Tensor) -> Tensor:
        return torch.zeros(5, 3, dtype=torch.int64, device=boxes.device) + scores.shape[0] * 0

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any) -> Any:
        most = g.op("Constant", value_t=torch.tensor([20]))
        limits = [g.op("Constant", value_t=torch.tensor([n])) for n in (0.45, 0.3)]
        return g.op("NonMaxSuppression", boxes, scores, most, *limits)


class Detector(nn.Module):
    """A grid of boxes with scores of two classes, the boxes that NonMaxSuppression keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(Block(3, 8), nn.MaxPool2d(4), Block(8, 16), nn.MaxPool2d(2))
        self.head = nn.Conv2d(16, 6, 1)

    def forward(self, x: Tensor) -> Any:
        features = self.head(self.backbone(x))
        height, width = features.shape[2:]
        y = features.flatten(2).transpose(1, 2)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres = torch.stack([columns, rows], -1).reshape(-1, 2) * 8.0 + 4.0
        middle, extent = centres + y[..., :2], torch.exp(y[..., 2:4]) * 8
        boxes = torch.cat([middle - extent / 2, middle + extent / 2], -1)
        scores = torch.sigmoid(y[..., 4:])
        kept = Kept.apply(boxes, scores.transpose(1, 2))
        image, kind, box = kept[:, 0], kept[:, 1], kept[:, 2]
        return boxes[image, box], scores[image, box, kind], kind


def _detector() -> Made:
    choices = [
        {"batch": n, "height": h, "width": w} for n, h, w in ((2, 64, 64), (1, 32, 96), (3, 48, 40))
    ]
    open_sizes = {"x": {0: "batch", 2: "height", 3: "width"}}
    inputs = {"x": torch.randn(2, 3, 64, 64)}
    return made_of(lambda: Example(Detector(), inputs, open_sizes, choices=choices), True)


named("detector_script", _detector)


def _int4() -> Made:
    """A decoder whose products have weights of 4 bits in blocks of 16."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model, inputs = made_of(llama_step, True)
    quantizer = MatMulNBitsQuantizer(model, bits=4, block_size=16, is_symmetric=False)
    quantizer.process()
    data = io.BytesIO()
    onnx.save_model(quantizer.model.model, data)
    return data.getvalue(), inputs


named("int4_step", _int4)
