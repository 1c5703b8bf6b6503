"""mgx-share-kernels: kernels that differ in scales alone are one, which gets them as arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.capabilities import MAX_TENSORS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import kernels, main_function, node_name, symbol_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import element_type, is_static, ops_inside, replace, shape

# Ops whose bodies have scales, and those that read them there: any operand but the first.
_BODIES = (mgx.FusedReduceOp, mgx.PointwiseOp)
_SCALED = (mgx.DequantizelinearOp, mgx.MulOp, mgx.QuantizelinearOp)

# Arguments of a kernel, at the most, that it may have for others to be the same.
MAX_ARGUMENTS = MAX_TENSORS // 2


@dataclass(frozen=True)
class ShareKernels(Pass):
    """Makes one kernel of those that are equal but for the scales and zero points in them.

    Before:  mgx.kernel @k1_pointwise(%x: tensor<8xf32>) -> tensor<8xi8> { ... scale 0.5 ... }
             mgx.kernel @k2_pointwise(%x: tensor<8xf32>) -> tensor<8xi8> { ... scale 0.25 ... }
             %b = mgx.launch @k2_pointwise(%a)
    After:   mgx.kernel @k1_pointwise(%x: tensor<8xf32>, %s: tensor<1xf32>) -> tensor<8xi8> { ... }
             %s = mgx.literal "..." : tensor<1xf32>
             %b = mgx.launch @k1_pointwise(%a, %s)

    Layers of a quantized network have such kernels, which are compiled once then. Numbers that all
    of them share stay in the code.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-share-kernels"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        alike: dict[str, list[mgx.KernelOp]] = defaultdict(list)
        for kernel in kernels(module):
            constants = list(_scales(kernel))
            if constants:
                alike[_text_without(kernel, constants)].append(kernel)
        shared: dict[str, _Share] = {}
        for group in alike.values():
            if len(group) > 1:
                shared.update(_share(group))
        for launch in ops_inside(main_function(module), mgx.LaunchOp) if shared else ():
            share = shared.get(launch.kernel.value)
            if share is not None:
                context.note(share.symbol, node_name(launch))
                _relaunch(launch, share, context)


@dataclass(frozen=True)
class _Share:
    """The kernel that takes another's place, and the arguments that it gets for it."""

    symbol: str
    numbers: Sequence[np.ndarray]
    types: Sequence[ir.Type]


def _scales(kernel: mgx.KernelOp) -> Iterator[mgx.ConstantOp]:
    """The constants of one number that are scales or zero points in bodies, in order."""
    for op in kernel.regions[0].blocks[0].operations:
        if not isinstance(op, _BODIES) or not is_static(op) or not shape(op.results[0]):
            continue
        for constant in op.regions[0].blocks[0].operations:
            if isinstance(constant, mgx.ConstantOp) and _is_scale(constant, op):
                yield constant


def _is_scale(constant: mgx.ConstantOp, op: ir.OpView) -> bool:
    value = constant.result
    whole = isinstance(op, mgx.PointwiseOp) or shape(value) == shape(op.operands[0])
    array = mgx.constant_array(constant)
    uses = [(use.owner.opview, use.operand_number) for use in value.uses]
    return (
        whole
        and not any(array.strides)
        and all(isinstance(user, _SCALED) and number for user, number in uses)
    )


def _text_without(kernel: mgx.KernelOp, constants: Sequence[mgx.ConstantOp]) -> str:
    """The kernel's text without its name and the values of some constants."""
    values = [constant.attributes["value"] for constant in constants]
    name = symbol_name(kernel)
    for constant in constants:
        constant.attributes["value"] = ir.UnitAttr.get()
    text = kernel.operation.get_asm(use_local_scope=True, print_generic_op_form=True)
    for constant, value in zip(constants, values, strict=True):
        constant.attributes["value"] = value
    return text.replace(f'"{name}"', '"kernel"', 1)


def _share(group: Sequence[mgx.KernelOp]) -> dict[str, _Share]:
    """Makes one kernel of all; gives what takes the place of each, by its symbol."""
    first, *others = group
    rows = [list(_scales(kernel)) for kernel in group]
    differing = [
        column
        for column in zip(*rows, strict=True)
        if len({str(constant.attributes["value"]) for constant in column}) > 1
    ]
    numbers = [
        [mgx.constant_array(c).reshape(-1)[:1].copy() for c in column] for column in differing
    ]
    types = [ir.RankedTensorType.get([1], _element(column[0].result)) for column in differing]
    if len(first.body.blocks[0].arguments) + len(differing) > MAX_ARGUMENTS:
        return {}
    found = {
        symbol_name(kernel): _Share(symbol_name(first), [row[place] for row in numbers], types)
        for place, kernel in enumerate(group)
    }
    for column, type_ in zip(differing, types, strict=True):
        _lift(first, column[0], type_)
    for kernel in others:
        kernel.operation.erase()
    return found


def _element(value: ir.Value) -> ir.Type:
    """The type of a number, or of a tensor's elements."""
    type_ = value.type
    return element_type(value) if isinstance(type_, ir.RankedTensorType) else type_


def _lift(kernel: mgx.KernelOp, constant: mgx.ConstantOp, type_: ir.Type) -> None:
    """Makes a constant of a body the last argument of the kernel, which is of one element."""
    body, location = constant.operation.block, constant.location
    op = body.owner.opview
    with location:
        argument = kernel.body.blocks[0].add_argument(type_, location)
        ends = ir.FunctionType(kernel.function_type.value)
        kernel.function_type = ir.TypeAttr.get(
            ir.FunctionType.get([*ends.inputs, type_], ends.results)
        )
    with ir.InsertionPoint(op), op.location:
        sizes = op.results[0] if isinstance(op, mgx.PointwiseOp) else op.operands[0]
        wide = mgx.multibroadcast(argument, list(shape(sizes)))
        made = ir.Operation.create(
            op.operation.name,
            results=[result.type for result in op.results],
            operands=[*op.operands, wide],
            attributes={name: op.attributes[name] for name in op.attributes},
            regions=1,
        )
    inner = body.add_argument(constant.result.type, location)
    constant.result.replace_all_uses_with(inner)
    constant.operation.erase()
    body.append_to(made.regions[0])
    replace(op, list(made.results))


def _relaunch(launch: mgx.LaunchOp, share: _Share, context: PassContext) -> None:
    with ir.InsertionPoint(launch), launch.location:
        added = [
            mgx.literal(context.weights.add_array(number), type_)
            for number, type_ in zip(share.numbers, share.types, strict=True)
        ]
        made = mgx.LaunchOp(
            [result.type for result in launch.outputs],
            ir.FlatSymbolRefAttr.get(share.symbol),
            [*launch.operands_, *added],
        )
    replace(launch, list(made.outputs))
