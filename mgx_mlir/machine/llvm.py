"""LLVM's code generators, in this process, through LLVM's C interface.

MLIR's bindings translate a module to LLVM IR, but give no way to choose the relocation model, the
passes or, for CPUs, the processor. The library is the one that the bindings have loaded already:
two copies of LLVM must not meet in one process. A failure is an exception. ctypes releases the
GIL during each call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from mgx_mlir.errors import CompilerError
from mgx_mlir.machine.llvm_library import loaded_library
from mgx_mlir.machine.llvm_stores import FUNCTIONS, store_lanes

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_INT = ctypes.c_int
_DIAGNOSTIC_HANDLER = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)

# Values of the enumerations in llvm-c (Core.h, TargetMachine.h, Linker.h).
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
    "LLVMInt32TypeInContext": (_POINTER, _POINTER),
    "LLVMLinkModules2": (_INT, _POINTER, _POINTER),
    "LLVMParseCommandLineOptions": (None, _INT, ctypes.POINTER(_TEXT), _TEXT),
    "LLVMParseIRInContext": (_INT, _POINTER, _POINTER, _POINTER, _POINTER),
    "LLVMRunPasses": (_POINTER, _POINTER, _TEXT, _POINTER, _POINTER),
    "LLVMSetModuleDataLayout": (None, _POINTER, _POINTER),
    "LLVMSetTarget": (None, _POINTER, _TEXT),
    "LLVMTargetMachineEmitToMemoryBuffer": (_INT, _POINTER, _POINTER, _INT, _POINTER, _POINTER),
    "LLVMValueAsMetadata": (_POINTER, _POINTER),
}
# Each part follows the parts that it needs.
_INITIALIZERS = tuple(
    f"LLVMInitialize{architecture}{part}"
    for architecture in ("AMDGPU", "X86", "AArch64")
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter")
)

# prepare(library, context, module, machine): changes a module before its passes.
Prepare: TypeAlias = Callable[[Any, int, int, int], None]


@dataclass(frozen=True)
class Processor:
    """A processor in LLVM's words: `features` are such as '+avx2,+fma'.

    `level`: how much the code generator optimises, from 0 to 3.
    """

    triple: str
    name: str
    features: str = ""
    level: int = 2


def compile_object(
    ir_text: str,
    processor: Processor,
    passes: str,
    libraries: tuple[bytes, ...] = (),
    prepare: Prepare | None = None,
) -> bytes:
    """An ELF relocatable object of `ir_text` (LLVM IR), after `passes`, in LLVM's words for them.

    libraries: LLVM modules (IR or bitcode) that are linked in first. The same input gives the
    same bytes. Raises CompilerError with LLVM's words.
    """
    llvm = _library()
    problems: list[str] = []
    with disposed(llvm.LLVMContextCreate(), llvm.LLVMContextDispose) as context:
        handler = _DIAGNOSTIC_HANDLER(lambda info, _: _note(llvm, info, problems))
        llvm.LLVMContextSetDiagnosticHandler(context, handler, None)
        with (
            disposed(_machine(llvm, processor), llvm.LLVMDisposeTargetMachine) as machine,
            disposed(_parse(llvm, context, ir_text.encode()), llvm.LLVMDisposeModule) as module,
        ):
            for library in libraries:
                if llvm.LLVMLinkModules2(module, _parse(llvm, context, library)):
                    raise CompilerError(f"linking a library of LLVM IR failed: {problems}")
            if prepare is not None:
                prepare(llvm, context, module, machine)
            _optimize(llvm, module, machine, passes)
            store_lanes(llvm, context, module)
            data = _emit(llvm, module, machine)
    if problems:
        raise CompilerError(f"LLVM refused the code for {processor.name}: " + "; ".join(problems))
    return data


@cache
def _library() -> Any:
    library = ctypes.CDLL(loaded_library())
    for name, (result, *arguments) in (_FUNCTIONS | FUNCTIONS).items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for name in _INITIALIZERS:
        getattr(library, name)()
    return library


def set_option(option: str) -> None:
    """Sets one of LLVM's options, such as '-disable-machine-licm', for all that this process
    compiles from here on; to be called once for each."""
    words = (_TEXT * 2)(b"mgx", option.encode())
    _library().LLVMParseCommandLineOptions(len(words), words, b"")


@contextmanager
def disposed(value: int, dispose: Any) -> Iterator[int]:
    """Gives the value, and disposes of it at the end."""
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
        raise CompilerError(f"the generated LLVM IR does not parse: {_take(llvm, message.value)}")
    assert module.value
    return module.value


def _machine(llvm: Any, processor: Processor) -> int:
    triple = processor.triple.encode()
    target, message = _POINTER(), _POINTER()
    if llvm.LLVMGetTargetFromTriple(triple, ctypes.byref(target), ctypes.byref(message)):
        raise CompilerError(f"LLVM has no target {processor.triple}: {_take(llvm, message.value)}")
    machine: int = llvm.LLVMCreateTargetMachine(
        target,
        triple,
        processor.name.encode(),
        processor.features.encode(),
        processor.level,
        _RELOCATE_PIC,
        _CODE_MODEL_DEFAULT,
    )
    return machine


def _optimize(llvm: Any, module: int, machine: int, passes: str) -> None:
    options = disposed(llvm.LLVMCreatePassBuilderOptions(), llvm.LLVMDisposePassBuilderOptions)
    with options as chosen:
        error = llvm.LLVMRunPasses(module, passes.encode(), machine, chosen)
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
    with disposed(buffer.value or 0, llvm.LLVMDisposeMemoryBuffer) as memory:
        return ctypes.string_at(llvm.LLVMGetBufferStart(memory), llvm.LLVMGetBufferSize(memory))
