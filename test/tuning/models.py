"""A small program of three problems, and its tuning with few candidates, for tests.

python -m test.tuning.models FOLDER     # tunes it; prints a line for each problem
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.search import Effort
from mgx_mlir.tuning.tune import tune_artifact
from mgx_mlir.tuning.work import Work
from test.onnx_models import Builder, half

CHIP = "gfx942"


def model() -> onnx.ModelProto:
    """Two products, the first with an epilogue, and a softmax, in f16."""
    b = Builder(1)
    x = b.op("Relu", b.op("MatMul", "x", b.weight("w", 64, 128, scale=0.1)))
    x = b.op("MatMul", x, b.weight("v", 128, 64, scale=0.1))
    given = {"x": (TensorProto.FLOAT, [32, 64]), "z": (TensorProto.FLOAT, [32, 512])}
    found = {"y": (x, [32, 64]), "s": (b.op("Softmax", "z", axis=-1), [32, 512])}
    return half(b.model(given, found, "small"))


def program() -> Artifact:
    """The model's artifact."""
    return mgx_mlir.compile_to_bytecode(model())


def settings(folder: Path | None) -> Settings:
    return Settings(cache_dir=folder, hip="emulated", jobs=1)


def tuned(artifact: Artifact, folder: Path | None, kernels: str = "") -> list[tuple[Record, bool]]:
    """The records of a tuning, and whether each was there before."""
    found: list[tuple[Record, bool]] = []

    def told(work: Work, record: Record, known: bool) -> None:
        found.append((record, known))
        print(record.description, "known" if known else "new", flush=True)

    effort = Effort(tried=2)
    tune_artifact(artifact, CHIP, effort, settings=settings(folder), told=told, kernels=kernels)
    return found


if __name__ == "__main__":
    tuned(program(), Path(sys.argv[1]))
