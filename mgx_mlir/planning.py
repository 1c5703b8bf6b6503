"""From a fused program to its host plan: the launches in order, and where each tensor lies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.graph import Graph, kernels, node_name, symbol_name, value_names
from mgx_mlir.passes.place_concats import IN_PLACE, memory_of
from mgx_mlir.passes.plan_memory import direct_outputs
from mgx_mlir.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.rewriting import RESHAPES, definition, op_name

# What a plan can hold beside launches: things that are no work at run time.
SILENT = RESHAPES | {"mgx.constant", "mgx.literal", "func.return"}


def build_plan(graph: Graph) -> Plan:
    """The plan of a module that `mgx-plan-memory` has been run on.

    Kernels are numbered in the module's order. Raises UnsupportedError naming the nodes
    that a plan cannot hold.
    """
    return _Planner(graph).build()


@dataclass
class _Planner:
    graph: Graph
    buffers: list[Buffer] = field(default_factory=list)
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def build(self) -> Plan:
        main = self.graph.main
        block = main.operation.regions[0].blocks[0]
        terminator = list(block.operations)[-1]
        inputs = _specs(main, "arg_attrs", list(block.arguments))
        outputs = _specs(main, "res_attrs", list(terminator.operation.operands))
        for index, argument in enumerate(block.arguments):
            self._add(argument, Buffer("input", mgx.byte_size(argument.type), index=index))
        direct = direct_outputs(terminator)
        for value, index in direct.items():
            self._add(value, Buffer("output", mgx.byte_size(value.type), index=index))
        numbers = {symbol_name(k): i for i, k in enumerate(kernels(self.graph.module))}
        for op in block.operations:
            if op.operation.name == "mgx.launch":
                self._launch(op, numbers)
            elif IN_PLACE in op.operation.attributes:
                self._results(op)
            elif op.operation.name not in SILENT:
                self._refuse(op)
        for index, value in enumerate(terminator.operation.operands):
            if direct.get(memory_of(value)) != index:
                source, size = self._buffer(value), mgx.byte_size(value.type)
                self.buffers.append(Buffer("output", size, index=index))
                self.steps.append(Step(-1, (source, len(self.buffers) - 1)))
        arena = ir.IntegerAttr(self.graph.module.operation.attributes["mgx.arena_bytes"]).value
        plan = Plan(inputs, outputs, arena, tuple(self.buffers), tuple(self.steps))
        plan.check()
        return plan

    def _refuse(self, op: ir.OpView) -> None:
        node = node_name(op) or "?"
        raise UnsupportedError(
            f"node '{node}': {op.operation.name} has no place in a compiled program yet; "
            "only programs without control flow and with static shapes compile",
            (node,),
        )

    def _results(self, op: ir.OpView) -> None:
        offsets = list(ir.DenseI64ArrayAttr(op.operation.attributes["mgx.offsets"]))
        for result, offset in zip(op.operation.results, offsets, strict=True):
            if result not in self.numbers:
                self._add(result, Buffer("arena", mgx.byte_size(result.type), offset=offset))

    def _launch(self, op: ir.OpView, numbers: dict[str, int]) -> None:
        self._results(op)
        values = [*op.operation.operands, *op.operation.results]
        kernel = numbers[ir.FlatSymbolRefAttr(op.operation.attributes["kernel"]).value]
        self.steps.append(Step(kernel, tuple(self._buffer(v) for v in values), node_name(op)))

    def _buffer(self, value: ir.Value) -> int:
        source = memory_of(value)
        if source not in self.numbers:
            producer = definition(source)
            assert producer is not None
            if op_name(producer) == "mgx.literal":
                key = ir.StringAttr(producer.operation.attributes["key"]).value
            else:
                key = self.graph.weights.add_array(mgx.constant_array(producer))
            self._add(source, Buffer("weight", mgx.byte_size(source.type), key=key))
        return self.numbers[source]

    def _add(self, value: ir.Value, buffer: Buffer) -> None:
        self.numbers[value] = len(self.buffers)
        self.buffers.append(buffer)


def _specs(main: ir.OpView, attribute: str, values: list[ir.Value]) -> tuple[TensorSpec, ...]:
    names = value_names(main, attribute, len(values))
    return tuple(_spec(name, value) for name, value in zip(names, values, strict=True))


def _spec(name: str, value: ir.Value) -> TensorSpec:
    type_ = ir.RankedTensorType(value.type)
    if not type_.has_static_shape:
        raise UnsupportedError(
            f"'{name}' has the shape {type_}, which is not static; give sizes with "
            "--input-dim @name d d d or --dim-param @symbol n",
            (name,),
        )
    dtype = np.dtype(numpy_dtype(type_.element_type))
    return TensorSpec(name, dtype.name, tuple(type_.shape))
