"""MIGraphX's `module`: a view of a block of mgx ops."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.importer.values import Constants, Value
from mgx_mlir.migraphx import by_onnx
from mgx_mlir.migraphx.argument import argument, as_argument
from mgx_mlir.migraphx.composed import padded_rows
from mgx_mlir.migraphx.converted import converted
from mgx_mlir.migraphx.instruction import State, instruction_ref
from mgx_mlir.migraphx.macros import COMPOSED, macro
from mgx_mlir.migraphx.operators import applied, build, op, plain
from mgx_mlir.migraphx.shape import ENDLESS_DIM, shape
from mgx_mlir.migraphx.tensors import (
    as_type,
    rank_of,
    scalar_bool,
    sizes_of,
    tensor_type,
    zeros,
)
from mgx_mlir.rewriting.queries import element_type

_ITERATIONS = 10  # of a loop that states no number, as in MIGraphX


class module:
    """A block of instructions: the program's own, or a body of `if` and `loop`."""

    def __init__(self, state: State, block: ir.Block, name: str = "main") -> None:
        self.state, self._block, self.name = state, block, name
        self._constants = Constants(block, state.graph.weights)
        # The values that the module returns; None: its last instruction.
        self._returned: list[ir.Value] | None = None
        self._last: instruction_ref | None = None
        # Holds a body until `if` or `loop` takes it.
        self._holder: ir.Operation | None = None

    @Edge("building the program")
    def add_parameter(
        self, name: str, shape: shape, debug_symbols: Collection[str] = ()
    ) -> instruction_ref:
        """An input. Inputs of a loop's body are the trip, the condition, the carried values."""
        if self._holder is None and name in self.state.names:
            raise UsageError(f"there is a parameter '{name}' already; give another name")
        with self._building():
            value = self._block.add_argument(tensor_type(name, shape), ir.Location.name(name))
        if self._holder is None:
            self.state.names.append(name)
        return self._added([value], symbols=debug_symbols)

    @Edge("building the program")
    def add_literal(self, data: Any, debug_symbols: Collection[str] = ()) -> instruction_ref:
        """A constant of an argument, or of anything that numpy reads."""
        array = as_argument(data).numpy()
        # A scalar of numpy has one element in one dimension, as in MIGraphX.
        sizes = array.shape if isinstance(data, argument) else array.shape or (1,)
        array = np.ascontiguousarray(array).reshape(sizes)
        with self._building():
            value = self._constants.materialise(Value("literal", array=array))
        return self._added([value], symbols=debug_symbols)

    @Edge("building the program")
    def add_instruction(
        self,
        op: op,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Collection[str] = (),
    ) -> instruction_ref:
        """An operator applied to instructions. `mod_args`: the bodies of `if` and `loop`.

        Raises UsageError where they do not fit.
        """
        with self._building():
            made = self._built(op, [a._values for a in args], list(mod_args))
            return self._added(*made, symbols=debug_symbols)

    @Edge("building the program")
    def insert_instruction(
        self,
        ins: instruction_ref,
        op: op,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
    ) -> instruction_ref:
        """As `add_instruction`, before another instruction."""
        with self._before(ins):
            values, is_tuple = self._built(op, [a._values for a in args], list(mod_args))
        return instruction_ref(self, values, is_tuple)

    @Edge("building the program")
    def replace_instruction(
        self,
        ins: instruction_ref,
        op: op,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
    ) -> instruction_ref:
        """Puts another operator in the place of an instruction."""
        new = self.insert_instruction(ins, op, args, mod_args)
        for old, value in zip(ins._values, new._values, strict=True):
            old.replace_all_uses_with(value)
            self._replace_result(old, value)
        if self._last == ins:
            self._last = new
        return new

    @Edge("building the program")
    def add_macro(
        self,
        macro: macro,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Collection[str] = (),
    ) -> list[instruction_ref]:
        """The operators of a macro, at the end. Raises UsageError where the operands do not fit,
        and for modules, which no macro takes."""
        with self._building():
            values = self._expanded(macro, [a._values[0] for a in args], mod_args)
        return [self._added([value], symbols=debug_symbols) for value in values]

    @Edge("building the program")
    def insert_macro(
        self,
        ins: instruction_ref,
        macro: macro,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Collection[str] = (),
    ) -> list[instruction_ref]:
        """As `add_macro`, before another instruction."""
        with self._before(ins):
            values = self._expanded(macro, [a._values[0] for a in args], mod_args)
        found = [instruction_ref(self, [value]) for value in values]
        for one in found:
            self.add_debug_symbols(one, debug_symbols)
        return found

    @Edge("building the program")
    def add_return(
        self, args: Sequence[instruction_ref], debug_symbols: Collection[str] = ()
    ) -> instruction_ref:
        """The results of the module. An end of a module keeps no debug symbols."""
        del debug_symbols
        self._returned = [value for one in args for value in one._values]
        return instruction_ref(self, self._returned, True)

    @Edge("building the program")
    def replace_return(
        self, args: Sequence[instruction_ref], debug_symbols: Collection[str] = ()
    ) -> instruction_ref:
        """Other results of the module."""
        return self.add_return(args, debug_symbols)

    def add_debug_symbols(self, ins: instruction_ref, symbols: Collection[str]) -> None:
        """Gives an instruction names beside those it has; inputs keep their own alone."""
        defining = ins._defining()
        if defining is None or not symbols:
            return
        self.state.symbols = True
        with self.state.graph.module.context:
            names = sorted({*ins.get_debug_symbols(), *symbols})
            defining.operation.location = ir.Location.fused([ir.Location.name(n) for n in names])

    def remove_debug_symbols(self, ins: instruction_ref) -> None:
        """Takes all names from an instruction."""
        if (defining := ins._defining()) is not None:
            with self.state.graph.module.context:
                defining.operation.location = ir.Location.unknown()

    def has_debug_symbols(self) -> bool:
        """Whether an instruction has one."""
        return any(ins.get_debug_symbols() for ins in self)

    def print(self) -> None:
        """Prints the instructions."""
        print(self)

    def __iter__(self) -> Iterator[instruction_ref]:
        for value in self._block.arguments:
            yield instruction_ref(self, [value])
        for found in self._block.operations:
            if len(found.results):
                yield instruction_ref(self, list(found.results), len(found.results) > 1)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return "\n".join(f"@{i} = {ins!r}" for i, ins in enumerate(self))

    def _results(self) -> list[ir.Value]:
        """The values that the module returns. Raises UsageError where it has none."""
        if self._returned is not None:
            return self._returned
        if self._last is None:
            raise UsageError(
                f"module '{self.name}' has no instructions; add_return says its results"
            )
        return list(self._last._values)

    def _replace_result(self, old: ir.Value, new: ir.Value) -> None:
        """Returns another value in the place of one that the module was told to return."""
        if self._returned is not None:
            self._returned = [new if value == old else value for value in self._returned]

    def _added(
        self,
        values: Sequence[ir.Value],
        is_tuple: bool = False,
        symbols: Collection[str] = (),
    ) -> instruction_ref:
        self._last = instruction_ref(self, values, is_tuple)
        self.add_debug_symbols(self._last, symbols)
        return self._last

    def _name_of(self, value: ir.Value) -> str:
        """The name of an input."""
        argument = ir.BlockArgument(value)
        if self._holder is None and argument.owner == self._block:
            return self.state.names[argument.arg_number]
        return argument.location.name_str

    def _building(self) -> Any:
        self.state.compiled = None
        return _At(self.state, ir.InsertionPoint(self._block))

    def _before(self, ins: instruction_ref) -> Any:
        self.state.compiled = None
        place = ins._defining()
        point = ir.InsertionPoint(place) if place else ir.InsertionPoint.at_block_begin(self._block)
        return _At(self.state, point)

    def _built(
        self, op: op, operands: Sequence[Sequence[ir.Value]], bodies: list[module]
    ) -> tuple[list[ir.Value], bool]:
        if op.name() == "get_tuple_elem":
            index = op.attributes.get("index", 0)
            if not 0 <= index < len(operands[0]):
                raise UsageError(f"a tuple of {len(operands[0])} has no element {index}")
            return [operands[0][index]], False
        values = [one[0] for one in operands]
        if op.name() == "if":
            return self._if(values, bodies), True
        if op.name() == "loop":
            return self._loop(op, values, bodies), True
        if bodies:
            raise UsageError(f"{op.name()} takes no modules")
        if op.name() in by_onnx.LAST_STATES:
            return [self._last_state(op, values)], False
        made = self._of_onnx(op, values) or build(op, values)
        if isinstance(made, ir.Value):
            return [made], False
        return list(made), True

    def _if(self, values: list[ir.Value], bodies: list[module]) -> list[ir.Value]:
        if len(values) != 1 or len(bodies) != 2:
            raise UsageError("if takes a condition and two modules: then and else")
        then, otherwise = ([v.type for v in body._results()] for body in bodies)
        if then != otherwise:
            raise UsageError("the modules of an if return different types")
        made = mgx.IfOp(then, scalar_bool(values[0]))
        for body, region in zip(bodies, (made.then_region, made.else_region), strict=True):
            body._move_to(region, body._results())
        return list(made.results)

    def _loop(self, op: op, values: list[ir.Value], bodies: list[module]) -> list[ir.Value]:
        """A loop's results: the carried values, then the scan outputs, zeros after the last trip.

        As in MIGraphX a scan output has room for `max_iterations` trips (10), the most there are.
        """
        if len(values) < 2 or len(bodies) != 1:
            raise UsageError("loop takes a trip count, a condition, carried values and one module")
        (body,) = bodies
        most = int(op.attributes.get("max_iterations", _ITERATIONS))
        trips = as_type(mgx.reshape(values[0], []), np.int64)
        if most < ENDLESS_DIM:
            trips = mgx.min(trips, mgx.constant(np.int64(most)))
        count = len(values) - 2
        body._scalar_arguments()
        again, *returned = body._results()
        if len(returned) < count or len(body._block.arguments) != 2 + count:
            raise UsageError(
                f"the body of a loop that carries {count} values has {2 + count} parameters, and "
                f"returns a condition and these values; it has {len(body._block.arguments)}, and "
                f"returns {1 + len(returned)}"
            )
        buffers = [zeros([most, *sizes_of(value)], value) for value in returned[count:]]
        carried = [*values[2:], *buffers]
        made = mgx.LoopOp([v.type for v in carried], trips, scalar_bool(values[1]), carried)
        with ir.InsertionPoint(body._block):
            number = mgx.reshape(body._block.arguments[0], [1, 1])
            for index, value in enumerate(returned[count:], count):
                buffer = body._block.add_argument(carried[index].type, ir.Location.unknown())
                row = mgx.reshape(value, [1, *sizes_of(value)])
                returned[index] = mgx.scatternd_none(buffer, number, row)
            again = scalar_bool(again)
        body._move_to(made.body, [again, *returned])
        return list(made.results)

    def _scalar_arguments(self) -> None:
        """Gives a loop's body the number of the trip and the condition as mgx has them."""
        kinds = (np.int64, np.bool_)
        for value, kind in zip(list(self._block.arguments)[:2], kinds, strict=False):
            wanted, sizes, element = value.type, sizes_of(value), element_type(value)
            users = list(value.uses)
            value.set_type(ir.RankedTensorType.get([], mgx.element_type(kind)))
            if value.type == wanted or not users:
                continue
            with ir.InsertionPoint.at_block_begin(self._block):
                same = mgx.reshape(mgx.convert(value, element), sizes)
            for use in users:
                use.owner.operands[use.operand_number] = same
            self._replace_result(value, same)

    def _move_to(self, region: ir.Region, values: Sequence[ir.Value]) -> None:
        if self._holder is None:
            raise UsageError(f"module '{self.name}' is the body of an instruction already")
        with ir.InsertionPoint(self._block):
            mgx.YieldOp(values)
        self._block.append_to(region)
        self._holder.erase()
        self._holder = None
        self.state.bodies.remove(self)

    def _of_onnx(self, op: op, values: list[ir.Value]) -> ir.Value | None:
        """The result of an operator that an ONNX node computes; None for other operators."""
        known = by_onnx.NAMES & {op.name()}
        for name in op.attributes if known else ():
            if name not in by_onnx.attributes_of(op.name()):
                listed = ", ".join(by_onnx.attributes_of(op.name()))
                raise UsageError(f"{op.name()} has no attribute '{name}'; there are: {listed}")
        node = by_onnx.node_of(op.name(), plain(op.attributes), [rank_of(x) for x in values])
        if node is None:
            return None
        first, *states = converted(self._constants, f"operator '{op.name()}'", node, values)
        if op.name() == "nonmaxsuppression":
            return padded_rows([first, *states], values)
        if states:
            self.state.states[first] = states
        return first

    def _last_state(self, op: op, values: list[ir.Value]) -> ir.Value:
        """The state after the last step of the recurrent layer that the operand is."""
        states = self.state.states.get(values[0], []) if values else []
        place = by_onnx.LAST_STATES[op.name()]
        if place >= len(states):
            kinds = "an lstm" if place else "an rnn, a gru or an lstm"
            raise UsageError(f"{op.name()} takes the result of {kinds}")
        return states[place]

    def _expanded(
        self, macro: macro, values: list[ir.Value], bodies: Sequence[module]
    ) -> list[ir.Value]:
        if bodies:
            raise UsageError(f"macro '{macro.name()}' takes no modules")
        if macro.name() in COMPOSED:
            made = applied(macro, COMPOSED[macro.name()], values)
            return [made] if isinstance(made, ir.Value) else list(made)
        rank = rank_of(values[0]) if values else 0
        return converted(self._constants, f"macro '{macro.name()}'", macro.onnx(rank), values)


class _At:
    """The insertion point, in the program's context."""

    def __init__(self, state: State, point: ir.InsertionPoint) -> None:
        self.entered = (state.graph.module.context, ir.Location.unknown, point)

    def __enter__(self) -> None:
        made, location, point = self.entered
        made.__enter__()
        self.location = location()
        self.location.__enter__()
        point.__enter__()

    def __exit__(self, *error: Any) -> None:
        made, _, point = self.entered
        point.__exit__(*error)
        self.location.__exit__(*error)
        made.__exit__(*error)
