"""An `mgx.kernel` as SPIR-V for AMD (amdgcnspirv): one binary for every chip and wave size.

The functions are those of the generic path, which know no wave. OpenCL's functions replace the
instructions of a chip. The driver's compiler chooses the chip, and waves of 32 or 64 lanes,
when it loads them.
https://registry.khronos.org/SPIR-V/specs/unified1/OpenCL.ExtendedInstructionSet.100.html
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import gpu, llvm, rocdl

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import gpu_module_of, llvm_tool
from mgx_mlir.codegen.gpu.builders.passes import lowered
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.loops import loops_program
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError, UnsupportedError
from mgx_mlir.rewriting.portable import required_features
from mgx_mlir.rewriting.queries import ops_inside, replace

# The chip whose passes make the LLVM IR: its own instructions are replaced here.
CHIP = "gfx1100"
TRIPLE = "spirv64-amd-amdhsa"

# The letters of unsigned and signed types in OpenCL's mangled names; in LLVM the operation has the
# sign, not the type.
_LETTERS = {"f16": ("Dh",) * 2, "f32": ("f",) * 2, "f64": ("d",) * 2}
_LETTERS |= {"i8": ("h", "c"), "i16": ("t", "s"), "i32": ("j", "i"), "i64": ("m", "l")}
# LLVM's intrinsics that OpenCL has, by the name there. `rint` rounds to even in the default
# rounding mode. OpenCL's fmax and fmin give the other number for a NaN.
_SAME = "ceil copysign cos exp exp2 fabs floor fma log log10 log2 pow round sin sqrt trunc"
_INTRINSICS = {name: name for name in _SAME.split()} | {
    "maximum": "fmax",
    "maxnum": "fmax",
    "minimum": "fmin",
    "minnum": "fmin",
    "roundeven": "rint",
    "smax": "max",
    "smin": "min",
    "umax": "max",
    "umin": "min",
}
_SIGNED = frozenset(("smax", "smin"))
_STRICT = frozenset(("maximum", "minimum"))
_OCML = re.compile(r"__ocml_(\w+)_f\d+")
_IDS: dict[type[ir.OpView], tuple[str, int]] = {
    rocdl.BlockIdXOp: ("get_group_id", 0),
    rocdl.BlockIdYOp: ("get_group_id", 1),
    rocdl.BlockIdZOp: ("get_group_id", 2),
    rocdl.ThreadIdXOp: ("get_local_id", 0),
    rocdl.ThreadIdYOp: ("get_local_id", 1),
    rocdl.ThreadIdZOp: ("get_local_id", 2),
}
# The name that the backend gives to an intrinsic that it knows no instruction for.
_LEFT = re.compile(rb"spirv\.(llvm_\w+)")
# OpenCL's CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
_FENCES = 3
# AMD's address space of a work-item's own memory; SPIR-V's has no number.
_PRIVATE = 5


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
    return _code_object(loops_program(kernel), target)


def _code_object(program: GpuProgram, target: Target) -> CodeObject:
    if not program.launches:
        scratch, formulas = program.scratch_bytes, program.formulas
        return CodeObject(target.name, b"", (), scratch, {}, formulas=formulas)
    module = gpu_module_of(program)
    with module.context, ir.Location.unknown():
        kernels = lowered(module, CHIP, program.index_bits)
        _with_opencl(kernels)
        data = emit_spirv(llvm.translate_module_to_llvmir(kernels.operation))
    left = sorted({name.decode() for name in _LEFT.findall(data)})
    if left:
        raise UnsupportedError(f"SPIR-V has no form of {', '.join(left)}")
    scratch, formulas = program.scratch_bytes, program.formulas
    return CodeObject(
        target.name, data, program.launches, scratch, {}, "generic path", formulas=formulas
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


class _OpenCL:
    """Calls of OpenCL's functions, which a module declares at its end."""

    def __init__(self, module: gpu.GPUModuleOp) -> None:
        self._end = ir.InsertionPoint(module.regions[0].blocks[0])
        self._convention = ir.Attribute.parse("#llvm.cconv<spir_funccc>")
        self._declared: set[str] = set()

    def call(
        self, name: str, result: ir.Type | None, operands: Sequence[ir.Value], signed: bool = False
    ) -> Sequence[ir.Value]:
        """The results of the overload of a function for the operands."""
        types = [str(x.type) for x in operands]
        letters = (_LETTERS[type_][signed] for type_ in types)
        mangled = f"_Z{len(name)}{name}{''.join(letters)}"
        if mangled not in self._declared:
            self._declared.add(mangled)
            type_ = ir.TypeAttr.parse(f"!llvm.func<{result or 'void'} ({', '.join(types)})>")
            with self._end:
                llvm.LLVMFuncOp(mangled, type_, CConv=self._convention)
        callee = ir.FlatSymbolRefAttr.get(mangled)
        call = llvm.CallOp(result, operands, [], [], callee=callee, CConv=self._convention)
        return call.operation.results


def _with_opencl(module: gpu.GPUModuleOp) -> None:
    """Replaces a chip's ops, and LLVM's intrinsics, by OpenCL's functions."""
    opencl = _OpenCL(module)
    for function in ops_inside(module, llvm.LLVMFuncOp):
        for block in function.body.blocks:
            for op in list(block.operations):
                _without_chip(opencl, op)
        if "rocdl.kernel" in function.attributes:
            del function.attributes["rocdl.kernel"]
            function.CConv = ir.Attribute.parse("#llvm.cconv<spir_kernelcc>")
        elif function.sym_name.value.startswith("__ocml_"):
            function.operation.erase()


def _without_chip(opencl: _OpenCL, op: ir.OpView) -> None:
    i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))

    def number(value: int) -> ir.Value:
        return llvm.mlir_constant(ir.IntegerAttr.get(i32, value))

    for result in op.operation.results:
        if result.type == llvm.PointerType.get(_PRIVATE):
            result.set_type(llvm.PointerType.get())
    with ir.InsertionPoint(op):
        if type(op) in _IDS:
            name, dimension = _IDS[type(op)]
            (wide,) = opencl.call(name, i64, [number(dimension)])
            replace(op, [llvm.trunc(i32, wide, 0)])
        elif isinstance(op, rocdl.SBarrierOp):
            opencl.call("barrier", None, [number(_FENCES)])
            replace(op, [])
        elif stem := _function(op):
            replace(op, _called(opencl, stem, op))


def _function(op: ir.OpView) -> str | None:
    """The function of AMD's library, or intrinsic of LLVM, that OpenCL has; None for others."""
    if isinstance(op, llvm.CallOp):
        found = _OCML.fullmatch(op.callee.value) if op.callee else None
        return found[1] if found else None
    name = op.intrin.value if isinstance(op, llvm.CallIntrinsicOp) else op.operation.name
    stem = name.removeprefix("llvm.").removeprefix("intr.").partition(".")[0]
    if name == llvm.TruncOp.OPERATION_NAME or stem not in _INTRINSICS:
        return None
    return stem if str(op.operation.result.type) in _LETTERS else None


def _called(opencl: _OpenCL, stem: str, op: ir.OpView) -> Sequence[ir.Value]:
    """The results of OpenCL's function, with LLVM's results for a NaN."""
    operands, type_ = list(op.operands), op.operation.result.type
    found = opencl.call(_INTRINSICS.get(stem, stem), type_, operands, stem in _SIGNED)
    if stem not in _STRICT:
        return found
    nan = llvm.fcmp(llvm.FCmpPredicate.uno, *operands)
    return [llvm.select(nan, llvm.fadd(*operands), found[0])]
