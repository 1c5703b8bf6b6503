"""Stores of one lane of a vector, as stores of a scalar.

LLVM 22 makes a store of a vector whose mask has one lane, known when code is generated, a store of
that lane's scalar. Where the vector is made of wider integers and AVX-512 has an instruction for
both steps, it stores the wide integer, over the bytes behind it:

    %c = trunc <16 x i32> %b to <16 x i8>
    call void @llvm.masked.store(<16 x i8> %c, ptr %p, <16 x i1> <i1 1, i1 0, ...>)     ; 4 bytes
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

_STORE = b"llvm.masked.store."
_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
# Name: result type, argument types.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "LLVMBuildExtractElement": (_POINTER, _POINTER, _POINTER, _POINTER, _TEXT),
    "LLVMBuildGEP2": (
        _POINTER,
        _POINTER,
        _POINTER,
        _POINTER,
        ctypes.POINTER(_POINTER),
        ctypes.c_uint,
        _TEXT,
    ),
    "LLVMBuildStore": (_POINTER, _POINTER, _POINTER, _POINTER),
    "LLVMConstIntGetZExtValue": (ctypes.c_ulonglong, _POINTER),
    "LLVMCreateBuilderInContext": (_POINTER, _POINTER),
    "LLVMDisposeBuilder": (None, _POINTER),
    "LLVMGetAggregateElement": (_POINTER, _POINTER, ctypes.c_uint),
    "LLVMGetFirstFunction": (_POINTER, _POINTER),
    "LLVMGetFirstUse": (_POINTER, _POINTER),
    "LLVMGetNextFunction": (_POINTER, _POINTER),
    "LLVMGetNextUse": (_POINTER, _POINTER),
    "LLVMGetNumArgOperands": (ctypes.c_uint, _POINTER),
    "LLVMGetOperand": (_POINTER, _POINTER, ctypes.c_uint),
    "LLVMGetUser": (_POINTER, _POINTER),
    "LLVMGetValueName2": (_POINTER, _POINTER, ctypes.POINTER(ctypes.c_size_t)),
    "LLVMGetVectorSize": (ctypes.c_uint, _POINTER),
    "LLVMInstructionEraseFromParent": (None, _POINTER),
    "LLVMIsAConstantInt": (_POINTER, _POINTER),
    "LLVMIsConstant": (_INT, _POINTER),
    "LLVMPositionBuilderBefore": (None, _POINTER, _POINTER),
    "LLVMSetAlignment": (None, _POINTER, ctypes.c_uint),
    "LLVMTypeOf": (_POINTER, _POINTER),
}


def store_lanes(llvm: Any, context: int, module: int) -> None:
    """Replaces the masked stores of one known lane in a module by stores of that lane."""
    for call in list(_masked_stores(llvm, module)):
        x, pointer, mask = (
            llvm.LLVMGetOperand(call, n) for n in (0, 1, llvm.LLVMGetNumArgOperands(call) - 1)
        )
        lane = _only_lane(llvm, mask)
        if lane is None:
            continue
        builder = llvm.LLVMCreateBuilderInContext(context)
        llvm.LLVMPositionBuilderBefore(builder, call)
        number = llvm.LLVMConstInt(llvm.LLVMInt32TypeInContext(context), lane, 0)
        scalar = llvm.LLVMBuildExtractElement(builder, x, number, b"")
        indices = (_POINTER * 1)(number)
        place = llvm.LLVMBuildGEP2(builder, llvm.LLVMTypeOf(scalar), pointer, indices, 1, b"")
        llvm.LLVMSetAlignment(llvm.LLVMBuildStore(builder, scalar, place), 1)
        llvm.LLVMInstructionEraseFromParent(call)
        llvm.LLVMDisposeBuilder(builder)


def _masked_stores(llvm: Any, module: int) -> Iterator[int]:
    """The calls that store vectors by masks."""
    function, length = llvm.LLVMGetFirstFunction(module), ctypes.c_size_t()
    while function:
        name = llvm.LLVMGetValueName2(function, ctypes.byref(length))
        if ctypes.string_at(name, length.value).startswith(_STORE):
            use = llvm.LLVMGetFirstUse(function)
            while use:
                yield llvm.LLVMGetUser(use)
                use = llvm.LLVMGetNextUse(use)
        function = llvm.LLVMGetNextFunction(function)


def _only_lane(llvm: Any, mask: int) -> int | None:
    """The number of the one lane that a mask has; None where it has others, or is not known."""
    if not llvm.LLVMIsConstant(mask):
        return None
    found = []
    for lane in range(llvm.LLVMGetVectorSize(llvm.LLVMTypeOf(mask))):
        element = llvm.LLVMGetAggregateElement(mask, lane)
        if not element:
            return None
        # An undefined element is no integer: LLVM does not store its lane.
        if llvm.LLVMIsAConstantInt(element) and llvm.LLVMConstIntGetZExtValue(element):
            found.append(lane)
    return found[0] if len(found) == 1 else None
