"""The passes from a gpu.module to LLVM IR for one chip."""

from __future__ import annotations

import re

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

from mgx_mlir._native import _mgx
from mgx_mlir.codegen.generic.lowering.arithmetic import Arithmetic, scalar_type
from mgx_mlir.codegen.generic.lowering.expand import Function, expand, expand_pass
from mgx_mlir.codegen.gpu.builders import functions
from mgx_mlir.errors import CompilerError

# Functions of f64 that every chip has. AMD's device library has the others.
_NATIVE_F64 = frozenset(
    "math.absf math.ceil math.copysign math.floor math.fma math.isfinite math.isinf math.isnan "
    "math.isnormal math.round math.roundeven math.rsqrt math.sqrt math.trunc".split()
)
# Ops that convert-gpu-to-rocdl lowers to calls, though every chip has an instruction for them.
_INTRINSICS: dict[str, str] = {
    "math.absf": "llvm.fabs",
    "math.ceil": "llvm.ceil",
    "math.copysign": "llvm.copysign",
    "math.floor": "llvm.floor",
    "math.round": "llvm.round",
    "math.roundeven": "llvm.roundeven",
    "math.trunc": "llvm.trunc",
}
# convert-gpu-to-rocdl lowers arith.remf to calls; LLVM 22 expands frem itself, exactly.
_OCML_FMOD = re.compile(
    r"call (?:\w+ )*?(half|float|double) @__ocml_fmod_f\d+\(\w+ ([^,]+), \w+ ([^)]+)\)"
)
_OCML_FMOD_DECLARED = re.compile(r"^declare \w+ @__ocml_fmod_f\d+\(.*$", re.MULTILINE)
# Launches wait for each other, so atomics need no order with other accesses. Memory of hipMalloc
# is neither fine-grained nor another device's (AMDGPUUsage, "Memory Model").
_ATOMIC = re.compile(r"^(.*\b(?:atomicrmw|cmpxchg)\b.*?) acq_rel( acquire)?(.*)$", re.MULTILINE)
_ATOMIC_METADATA = "!amdgpu.no.fine.grained.memory !{}, !amdgpu.no.remote.memory !{}"
_F32: dict[str, Function] = {"math.erf": functions.erf}
_F64: dict[str, Function] = {"math.copysign": functions.copysign}
_REPLACED = frozenset((*_INTRINSICS, "arith.remf"))


def expand_math(module: ir.Module) -> None:
    """Expands math to ops that LLVM lowers on a GPU, where it can be expanded.

    exp, log, sqrt, floor and others that take a chip an instruction or a short sequence are
    left to LLVM, functions of f64 to AMD's library.
    """
    computes = _computes(module)
    wide = expand(module, _F32, _F64) if computes else frozenset()
    run_passes(module, (expand_pass(wide), "canonicalize", "cse"))
    if not computes:
        return
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _INTRINSICS and isinstance(op.results[0].type, ir.FloatType):
            found.append(op)
        if op.name == "arith.remf":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        module.context.get_dialect_descriptor("llvm")
    for op in found:
        with ir.InsertionPoint(op), op.location:
            new = _remainder(op) if op.name == "arith.remf" else _intrinsic(op)
        op.results[0].replace_all_uses_with(new)
        op.erase()


def _computes(module: ir.Module) -> bool:
    """Whether there is any math to replace."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name.startswith("math.") or op.name in _REPLACED
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _intrinsic(op: ir.Operation) -> ir.Value:
    type_ = op.results[0].type
    name = f"{_INTRINSICS[op.name]}.{type_}"
    call = llvm_dialect.CallIntrinsicOp(type_, name, list(op.operands), [], [])
    return call.operation.results[0]


def _remainder(op: ir.Operation) -> ir.Value:
    """The remainder, in f32 for bf16, which LLVM does not expand; the result is exact in both.

    LLVM would narrow the remainder of extended values again: bf16 is extended by its bits.
    """
    type_ = op.results[0].type
    if isinstance(scalar_type(op.results[0]), ir.BF16Type):
        return arith.truncf(type_, arith.remf(*(_widened(x) for x in op.operands)))
    return arith.remf(*(_widened(_extended_bf16(x) or x) for x in op.operands))


def _extended_bf16(value: ir.Value) -> ir.Value | None:
    """The bf16, or the vector of them, that `value` extends; None for other values."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.extf":
        return None
    source = value.owner.operation.operands[0]
    return source if isinstance(scalar_type(source), ir.BF16Type) else None


def _widened(value: ir.Value) -> ir.Value:
    """A bf16, or a vector of them, as f32; other types as they are."""
    if not isinstance(scalar_type(value), ir.BF16Type):
        return value
    a = Arithmetic.like([value])
    i16, i32 = (a.type(ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    wide = arith.extui(i32, arith.bitcast(i16, value))
    return arith.bitcast(a.type(ir.F32Type.get()), arith.shli(wide, a.int(16, wide)))


def calls_device_library(module: ir.Module) -> bool:
    """Whether math is left that only AMD's device library (OCML) has: functions of f64."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        if op.name.startswith("math.") and op.name not in _NATIVE_F64:
            found = isinstance(op.results[0].type, ir.F64Type)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def chip_passes(chip: str, index_bits: int, device_library: bool) -> tuple[str, ...]:
    """The passes from gpu, arith, math, scf and memref to ROCDL and LLVM, in order.

    device_library: math that AMD's device library has becomes calls to it.
    """
    library = (f"convert-math-to-rocdl{{chipset={chip}}}",) if device_library else ()
    inside = (
        f"convert-gpu-to-rocdl{{chipset={chip} index-bitwidth={index_bits} "
        "use-bare-ptr-memref-call-conv=1}",
        # convert-gpu-to-rocdl is partial: vectors are left to this one.
        "convert-vector-to-llvm",
        "reconcile-unrealized-casts",
        "canonicalize",
        "cse",
    )
    return (
        *library,
        "convert-scf-to-cf",
        *(f"gpu.module({step})" for step in inside),
    )


def run_passes(module: ir.Module, passes: tuple[str, ...]) -> None:
    """Runs passes one after another. Raises CompilerError naming the one that fails."""
    for step in passes:
        manager = PassManager.parse(f"builtin.module({step})", module.context)
        manager.enable_verifier(False)
        try:
            _mgx.run_pass_manager(manager, module.operation)
        except ir.MLIRError as error:
            raise CompilerError(f"pass '{step}' failed: {error}") from error


def to_llvm_ir(module: ir.Module, chip: str, index_bits: int) -> str:
    """LLVM IR, as text, of the one gpu.module in `module`, which is lowered in place.

    Raises CompilerError naming the pass that fails.
    """
    if chip == "gfx908":
        _without_inline_assembly(module)
    run_passes(module, chip_passes(chip, index_bits, calls_device_library(module)))
    gpu_module = next(op for op in module.body.operations if op.operation.name == "gpu.module")
    _keep_loop_annotations(gpu_module)
    text = llvm_dialect.translate_module_to_llvmir(gpu_module.operation)
    if "__ocml_fmod" in text:
        text = _OCML_FMOD_DECLARED.sub("", _OCML_FMOD.sub(r"frem \1 \2, \3", text))
    return _ATOMIC.sub(_relaxed, text) if " acq_rel" in text else text


def _relaxed(found: re.Match[str]) -> str:
    """The atomic with relaxed (monotonic) ordering."""
    order = "monotonic monotonic" if found[2] else "monotonic"
    return f'{found[1]} syncscope("agent") {order}{found[3]}, {_ATOMIC_METADATA}'


def _without_inline_assembly(module: ir.Module) -> None:
    """Replaces barriers of LDS alone by barriers that wait for all memory.

    convert-gpu-to-rocdl lowers the former to inline assembly on gfx908 (AMDGPUToROCDL, "ldsOnly
    barriers"), and LLVM's library ends the process where no assembly parser is loaded.
    """
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "amdgpu.lds_barrier":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with op.location:
            ir.Operation.create("gpu.barrier", ip=ir.InsertionPoint(op))
        op.erase()


def _keep_loop_annotations(gpu_module: ir.OpView) -> None:
    """Renames the loop annotations of branches to the name that the translation reads.

    The conversions pass `llvm.loop_annotation` on as a foreign attribute.
    """
    functions = gpu_module.operation.regions[0].blocks[0].operations
    for block in (b for f in functions for region in f.operation.regions for b in region.blocks):
        op = block.operations[len(block.operations) - 1].operation
        if op.name == "llvm.br" and "llvm.loop_annotation" in op.attributes:
            op.attributes["loop_annotation"] = op.attributes["llvm.loop_annotation"]
            del op.attributes["llvm.loop_annotation"]
