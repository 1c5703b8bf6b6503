"""A stage's own graph: its steps, and as arguments all that others make for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir
from mlir.dialects import func

from mgx_mlir.dialects import mgx
from mgx_mlir.models.chain.cutting import Cut, Steps
from mgx_mlir.pipelines.planning import SILENT
from mgx_mlir.rewriting.graph import (
    LIMITS,
    Graph,
    kernels,
    main_function,
    required_numbers,
    set_required_numbers,
    set_signature,
    set_value_limits,
    set_value_names,
    symbol_name,
    value_limits,
    value_names,
)
from mgx_mlir.rewriting.queries import is_dead, memory_of, ops_inside, walk, yielded
from mgx_mlir.rewriting.symbolic import named_symbols, sizes_of
from mgx_mlir.sizes.arithmetic import symbols
from mgx_mlir.sizes.parser import parse


def stage_graph(graph: Graph, cut: Cut) -> Graph:
    """A copy of a compiled program with the steps of a stage alone. The context is current.

    A value between stages has one name in all of them: that of an output, or its step's number.
    """
    module = ir.Module.create()
    for op in graph.module.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(module.body))
    main = main_function(module)
    block = main.regions[0].blocks[0]
    names = value_names(main, "arg_attrs", len(block.arguments))
    steps = Steps.of(block)
    returned = yielded(block)
    results = list(zip(value_names(main, "res_attrs", len(returned)), returned, strict=True))
    outputs = {name: value for name, value in results if _is_made_in(value, steps, cut)}
    named = {value: name for name, value in results}
    taken = {*names, *named.values()}
    for value, name in _between(steps, named, taken):
        if steps.made[value] < cut.first:
            names.append(name)
            value.replace_all_uses_with(block.add_argument(value.type, value.owner.location))
        elif steps.made[value] < cut.end <= steps.last[value]:
            outputs[name] = value
    _keep(block, cut, list(outputs.values()))
    set_value_names(main, "res_attrs", list(outputs))
    _drop_kernels(module, main)
    _drop_arguments(module, main, names)
    set_signature(main)
    return Graph(module, graph.weights, graph.name)


def _is_made_in(value: ir.Value, steps: Steps, cut: Cut) -> bool:
    """Whether a returned value is the stage's; weights and inputs are the last one's."""
    return cut.first <= steps.made.get(memory_of(value), len(steps.ops) - 1) < cut.end


def _between(
    steps: Steps, named: Mapping[ir.Value, str], taken: set[str]
) -> Iterator[tuple[ir.Value, str]]:
    """The values that a later step needs, with their names."""
    for value, number in steps.made.items():
        if steps.last.get(value, -1) > number:
            name = named.get(value, f"step {number}.{ir.OpResult(value).result_number}")
            while value not in named and name in taken:
                name = f"{name}'"
            yield value, name


def _keep(block: ir.Block, cut: Cut, returned: Sequence[ir.Value]) -> None:
    """Leaves a stage's steps alone, and what they read; returns these values."""
    ops = list(block.operations)
    with ir.InsertionPoint(ops[-1]), ops[-1].location:
        func.ReturnOp(list(returned))
    ops.pop().erase()
    number = sum(not isinstance(op, SILENT) for op in ops)
    for op in reversed(ops):
        is_step = not isinstance(op, SILENT)
        number -= is_step
        if is_dead(op) or (is_step and not cut.first <= number < cut.end):
            op.operation.erase()


def _drop_kernels(module: ir.Module, main: ir.OpView) -> None:
    used = {op.kernel.value for op in ops_inside(main, mgx.LaunchOp)}
    for kernel in list(kernels(module)):
        if symbol_name(kernel) not in used:
            kernel.operation.erase()


def _drop_arguments(module: ir.Module, main: ir.OpView, names: Sequence[str]) -> None:
    """Leaves those arguments that are read, and those that give a size that the stage has."""
    block = main.regions[0].blocks[0]
    arguments = list(block.arguments)
    limits = value_limits(main)
    kept = {n for n, argument in enumerate(arguments) if any(True for _ in argument.uses)}
    needed = _symbols(module) | {name for n in kept & limits.keys() for name in _named(limits[n])}
    for number, argument in enumerate(arguments):
        found = named_symbols(arguments[n].type for n in sorted(kept)).keys()
        if (needed - found) & named_symbols([argument.type]).keys():
            kept.add(number)
    known = named_symbols(arguments[n].type for n in sorted(kept)).keys()
    order = sorted(kept)
    set_required_numbers(main, [t for t in required_numbers(main) if _named(t) <= known])
    if LIMITS in main.attributes:
        del main.operation.attributes[LIMITS]
    set_value_limits(main, {order.index(n): text for n, text in limits.items() if n in kept})
    set_value_names(main, "arg_attrs", [names[n] for n in order])
    for number in reversed(range(len(arguments))):
        if number not in kept:
            block.erase_argument(number)


def _symbols(module: ir.Module) -> set[str]:
    """The names of all symbols in the types of a module's values."""
    types = {v.type for op in walk(module.operation) for v in (*op.operands, *op.results)}
    sizes = [n for t in types if isinstance(t, ir.RankedTensorType) for n in sizes_of(t, None)]
    return {symbol.name for n in sizes if n is not None for symbol in symbols(n)}


def _named(formula: str) -> set[str]:
    return {symbol.name for symbol in symbols(parse(formula))}
