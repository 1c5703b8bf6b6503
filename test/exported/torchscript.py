"""Modules and scripted functions, as PyTorch's older exporter, by TorchScript, writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from test.exported.torch_examples import Example, UNet, example, images, tagger


def _of(
    call: Callable[..., Any], *inputs: Tensor, opset: int = 17, dynamic: bool = False
) -> Example:
    """A function by TorchScript, and the batch open if asked."""

    class Function(nn.Module):
        def forward(self, x: Tensor, y: Any = None) -> Any:
            return call(x) if y is None else call(x, y)

    named_inputs = dict(zip(("x", "y"), inputs, strict=False))
    sizes = {name: {0: "batch"} for name in named_inputs} if dynamic else {}
    return Example(Function(), named_inputs, sizes, opset, script=True)


@example
def scripttagger() -> Example:
    made = tagger(nn.LSTM)
    return Example(made.module, made.inputs, made.dynamic, 13, script=True)


@example
def unet() -> Example:
    made = images(UNet(), 32)
    return Example(made.module, made.inputs, made.dynamic, 11, script=True)


@example
def bert() -> Example:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return Example(nn.TransformerEncoder(layer, 2), {"x": torch.randn(2, 5, 16)}, script=True)


@torch.jit.script
def _loop(x: Tensor) -> Tensor:
    y = torch.zeros_like(x[0])
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            y = y + x[i] * i
        else:
            y = torch.tanh(y - x[i])
    return y


@torch.jit.script
def _while(x: Tensor) -> Tensor:
    while bool(x.abs().sum() > 1.0):
        x = x * 0.7
    return x


@torch.jit.script
def _list(x: Tensor) -> Tensor:
    parts = []
    for i in range(x.size(0)):
        parts.append(x[i] * float(i))
    return torch.stack(parts)


class _Scripted(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _script(function: Any) -> Example:
    module = torch.jit.script(_Scripted(function))
    return Example(module, {"x": torch.randn(5, 4)}, {"x": {0: "batch"}}, 16, script=True)


@example
def loop_with_branches() -> Example:
    return _script(_loop)


@example
def while_of_data() -> Example:
    return _script(_while)


@example
def list_of_rows() -> Example:
    return _script(_list)


@example
def spectrum() -> Example:
    def call(x: Tensor) -> Tensor:
        window = torch.hann_window(16)
        return torch.stft(x, 16, 8, window=window, center=False, return_complex=False)

    return _of(call, torch.randn(2, 64))


@example
def windows() -> Example:
    functional = nn.functional
    grid = torch.linspace(-1.1, 0.9, 2 * 4 * 5 * 2).reshape(2, 4, 5, 2)

    def call(x: Tensor) -> Any:
        return (
            functional.interpolate(x, scale_factor=1.7, mode="bicubic"),
            functional.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True),
            functional.adaptive_avg_pool2d(x, (2, 4)),
            functional.pad(x, (1, 2, 0, 3), mode="reflect"),
            functional.unfold(x, 3, padding=1),
            functional.pixel_shuffle(x, 2),
            functional.grid_sample(x, grid, align_corners=False),
            functional.max_pool2d(x, 3, 2, ceil_mode=True),
            functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        )

    return _of(call, torch.randn(2, 4, 8, 12))


@example
def indexing() -> Example:
    def call(x: Tensor, i: Tensor) -> Any:
        i = i % 2
        y = x.clone()
        y[:, 1:3] = 7.0
        y[i[0], :, 2] = x[i[0], :, 0]
        return (
            y,
            x[i],
            x.gather(1, i[:, :, None].expand(-1, -1, 5)),
            x.index_select(1, i[0]),
            x[x > 0],
            x.masked_fill(x < 0, -1.0),
            x.scatter(1, i[:, :, None].expand(-1, -1, 5), 2.0),
            x.roll(1, 1),
            x.tril(),
            x.flip(2),
            x.unbind(1)[0],
            *x.split([1, 3], 1),
            x.repeat_interleave(2, 1),
        )

    return _of(call, torch.randn(2, 4, 5), torch.tensor([[1, 0], [0, 1]]))


@example
def reductions() -> Example:
    def call(x: Tensor) -> Any:
        return (
            x.std(1),
            x.var((0, 2), unbiased=False),
            x.cumsum(1),
            x.logsumexp(-1),
            x.norm(dim=1),
            x.argmax(-1),
            *x.topk(2, -1),
            x.sort(1)[0],
            x.prod(0),
            torch.einsum("bij,bkj->bik", x, x),
            x.amax((1, 2)),
            (x > 0).any(1),
            torch.cdist(x, x),
            x.mean(),
        )

    return _of(call, torch.randn(2, 4, 5), dynamic=True)


@example
def activations() -> Example:
    kinds = (
        nn.CELU,
        nn.ELU,
        nn.GELU,
        nn.GLU,
        nn.Hardshrink,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.LogSigmoid,
        nn.Mish,
        nn.PReLU,
        nn.ReLU6,
        nn.SELU,
        nn.SiLU,
        nn.Softplus,
        nn.Softshrink,
        nn.Softsign,
        nn.Tanhshrink,
    )
    layers = [kind().requires_grad_(False) for kind in kinds]
    return _of(lambda x: tuple(layer(x) for layer in layers), torch.randn(3, 6), dynamic=True)


@example
def half_precision() -> Example:
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).half()
    return Example(module, {"x": torch.randn(3, 8).half()}, {"x": {0: "batch"}}, script=True)


@example
def of_opset_9() -> Example:
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
        nn.LogSoftmax(1),
    )
    return Example(module, {"x": torch.randn(2, 3, 8, 8)}, {"x": {0: "batch"}}, 9, script=True)
