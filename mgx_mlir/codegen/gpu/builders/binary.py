"""A gpu.module as an AMDGPU code object (.hsaco), and the instructions in one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.passes import to_llvm_ir
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, copied
from mgx_mlir.codegen.stages import pass_stage
from mgx_mlir.errors import TargetError
from mgx_mlir.machine.amdgpu_metadata import kernel_stats
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object
from mgx_mlir.machine.ocml import libraries_for

SPIRV_MAGIC = bytes.fromhex("03022307")


def code_object(program: GpuProgram, target: Target) -> CodeObject:
    """The program's functions compiled for one GPU; `program` stays as it is.

    The same program gives the same bytes. Raises CompilerError naming the pass that fails.
    """
    if not program.launches:
        return CodeObject(target.name, b"", (), program.scratch_bytes, {})
    pass_stage("gpu", lambda: str(program.module))
    text = to_llvm_ir(gpu_module_of(program), target.chip, program.index_bits)
    pass_stage("llvm", lambda: text)
    libraries = libraries_for(text, target.chip, target.wave_size)
    data = link(
        emit_object(text, target.name, features=target.gpu.llvm_features, libraries=libraries)
    )
    stats, formulas = kernel_stats(data), program.formulas
    return CodeObject(
        target.name, data, program.launches, program.scratch_bytes, stats, formulas=formulas
    )


def gpu_module_of(program: GpuProgram) -> ir.Module:
    """A copy of the program's module with its math expanded, to be lowered in place."""
    copy = copied(program.expanded)
    with copy.context:
        copy.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    return copy


def disassemble(code: bytes) -> str:
    """The instructions of a code object as text, by LLVM's tool; of SPIR-V, by Khronos's tool.

    Raises TargetError where llvm-objdump, or spirv-dis, is not installed.
    """
    if code.startswith(SPIRV_MAGIC):
        tool = shutil.which("spirv-dis")
        if tool is None:
            raise TargetError("spirv-dis is not installed (Debian package spirv-tools)")
        done = subprocess.run([tool], input=code, capture_output=True, check=True)
        return done.stdout.decode()
    with tempfile.NamedTemporaryFile(prefix="mgx-", suffix=".hsaco") as stream:
        stream.write(code)
        stream.flush()
        command = [llvm_tool("llvm-objdump"), "--disassemble", "--no-show-raw-insn", stream.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # The first lines name the temporary file.
    return text.partition("Disassembly of section")[2].partition("\n")[2].lstrip()


@cache
def llvm_tool(tool: str) -> str:
    """The path of a tool of LLVM 22, such as llvm-objdump. Raises TargetError without it."""
    for name in (f"{tool}-22", f"/usr/lib/llvm-22/bin/{tool}", tool):
        path = shutil.which(name)
        if path and Path(path).is_file():
            return path
    raise TargetError(f"{tool} of LLVM 22 is not installed (Debian package llvm-22)")
