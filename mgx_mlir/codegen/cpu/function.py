"""The functions of a kernel: a module under construction and its launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from mgx_mlir.codegen.cpu import emit
from mgx_mlir.codegen.cpu.compile import BODY_SUFFIX, compile_module
from mgx_mlir.finalizer.code_object import Argument, CodeObject, Launch
from mgx_mlir.target import Target


@dataclass(frozen=True)
class Memory:
    """One pointer of a function: what it points to, the element type, and how many."""

    argument: Argument
    element: str
    size: int


@dataclass
class KernelBuilder:
    """Collects the functions of one kernel. Needs an active MLIR context and location."""

    name: str
    module: ir.Module
    launches: list[Launch] = field(default_factory=list)
    scratch_bytes: int = 0

    def add(
        self,
        memories: Sequence[Memory],
        items: int,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
    ) -> None:
        """Adds a launch of `items` work items.

        `body(pointers, begin, end)` builds the work of items begin .. end; it runs with the
        insertion point inside of the new function. Pointers do not alias each other where
        one of them is written.
        """
        name = f"{self.name}_{len(self.launches)}"
        index = ir.IndexType.get()
        types: list[ir.Type] = [
            ir.MemRefType.get([max(m.size, 1)], emit.memory_type(m.element)) for m in memories
        ]
        no_alias = {"llvm.noalias": ir.UnitAttr.get()}
        with ir.InsertionPoint(self.module.body):
            op = func.FuncOp(name + BODY_SUFFIX, ([*types, index, index], []))
            op.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
            op.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(no_alias) for _ in memories] + [ir.DictAttr.get({})] * 2
            )
            block = op.add_entry_block()
        with ir.InsertionPoint(block):
            *pointers, begin, end = block.arguments
            body(pointers, begin, end)
            func.ReturnOp([])
        arguments = tuple(m.argument for m in memories)
        self.launches.append(Launch(name, (items, 1, 1), (1, 1, 1), arguments))

    def scratch(self, size: int, element: str) -> Memory:
        """`size` elements of the kernel's scratch memory."""
        offset = self.scratch_bytes
        used = size * emit.element_bytes(element)
        self.scratch_bytes += -(-used // 256) * 256
        return Memory(Argument("scratch", offset), element, size)

    def finish(self, target: Target, explicit: bool = False) -> CodeObject:
        """Compiles what was added. The module is used up."""
        entries = [(launch.function, len(launch.arguments)) for launch in self.launches]
        data = compile_module(self.module, entries, target, explicit)
        return CodeObject(
            target.identity, data, tuple(self.launches), self.scratch_bytes, _stats(data)
        )


def _stats(data: bytes) -> dict[str, dict[str, int]]:
    return {"object": {"bytes": len(data)}}
