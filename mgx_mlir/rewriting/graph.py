"""A model in the compiler: a module of mgx ops and the weights it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from mgx_mlir.advice import OpenDim
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import UsageError
from mgx_mlir.rewriting.queries import yielded
from mgx_mlir.rewriting.symbolic import named
from mgx_mlir.sizes.arithmetic import alone

# The attribute that holds the name of an input or output.
VALUE_NAME = "mgx.name"

# The attribute of the program's function: formulas that are 0 or more, or there is no run.
REQUIRED = "required"
LIMITS = "limits"


@dataclass
class Graph:
    """`module` holds `func.func @main`; its arguments and results carry `mgx.name`.

    `from_one` imports the same model anew, for sizes of 1 or more, where this is for those from 0.
    """

    module: ir.Module
    weights: WeightStore
    name: str = "main"
    from_one: Callable[[], Graph] | None = None

    def __reduce__(self) -> Any:
        raise UsageError(
            f"the graph '{self.name}' cannot be pickled: it is memory of this process; pickle the "
            "model, or the artifact that compile_to_bytecode makes of the graph"
        )

    @property
    def main(self) -> ir.OpView:
        """The program's function, which lives as long as the module: it does not keep it alive."""
        return main_function(self.module)

    @property
    def size(self) -> int:
        """The number of the program's ops, those in its regions left out."""
        return len(self.main.regions[0].blocks[0].operations)

    def open_dims(self) -> tuple[OpenDim, ...]:
        """The inputs' dimensions of unknown size, in order."""
        with self.module.context:
            inputs = self.main.regions[0].blocks[0].arguments
            return open_dims(value_names(self.main, "arg_attrs", len(inputs)), inputs)


def main_function(module: ir.Module) -> ir.OpView:
    """`func.func @main` of a module. Raises UsageError where none has a body."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and symbol_name(op) == "main":
            if len(op.regions[0].blocks) == 1:
                return op
            raise UsageError("func.func @main of the module has to have a body of one block")
    raise UsageError("the module has no func.func @main, which holds a program of mgx")


def open_dims(names: Sequence[str], inputs: Sequence[ir.Value]) -> tuple[OpenDim, ...]:
    """The inputs' dimensions of unknown size, in order, without those that follow from others."""
    found = []
    for name, value in zip(names, inputs, strict=True):
        dims = dims_of(value.type)
        shape = tuple(d.name if isinstance(d, mgx.DimAttr) else d for d in dims)
        shown = tuple("?" if size is None else size for size in shape)
        for place, dim in enumerate(dims):
            symbol = alone(named(dim.name, None)) if isinstance(dim, mgx.DimAttr) else None
            if isinstance(dim, mgx.DimAttr) and symbol is not None and dim.min != dim.max:
                found.append(OpenDim(symbol.name, name, place, shown, dim.min, dim.max))
    return tuple(found)


def set_required_numbers(main: ir.OpView, formulas: Sequence[str]) -> None:
    """States the formulas that are 0 or more in every run of a program."""
    if formulas:
        held = [ir.StringAttr.get(text) for text in formulas]
        main.operation.attributes[REQUIRED] = ir.ArrayAttr.get(held)
    elif REQUIRED in main.attributes:
        del main.operation.attributes[REQUIRED]


def required_numbers(main: ir.OpView) -> list[str]:
    """The formulas that are 0 or more in every run of a program."""
    if REQUIRED not in main.attributes:
        return []
    return [ir.StringAttr(text).value for text in ir.ArrayAttr(main.attributes[REQUIRED])]


def set_value_limits(main: ir.OpView, limits: Mapping[int, str]) -> None:
    """States the greatest value of arguments that hold one integer, as formulas, by number."""
    if limits:
        held = {str(number): ir.StringAttr.get(text) for number, text in limits.items()}
        main.operation.attributes[LIMITS] = ir.DictAttr.get(held)


def value_limits(main: ir.OpView) -> dict[int, str]:
    """The greatest value of arguments that hold one integer, as formulas, by number."""
    if LIMITS not in main.attributes:
        return {}
    held = ir.DictAttr(main.attributes[LIMITS])
    entries = (held[place] for place in range(len(held)))
    return {int(entry.name): ir.StringAttr(entry.attr).value for entry in entries}


def symbol_name(op: ir.OpView | ir.Operation) -> str:
    """The symbol that an op defines."""
    return ir.StringAttr(op.operation.attributes["sym_name"]).value


def kernels(module: ir.Module) -> Iterator[mgx.KernelOp]:
    """The `mgx.kernel` ops of a module, in order."""
    return (op for op in module.body.operations if isinstance(op, mgx.KernelOp))


def value_names(function: ir.OpView, attribute: str, count: int) -> list[str]:
    """The `mgx.name` of each argument (`arg_attrs`) or result (`res_attrs`) of a function."""
    if attribute not in function.operation.attributes:
        return [f"{attribute[:3]}{i}" for i in range(count)]
    dictionaries = ir.ArrayAttr(function.operation.attributes[attribute])
    return [ir.StringAttr(ir.DictAttr(d)[VALUE_NAME]).value for d in dictionaries]


def set_value_names(function: ir.OpView, attribute: str, names: Sequence[str]) -> None:
    """Gives each argument (`arg_attrs`) or result (`res_attrs`) of a function its `mgx.name`."""
    entries = [ir.DictAttr.get({VALUE_NAME: ir.StringAttr.get(name)}) for name in names]
    function.operation.attributes[attribute] = ir.ArrayAttr.get(entries)


def set_signature(function: ir.OpView) -> None:
    """Gives a function the types of its arguments and of the values that it returns."""
    block = function.regions[0].blocks[0]
    results = [value.type for value in yielded(block)]
    signature = ir.FunctionType.get([a.type for a in block.arguments], results)
    function.operation.attributes["function_type"] = ir.TypeAttr.get(signature)


def node_name(op: ir.OpView | ir.Operation) -> str:
    """The name of the ONNX node that an op comes from; '' where none is known.

    An op made of several nodes names them all, separated by '+'.
    """
    return "+".join(dict.fromkeys(filter(None, location_names(op.operation.location))))


def location_names(location: ir.Location) -> list[str]:
    """The names that a location is made of."""
    if location.is_a_name():
        return [location.name_str]
    if location.is_a_fused():
        return [name for part in location.locations for name in location_names(part)]
    return []
