"""LLVM's code generator for CPUs, through LLVM's C interface.

The bindings of MLIR translate a module to LLVM IR but give no way to choose the processor
or the relocation model of the code they generate. LLVM's C interface does, and lies in the
libLLVM that the bindings have loaded already, so no second copy of LLVM enters the process.
ctypes releases the GIL during each call.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

from mgx_mlir.errors import CompilerError
from mgx_mlir.machine.llvm_library import loaded_library

_OBJECT_FILE = 1
_LEVEL_AGGRESSIVE = 3
_RELOCATION_PIC = 2
_CODE_MODEL_DEFAULT = 0

_PASSES = b"default<O3>"
# The passes that code with its own vectors and tiles gains from, in a third of the time.
_EXPLICIT_PASSES = (
    b"function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    b"loop-mssa(loop-rotate,licm,indvars),gvn,instcombine<no-verify-fixpoint>,simplifycfg),"
    b"always-inline,globaldce"
)
# Each part follows the parts that it needs.
_INITIALIZERS = tuple(
    f"LLVMInitialize{architecture}{part}"
    for architecture in ("X86", "AArch64")
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter")
)


@cache
def _llvm() -> ctypes.CDLL:
    library = ctypes.CDLL(loaded_library())
    for name, result, arguments in (
        ("LLVMContextCreate", c_void_p, []),
        ("LLVMContextDispose", None, [c_void_p]),
        (
            "LLVMCreateMemoryBufferWithMemoryRangeCopy",
            c_void_p,
            [c_char_p, c_size_t, c_char_p],
        ),
        ("LLVMCreatePassBuilderOptions", c_void_p, []),
        (
            "LLVMCreateTargetMachine",
            c_void_p,
            [c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int],
        ),
        ("LLVMDisposeErrorMessage", None, [c_void_p]),
        ("LLVMDisposeMemoryBuffer", None, [c_void_p]),
        ("LLVMDisposeMessage", None, [c_void_p]),
        ("LLVMDisposeModule", None, [c_void_p]),
        ("LLVMDisposePassBuilderOptions", None, [c_void_p]),
        ("LLVMDisposeTargetMachine", None, [c_void_p]),
        ("LLVMGetBufferSize", c_size_t, [c_void_p]),
        ("LLVMGetBufferStart", c_void_p, [c_void_p]),
        ("LLVMGetErrorMessage", c_void_p, [c_void_p]),
        ("LLVMGetTargetFromTriple", c_int, [c_char_p, POINTER(c_void_p), POINTER(c_void_p)]),
        *((name, None, []) for name in _INITIALIZERS),
        ("LLVMLinkModules2", c_int, [c_void_p, c_void_p]),
        (
            "LLVMParseIRInContext2",
            c_int,
            [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)],
        ),
        ("LLVMRunPasses", c_void_p, [c_void_p, c_char_p, c_void_p, c_void_p]),
        (
            "LLVMTargetMachineEmitToMemoryBuffer",
            c_int,
            [c_void_p, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)],
        ),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    for name in _INITIALIZERS:
        getattr(library, name)()
    return library


def _take_text(address: int | None) -> str:
    """The text at `address`, which LLVM allocated and which is freed here."""
    if not address:
        return ""
    text = (ctypes.cast(address, c_char_p).value or b"").decode()
    _llvm().LLVMDisposeMessage(address)
    return text


def compile_object(
    llvm_ir: str,
    triple: str,
    cpu: str,
    features: str,
    explicit: bool = False,
    library: str = "",
) -> bytes:
    """An ELF relocatable object (position independent, level O3) from LLVM IR text.

    `library`: LLVM IR that is linked to it.

    `triple` is of x86-64 or aarch64, `features` LLVM's list, such as '+avx2,+fma'. `explicit`
    code holds its own vectors and unrolled loops, and is only cleaned up. Raises CompilerError
    with LLVM's message when the text does not parse or the code generator refuses it.
    """
    llvm = _llvm()
    context = llvm.LLVMContextCreate()
    machine = module = options = None
    try:
        module = _parse(context, llvm_ir)
        if library and llvm.LLVMLinkModules2(module, _parse(context, library)):
            raise CompilerError("linking LLVM IR failed")
        machine = _target_machine(triple, cpu, features)
        options = llvm.LLVMCreatePassBuilderOptions()
        passes = _EXPLICIT_PASSES if explicit else _PASSES
        error = llvm.LLVMRunPasses(module, passes, machine, options)
        if error:
            address = llvm.LLVMGetErrorMessage(error)
            text = (ctypes.cast(address, c_char_p).value or b"").decode()
            llvm.LLVMDisposeErrorMessage(address)
            raise CompilerError(f"LLVM's optimiser failed: {text}")
        return _emit(machine, module)
    finally:
        if options:
            llvm.LLVMDisposePassBuilderOptions(options)
        if machine:
            llvm.LLVMDisposeTargetMachine(machine)
        if module:
            llvm.LLVMDisposeModule(module)
        llvm.LLVMContextDispose(context)


def _parse(context: Any, llvm_ir: str) -> c_void_p:
    llvm = _llvm()
    text = llvm_ir.encode()
    buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(text, len(text), b"kernel")
    module, message = c_void_p(), c_void_p()
    failed = llvm.LLVMParseIRInContext2(context, buffer, byref(module), byref(message))
    llvm.LLVMDisposeMemoryBuffer(buffer)
    if failed:
        raise CompilerError(f"the generated LLVM IR does not parse: {_take_text(message.value)}")
    return module


def _target_machine(triple: str, cpu: str, features: str) -> Any:
    llvm = _llvm()
    target, message = c_void_p(), c_void_p()
    if llvm.LLVMGetTargetFromTriple(triple.encode(), byref(target), byref(message)):
        raise CompilerError(f"LLVM has no target {triple}: {_take_text(message.value)}")
    return llvm.LLVMCreateTargetMachine(
        target,
        triple.encode(),
        cpu.encode(),
        features.encode(),
        _LEVEL_AGGRESSIVE,
        _RELOCATION_PIC,
        _CODE_MODEL_DEFAULT,
    )


def _emit(machine: Any, module: Any) -> bytes:
    llvm = _llvm()
    buffer, message = c_void_p(), c_void_p()
    if llvm.LLVMTargetMachineEmitToMemoryBuffer(
        machine, module, _OBJECT_FILE, byref(message), byref(buffer)
    ):
        raise CompilerError(f"LLVM's code generator failed: {_take_text(message.value)}")
    start, size = llvm.LLVMGetBufferStart(buffer), llvm.LLVMGetBufferSize(buffer)
    data = ctypes.string_at(start, size)
    llvm.LLVMDisposeMemoryBuffer(buffer)
    return data
