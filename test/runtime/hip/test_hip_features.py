"""Features that a kernel needs and a chip lacks: another form of the kernel, and it is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.finalizer import finalize_kernel
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main

SETTINGS = Settings(jobs=1, hip="emulated")
# A feature, ONNX's type that needs it, and a chip of this process that lacks it.
LACKING = (
    ("fp8-fnuz", "FLOAT8E4M3FNUZ", "gfx1100"),
    ("fp8-ocp", "FLOAT8E5M2", "gfx942"),
    ("mx", "FLOAT4E2M1", "gfx942"),
)


def through(type_: str) -> bytes:
    """A model that rounds to a type, and back."""
    number = getattr(TensorProto, type_)
    nodes = [
        helper.make_node("Cast", ["x"], ["small"], "narrow", to=number),
        helper.make_node("Cast", ["small"], ["y"], "widen", to=TensorProto.FLOAT),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 33]) for n in "xy")
    graph = helper.make_graph(nodes, "through", [x], [y])
    opsets = [helper.make_opsetid("", 23)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString())


@pytest.mark.parametrize(("feature", "type_", "chip"), LACKING)
def test_kernel_has_a_form_for_every_chip(feature: str, type_: str, chip: str) -> None:
    artifact = mgx_mlir.compile_to_bytecode(through(type_))
    assert {name for kernel in artifact.kernels for name in kernel.features} == {feature}
    assert feature not in Target.get(chip).features
    finalized = mgx_mlir.finalize(artifact, chip, settings=SETTINGS)
    (code,) = finalized.code_objects[chip]
    assert code.why.endswith(f"{chip} lacks {feature}: computed in other types")
    x = {"x": np.linspace(-9, 9, 132, dtype=np.float32).reshape(4, 33)}
    want = mgx_mlir.compile(artifact, "cpu", settings=SETTINGS).run(x)["y"]
    assert len(np.unique(want)) < len(np.unique(x["x"]))
    found = mgx_mlir.compile(finalized, chip, settings=SETTINGS).run(x)["y"]
    np.testing.assert_array_equal(found, want)


def test_a_chip_with_the_feature_says_nothing() -> None:
    artifact = mgx_mlir.compile_to_bytecode(through("FLOAT8E5M2"))
    code = finalize_kernel(artifact.kernels[0].bytecode, Target.get("gfx1201"))
    assert "lacks" not in code.why


def test_command_line_says_what_a_chip_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    model, file = tmp_path / "bf16.onnx", tmp_path / "bf16.mgx"
    model.write_bytes(through("BFLOAT16"))
    assert main(["compile", str(model), "-o", str(file), "--arch", "gfx1030"]) == 0
    assert main(["inspect", str(file), "--why"]) == 0
    assert "gfx1030 lacks bf16: computed in other types" in capsys.readouterr().out
    assert main(["finalize", str(file), "--arch", "amdgcnspirv"]) == 1
    error = capsys.readouterr().err
    assert "(ONNX nodes narrow" in error and "needs bf16, and amdgcnspirv has no" in error
