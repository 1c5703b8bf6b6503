"""Modules for PyTorch's exporters, small and with random, seeded weights, and their export."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from test.exported.registry import Made, named
from test.onnx_models import random_inputs


@dataclass
class Example:
    """A module, the tensors that it is exported with, and the sizes that stay symbolic.

    `dynamic` names, for each input, the dimensions that a run may choose, `choices` sizes for
    them. `script`: the older exporter, by TorchScript.
    """

    module: nn.Module
    inputs: dict[str, Tensor]
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)
    opset: int = 18
    script: bool = False
    choices: Sequence[dict[str, int]] = ()


def example(build: Callable[[], Example]) -> Callable[[], Example]:
    """Registers a model under the function's name, with inputs of two sizes."""
    named(build.__name__, lambda: made_of(build))
    return build


def made_of(build: Callable[[], Example], script: bool | None = None) -> Made:
    """The model of an example, and inputs. `script` replaces that of the example."""
    torch.manual_seed(0)
    made = build()
    made.module.eval()
    model = _scripted(made) if script or (script is None and made.script) else _exported(made)
    choices = list(made.choices) or [
        {"batch": n - 1, "length": n + 4, "past": n, "answer": n}
        | {"height": 32 * n, "width": 64, "samples": 1000 * n + 333}
        for n in ((2, 5) if made.dynamic else (2,))
    ]
    return model, [_sized(model, sizes) for sizes in choices]


def _exported(made: Example) -> onnx.ModelProto:
    symbols = {s: torch.export.Dim(s) for sizes in made.dynamic.values() for s in sizes.values()}
    shapes = tuple(
        {axis: symbols[symbol] for axis, symbol in made.dynamic.get(key, {}).items()}
        for key in made.inputs
    )
    program = torch.onnx.export(
        made.module,
        tuple(made.inputs.values()),
        dynamo=True,
        dynamic_shapes=shapes,
        opset_version=made.opset,
        input_names=list(made.inputs),
    )
    return program.model_proto


def _scripted(made: Example) -> onnx.ModelProto:
    data = io.BytesIO()
    torch.onnx.export(
        made.module,
        tuple(made.inputs.values()),
        data,
        dynamo=False,
        dynamic_axes=made.dynamic or None,
        opset_version=made.opset,
        input_names=list(made.inputs),
    )
    return onnx.load_from_string(data.getvalue())


def _sized(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs of these sizes of the symbolic dimensions."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    return random_inputs(copy)


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


def image(size: int = 64) -> dict[str, Tensor]:
    return {"x": torch.randn(2, 3, size, size)}


BATCH = {"x": {0: "batch"}}


def images(module: nn.Module, size: int = 64) -> Example:
    """A network for images, its statistics those of the example, so that values do not vanish."""
    inputs = image(size)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        module.train()(*inputs.values())
    return Example(module, inputs, BATCH)


class Block(nn.Sequential):
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
        self.first, self.second, self.bottom = Block(3, 8), Block(8, 16), Block(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.join, self.last = Block(32, 16), nn.Conv2d(24, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(nn.functional.max_pool2d(second, 2))
        y = self.join(torch.cat([second, self.up(bottom)], 1))
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.last(torch.cat([first, y], 1))


class Tagger(nn.Module):
    """Token numbers (batch, length) to scores of labels (batch, length, 5)."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.layers = kind(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.layers(self.embedding(tokens))[0]), -1)


def tagger(kind: type[nn.RNNBase]) -> Example:
    sizes = {"tokens": {0: "batch", 1: "length"}}
    return Example(Tagger(kind), {"tokens": torch.randint(0, 100, (2, 6))}, sizes)
