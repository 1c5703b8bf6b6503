"""The passes from a gpu.module to LLVM IR for one chip."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

from mgx_mlir._native import _mgx
from mgx_mlir.errors import CompilerError

# What the chips do in an instruction or a short sequence that LLVM knows (exp, log, sqrt,
# floor, ...) is left to LLVM.
_EXPANDED = (
    "acos,acosh,asin,asinh,atan,atan2,atanh,cbrt,cos,cosh,erf,erfc,expm1,fpowi,log1p,powf,"
    "sin,sinh,tan,tanh"
)
EXPAND_MATH = (f"mgx-expand-math{{ops={_EXPANDED}}}", "canonicalize", "cse")


def chip_passes(chip: str, index_bits: int) -> tuple[str, ...]:
    """The passes from gpu, arith, math, scf and memref to ROCDL and LLVM, in order."""
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
        f"convert-math-to-rocdl{{chipset={chip}}}",
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
    run_passes(module, chip_passes(chip, index_bits))
    gpu_module = next(op for op in module.body.operations if op.operation.name == "gpu.module")
    gpu_module.operation.walk(_keep_loop_annotation)
    return llvm_dialect.translate_module_to_llvmir(gpu_module.operation)


def _keep_loop_annotation(op: ir.Operation) -> ir.WalkResult:
    """Gives a branch the annotation of its loop under the name that translation reads.

    The conversions carry `llvm.loop_annotation` along as a foreign attribute.
    """
    if op.name == "llvm.br" and "llvm.loop_annotation" in op.attributes:
        op.attributes["loop_annotation"] = op.attributes["llvm.loop_annotation"]
        del op.attributes["llvm.loop_annotation"]
    return ir.WalkResult.ADVANCE
