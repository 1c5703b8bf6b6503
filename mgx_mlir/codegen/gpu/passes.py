"""From a gpu.module to LLVM IR for one chip."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

from mgx_mlir.errors import CompilerError


def chip_pipeline(chip: str, index_bits: int) -> str:
    """The pass pipeline from gpu, arith, math, scf and memref to ROCDL and LLVM.

    Everything in it but the chip's own names is the same for all chips.
    """
    return (
        "builtin.module(gpu.module("
        "canonicalize,cse,"
        f"convert-math-to-rocdl{{chipset={chip}}},"
        "convert-scf-to-cf,"
        f"convert-gpu-to-rocdl{{chipset={chip} index-bitwidth={index_bits} "
        "use-bare-ptr-memref-call-conv=1},"
        "convert-vector-to-llvm,"
        "reconcile-unrealized-casts,"
        "canonicalize,cse))"
    )


def to_llvm_ir(module: ir.Module, chip: str, index_bits: int) -> str:
    """LLVM IR, as text, of the one gpu.module in `module`, which is lowered in place.

    Raises CompilerError with the words of the pass that fails.
    """
    try:
        PassManager.parse(chip_pipeline(chip, index_bits), module.context).run(module.operation)
    except ir.MLIRError as error:
        raise CompilerError(f"lowering to ROCDL for {chip} failed: {error}") from error
    gpu_module = next(op for op in module.body.operations if op.operation.name == "gpu.module")
    return llvm_dialect.translate_module_to_llvmir(gpu_module.operation)
