"""Makes the host plan of a fused program: the launches in order, and each tensor's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir
from mlir.dialects import func

from mgx_mlir import advice
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.plan import (
    AnyStep,
    Branch,
    Buffer,
    Loop,
    Plan,
    Row,
    Step,
    TensorSpec,
    named_buffers,
    walk,
)
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.errors import OpenError, UnsupportedError
from mgx_mlir.rewriting.flops import flops_of
from mgx_mlir.rewriting.graph import (
    Graph,
    kernels,
    node_name,
    required_numbers,
    symbol_name,
    value_limits,
    value_names,
)
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.lifetimes import staged_values
from mgx_mlir.rewriting.plan_attributes import (
    ARENA_BYTES,
    IN_PLACE,
    MAX_ITERATIONS,
    OFFSETS,
    STAGED,
)
from mgx_mlir.rewriting.queries import definition, memory_of, yielded
from mgx_mlir.rewriting.symbolic import named_symbols, sizes_of
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol
from mgx_mlir.sizes.arithmetic import symbols as symbols_in
from mgx_mlir.sizes.parser import parse

_MOST_TEXT = 1000
# Ops that a plan may hold beside launches: they do no work at run time.
SILENT = (*mgx.RESHAPES, *mgx.SOURCES, mgx.YieldOp, func.ReturnOp)


def build_plan(graph: Graph, symbolic: bool = False) -> Plan:
    """The plan of a module that `mgx-plan-memory` has been run on.

    Kernels are numbered in the module's order. With `symbolic`, sizes may be formulas of the
    inputs' dimensions. Raises UnsupportedError naming the nodes that a plan cannot hold.
    """
    return _Planner(graph, symbolic).build()


def build_frame(graph: Graph) -> Plan:
    """The inputs and outputs of a graph with symbolic sizes as a plan without steps."""
    return _Planner(graph, symbolic=True).frame()


def _work(flops: Number) -> int | str:
    """The operations of a launch as a plan has them; 0 for a formula that no reader would take."""
    text = str(flops)
    return flops if not isinstance(flops, Size) else text if len(text) < _MOST_TEXT else 0


@dataclass
class _Planner:
    graph: Graph
    symbolic: bool
    formulas: Formulas = field(default_factory=Formulas)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    # The first of equal buffers.
    places: dict[Buffer, int] = field(default_factory=dict)
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    # Number and arithmetic operations of each kernel, by symbol.
    kernels: dict[str, tuple[int, int | str]] = field(default_factory=dict)

    def build(self) -> Plan:
        main = self.graph.main
        block = main.regions[0].blocks[0]
        returned = yielded(block)
        self.symbols = named_symbols(a.type for a in block.arguments)
        inputs = self._specs(main, "arg_attrs", list(block.arguments))
        outputs = self._specs(main, "res_attrs", returned)
        for index, argument in enumerate(block.arguments):
            self._add(argument, Buffer("input", self._bytes(argument.type), index=index))
        for number, kernel in enumerate(kernels(self.graph.module)):
            self._require_sizes(kernel)
            self.kernels[symbol_name(kernel)] = number, _work(flops_of(kernel))
        for text in required_numbers(main):  # formulas of a plan are 0 or more, or there is no run
            self.formulas.number(parse(text))
        limits = tuple((n, self.formulas.number(parse(t))) for n, t in value_limits(main).items())
        steps = self._block(block)
        for index, value in enumerate(returned):
            place = Buffer("output", self._bytes(value.type), index=index)
            steps += self._copy(self._buffer(value), place)
        attributes = self.graph.module.operation.attributes
        arena = ir.IntegerAttr(attributes[ARENA_BYTES]).value if ARENA_BYTES in attributes else 0
        dims = tuple(self.symbols.values()) if self.formulas.texts else ()
        formulas = tuple(self.formulas.texts)
        buffers, found = tuple(self.buffers), tuple(steps)
        in_place = () if dims else tuple(self._in_place(found))
        plan = Plan(
            inputs, outputs, arena, buffers, found, dims, formulas, in_place=in_place, limits=limits
        )
        plan.check()
        return plan

    def _require_sizes(self, kernel: ir.OpView) -> None:
        """Raises OpenError where a size in a kernel follows from no symbol of the inputs."""
        for op in kernel.regions[0].blocks[0].operations:
            for result in op.results:
                sizes = (
                    sizes_of(result.type, None)
                    if isinstance(result.type, ir.RankedTensorType)
                    else []
                )
                names = {one.name for n in sizes if n is not None for one in symbols_in(n)}
                if not names <= self.symbols.keys():
                    raise OpenError(
                        f"kernel '{symbol_name(kernel)}': {result.type} has a size that is known "
                        "only when the model runs"
                    )

    def _in_place(self, steps: Sequence[AnyStep]) -> Iterator[tuple[int, int]]:
        """Outputs, each with an input that the caller may give the same memory.

        A launch outside of control flow may overwrite the input with the output. Nothing else
        reads the input, and no earlier step touches the output. Later steps wait for the launch.
        """
        over = [overwritable(kernel) for kernel in kernels(self.graph.module)]
        counts = Counter(self._touched(steps))
        before: set[tuple[str, int]] = set()
        for step in steps:
            touched = self._touched([step])
            if isinstance(step, Step) and step.kernel >= 0 and touched[-1] not in before:
                kind, output = touched[-1]
                for place in sorted(over[step.kernel]) if kind == "output" else ():
                    if touched[place][0] == "input" and counts[touched[place]] == 1:
                        yield output, touched[place][1]
            before |= set(touched)

    def _touched(self, steps: Sequence[AnyStep]) -> list[tuple[str, int]]:
        """The memory of each argument of some steps: its kind and number."""
        numbers = [number for step in walk(steps) for number in named_buffers(step)]
        return [(self.buffers[n].kind, self.buffers[n].index) for n in numbers]

    def frame(self) -> Plan:
        main = self.graph.main
        block = main.regions[0].blocks[0]
        self.symbols = named_symbols(a.type for a in block.arguments)
        inputs = self._specs(main, "arg_attrs", list(block.arguments))
        outputs = self._specs(main, "res_attrs", yielded(block))
        dims, formulas = tuple(self.symbols.values()), tuple(self.formulas.texts)
        return Plan(inputs, outputs, 0, (), (), dims, formulas)

    def _block(self, block: ir.Block) -> list[AnyStep]:
        """The steps of a block without its terminator."""
        steps: list[AnyStep] = []
        for op in block.operations:
            if isinstance(op, mgx.LaunchOp):
                steps.append(self._launch(op))
            elif isinstance(op, mgx.IfOp):
                steps.append(self._branch(op))
            elif isinstance(op, mgx.LoopOp):
                steps += self._loop(op)
            elif IN_PLACE in op.attributes:
                self._results(op)
            elif not isinstance(op, SILENT):
                self._refuse(op)
        return steps

    def _launch(self, op: mgx.LaunchOp) -> Step:
        self._results(op)
        number, flops = self.kernels[op.kernel.value]
        values = (*op.operands_, *op.outputs)
        return Step(number, tuple(self._buffer(v) for v in values), node_name(op), flops)

    def _branch(self, op: mgx.IfOp) -> Branch:
        self._results(op)
        condition = self._buffer(op.condition)
        then, otherwise = (
            self._block(region.blocks[0]) + self._yields(region.blocks[0], op.outputs)
            for region in (op.then_region, op.else_region)
        )
        return Branch(condition, tuple(then), tuple(otherwise), node_name(op))

    def _yields(self, block: ir.Block, results: Sequence[ir.Value]) -> list[AnyStep]:
        """The copies of a branch's results to their buffers; none for a result already there."""
        steps: list[AnyStep] = []
        for value, result in zip(yielded(block), results, strict=True):
            target = self.buffers[self.numbers[result]]
            steps += self._copy(self._buffer(value), target, node_name(block.owner))
        return steps

    def _loop(self, op: mgx.LoopOp) -> list[AnyStep]:
        """The copies of the initial values, then the loop."""
        node, init, block = node_name(op), list(op.init), op.body.blocks[0]
        carried = list(block.arguments)[2:]
        self._results(op)
        places = [self.numbers[result] for result in op.outputs]
        self.numbers.update(zip(carried, places, strict=False))
        steps: list[AnyStep] = []
        for value, place in zip(init, places, strict=False):
            steps += self._copy(self._buffer(value), self.buffers[place], node)
        again, *following = yielded(block)
        body = self._block(block)
        for value, place in zip(following[len(init) :], places[len(init) :], strict=True):
            body.append(Row(self._buffer(value), place, node))
        body += self._follow(op, following[: len(init)], places)
        trips, condition = self._buffer(op.max_trip_count), self._buffer(op.condition)
        most = op.attributes.get(MAX_ITERATIONS)
        limit = int(ir.IntegerAttr(most)) if most is not None else 0
        return [*steps, Loop(trips, condition, self._buffer(again), tuple(body), node, limit)]

    def _follow(
        self, op: mgx.LoopOp, following: list[ir.Value], places: list[int]
    ) -> list[AnyStep]:
        """The copies of the next values over the values that the loop carries."""
        node, steps = node_name(op), []
        sources = [self._buffer(value) for value in following]
        staged = staged_values(op)
        offsets = ir.DenseI64ArrayAttr(op.attributes[STAGED]) if staged else ()
        for number, offset in zip(staged, offsets, strict=True):
            aside = Buffer("arena", self.buffers[places[number]].bytes, offset=offset)
            steps += self._copy(sources[number], aside, node)
            sources[number] = self.places[aside]
        for source, place in zip(sources, places, strict=False):
            steps += self._copy(source, self.buffers[place], node)
        return steps

    def _refuse(self, op: ir.OpView) -> None:
        node = node_name(op) or "?"
        raise UnsupportedError(
            f"node '{node}': {op.operation.name} has no place in a compiled program, whose "
            "shapes are static",
            (node,),
        )

    def _results(self, op: ir.OpView) -> None:
        """Adds the buffers of an op's results, which `mgx-plan-memory` has placed."""
        offsets = ir.DenseI64ArrayAttr(op.attributes[OFFSETS])
        for result, offset in zip(op.results, offsets, strict=True):
            size = self._bytes(result.type)
            if offset < 0:
                self._add(result, Buffer("output", size, index=-1 - offset))
            else:
                self._add(result, Buffer("arena", size, offset=offset))

    def _copy(self, source: int, place: Buffer, node: str = "") -> list[AnyStep]:
        """The step that copies one buffer to another; none where both are the same memory."""
        if self.buffers[source] == place:
            return []
        if self.symbolic and self.buffers[source].bytes != place.bytes:
            raise OpenError(f"whether two tensors of the node '{node}' have as many elements")
        return [Step(-1, (source, self._place(place)), node)]

    def _place(self, place: Buffer) -> int:
        """The number of the first buffer that is this one, added where there is none."""
        if place not in self.places:
            self._append(place)
        return self.places[place]

    def _append(self, buffer: Buffer) -> int:
        self.places.setdefault(buffer, len(self.buffers))
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _buffer(self, value: ir.Value) -> int:
        source = memory_of(value)
        if source not in self.numbers:
            producer = definition(source)
            if isinstance(producer, mgx.LiteralOp):
                key = producer.key.value
            else:
                assert isinstance(producer, mgx.ConstantOp)
                key = self.graph.weights.add_array(mgx.constant_array(producer))
            self._add(source, Buffer("weight", self._bytes(source.type), key=key))
        return self.numbers[source]

    def _add(self, value: ir.Value, buffer: Buffer) -> None:
        self.numbers[value] = self._append(buffer)

    # Types ---------------------------------------------------------------------------------

    def _bytes(self, type_: ir.Type) -> int:
        """The bytes of a tensor, or the number of their formula where sizes are symbols."""
        if ir.RankedTensorType(type_).has_static_shape:
            return mgx.byte_size(type_)
        total: Number = numpy_dtype(type_).itemsize
        for size in self._sizes(type_):
            total = total * size
        return self.formulas.number(total)

    def _sizes(self, type_: ir.Type) -> list[Number]:
        if ir.RankedTensorType(type_).has_static_shape:
            return list(ir.RankedTensorType(type_).shape)
        sizes = sizes_of(type_, None)
        known = [size for size in sizes if size is not None]
        if not self.symbolic or len(known) != len(sizes):
            raise OpenError(
                f"the shape {type_}, which is not static; {advice.GIVE_SIZES}, or compile for all "
                f"sizes ({advice.ALL_SIZES})"
            )
        return known

    def _specs(
        self, main: ir.OpView, attribute: str, values: list[ir.Value]
    ) -> tuple[TensorSpec, ...]:
        names = value_names(main, attribute, len(values))
        return tuple(self._spec(name, value) for name, value in zip(names, values, strict=True))

    def _spec(self, name: str, value: ir.Value) -> TensorSpec:
        type_ = ir.RankedTensorType(value.type)
        dtype = np.dtype(numpy_dtype(type_.element_type)).name
        try:
            shape = [self.formulas.number(size) for size in self._sizes(type_)]
        except OpenError as error:
            raise OpenError(f"'{name}' has {error}", (name,)) from None
        return TensorSpec(name, dtype, tuple(shape))
