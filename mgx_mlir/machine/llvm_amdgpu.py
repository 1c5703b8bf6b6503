"""From LLVM IR to a relocatable AMDGPU object, in this process, through LLVM's C API.

Going through the library directly spares the assembly text that `gpu-module-to-binary`
prints and parses again, and lets a failure be an exception. The library is the one that
MLIR has loaded already: two copies of LLVM must not meet in one process.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mgx_mlir.errors import CompilerError
from mgx_mlir.machine.llvm_library import loaded_library

TRIPLE = b"amdgcn-amd-amdhsa"
# Generic processors have code objects of version 6 only (AMDGPUUsage).
CODE_OBJECT_VERSION, GENERIC_CODE_OBJECT_VERSION = 5, 6

_KERNEL = re.compile(r"^define amdgpu_kernel void @(\w+)\(", re.MULTILINE)

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_INT = ctypes.c_int
_DIAGNOSTIC_HANDLER = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)

# Values of the enumerations in llvm-c (Core.h, TargetMachine.h, Linker.h).
_FLAG_ERROR_ON_MISMATCH = 0
_OPTIMIZE_DEFAULT = 2
_RELOCATE_PIC = 2
_CODE_MODEL_DEFAULT = 0
_OBJECT_FILE = 1
_SEVERITY_ERROR = 0

# Name: result type, argument types.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "LLVMAddModuleFlag": (None, _POINTER, _INT, _TEXT, ctypes.c_size_t, _POINTER),
    "LLVMConstInt": (_POINTER, _POINTER, ctypes.c_ulonglong, _INT),
    "LLVMContextCreate": (_POINTER,),
    "LLVMContextDispose": (None, _POINTER),
    "LLVMContextSetDiagnosticHandler": (None, _POINTER, _DIAGNOSTIC_HANDLER, _POINTER),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (_POINTER, _TEXT, ctypes.c_size_t, _TEXT),
    "LLVMCreatePassBuilderOptions": (_POINTER,),
    "LLVMCreateTargetDataLayout": (_POINTER, _POINTER),
    "LLVMCreateTargetMachine": (_POINTER, _POINTER, _TEXT, _TEXT, _TEXT, _INT, _INT, _INT),
    "LLVMDisposeErrorMessage": (None, _POINTER),
    "LLVMDisposeMemoryBuffer": (None, _POINTER),
    "LLVMDisposeMessage": (None, _POINTER),
    "LLVMDisposeModule": (None, _POINTER),
    "LLVMDisposePassBuilderOptions": (None, _POINTER),
    "LLVMDisposeTargetData": (None, _POINTER),
    "LLVMDisposeTargetMachine": (None, _POINTER),
    "LLVMGetBufferSize": (ctypes.c_size_t, _POINTER),
    "LLVMGetBufferStart": (_POINTER, _POINTER),
    "LLVMGetDiagInfoDescription": (_POINTER, _POINTER),
    "LLVMGetDiagInfoSeverity": (_INT, _POINTER),
    "LLVMGetErrorMessage": (_POINTER, _POINTER),
    "LLVMGetTargetFromTriple": (_INT, _TEXT, _POINTER, _POINTER),
    "LLVMInitializeAMDGPUAsmPrinter": (None,),
    "LLVMInitializeAMDGPUTarget": (None,),
    "LLVMInitializeAMDGPUTargetInfo": (None,),
    "LLVMInitializeAMDGPUTargetMC": (None,),
    "LLVMInt32TypeInContext": (_POINTER, _POINTER),
    "LLVMLinkModules2": (_INT, _POINTER, _POINTER),
    "LLVMParseIRInContext": (_INT, _POINTER, _POINTER, _POINTER, _POINTER),
    "LLVMRunPasses": (_POINTER, _POINTER, _TEXT, _POINTER, _POINTER),
    "LLVMSetModuleDataLayout": (None, _POINTER, _POINTER),
    "LLVMSetTarget": (None, _POINTER, _TEXT),
    "LLVMTargetMachineEmitToMemoryBuffer": (_INT, _POINTER, _POINTER, _INT, _POINTER, _POINTER),
    "LLVMValueAsMetadata": (_POINTER, _POINTER),
}


def emit_object(
    ir_text: str, chip: str, *, features: str = "", libraries: tuple[bytes, ...] = ()
) -> bytes:
    """An optimised ELF object of `ir_text` (LLVM IR) for `chip`, such as 'gfx942'.

    `libraries` are LLVM modules (IR or bitcode) that are linked in first; only their called
    functions stay. The same input gives the same bytes. Raises CompilerError with
    LLVM's words.
    """
    llvm = _library()
    problems: list[str] = []
    with _disposed(llvm.LLVMContextCreate(), llvm.LLVMContextDispose) as context:
        handler = _DIAGNOSTIC_HANDLER(lambda info, _: _note(llvm, info, problems))
        llvm.LLVMContextSetDiagnosticHandler(context, handler, None)
        with (
            _disposed(_machine(llvm, chip, features), llvm.LLVMDisposeTargetMachine) as machine,
            _disposed(_parse(llvm, context, ir_text.encode()), llvm.LLVMDisposeModule) as module,
        ):
            for library in libraries:
                if llvm.LLVMLinkModules2(module, _parse(llvm, context, library)):
                    raise CompilerError(f"linking a bitcode library failed: {problems}")
            _set_target(llvm, context, module, machine, chip)
            keep = ";preserve-gv=".join(_KERNEL.findall(ir_text))
            passes = f"internalize<preserve-gv={keep}>,globaldce," if libraries else ""
            _optimize(llvm, module, machine, f"{passes}default<O2>")
            data = _emit(llvm, module, machine)
    if problems:
        raise CompilerError(f"LLVM refused the code for {chip}: " + "; ".join(problems))
    return data


@cache
def _library() -> Any:
    library = ctypes.CDLL(loaded_library())
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    return library


@contextmanager
def _disposed(value: int, dispose: Any) -> Iterator[int]:
    try:
        yield value
    finally:
        dispose(value)


def _note(llvm: Any, info: int, problems: list[str]) -> None:
    if llvm.LLVMGetDiagInfoSeverity(info) == _SEVERITY_ERROR:
        problems.append(_take(llvm, llvm.LLVMGetDiagInfoDescription(info)))


def _take(llvm: Any, message: int | None) -> str:
    """The text of a message that LLVM handed over; frees it."""
    if not message:
        return "no reason given"
    text = ctypes.string_at(message).decode(errors="replace")
    llvm.LLVMDisposeMessage(message)
    return text


def _parse(llvm: Any, context: int, data: bytes) -> int:
    buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"kernel")
    module, message = _POINTER(), _POINTER()
    # The parser owns the buffer from here on, whatever it finds.
    if llvm.LLVMParseIRInContext(context, buffer, ctypes.byref(module), ctypes.byref(message)):
        raise CompilerError(f"LLVM cannot read its own IR: {_take(llvm, message.value)}")
    assert module.value
    return module.value


def _machine(llvm: Any, chip: str, features: str) -> int:
    target, message = _POINTER(), _POINTER()
    if llvm.LLVMGetTargetFromTriple(TRIPLE, ctypes.byref(target), ctypes.byref(message)):
        raise CompilerError(f"this LLVM has no AMDGPU target: {_take(llvm, message.value)}")
    machine: int = llvm.LLVMCreateTargetMachine(
        target,
        TRIPLE,
        chip.encode(),
        features.encode(),
        _OPTIMIZE_DEFAULT,
        _RELOCATE_PIC,
        _CODE_MODEL_DEFAULT,
    )
    return machine


def _set_target(llvm: Any, context: int, module: int, machine: int, chip: str) -> None:
    llvm.LLVMSetTarget(module, TRIPLE)
    with _disposed(llvm.LLVMCreateTargetDataLayout(machine), llvm.LLVMDisposeTargetData) as layout:
        llvm.LLVMSetModuleDataLayout(module, layout)
    # https://llvm.org/docs/AMDGPUUsage.html: the flag holds the version times 100.
    generic = chip.endswith("-generic")
    number = GENERIC_CODE_OBJECT_VERSION if generic else CODE_OBJECT_VERSION
    version = llvm.LLVMConstInt(llvm.LLVMInt32TypeInContext(context), 100 * number, False)
    name = b"amdhsa_code_object_version"
    flag = llvm.LLVMValueAsMetadata(version)
    llvm.LLVMAddModuleFlag(module, _FLAG_ERROR_ON_MISMATCH, name, len(name), flag)


def _optimize(llvm: Any, module: int, machine: int, passes: str) -> None:
    with _disposed(
        llvm.LLVMCreatePassBuilderOptions(), llvm.LLVMDisposePassBuilderOptions
    ) as options:
        error = llvm.LLVMRunPasses(module, passes.encode(), machine, options)
    if error:
        message = llvm.LLVMGetErrorMessage(error)
        text = ctypes.string_at(message).decode(errors="replace")
        llvm.LLVMDisposeErrorMessage(message)
        raise CompilerError(f"LLVM's optimiser failed: {text}")


def _emit(llvm: Any, module: int, machine: int) -> bytes:
    buffer, message = _POINTER(), _POINTER()
    if llvm.LLVMTargetMachineEmitToMemoryBuffer(
        machine, module, _OBJECT_FILE, ctypes.byref(message), ctypes.byref(buffer)
    ):
        raise CompilerError(f"LLVM's code generator failed: {_take(llvm, message.value)}")
    with _disposed(buffer.value or 0, llvm.LLVMDisposeMemoryBuffer) as memory:
        return ctypes.string_at(llvm.LLVMGetBufferStart(memory), llvm.LLVMGetBufferSize(memory))
