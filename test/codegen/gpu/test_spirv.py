"""SPIR-V for AMD: valid by spirv-val, complete, the same bytes each time, of no wave size."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mlir import ir

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.dialects import context
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.finalizer import finalize_kernel
from mgx_mlir.rewriting.portable import portable_kernel
from test.golden.files import ARTIFACTS, name_of

SPIRV = Target.get("amdgcnspirv")


def unary(op: str, type_: str) -> PortableKernel:
    tensor = f"tensor<2x40x{type_}>"
    text = f"""
        mgx.kernel @k(%a: {tensor}) -> {tensor} attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
          %y = mgx.{op} %a : {tensor}
          mgx.return %y : {tensor}
        }}"""
    module = ir.Module.parse(text, context())
    return portable_kernel(module.body.operations[0])


def checked(data: bytes, folder: Path) -> str:
    """The text of a module that is valid and calls nothing from outside."""
    file = folder / "kernel.spv"
    file.write_bytes(data)
    command = ["spirv-val", "--target-env", "spv1.6", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = disassemble(data)
    imports = [line for line in text.splitlines() if line.endswith("Import")]
    assert all("__spirv_BuiltIn" in line for line in imports), imports
    return text


@pytest.mark.parametrize("path", ARTIFACTS, ids=name_of)
def test_kernels_of_a_program_are_valid(path: Path, tmp_path: Path) -> None:
    for kernel in Artifact.open(path).kernels:
        code = finalize_kernel(kernel.bytecode, SPIRV)
        text = checked(code.data, tmp_path)
        for launch in code.launches:
            assert f'OpEntryPoint Kernel %{launch.function} "{launch.function}"' in text
            assert f"%{launch.function} LocalSize {' '.join(map(str, launch.block))}" in text
        assert "SubgroupSize" not in text and "OpGroupNonUniform" not in text


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_functions_are_those_of_opencl(type_: str, tmp_path: Path) -> None:
    for op in ("erf", "exp", "nearbyint", "rsqrt", "tan", "relu"):
        checked(finalize_kernel(unary(op, type_).bytecode, SPIRV).data, tmp_path)


def test_same_kernel_gives_the_same_bytes() -> None:
    kernel = unary("tanh", "f32")
    assert finalize_kernel(kernel.bytecode, SPIRV) == finalize_kernel(kernel.bytecode, SPIRV)


def test_feature_without_a_form_is_named_with_the_target() -> None:
    with pytest.raises(UnsupportedError, match=r"amdgcnspirv: the kernel needs bf16, and amdgcn"):
        finalize_kernel(unary("exp", "bf16").bytecode, SPIRV)
