"""MIGraphX's `instruction_ref`: a view of the values of an mgx op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.argument import argument
from mgx_mlir.migraphx.described import described
from mgx_mlir.migraphx.operators import builtin, op
from mgx_mlir.migraphx.shape import shape
from mgx_mlir.migraphx.tensors import Known, known_dims, shape_of
from mgx_mlir.rewriting.graph import Graph, location_names


@dataclass
class State:
    """The state that a program and its modules share.

    `names` are the inputs', `bodies` the modules that no instruction has taken yet. `compiled`
    is None again after every change. `states` are those after the last step of recurrent layers,
    by their results. `symbols`: the names of locations are debug symbols.
    """

    graph: Graph
    names: list[str]
    bodies: list[Any] = field(default_factory=list)
    compiled: Any = None
    states: dict[ir.Value, list[ir.Value]] = field(default_factory=dict)
    symbols: bool = False

    def known(self) -> Known:
        """The dimensions of the inputs, by name."""
        return known_dims(a.type for a in self.graph.main.regions[0].blocks[0].arguments)


class instruction_ref:
    """A value of a program: an argument, an op's result, or a tuple of results."""

    def __init__(self, owner: Any, values: Sequence[ir.Value], is_tuple: bool = False) -> None:
        self._owner, self._values, self._tuple = owner, tuple(values), is_tuple

    def _defining(self) -> ir.OpView | None:
        value = self._values[0]
        return None if isinstance(value.owner, ir.Block) else value.owner.opview

    def name(self) -> str:
        """The operator's name; '@param' and '@literal' for inputs and constants."""
        defining = self._defining()
        if defining is None:
            return "@param"
        if isinstance(defining, (mgx.ConstantOp, mgx.LiteralOp)):
            return "@literal"
        return str(defining.operation.name).removeprefix("mgx.")

    def op(self) -> op:
        """The operator, with the attributes of the mgx op: '@param' has the input's name."""
        defining = self._defining()
        if isinstance(self._values[0].owner, ir.Block):
            return builtin("@param", parameter=self._owner._name_of(self._values[0]))
        if self.name().startswith("@") or defining is None:
            return builtin(self.name())
        name, attributes = described(defining)
        return builtin(name, **attributes)

    def shape(self) -> shape:
        """The type, or that of a tuple."""
        known = self._owner.state.known()
        parts = [shape_of(value.type, known) for value in self._values]
        return shape(sub_shapes=parts) if self._tuple else parts[0]

    def inputs(self) -> list[instruction_ref]:
        """The operands."""
        defining = self._defining()
        found = [] if defining is None else list(defining.operands)
        return [instruction_ref(self._owner, [value]) for value in found]

    def outputs(self) -> list[instruction_ref]:
        """The instructions that use this one."""
        users = {use.owner: use.owner.results for v in self._values for use in v.uses}
        return [instruction_ref(self._owner, list(r), len(r) > 1) for r in users.values() if len(r)]

    def get_literal(self) -> argument:
        """The elements of a constant. Raises UsageError for another instruction."""
        defining = self._defining()
        if isinstance(defining, mgx.ConstantOp):
            return argument(np.array(constant_array(defining)))
        if isinstance(defining, mgx.LiteralOp):
            return argument(self._owner.state.graph.weights[defining.key.value].array())
        raise UsageError(f"{self.name()} is no literal")

    def get_debug_symbols(self) -> set[str]:
        """The names that were given to the instruction, as those of ONNX nodes."""
        defining = self._defining()
        if defining is None or not self._owner.state.symbols:
            return set()
        return {*location_names(defining.operation.location)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, instruction_ref) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"{self.name()} -> {self.shape()!r}"
