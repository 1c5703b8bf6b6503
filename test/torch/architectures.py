"""Architectures of four libraries, small, with random weights, as users call them.

Each is a module, and the arguments of a call for a number: the first calls have those of 0, later
ones of other sizes have those of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from test.exported.architectures import MODELS

Call: TypeAlias = "Callable[[int], dict[str, Any]]"
Built: TypeAlias = "tuple[torch.nn.Module, Call]"

_TIMM = (
    "convmixer_768_32", "convnext_atto", "deit_tiny_patch16_224", "edgenext_xx_small",
    "efficientnet_b0", "ghostnet_050", "levit_128s", "mixer_s32_224", "mobilenetv4_conv_small_035",
    "regnetx_002", "repvgg_a0", "resnest14d", "tf_efficientnetv2_b0", "vit_tiny_patch16_224",
)  # fmt: skip
_TORCHVISION = (
    "alexnet", "densenet121", "googlenet", "maxvit_t", "mnasnet0_5", "mobilenet_v3_small",
    "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "vgg11",
    "lraspp_mobilenet_v3_large",
)  # fmt: skip
# Those that want pictures of one size.
_FIXED = ("deit", "levit", "maxvit", "mixer", "vit")


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(2, 90, (batch, length))


def _picture(fixed: bool, side: int, number: int) -> torch.Tensor:
    return torch.randn(2 + number, 3, side, side + (0 if fixed else 32 * number))


def _transformers(name: str) -> Built:
    import transformers

    kind, options = MODELS[name][1], MODELS[name][2]
    architecture = getattr(transformers, MODELS[name][0])
    module = architecture(architecture.config_class(**options))

    def call(number: int) -> dict[str, Any]:
        if kind in ("image", "picture"):
            side = 64 if kind == "image" else 32
            return {"pixel_values": _picture(kind == "picture", side, number)}
        if kind == "sound":
            return {"input_values": torch.randn(2, 2000 + 333 * number)}
        ids = _tokens(2 + number, 8 + 4 * number)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if kind == "pair":
            given["decoder_input_ids"] = _tokens(2 + number, 4 + 3 * number)
        if kind in ("decoder", "pair"):
            given["use_cache"] = False  # type: ignore[assignment]
        return given

    return module, call


def _timm(name: str) -> Built:
    import timm

    fixed = name.startswith(_FIXED)
    module = timm.create_model(name, num_classes=10)
    return module, lambda number: {"x": _picture(fixed, 224 if fixed else 96, number)}


def _torchvision(name: str) -> Built:
    import torchvision

    fixed = name.startswith(_FIXED)
    home = torchvision.models.segmentation if name.startswith("lraspp") else torchvision.models
    given = {"weights": None, "num_classes": 10}
    if name.startswith("lraspp"):
        given["weights_backbone"] = None
    if name == "googlenet":
        given |= {"init_weights": True, "aux_logits": False}
    module = getattr(home, name)(**given)
    first = "input" if name.startswith("lraspp") else "x"
    return module, lambda number: {first: _picture(fixed, 224 if fixed else 96, number)}


def _unet() -> Built:
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
        attention_head_dim=8, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return module, lambda n: {
        "sample": torch.randn(2, 4, 16, 16 + 8 * n),
        "timestep": torch.tensor(10),
        "encoder_hidden_states": torch.randn(2, 7 + n, 32),
    }


def _vae() -> Built:
    from diffusers import AutoencoderKL

    module = AutoencoderKL(
        block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, sample_size=32,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return module, lambda n: {"sample": torch.randn(2, 3, 32, 32 + 8 * n)}


def _dit() -> Built:
    from diffusers import DiTTransformer2DModel

    module = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2, sample_size=8,
        num_embeds_ada_norm=10,
    )  # fmt: skip
    return module, lambda n: {
        "hidden_states": torch.randn(2 + n, 4, 8, 8),
        "timestep": torch.randint(0, 10, (2 + n,)),
        "class_labels": torch.randint(0, 10, (2 + n,)),
    }


def _resnet_block() -> Built:
    from diffusers.models.resnet import ResnetBlock2D

    module = ResnetBlock2D(in_channels=32, out_channels=64, temb_channels=128, groups=8)
    return module, lambda n: {
        "input_tensor": torch.randn(2, 32, 16, 16 + 8 * n),
        "temb": torch.randn(2, 128),
    }


ARCHITECTURES: dict[str, Callable[[], Built]] = {
    **{f"transformers {name}": partial(_transformers, name) for name in MODELS},
    **{f"timm {name}": partial(_timm, name) for name in _TIMM},
    **{f"torchvision {name}": partial(_torchvision, name) for name in _TORCHVISION},
    "diffusers UNet2DConditionModel": _unet,
    "diffusers AutoencoderKL": _vae,
    "diffusers DiTTransformer2DModel": _dit,
    "diffusers ResnetBlock2D": _resnet_block,
}

# Only the sizes of these that differ between calls are open: with all, Dynamo itself takes minutes.
MARKED = (
    "transformers swin", "transformers swinv2", "transformers wavlm", "timm deit_tiny_patch16_224",
    "timm efficientnet_b0", "timm ghostnet_050", "timm regnetx_002", "timm tf_efficientnetv2_b0",
    "torchvision densenet121", "torchvision lraspp_mobilenet_v3_large", "torchvision maxvit_t",
    "torchvision mnasnet0_5", "torchvision shufflenet_v2_x0_5", "torchvision swin_t",
    "torchvision vgg11", "diffusers AutoencoderKL", "diffusers UNet2DConditionModel",
)  # fmt: skip
