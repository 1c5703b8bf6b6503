"""Any kernel for the host, as loops that LLVM vectorises; its sizes may be arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import get_args

from mlir import ir
from mlir.dialects import arith, func, memref

from mgx_mlir.artifact.code_object import CodeObject, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.compile import BODY_SUFFIX, compile_module
from mgx_mlir.codegen.cpu.rows import Shared, take_over
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH, Machine
from mgx_mlir.codegen.loops.blocked_sums import block_sums
from mgx_mlir.codegen.loops.body import Function, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, kernel_symbols, launch_arguments, lower_nests
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
    return replace(functions.finish(target), why=why)


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
    """The functions of a kernel under construction, which get the sizes first, then pointers.

    over: inputs that the one result may overwrite. independent: whether no iteration of a loop
    reads what another writes, even with an input overwritten. Needs an active MLIR context and
    location.
    """

    def __init__(
        self,
        name: str,
        lanes: int,
        symbols: Sequence[str] = (),
        over: frozenset[int] = frozenset(),
        independent: bool = False,
    ) -> None:
        self.name, self.lanes, self.symbols = name, lanes, tuple(symbols)
        self.over, self.independent = over, independent
        self.module, self.formulas = ir.Module.create(), Formulas()
        # For each function, the launch that has no arguments yet, and the pointers that it takes.
        self._made: list[tuple[Launch, tuple[Place, ...]]] = []
        # Nests whose functions are not built yet.
        self._nests: list[Facts] = []

    @staticmethod
    def of(kernel: mgx.KernelOp, target: Target) -> Functions:
        """No functions yet, for a kernel."""
        name, over = kernel.sym_name.value, overwritable(kernel)
        lanes, independent = Machine.of(target).lanes("f32"), bool(over) and not updates(kernel)
        return Functions(name, lanes, kernel_symbols(kernel), over, independent)

    def finish(self, target: Target, explicit: bool = False) -> CodeObject:
        """The code object of the functions. The module is used up."""
        self.end()
        used = [places for _, places in self._made]
        lasting = {place for launch, places in self._made if launch.kept for place in places}
        arguments, scratch = launch_arguments(self.symbols, used, self.formulas, lasting)
        launches = tuple(
            replace(launch, arguments=own[len(self.symbols) if launch.kept else 0 :])
            for (launch, _), own in zip(self._made, arguments, strict=True)
        )
        if self.over:
            self._allow_in_place(launches)
        entries = [(x.function, [a.kind == "size" for a in x.arguments]) for x in launches]
        data = compile_module(self.module, entries, target, explicit, self.independent)
        stats, texts = {"object": {"bytes": len(data)}}, tuple(self.formulas.texts)
        return CodeObject(target.identity, data, launches, scratch, stats, formulas=texts)

    def _allow_in_place(self, launches: Sequence[Launch]) -> None:
        """Removes the promises that do not hold where the result overwrites an input."""
        for launch, op in zip(launches, self.module.body.operations, strict=True):
            promises = list(ir.ArrayAttr(op.attributes["arg_attrs"]))
            first = len(promises) - len(launch.arguments)
            for place, argument in enumerate(launch.arguments, first):
                is_over = argument.kind == "input" and argument.index in self.over
                if argument.kind == "output" or is_over:
                    promises[place] = ir.DictAttr.get({})
            op.attributes["arg_attrs"] = ir.ArrayAttr.get(promises)

    def add_on(
        self,
        places: Sequence[Place],
        items: Number,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """Adds a function with pointers to `places`; `body` is given these, and the first and the
        last of its items.

        One that makes bytes to keep (`Launch.kept`) gets no sizes.
        """
        self.end()

        def build(entry: ir.Block, begin: ir.Value, end: ir.Value) -> Sequence[Place]:
            types = [ir.MemRefType.get([UNBOUNDED], place.type) for place in places]
            pointers = [entry.add_argument(type_, ir.Location.unknown()) for type_ in types]
            body(pointers, begin, end)
            return places

        self.add_built(items, build, kept)

    def add_built(
        self,
        items: Number,
        build: Callable[[ir.Block, ir.Value, ir.Value], Iterable[Place]],
        kept: int = 0,
    ) -> None:
        """Adds a function whose pointers, in order, `build` adds to its block, and gives."""
        name, names = f"{self.name}_{len(self._made)}", () if kept else self.symbols
        index, unknown = ir.IndexType.get(), ir.Location.unknown()
        with ir.InsertionPoint(self.module.body):
            op = func.FuncOp(name + BODY_SUFFIX, ([index, index], []))
            op.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
            op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("nounwind")])
            entry = op.add_entry_block()
        values = dict(zip(names, [entry.add_argument(index, unknown) for _ in names], strict=True))
        with ir.InsertionPoint(entry), symbol_values(values):
            places = tuple(build(entry, *list(entry.arguments)[:2]))
        with ir.InsertionPoint(entry):
            func.ReturnOp([])
        emit.set_arguments(op.operation, entry)
        number = self.formulas.number(items)
        self._made.append((Launch(name, (number, 1, 1), (1, 1, 1), (), kept=kept), places))

    def add(self, nest: Nest) -> None:
        """Adds a nest. Its function is built with those of the nests after it."""
        if not nest.is_empty:
            with ir.Location.unknown():
                self._nests.append(Facts.of(nest, self.symbols))

    def end(self) -> None:
        nests, self._nests = self._nests, []
        if not self.over:
            take_over(nests)
        for shared in Shared.all(nests):
            self._build(shared)

    def _build(self, shared: Shared) -> None:
        def function(entry: ir.Block, begin: ir.Value, end: ir.Value) -> Iterable[Place]:
            made = Function(entry)
            shared.build(made, self.lanes, begin, self._copied(shared, made, begin, end))
            block_sums(entry, SUM_DEPTH)
            return made.pointers

        self.add_built(shared.items, function)

    def _copied(self, shared: Shared, made: Function, begin: ir.Value, end: ir.Value) -> ir.Value:
        """The end of the work; its begin where it copies an input to itself."""
        facts = shared.nests[0]
        pair = [access.place for access in facts.accesses]
        known = [place.argument for place in pair]
        if len(shared.nests) > 1 or not facts.copies or len(pair) != 2 or None in known:
            return end
        source = known[0]
        if source is None or source.kind != "input" or source.index not in self.over:
            return end
        starts = [memref.extract_aligned_pointer_as_index(made.pointer(place)) for place in pair]
        return arith.select(emit.compare("eq", *starts), begin, end)
