"""The digits' network as an artifact for any batch, and images for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

import mgx_mlir

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVING = EXAMPLES / "serving"


def network() -> onnx.ModelProto:
    """The network, for any batch."""
    model = onnx.load(EXAMPLES / "digits.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    return model


def artifact(folder: Path) -> Path:
    """The file of the artifact, with code for this machine."""
    path = folder / "digits.mgx"
    options = mgx_mlir.CompileOptions(mode="full-dynamic", kind="cpu")
    made = mgx_mlir.compile_to_bytecode(network(), options)
    mgx_mlir.save(mgx_mlir.finalize(made, "cpu"), path)
    return path


def images() -> np.ndarray:
    """The held-out images, as the network takes them."""
    with np.load(EXAMPLES / "digits_test.npz") as held:
        return held["images"].reshape(-1, 1, 8, 8).astype(np.float32)


def wanted(path: Path) -> np.ndarray:
    return mgx_mlir.compile(mgx_mlir.load(path)).run({"image": images()})["probabilities"]
