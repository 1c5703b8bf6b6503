"""An `mgx.kernel` as SPIR-V for AMD (amdgcnspirv): one binary for every chip and wave size.

The functions are those of the generic path, which know no wave. OpenCL's functions replace the
instructions of a chip. The driver's compiler chooses the chip, and waves of 32 or 64 lanes,
when it loads them.
https://registry.khronos.org/SPIR-V/specs/unified1/OpenCL.ExtendedInstructionSet.100.html
"""

from __future__ import annotations

import re
import subprocess

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.generic.dynamic.kernel import is_dynamic
from mgx_mlir.codegen.generic.lowering import lower_kernel
from mgx_mlir.codegen.gpu.builders.binary import gpu_module_of, llvm_tool
from mgx_mlir.codegen.gpu.builders.passes import to_llvm_ir
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.dynamic.program import dynamic_program
from mgx_mlir.codegen.gpu.kernel import gpu_program
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError, UnsupportedError
from mgx_mlir.rewriting.portable import required_features

# The chip whose passes make the LLVM IR: its own instructions are replaced here.
CHIP = "gfx1100"
TRIPLE = "spirv64-amd-amdhsa"

# LLVM's type, and its letters in OpenCL's mangled names.
_TYPES = {"f16": ("half", "Dh"), "f32": ("float", "f"), "f64": ("double", "d")}
# The letters of signed and unsigned integers; in LLVM the operation has the sign, not the type.
_INTEGERS = {"i8": "ch", "i16": "st", "i32": "ij", "i64": "lm"}
# LLVM's intrinsics that OpenCL has under another name. `rint` rounds to even in the default
# rounding mode.
_RENAMED = {"maxnum": "fmax", "minnum": "fmin", "roundeven": "rint"}
# LLVM's intrinsics that return NaN for a NaN; OpenCL's functions return the other number.
_STRICT = {"maximum": "fmax", "minimum": "fmin"}
_SAME = "ceil copysign cos exp exp2 fabs floor fma log log10 log2 pow round sin sqrt trunc"
_INTRINSICS = "|".join([*_SAME.split(), *_RENAMED, *_STRICT])

_FUNCTION = rf"@(?:__ocml_(\w+?)_|llvm\.({_INTRINSICS})\.)(f16|f32|f64)\("
_CALL = re.compile(rf"{_FUNCTION}([^)]*)\)")
_INTEGER = r"@llvm\.([su](?:max|min))\.(i8|i16|i32|i64)\("
_INTEGER_CALL = re.compile(_INTEGER)
_DECLARED = re.compile(
    rf"^declare [^\n]*(?:@llvm\.amdgcn\.|{_FUNCTION}|{_INTEGER})[^\n]*\n", re.MULTILINE
)
_ID = re.compile(
    r"(%\w+) = call (?:noundef )?(?:range\([^)]*\) )?i32 @llvm\.amdgcn\.(work\w+)\.id\.([xyz])\(\)"
)
_BARRIER = re.compile(r"call void @llvm\.amdgcn\.s\.barrier\(\)")
_CHIP_CALL = re.compile(r"@(llvm\.amdgcn\.[\w.]+)\(")
# The name that the backend gives to an intrinsic that it knows no instruction for.
_LEFT = re.compile(rb"spirv\.(llvm_\w+)")
_PRELUDE = """
declare spir_func i64 @_Z12get_local_idj(i32)
declare spir_func i64 @_Z12get_group_idj(i32)
declare spir_func void @_Z7barrierj(i32)
"""
# OpenCL's CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
_FENCES = 3


def compile_kernel(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The kernel's functions as one SPIR-V module.

    The same kernel gives the same bytes. Raises UnsupportedError for a kernel that SPIR-V for
    AMD cannot express, CompilerError naming the pass that fails.
    """
    if "bf16" in required_features(kernel):
        raise UnsupportedError(
            f"the kernel needs bf16, and {target.name} has no such type; finalize for chips, or "
            "for a generic target such as gfx11-generic"
        )
    if is_dynamic(kernel):
        dynamic = dynamic_program(kernel)
        return dynamic.with_sizes(_code_object(dynamic.program, target))
    return _code_object(gpu_program(lower_kernel(kernel)), target)


def _code_object(program: GpuProgram, target: Target) -> CodeObject:
    if not program.launches:
        return CodeObject(target.name, b"", (), program.scratch_bytes, {})
    data = emit_spirv(with_opencl(to_llvm_ir(gpu_module_of(program), CHIP, program.index_bits)))
    left = sorted({name.decode() for name in _LEFT.findall(data)})
    if left:
        raise UnsupportedError(f"SPIR-V has no form of {', '.join(left)}")
    return CodeObject(
        target.name, data, program.launches, program.scratch_bytes, {}, "generic path"
    )


def emit_spirv(text: str) -> bytes:
    """SPIR-V of LLVM IR, by LLVM's own tool.

    Each module gets a process: LLVM's backend keeps state from one module to the next, and IR
    that it cannot express ends the process. It runs without optimisations: they introduce
    integers of widths that the standard does not have, and the loader of SPIR-V optimises
    anyway. Raises CompilerError with LLVM's words.
    """
    command = [llvm_tool("llc"), f"-mtriple={TRIPLE}", "-O0", "-filetype=obj", "-o", "-", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        words = done.stderr.decode(errors="replace").splitlines()
        why = next((line for line in words if "error" in line.lower()), "no reason given")
        raise CompilerError(f"LLVM's SPIR-V backend failed: {why}")
    return done.stdout


def with_opencl(text: str) -> str:
    """LLVM IR for a chip as LLVM IR for SPIR-V. Raises UnsupportedError for a chip's calls."""
    text = text.replace("amdgpu_kernel", "spir_kernel").replace(" addrspace(5)", "")
    text = _DECLARED.sub("", text)
    text = _BARRIER.sub(f"call void @_Z7barrierj(i32 {_FENCES})", text)
    text = _ID.sub(_identifier, text)
    declared = {_declaration(match) for match in _CALL.finditer(text)}
    text = _CALL.sub(lambda match: f"@{_name(match)}({match[4]})", text)
    for match in _INTEGER_CALL.finditer(text):
        declared.add(f"declare spir_func {match[2]} @{_integer(match)}({match[2]}, {match[2]})\n")
    text = _INTEGER_CALL.sub(lambda match: f"@{_integer(match)}(", text)
    text = re.sub(r"call ((?:\w+ )*)(\w+ @_Z)", r"call \1spir_func \2", text)
    chip = sorted(set(_CHIP_CALL.findall(text)))
    if chip:
        raise UnsupportedError(f"SPIR-V has no form of {', '.join(chip)}")
    return text + _PRELUDE + "".join(sorted(declared))


def _integer(match: re.Match[str]) -> str:
    """The OpenCL function of a call of LLVM's smax, smin, umax or umin."""
    return f"_Z3{match[1][1:]}{_INTEGERS[match[2]][match[1][0] == 'u'] * 2}"


def _identifier(match: re.Match[str]) -> str:
    """The number of a work item or a work-group; the kernels use 32 bits of it."""
    name, what, dimension = match.groups()
    function = "get_local_id" if what == "workitem" else "get_group_id"
    call = f"call i64 @_Z12{function}j(i32 {'xyz'.index(dimension)})"
    wide = f"%mgx.{name[1:]}"
    return f"{wide} = {call}\n  {name} = trunc i64 {wide} to i32"


def _name(match: re.Match[str]) -> str:
    """The OpenCL function of a call, mangled."""
    stem = match[1] or match[2]
    if stem in _STRICT:
        return f"mgx.{stem}.{match[3]}"
    stem = _RENAMED.get(stem, stem)
    return f"_Z{len(stem)}{stem}{_TYPES[match[3]][1] * len(match[4].split(','))}"


def _declaration(match: re.Match[str]) -> str:
    type_, letter = _TYPES[match[3]]
    name = _name(match)
    count = len(match[4].split(","))
    if match[2] not in _STRICT:
        return f"declare spir_func {type_} @{name}({', '.join([type_] * count)})\n"
    inner = f"_Z4{_STRICT[match[2]]}{letter * 2}"
    return f"""declare spir_func {type_} @{inner}({type_}, {type_})
define internal {type_} @{name}({type_} %a, {type_} %b) alwaysinline {{
  %one = call spir_func {type_} @{inner}({type_} %a, {type_} %b)
  %sum = fadd {type_} %a, %b
  %nan = fcmp uno {type_} %a, %b
  %result = select i1 %nan, {type_} %sum, {type_} %one
  ret {type_} %result
}}
"""
