"""Small networks whose kernels are one resident kernel, on an emulated chip: run by
test_hip_persistent.py in a process of its own, which finds races, in several orders.

Prints the launches of a run, and the hash of its results; with `launches`, of the same plan without
resident kernels.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.settings import Settings

ROWS, WIDTH, INNER = 4, 128, 192


def layers(count: int) -> ModelProto:
    """Layers of a product, Relu, another one, a sum and a LayerNorm, all of the same sizes."""
    random = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name: str, *shape: int) -> str:
        array = random.standard_normal(shape).astype(np.float16) / np.float16(8)
        weights.append(numpy_helper.from_array(array, name))
        return name

    x = "x"
    for i in range(count):
        up, down = weight(f"up{i}", WIDTH, INNER), weight(f"down{i}", INNER, WIDTH)
        scale, bias = weight(f"scale{i}", WIDTH), weight(f"bias{i}", WIDTH)
        nodes += [
            helper.make_node("MatMul", [x, up], [f"h{i}"]),
            helper.make_node("Relu", [f"h{i}"], [f"r{i}"]),
            helper.make_node("MatMul", [f"r{i}", down], [f"o{i}"]),
            helper.make_node("Add", [x, f"o{i}"], [f"s{i}"]),
            helper.make_node("LayerNormalization", [f"s{i}", scale, bias], [f"y{i}"]),
        ]
        x = f"y{i}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, [ROWS, WIDTH]) for name in ("x", x)
    ]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def given() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float16)}


def decoder() -> tuple[ModelProto, dict[str, np.ndarray], dict[str, int]]:
    """A decoder's step, whose attention has smaller work-groups than its norms, with barriers."""
    from test import decoder_models
    from test.dynamic_models import inputs_of
    from test.onnx_models import half

    widths = {"WIDTH": 128, "INNER": 192, "HEADS": 4, "SHARED": 2, "EACH": 32, "POSITIONS": 256}
    with patch.multiple(decoder_models, **widths):
        model = half(decoder_models.llama())
    sizes = decoder_models.step(1, 127)
    return model, dict(inputs_of(model, sizes)), sizes


def main() -> None:
    chip, persistent, name = sys.argv[1], sys.argv[2] == "persistent", sys.argv[3]
    model, inputs, sizes = decoder() if name == "decoder" else (layers(3), given(), {})
    portable = mgx_mlir.compile_to_bytecode(model, persistent=True, dim_params=sizes)
    artifact: Any = mgx_mlir.finalize(portable, chip)
    if not persistent:
        own = tuple(one for one in artifact.code_objects[chip] if one.resident is None)
        artifact = replace(artifact, code_objects={chip: own})
    program: Any = mgx_mlir.compile(artifact, chip, settings=Settings(hip="emulated"))
    digest = hashlib.sha256()
    for _ in range(2):  # the barrier's words are no more 0
        for array in program.run(inputs).values():
            digest.update(np.asarray(array).tobytes())
    print(len(program.launches), digest.hexdigest())


if __name__ == "__main__":
    main()
