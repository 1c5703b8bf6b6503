"""Functions of a module of the LLVM dialect as code of the cpu target, callable from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import llvm

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.compile import compile_lowered
from mgx_mlir.runtime.code_library import CodeLibrary


class CompiledModule:
    """The module's functions that return nothing, compiled as the cpu target's kernels are."""

    def __init__(self, module: ir.Module) -> None:
        functions = [op for op in module.body.operations if isinstance(op, llvm.LLVMFuncOp)]
        with module.context, ir.Location.unknown():
            for function in functions:
                if function.body.blocks:
                    _add_wrapper(module, function)
        target = Target.host_cpu()
        data = compile_lowered(module, target, explicit=True)
        self._library = CodeLibrary(CodeObject(target.name, data, (), 0, {}))

    def call(self, name: str, arguments: Sequence[Any]) -> None:
        """Calls a function with values of ctypes."""
        packed = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library.address(f"packed_{name}"))(packed)


def _add_wrapper(module: ir.Module, function: llvm.LLVMFuncOp) -> None:
    """Adds a function that takes the addresses of another one's arguments."""
    pointer, name = llvm.PointerType.get(), function.sym_name.value
    with ir.InsertionPoint(module.body):
        type_ = ir.TypeAttr.parse("!llvm.func<void (ptr)>")
        wrapper = llvm.LLVMFuncOp(f"packed_{name}", type_)
    entry = wrapper.body.blocks.append(pointer)
    with ir.InsertionPoint(entry):
        given = []
        for number, argument in enumerate(function.body.blocks[0].arguments):
            place = llvm.getelementptr(pointer, entry.arguments[0], [], [number], pointer, 0)
            given.append(llvm.load(argument.type, llvm.load(pointer, place)))
        llvm.call(None, given, [], [], callee=ir.FlatSymbolRefAttr.get(name))
        llvm.return_()
