"""The functions of a kernel: a module under construction and its launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import func

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.compile import BODY_SUFFIX, compile_module


@dataclass
class KernelBuilder:
    """Collects the functions of one kernel. Needs an active MLIR context and location."""

    name: str
    module: ir.Module
    # Inputs that the one result may overwrite.
    overwritable: frozenset[int] = frozenset()
    # Whether no iteration of a loop reads what another writes, even with an input overwritten.
    independent: bool = False
    launches: list[Launch] = field(default_factory=list)

    def add_function(
        self,
        items: int,
        build: Callable[[ir.Block, ir.Value, ir.Value], Sequence[Argument]],
    ) -> None:
        """Adds a launch whose pointers are known only once its function is built.

        `build(entry, begin, end)` adds an argument to `entry` for each pointer and each size,
        and gives the launch's arguments in that order.
        """
        name = f"{self.name}_{len(self.launches)}"
        index = ir.IndexType.get()
        with ir.InsertionPoint(self.module.body):
            op = func.FuncOp(name + BODY_SUFFIX, ([index, index], []))
            op.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
            op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("nounwind")])
            entry = op.add_entry_block()
        with ir.InsertionPoint(entry):
            begin, end = entry.arguments
            arguments = tuple(build(entry, begin, end))
        with ir.InsertionPoint(entry):
            func.ReturnOp([])
        emit.set_arguments(op.operation, entry)
        self.launches.append(Launch(name, (items, 1, 1), (1, 1, 1), arguments))

    def resolve(self, arguments: Sequence[Sequence[Argument]]) -> None:
        """Sets the arguments of each launch, where they were not known before."""
        self.launches = [
            replace(launch, arguments=tuple(own))
            for launch, own in zip(self.launches, arguments, strict=True)
        ]

    def finish(self, target: Target, explicit: bool = False) -> CodeObject:
        """Compiles the added functions. The module is used up."""
        if self.overwritable:
            self._allow_in_place()
        entries = [
            (launch.function, [argument.kind == "size" for argument in launch.arguments])
            for launch in self.launches
        ]
        data = compile_module(self.module, entries, target, explicit, self.independent)
        return CodeObject(target.identity, data, tuple(self.launches), 0, _stats(data))

    def _allow_in_place(self) -> None:
        """Removes the promises that do not hold where the result overwrites an input."""
        plain = ir.DictAttr.get({})
        functions = [op for op in self.module.body.operations if isinstance(op, func.FuncOp)]
        for launch, op in zip(self.launches, functions, strict=True):
            promises = list(ir.ArrayAttr(op.attributes["arg_attrs"]))
            for place, argument in enumerate(
                launch.arguments, len(promises) - len(launch.arguments)
            ):
                if argument.kind == "output" or (
                    argument.kind == "input" and argument.index in self.overwritable
                ):
                    promises[place] = plain
            op.attributes["arg_attrs"] = ir.ArrayAttr.get(promises)


def _stats(data: bytes) -> dict[str, dict[str, int]]:
    return {"object": {"bytes": len(data)}}
