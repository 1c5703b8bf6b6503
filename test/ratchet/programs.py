"""The programs whose kernels the table holds: whole models, and a kernel of each family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import onnx

from benchmarks.kernel_cases import cases
from benchmarks.movement_cases import movement_cases
from benchmarks.net_models import MODELS as NETS
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from test import dynamic_models
from test.onnx_models import bert, gpt2, half, light, lstm, resnet, vit

# Targets whose code does not depend on the machine that makes it.
CHIPS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
CPU = "x86-64-v3"


@dataclass(frozen=True)
class Source:
    """A model, how it is compiled, and the targets that its kernels are finalized for."""

    model: Callable[[], onnx.ModelProto]
    mode: str = "default"
    targets: tuple[str, ...] = (*CHIPS, CPU)

    def compile(self) -> Artifact:
        return compile_to_bytecode(self.model().SerializeToString(), CompileOptions(mode=self.mode))


_MODELS: dict[str, Source] = {
    "bert": Source(partial(bert, layers=1)),
    "bert f16": Source(lambda: half(bert(layers=1))),
    "gpt2 f16": Source(lambda: half(gpt2(layers=1))),
    "lstm": Source(partial(lstm, layers=1, tokens=4)),
    "mobilenet f16": Source(lambda: half(NETS["mobilenet"](1)), targets=("gfx942", "gfx1100", CPU)),
    "resnet f16": Source(lambda: half(resnet(stages=(1, 1, 1, 1)))),
    "shufflenet": Source(partial(light, "shufflenet", seed=0), targets=("gfx942", "gfx1100", CPU)),
    "squeezenet": Source(partial(light, "squeezenet", seed=0)),
    "vit f16": Source(lambda: half(vit(layers=1))),
    **{
        f"any sizes: {model.__name__}": Source(model, "full-dynamic", ("gfx942", "gfx1100", CPU))
        for model in (dynamic_models.bert, dynamic_models.conv, dynamic_models.mlp)
    },
}

# The gate compares a program of each kind, the slow tier all.
GATE = ("any sizes: mlp", "bert f16", "lstm")


def programs() -> dict[str, Source]:
    """Every program by its name: the models, and the problems of `benchmarks.kernels`."""
    families = {
        f"{case.name}, {case.chip}": Source(case.model, targets=(case.chip,))
        for case in (*cases(), *movement_cases())
        if case.chip in CHIPS and "mgx" in case.makers
    }
    return {**_MODELS, **families}
