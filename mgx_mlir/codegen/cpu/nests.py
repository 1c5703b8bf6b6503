"""Any kernel for the host, as loops that LLVM vectorises; its sizes may be arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

from mlir import ir
from mlir.dialects import arith, memref

from mgx_mlir.artifact.code_object import Argument, CodeObject
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.function import KernelBuilder
from mgx_mlir.codegen.cpu.rows import Shared, take_over
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH, Machine
from mgx_mlir.codegen.loops.blocked_sums import block_sums
from mgx_mlir.codegen.loops.body import Function, Lazy
from mgx_mlir.codegen.loops.kernel import (
    Kernel,
    is_symbolic,
    kernel_symbols,
    launch_arguments,
    lower_nests,
)
from mgx_mlir.codegen.loops.nest import Facts, Nest
from mgx_mlir.codegen.loops.place import UNBOUNDED, Place
from mgx_mlir.codegen.meaning.index import symbol_values
from mgx_mlir.codegen.meaning.reducers import Reduction
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable, updates
from mgx_mlir.sizes.arithmetic import Number


def compile_nests(kernel: mgx.KernelOp, target: Target) -> CodeObject:
    """The code object of any `mgx.kernel`. Errors as `lower_nests`'s."""
    functions = Functions.of(kernel, target)
    lower_nests(kernel, functions, HostKernel(functions))
    why = "sizes are arguments: generic path" if functions.symbols else "generic path"
    return replace(functions.finish(kernel, target), why=why)


# The cost from which on a value is read from memory, not computed twice: that of a function.
_WORTH = 4


class HostKernel(Kernel):
    """Lowers a kernel's block for the host, where memory in a cache costs less than functions."""

    def shared(self, value: ir.Value, found: Lazy) -> Lazy:
        """In memory, if a reduction and other work read it, and it costs as much as an exp."""
        users = [use.owner.opview for use in value.uses]
        reduced = any(isinstance(op, get_args(Reduction)) for op in users)
        worth = len(users) > 1 and reduced and found.cost >= _WORTH
        return self.stored(found) if worth else found


class Functions:
    """The functions of a kernel under construction, which get the sizes first, then pointers."""

    def __init__(self, builder: KernelBuilder, symbols: Sequence[str], lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.formulas = Formulas()
        self.symbols = tuple(symbols)
        self.places: list[tuple[Place, ...]] = []
        # Nests whose functions are not built yet.
        self._nests: list[Facts] = []

    @staticmethod
    def of(kernel: mgx.KernelOp, target: Target) -> Functions:
        """No functions yet, for a kernel."""
        name, over = kernel.sym_name.value, overwritable(kernel)
        independent = bool(over) and not updates(kernel)
        builder = KernelBuilder(name, ir.Module.create(), over, independent)
        return Functions(builder, kernel_symbols(kernel), Machine.of(target).lanes("f32"))

    def finish(self, kernel: mgx.KernelOp, target: Target, explicit: bool = False) -> CodeObject:
        """The code object of the functions."""
        self.end()
        builder, texts = self.builder, self.formulas.texts
        kept = [own for own, x in zip(self.places, builder.launches, strict=True) if x.kept]
        lasting = {place for own in kept for place in own}
        arguments, scratch = launch_arguments(self.symbols, self.places, self.formulas, lasting)
        pairs = zip(arguments, builder.launches, strict=True)
        builder.resolve([own[len(self.symbols) if x.kept else 0 :] for own, x in pairs])
        code = replace(builder.finish(target, explicit), scratch_bytes=scratch)
        return replace(code, formulas=tuple(texts)) if is_symbolic(kernel) else code

    def add_on(
        self,
        places: Sequence[Place],
        items: Number,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """Adds a function with pointers to `places`; `body` as `KernelBuilder.add`'s.

        One that makes bytes to keep (`Launch.kept`) gets no sizes.
        """
        names = () if kept else self.symbols
        self.end()

        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            unknown = ir.Location.unknown()
            values = [entry.add_argument(ir.IndexType.get(), unknown) for _ in names]
            types = [ir.MemRefType.get([UNBOUNDED], place.type) for place in places]
            pointers = [entry.add_argument(type_, unknown) for type_ in types]
            with symbol_values(dict(zip(names, values, strict=True))):
                body(pointers, begin, end)
            return [Argument("size", 0)] * len(names) + [Argument("scratch", 0)] * len(places)

        self.places.append(tuple(places))
        self.builder.add_function(self.formulas.number(items), function)
        if kept:
            self.builder.launches[-1] = replace(self.builder.launches[-1], kept=kept)

    def add_built(
        self, items: Number, build: Callable[[ir.Block, ir.Value, ir.Value], Function]
    ) -> None:
        """Adds a function whose pointers are known once `build`, given its block, has built it."""

        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> list[Argument]:
            unknown, index = ir.Location.unknown(), ir.IndexType.get()
            values = [entry.add_argument(index, unknown) for _ in self.symbols]
            with symbol_values(dict(zip(self.symbols, values, strict=True))):
                pointers = build(entry, begin, end).pointers
            self.places.append(tuple(pointers))
            return [Argument("size", 0)] * len(values) + [Argument("scratch", 0)] * len(pointers)

        self.builder.add_function(self.formulas.number(items), function)

    def add(self, nest: Nest) -> None:
        """Adds a nest. Its function is built with those of the nests after it."""
        if not nest.is_empty:
            with ir.Location.unknown():
                self._nests.append(Facts.of(nest, self.symbols))

    def end(self) -> None:
        """Builds the functions of the last nests."""
        nests, self._nests = self._nests, []
        if not self.builder.overwritable:
            take_over(nests)
        for shared in Shared.all(nests):
            self._build(shared)

    def _build(self, shared: Shared) -> None:
        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> Function:
            made = Function(entry)
            shared.build(made, self.lanes, begin, self._copied(shared, made, begin, end))
            block_sums(entry, SUM_DEPTH)
            return made

        self.add_built(shared.items, function)

    def _copied(self, shared: Shared, made: Function, begin: ir.Value, end: ir.Value) -> ir.Value:
        """The end of the work; its begin where it copies an input to itself."""
        facts = shared.nests[0]
        pair = [access.place for access in facts.accesses]
        known = [place.argument for place in pair]
        if len(shared.nests) > 1 or not facts.copies or len(pair) != 2 or None in known:
            return end
        source = known[0]
        if (
            source is None
            or source.kind != "input"
            or source.index not in self.builder.overwritable
        ):
            return end
        starts = [memref.extract_aligned_pointer_as_index(made.pointer(place)) for place in pair]
        return arith.select(emit.compare("eq", *starts), begin, end)
