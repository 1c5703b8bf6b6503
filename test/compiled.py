"""Functions of a module of the LLVM dialect as code of the cpu target, callable from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import llvm

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.compile import compile_text
from mgx_mlir.runtime.cpu import CodeLibrary


class CompiledModule:
    """The module's functions that return nothing, compiled as the cpu target's kernels are."""

    def __init__(self, module: ir.Module) -> None:
        wrappers = []
        for op in module.body.operations:
            if op.operation.name == "llvm.func" and op.regions[0].blocks:
                name = ir.StringAttr(op.attributes["sym_name"]).value
                wrappers.append(_wrapper(name, op.regions[0].blocks[0].arguments))
        text = llvm.translate_module_to_llvmir(module.operation) + "\n".join(wrappers)
        target = Target.host_cpu()
        data = compile_text(text, target, explicit=True)
        self._library = CodeLibrary(CodeObject(target.name, data, (), 0, {}))

    def call(self, name: str, arguments: Sequence[Any]) -> None:
        """Calls a function with values of ctypes."""
        packed = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library.address(f"packed_{name}"))(packed)


def _wrapper(name: str, arguments: Sequence[ir.Value]) -> str:
    """LLVM IR of a function that takes the addresses of another one's arguments."""
    types = [str(x.type).removeprefix("!llvm.") for x in arguments]
    lines = [f"define void @packed_{name}(ptr %arguments) {{"]
    for i, type_ in enumerate(types):
        lines.append(f"  %a{i} = getelementptr ptr, ptr %arguments, i64 {i}")
        lines.append(f"  %p{i} = load ptr, ptr %a{i}")
        lines.append(f"  %x{i} = load {type_}, ptr %p{i}")
    given = ", ".join(f"{type_} %x{i}" for i, type_ in enumerate(types))
    return "\n".join([*lines, f"  call void @{name}({given})", "  ret void", "}\n"])
