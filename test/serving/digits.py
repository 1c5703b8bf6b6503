"""Artifacts for any batch: the digits' network with images for it, and one with more weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

import mgx_mlir
from test import chain_models

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVING = EXAMPLES / "serving"


def network() -> onnx.ModelProto:
    """The network, for any batch."""
    model = onnx.load(EXAMPLES / "digits.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    return model


def artifact(folder: Path, model: onnx.ModelProto | None = None) -> Path:
    """The file of the artifact, with code for this machine; of the digits' network by default."""
    path = folder / "digits.mgx"
    options = mgx_mlir.CompileOptions(mode="full-dynamic", kind="cpu")
    made = mgx_mlir.compile_to_bytecode(model or network(), options)
    mgx_mlir.save(mgx_mlir.finalize(made, "cpu"), path)
    return path


def wide() -> onnx.ModelProto:
    """A network whose 48 MB of weights a run reads once, whatever its rows: batches pay."""
    model = chain_models.layers([512, 2048, 2048, 2048, 512, 512], "batch")
    model.graph.input[0].name = model.graph.node[0].input[0] = "image"
    model.graph.output[0].name = model.graph.node[-1].output[0] = "probabilities"
    return model


def images() -> np.ndarray:
    """The held-out images, as the network takes them."""
    with np.load(EXAMPLES / "digits_test.npz") as held:
        return held["images"].reshape(-1, 1, 8, 8).astype(np.float32)


def wanted(path: Path) -> np.ndarray:
    return mgx_mlir.compile(mgx_mlir.load(path)).run({"image": images()})["probabilities"]
