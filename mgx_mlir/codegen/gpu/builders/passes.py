"""The passes from a gpu.module to LLVM IR for one chip."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import amdgpu, arith, gpu, llvm, math, rocdl, vector
from mlir.passmanager import PassManager

from mgx_mlir._native import _mgx
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, constant_number, scalar_type
from mgx_mlir.codegen.meaning.expand import Function, expand, expand_pass
from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.queries import definition, ops_inside

# erf is 1 in f32 from this number on.
ERF_LIMIT = 3.875
# erf(x) / x as a polynomial in w = 2 (x / ERF_LIMIT)^2 - 1, from the constant term on: a fit
# of least relative error at 4000 Chebyshev nodes, rounded to f32. In f32 with fused
# multiply-adds, erf is off by at most 3.4 units in the last place, and by 1.7e-7.
ERF = (
    3.6491942e-01,
    -1.8215013e-01,
    1.3545124e-01,
    -1.0996591e-01,
    9.0740986e-02,
    -7.3491015e-02,
    5.727093e-02,
    -4.203047e-02,
    2.8416708e-02,
    -1.8739495e-02,
    1.2827277e-02,
    -6.8370984e-03,
    1.875105e-03,
    -1.2643039e-03,
    1.7201626e-03,
    -6.789071e-04,
)
# Functions of f64 that every chip has. AMD's device library has the others.
_NATIVE_F64 = frozenset(
    "math.absf math.ceil math.copysign math.floor math.fma math.isfinite math.isinf math.isnan "
    "math.isnormal math.round math.roundeven math.rsqrt math.sqrt math.trunc".split()
)
# Ops that convert-gpu-to-rocdl lowers to calls, though every chip has an instruction for them.
_INTRINSICS: dict[type[ir.OpView], str] = {
    math.AbsFOp: "llvm.fabs",
    math.CeilOp: "llvm.ceil",
    math.CopySignOp: "llvm.copysign",
    math.FloorOp: "llvm.floor",
    math.RoundOp: "llvm.round",
    math.RoundEvenOp: "llvm.roundeven",
    math.TruncOp: "llvm.trunc",
}
_OCML_FMOD = "__ocml_fmod_"


def erf(
    a: Arithmetic, x: ir.Value, largest: float = ERF_LIMIT, terms: Sequence[float] = ERF
) -> ir.Value:
    """erf of an f32, or of each element of a vector of them. NaN stays NaN.

    largest: from it on erf is 1. terms: of its polynomial, as `ERF` are.
    """
    limit = a.float(largest, x)
    beyond = a.compare("ogt", math.absf(x), limit)
    inside = a.select(beyond, math.copysign(limit, x), x)
    scale = a.float(2 / largest**2, x)
    w = math.fma(arith.mulf(inside, inside), scale, a.float(-1.0, x))
    result = a.float(terms[-1], x)
    for coefficient in reversed(terms[:-1]):
        result = math.fma(result, w, a.float(coefficient, x))
    return arith.mulf(result, inside)


def copysign(a: Arithmetic, size: ir.Value, sign: ir.Value) -> ir.Value:
    """copysign of f64, element by element: LLVM 22 crashes on vectors of one f64."""
    if a.vector is None:
        return math.copysign(size, sign)
    elements = (vector.ToElementsOp(x).results for x in (size, sign))
    joined = [math.copysign(*pair) for pair in zip(*elements, strict=True)]
    return vector.from_elements(size.type, joined)


_F32: dict[str, Function] = {"math.erf": erf}
_F64: dict[str, Function] = {"math.copysign": copysign}


def expand_math(module: ir.Module) -> None:
    """Expands math to ops that LLVM lowers on a GPU, where it can be expanded.

    exp, log, sqrt, floor and others that take a chip an instruction or a short sequence are
    left to LLVM, functions of f64 to AMD's library.
    """
    if not _mgx.ops_inside(module.operation, ["math.*", arith.RemFOp.OPERATION_NAME]):
        run_passes(module, ("canonicalize", "cse"))
        return
    run_passes(module, (expand_pass(expand(module, _F32, _F64)), "canonicalize", "cse"))
    module.context.get_dialect_descriptor("llvm")  # loads it
    for op in ops_inside(module.operation, arith.RemFOp, *_INTRINSICS):
        if not isinstance(op, arith.RemFOp) and not isinstance(op.result.type, ir.FloatType):
            continue
        with ir.InsertionPoint(op), op.location:
            if isinstance(op, arith.RemFOp):
                new = _remainder(op)
            else:
                name, type_ = f"{_INTRINSICS[type(op)]}.{op.result.type}", op.result.type
                new = llvm.CallIntrinsicOp(type_, name, list(op.operands), [], []).result
        op.result.replace_all_uses_with(new)
        op.operation.erase()


def _remainder(op: arith.RemFOp) -> ir.Value:
    """The remainder, in f32 for bf16, which LLVM does not expand; the result is exact in both.

    LLVM would narrow the remainder of extended values again: bf16 is extended by its bits.
    """
    if isinstance(scalar_type(op.result), ir.BF16Type):
        return arith.truncf(op.result.type, arith.remf(_widened(op.lhs), _widened(op.rhs)))
    return arith.remf(*(_widened(_extended_bf16(x) or x) for x in (op.lhs, op.rhs)))


def _extended_bf16(value: ir.Value) -> ir.Value | None:
    """The bf16, or the vector of them, that `value` extends; None for other values."""
    op = definition(value)
    if not isinstance(op, arith.ExtFOp) or not isinstance(scalar_type(op.in_), ir.BF16Type):
        return None
    return op.in_


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
    left = (x for x in _mgx.ops_inside(module.operation, ["math.*"]) if x.name not in _NATIVE_F64)
    return any(isinstance(op.results[0].type, ir.F64Type) for op in left)


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
    return (*library, "convert-scf-to-cf", *(f"gpu.module({step})" for step in inside))


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
    return llvm.translate_module_to_llvmir(lowered(module, chip, index_bits).operation)


def lowered(module: ir.Module, chip: str, index_bits: int) -> gpu.GPUModuleOp:
    """The one gpu.module in `module`, lowered in place to the dialects of LLVM and of AMD's chips.

    Raises CompilerError naming the pass that fails.
    """
    if not Target.get(chip).gpu.lds_barriers:
        _without_inline_assembly(module)
    run_passes(module, chip_passes(chip, index_bits, calls_device_library(module)))
    gpu_module = next(op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp))
    found: list[ir.OpView] = ops_inside(
        gpu_module, llvm.AtomicCmpXchgOp, llvm.AtomicRMWOp, llvm.BrOp, llvm.CallOp,
        llvm.FSubOp, llvm.LLVMFuncOp, rocdl.BarrierSignalOp, rocdl.SBarrierOp,
    )  # fmt: skip
    if Target.get(chip).gpu.preloads_arguments:
        _preload_arguments(found, gpu_module.context)
    _relax_atomics(found, gpu_module.context)
    _keep_loop_annotations(found)
    _await_lds(found, chip)
    _remainders_of_llvm(found)
    _keep_zeros(found)
    return gpu_module


def _keep_zeros(found: Sequence[ir.OpView]) -> None:
    """Keeps 0 - x from becoming -x, which is -0 where x is 0.

    LLVM 22 selects it so where the user can negate (AMDGPUDAGToDAGISel::SelectVOP3ModsImpl).
    """
    for op in found:
        if isinstance(op, llvm.FSubOp) and constant_number(op.lhs) == 0:
            with ir.InsertionPoint.after(op), op.location:
                kept = llvm.CallIntrinsicOp(op.res.type, "llvm.canonicalize", [op.res], [], [])
            op.res.replace_all_uses_except(kept.result, kept.operation)


def _remainders_of_llvm(found: Sequence[ir.OpView]) -> None:
    """Replaces OCML's fmod, to which convert-gpu-to-rocdl lowers arith.remf, by LLVM's frem.

    LLVM 22 expands frem itself, exactly; the conversion admits none.
    """
    for op in found:
        if isinstance(op, llvm.CallOp) and op.callee and op.callee.value.startswith(_OCML_FMOD):
            with ir.InsertionPoint(op), op.location:
                op.operation.result.replace_all_uses_with(llvm.frem(*op.callee_operands))
            op.operation.erase()
    for op in found:
        if isinstance(op, llvm.LLVMFuncOp) and op.sym_name.value.startswith(_OCML_FMOD):
            op.operation.erase()


def _relax_atomics(found: Sequence[ir.OpView], context: ir.Context) -> None:
    """Takes the order with other accesses from atomics: launches wait for each other.

    Memory of hipMalloc is neither fine-grained nor another device's (AMDGPUUsage, "Memory Model").
    """
    with context:
        i64 = ir.IntegerType.get_signless(64)
        relaxed = ir.IntegerAttr.get(i64, llvm.AtomicOrdering.monotonic)
        agent, unit = ir.StringAttr.get("agent"), ir.UnitAttr.get()
    for op in found:
        if isinstance(op, llvm.AtomicRMWOp):
            op.ordering = relaxed
        elif isinstance(op, llvm.AtomicCmpXchgOp):
            op.success_ordering = op.failure_ordering = relaxed
        else:
            continue
        op.syncscope = agent
        for name in ("rocdl.no_fine_grained_memory", "rocdl.no_remote_memory"):
            op.attributes[name] = unit


def _await_lds(found: Sequence[ir.OpView], chip: str) -> None:
    """Waits for LDS before each barrier by an instruction of its own.

    LLVM 22 drops the wait of a release fence in a loop that is entered without accesses under way
    (SIInsertWaitcnts; llvm/llvm-project, pull request 220357).
    """
    lds_done = Target.get(chip).gpu.lds_done
    for op in found:
        if isinstance(op, rocdl.SBarrierOp | rocdl.BarrierSignalOp):
            with ir.InsertionPoint(op), op.location:
                rocdl.s_wait_dscnt(0) if lds_done is None else rocdl.s_waitcnt(lds_done)


def _preload_arguments(found: Sequence[ir.OpView], context: ir.Context) -> None:
    """Marks the arguments of kernels: the first ones, as many as fit, come in scalar registers."""
    with context:
        for function in found:
            if "rocdl.kernel" not in function.attributes or "arg_attrs" not in function.attributes:
                continue
            given = [ir.DictAttr(x) for x in ir.ArrayAttr(function.attributes["arg_attrs"])]
            unit = {"llvm.inreg": ir.UnitAttr.get()}
            named = [[x[i] for i in range(len(x))] for x in given]
            marked = [ir.DictAttr.get({y.name: y.attr for y in x} | unit) for x in named]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(marked)


def _without_inline_assembly(module: ir.Module) -> None:
    """Replaces barriers of LDS alone by barriers that wait for all memory.

    convert-gpu-to-rocdl lowers the former to inline assembly on gfx908 (AMDGPUToROCDL, "ldsOnly
    barriers"), and LLVM's library ends the process where no assembly parser is loaded.
    """
    for op in ops_inside(module.operation, amdgpu.LDSBarrierOp):
        with ir.InsertionPoint(op), op.location:
            gpu.BarrierOp()
        op.operation.erase()


def _keep_loop_annotations(found: Sequence[ir.OpView]) -> None:
    """Renames the loop annotations of branches to the name that the translation reads.

    The conversions pass `llvm.loop_annotation` on as a foreign attribute.
    """
    for op in found:
        if isinstance(op, llvm.BrOp) and "llvm.loop_annotation" in op.attributes:
            op.loop_annotation = op.attributes["llvm.loop_annotation"]
            del op.attributes["llvm.loop_annotation"]
