"""From LLVM IR to a relocatable AMDGPU object.

Going through LLVM directly spares the assembly text that `gpu-module-to-binary` prints and parses
again, and lets a failure be an exception.
"""

from __future__ import annotations

import re
from typing import Any

from mgx_mlir.machine.llvm import Processor, compile_object, disposed

TRIPLE = "amdgcn-amd-amdhsa"
# Generic processors have code objects of version 6 only (AMDGPUUsage).
CODE_OBJECT_VERSION, GENERIC_CODE_OBJECT_VERSION = 5, 6

# LLVM 22 makes one instruction of four products of bytes and what these are added to, and takes
# the x of `product - x` for an addend too: kernels get such instructions where they call them.
_DOTS, _WITHOUT_DOTS = re.compile(r"@llvm\.amdgcn\.s?[su]dot[48]"), "-dot1-insts,-dot8-insts"
_KERNEL = re.compile(r"^define amdgpu_kernel void @(\w+)\(", re.MULTILINE)
_FLAG_ERROR_ON_MISMATCH = 0


def emit_object(
    ir_text: str, chip: str, *, features: str = "", libraries: tuple[bytes, ...] = ()
) -> bytes:
    """An optimised ELF object of `ir_text` (LLVM IR) for `chip`, such as 'gfx942'.

    `libraries` are LLVM modules (IR or bitcode) that are linked in first; only their called
    functions stay. The same input gives the same bytes. Raises CompilerError with
    LLVM's words.
    """
    # https://llvm.org/docs/AMDGPUUsage.html: the flag holds the version times 100.
    generic = chip.endswith("-generic")
    version = 100 * (GENERIC_CODE_OBJECT_VERSION if generic else CODE_OBJECT_VERSION)

    def set_target(llvm: Any, context: int, module: int, machine: int) -> None:
        llvm.LLVMSetTarget(module, TRIPLE.encode())
        layout = disposed(llvm.LLVMCreateTargetDataLayout(machine), llvm.LLVMDisposeTargetData)
        with layout as own:
            llvm.LLVMSetModuleDataLayout(module, own)
        number = llvm.LLVMConstInt(llvm.LLVMInt32TypeInContext(context), version, False)
        name, flag = b"amdhsa_code_object_version", llvm.LLVMValueAsMetadata(number)
        llvm.LLVMAddModuleFlag(module, _FLAG_ERROR_ON_MISMATCH, name, len(name), flag)

    keep = ";preserve-gv=".join(_KERNEL.findall(ir_text))
    passes = f"internalize<preserve-gv={keep}>,globaldce," if libraries else ""
    if not _DOTS.search(ir_text):
        features = ",".join(filter(None, (features, _WITHOUT_DOTS)))
    processor = Processor(TRIPLE, chip, features)
    return compile_object(ir_text, processor, f"{passes}default<O2>", libraries, set_target)
