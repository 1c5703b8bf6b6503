"""Compiles a module of MLIR to a shared object for a CPU.

A kernel's work is written as `func.func` on static memrefs, each taking the pointers that
its launch names and a range of work items:

    func.func @k_0_body(%begin: index, %end: index, %a: memref<64xf32>, %y: memref<64xf32>)

The shared object exports `void k_0(void **arguments, int64_t begin, int64_t end)` for it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mlir import ir
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

import mgx_mlir.dialects  # noqa: F401  (registers the passes)
from mgx_mlir._native import _mgx
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu import functions
from mgx_mlir.codegen.cpu.functions import called_functions
from mgx_mlir.codegen.meaning.expand import expand, expand_pass
from mgx_mlir.codegen.stages import pass_stage
from mgx_mlir.errors import CompilerError, TargetError
from mgx_mlir.machine import link as elf
from mgx_mlir.machine.elf_architectures import UnsupportedObjectError
from mgx_mlir.machine.llvm import Processor, compile_object

BODY_SUFFIX = "_body"

# LLVM's passes for code with its own vectors and tiles, which gains from these alone, in a fourth
# of the time. Induction variables are the code generator's work.
_EXPLICIT_PASSES = (
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm),instcombine<no-verify-fixpoint>,simplifycfg),"
    "always-inline,globaldce"
)

_PIPELINE = """builtin.module(
    canonicalize,cse,
    EXPANSION,ROUNDINGconvert-vector-to-scf{full-unroll=true},
    expand-strided-metadata,lower-affine,
    convert-math-to-llvm,convert-math-to-libm,
    convert-scf-to-cf,
    convert-vector-to-llvm{reassociate-fp-reductions=true},
    convert-ub-to-llvm,
    finalize-memref-to-llvm,
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},
    convert-arith-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,
    reconcile-unrealized-casts,canonicalize,cse)"""


def compile_module(
    module: ir.Module,
    entries: Sequence[tuple[str, Sequence[bool]]],
    target: Target,
    explicit: bool = False,
    independent: bool = False,
) -> bytes:
    """The shared object (ELF, for the target's processor) of a module, which is lowered in place.

    `independent`: no iteration of a loop reads what another one writes, whatever the pointers.

    `entries` are the exported functions: name, and for each argument whether it is a size,
    which is passed in place of a pointer. The module holds the body of `name` as `name_body`. The
    same module gives the same bytes.
    """
    pass_stage("cpu", lambda: str(module))
    _hoist_stack_memory(module)
    rounds = "bf16-round" in target.features
    rounding = "" if rounds else "arith-expand{include-bf16=true},"
    expansion = expand_pass(
        expand(module, functions.f32(target), functions.F64), ("exp", "exp2", "log", "log2")
    )
    steps = _PIPELINE.replace("ROUNDING", rounding).replace("EXPANSION", expansion)
    pipeline = PassManager.parse(steps, context=module.context)
    pipeline.enable_verifier(False)
    try:
        pipeline.run(module.operation)
    except ir.MLIRError as error:
        raise CompilerError(f"lowering to the LLVM dialect failed: {error}") from error
    _check_lowered(module)
    if independent:
        _state_independence(module)
    if "fma" not in target.features:
        _fuse_in_f64(module)
    explicit = explicit or _has_many_paths(module)
    with module.context, ir.Location.unknown():
        for name, are_sizes in entries:
            _add_entry(module, name, are_sizes, target)
    return compile_lowered(module, target, explicit)


def compile_lowered(module: ir.Module, target: Target, explicit: bool = False) -> bytes:
    """The shared object of a module of the LLVM dialect, with the functions that LLVM may call."""
    text = llvm_dialect.translate_module_to_llvmir(module.operation)
    pass_stage("llvm", lambda: text)
    called = called_functions(_floats(text), target)
    libraries = (called.encode(),) if called else ()
    passes = _EXPLICIT_PASSES if explicit else "default<O3>"
    return link(compile_object(text, processor(target), passes, libraries))


# LLVM's names of floats that need functions on some targets.
_FLOATS = {"bf16": "bfloat", "f16": "half", "f64": "double"}


def _floats(text: str) -> set[str]:
    """The names of the floats, beside f32, that LLVM IR works on."""
    return {name for name, word in _FLOATS.items() if word in text}


# LLVM 22's loop vectorizer follows every path of a chain like x + x, ..., where a loop has fewer
# than 16 trips (its TinyTripCountVectorThreshold): 24 additions take 6 s, each more doubles that.
_FEW_TRIPS, _MANY_PATHS = 16, 1 << 20


def _has_many_paths(module: ir.Module) -> bool:
    """Whether a short loop exists, and a value to which more paths lead than LLVM may follow."""
    paths: dict[ir.Value, int] = {}
    found = {"short": False, "many": False}

    def visit(op: ir.Operation) -> ir.WalkResult:
        count = 1 + sum(paths.get(value, 0) for value in op.operands)
        paths.update(dict.fromkeys(op.results, min(count, _MANY_PATHS + 1)))
        found["many"] |= count > _MANY_PATHS
        if op.name == "llvm.icmp" and isinstance(op.operands[1].owner, ir.Operation | ir.OpView):
            bound = op.operands[1].owner
            if bound.name == "llvm.mlir.constant":
                value = bound.attributes["value"]
                found["short"] |= (
                    isinstance(value, ir.IntegerAttr) and ir.IntegerAttr(value).value < _FEW_TRIPS
                )
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found["short"] and found["many"]


def _hoist_stack_memory(module: ir.Module) -> None:
    """Moves stack memory in front of the loops that it is taken in: one piece serves all trips.

    A loop counts as a scope of such memory in MLIR, but nothing gives it back when loops are
    branches: each trip would take more of the stack.
    """
    for op in _mgx.ops_inside(module.operation, ["memref.alloca"]):
        outer = op
        while outer.parent is not None and outer.parent.name != "func.func":
            outer = outer.parent
        if outer.parent is not None and outer is not op:
            op.move_before(outer)


def _check_lowered(module: ir.Module) -> None:
    """Raises for ops outside the LLVM dialect: translating them would end the process."""
    for op in _mgx.ops_inside(module.operation, ["*"]):
        if not op.name.startswith("llvm.") and op.name != "builtin.module":
            raise CompilerError(f"{op.location}: {op.name} was left, which is none of LLVM's")


def _fuse_in_f64(module: ir.Module) -> None:
    """Computes a fused multiply-add of f32 in f64, where the product is exact.

    Reductions of angles rely on that; libm's function, which LLVM would call, is slower.
    """

    def made(name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
        return ir.Operation.create(f"llvm.{name}", [result], list(operands)).result

    for op in _mgx.ops_inside(module.operation, ["llvm.intr.fma"]):
        type_ = op.results[0].type
        if not isinstance(getattr(type_, "element_type", type_), ir.F32Type):
            continue
        wide: ir.Type = ir.F64Type.get()
        if isinstance(type_, ir.VectorType):
            wide = ir.VectorType.get(type_.shape, wide)
        with ir.InsertionPoint(op), op.location:
            a, b, c = (made("fpext", wide, x) for x in op.operands)
            total = made("fadd", wide, made("fmul", wide, a, b), c)
            op.results[0].replace_all_uses_with(made("fptrunc", type_, total))
        op.erase()


def _state_independence(module: ir.Module) -> None:
    """Marks all loops for LLVM's vectoriser, and the accesses in them."""
    group = "#llvm.access_group<id = distinct[0]<>>"
    both = f"[[{group}], #llvm.loop_annotation<parallelAccesses = {group}>]"
    groups, annotation = ir.ArrayAttr(ir.Attribute.parse(both, module.context))
    for function in module.body.operations:
        blocks = list(function.regions[0].blocks) if function.regions else []
        for number, block in enumerate(blocks):
            for op in block.operations:
                if op.operation.name in ("llvm.load", "llvm.store"):
                    op.attributes["access_groups"] = groups
            *_, last = block.operations
            # A loop's blocks follow its header: a branch backwards is the loop's end.
            if any(target in blocks[: number + 1] for target in last.operation.successors):
                last.operation.attributes["loop_annotation"] = annotation


def _add_entry(module: ir.Module, name: str, are_sizes: Sequence[bool], target: Target) -> None:
    """Adds an exported function: it unpacks the argument array and calls the body.

    LLVM makes loops of whole vectors: by itself it takes half of one of 64 bytes.
    """
    pointer, i64 = llvm_dialect.PointerType.get(), ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(module.body):
        function = llvm_dialect.LLVMFuncOp(
            name,
            ir.TypeAttr.parse("!llvm.func<void (ptr, i64, i64)>"),
            arg_attrs=ir.ArrayAttr.parse("[{llvm.noalias}, {}, {}]"),
            passthrough=ir.ArrayAttr.parse(
                f'["nounwind", ["prefer-vector-width", "{8 * target.vector_bytes}"]]'
            ),
        )
    entry = function.body.blocks.append(pointer, i64, i64)
    array, *given = list[ir.Value](entry.arguments)
    with ir.InsertionPoint(entry):
        for number, is_size in enumerate(are_sizes):
            place = llvm_dialect.getelementptr(pointer, array, [], [number], pointer, 0)
            given.append(llvm_dialect.load(i64 if is_size else pointer, place))
        body = ir.FlatSymbolRefAttr.get(name + BODY_SUFFIX)
        llvm_dialect.call(None, given, [], [], callee=body)
        llvm_dialect.return_()


@cache
def _linker() -> str:
    names = ("ld.lld-22", "/usr/lib/llvm-22/bin/ld.lld", "ld.lld")
    if path := next(filter(None, map(shutil.which, names)), None):
        return path
    raise TargetError("ld.lld of LLVM 22 is not installed (Debian package lld-22)")


def link(data: bytes) -> bytes:
    """A shared object from one relocatable object. libm's symbols resolve when it is loaded."""
    try:
        return elf.link(data)
    except UnsupportedObjectError:
        return _link_by_lld(data)


def _link_by_lld(data: bytes) -> bytes:
    """Links as `link` does, by LLVM's linker, which reads every object."""
    with tempfile.TemporaryDirectory(prefix="mgx-link-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(data)
        command = [_linker(), "-shared", "-O1", "--gc-sections", "--build-id=none", "-z"]
        command += ["noexecstack", "--hash-style=gnu", "-s", "-o", str(result), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilerError(f"linking a kernel failed: {done.stderr.strip()}")
        return result.read_bytes()


def processor(target: Target) -> Processor:
    """A cpu target in LLVM's words."""
    machine = "aarch64" if target.name.startswith("aarch64") else "x86_64"
    name, *features = (target.cpu_features or target.name).split("+")
    listed = ",".join(f"+{feature}" for feature in features)
    return Processor(f"{machine}-unknown-linux-gnu", name, listed, level=3)
