"""Walks a program: each op's results from its operands, launches and regions included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.errors import CompilerError, UnsupportedError, UsageError
from mgx_mlir.reference.meanings import Array, meanings
from mgx_mlir.reference.numbers import rounded
from mgx_mlir.rewriting.graph import VALUE_NAME
from mgx_mlir.rewriting.queries import used_values

Observer = Callable[[ir.OpView, Sequence[Array]], None]
_TERMINATORS = (func.ReturnOp, mgx.ReturnOp, mgx.YieldOp)


def evaluate_op(
    op: ir.OpView, operands: Sequence[Array], accumulate: Any = np.float32
) -> list[Array]:
    """The results of one op without control flow.

    operands: one array for each operand, in the dtype of its element type (ml_dtypes for what
    numpy lacks). The operands of a pointwise op may have any one shape.
    accumulate: the dtype in which sums of floats narrower than f64 are kept.
    Raises UnsupportedError for an op that the reference does not know.
    """
    return _Evaluation(None, accumulate, None).op(op, operands)


def evaluate_kernel(
    kernel: ir.OpView, operands: Sequence[Array], accumulate: Any = np.float32
) -> list[Array]:
    """The results of an `mgx.kernel`, an array for each of its arguments given."""
    return _Evaluation(None, accumulate, None).block(kernel.regions[0].blocks[0], operands)


def is_evaluable(op: ir.OpView) -> bool:
    """Whether `evaluate_op` knows the op."""
    return op.operation.name in meanings() or isinstance(op, (mgx.ConstantOp, *mgx.FUSED))


def evaluate(
    module: ir.Module,
    weights: Mapping[str, Any] | Any,
    inputs: Mapping[str, Array],
    *,
    accumulate: Any = np.float32,
    observe: Observer | None = None,
) -> dict[str, Array]:
    """The outputs of `func.func @main`, by name.

    weights: key -> array, or anything with `.array()`, for each `mgx.literal`.
    inputs: an array for each argument, by its `mgx.name`, in the argument's dtype and shape.
    accumulate: the dtype in which sums of floats narrower than f64 are kept; `np.float64` gives
    the oracle that `mgx verify` compares with.
    observe: called with each op of @main and its results, in order.
    Raises UsageError for an input that is missing or does not fit, UnsupportedError for an op that
    the reference does not know.
    """
    main = _symbol(module, "main")
    run = _Evaluation(module, accumulate, weights)
    block = main.regions[0].blocks[0]
    arguments = []
    for name, argument in zip(
        _names(main, "arg_attrs", len(block.arguments)), block.arguments, strict=True
    ):
        if name not in inputs:
            raise UsageError(f"no array for the input '{name}'; inputs are given: {[*inputs]}")
        arguments.append(_fitting(name, np.asarray(inputs[name]), argument.type))
    results = run.block(block, arguments, observe)
    return dict(zip(_names(main, "res_attrs", len(results)), results, strict=True))


def _fitting(name: str, array: Array, type_: ir.Type) -> Array:
    wanted, shape = numpy_dtype(type_), list(ir.RankedTensorType(type_).shape)
    fits = len(shape) == array.ndim and all(
        n in (m, ir.ShapedType.get_dynamic_size()) for n, m in zip(shape, array.shape, strict=True)
    )
    if array.dtype != wanted or not fits:
        raise UsageError(
            f"input '{name}' is {array.dtype}{list(array.shape)}; the program takes {type_}"
        )
    return array


def _names(function: ir.OpView, attribute: str, count: int) -> list[str]:
    attributes = function.operation.attributes
    names = []
    for position in range(count):
        given: Any = (
            ir.ArrayAttr(attributes[attribute])[position] if attribute in attributes else {}
        )
        named = VALUE_NAME in given
        names.append(ir.StringAttr(given[VALUE_NAME]).value if named else f"{position}")
    return names


def _symbol(module: ir.Module, name: str) -> ir.OpView:
    for op in module.body.operations:
        attributes = op.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == name:
            return op
    raise CompilerError(f"the module has no symbol @{name}")


class _Evaluation:
    def __init__(self, module: ir.Module | None, accumulate: Any, weights: Any) -> None:
        self.module, self.accumulate, self.weights = module, accumulate, weights
        self.kernels: dict[str, ir.Block] = {}

    def block(
        self,
        block: ir.Block,
        arguments: Sequence[Array],
        observe: Observer | None = None,
        outer: Mapping[ir.Value, Array] | None = None,
    ) -> list[Array]:
        """The operands of the terminator. Values of enclosing blocks are visible."""
        values: dict[ir.Value, Array] = dict(outer or {})
        values.update(zip(block.arguments, arguments, strict=True))
        last_use = _last_uses(block)
        for position, op in enumerate(block.operations):
            operands = [values[x] for x in op.operands]
            if isinstance(op, _TERMINATORS):
                return operands
            results = self.op(op, operands, values)
            if observe is not None:
                observe(op, results)
            values.update(zip(op.results, results, strict=True))
            for value in last_use.get(position, ()):
                del values[value]
        raise CompilerError("a block ends without a terminator")

    def op(
        self,
        op: ir.OpView,
        operands: Sequence[Array],
        values: Mapping[ir.Value, Array] | None = None,
    ) -> list[Array]:
        match op:
            case mgx.ConstantOp():
                return [mgx.constant_array(op)]
            case mgx.LiteralOp():
                return [self.weight(op.key.value)]
            case mgx.PointwiseOp():
                return self.pointwise(op, operands)
            case mgx.FusedReduceOp():
                return self.block(op.body.blocks[0], operands)
            case mgx.AttentionOp():
                return self.attention(op, operands)
            case mgx.LaunchOp():
                return self.block(self.kernel(op.kernel.value), operands)
            case mgx.IfOp():
                region = op.regions[0 if operands[0].reshape(-1)[0] else 1]
                return self.block(region.blocks[0], [], outer=values)
            case mgx.LoopOp():
                return self.loop(op, operands, values or {})
        name = op.operation.name
        meaning = meanings().get(name)
        if meaning is None:
            raise UnsupportedError(
                f"{op.location}: the reference does not know {name}", (str(op.location),)
            )
        with np.errstate(all="ignore"):
            results = meaning(op, operands, self.accumulate)
        return list(results) if isinstance(results, list) else [results]

    def weight(self, key: str) -> Array:
        weight = self.weights[key]
        found: Array = weight.array() if hasattr(weight, "array") else weight
        return found

    def kernel(self, name: str) -> ir.Block:
        """The body of a kernel of the module."""
        if name not in self.kernels:
            assert self.module is not None
            self.kernels[name] = _symbol(self.module, name).regions[0].blocks[0]
        return self.kernels[name]

    def pointwise(self, op: mgx.PointwiseOp, operands: Sequence[Array]) -> list[Array]:
        # The body's types are scalars; its ops work on whole arrays all the same.
        results = self.block(op.body.blocks[0], operands)
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        shape = operands[0].shape if operands else shape
        return [np.broadcast_to(x, shape) for x in results]

    def attention(self, op: mgx.AttentionOp, operands: Sequence[Array]) -> list[Array]:
        q, k, v, *extras = operands
        score = np.promote_types(q.dtype if q.dtype.itemsize > 2 else np.float32, np.float32)
        wide = np.promote_types(score, self.accumulate)
        q, k, v = (x.astype(wide) for x in (q, k, v))
        products = (q @ k.swapaxes(-1, -2)).astype(score)
        (scores,) = self.block(op.body.blocks[0], [products, *extras])
        scores = np.broadcast_to(scores, products.shape).astype(wide)
        places = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
        if op.causal is not None:
            scores = np.where(places <= op.causal.value, scores, -np.inf)
        if op.earliest is not None:
            scores = np.where(places >= op.earliest.value, scores, -np.inf)
        peaks = np.max(scores, -1, keepdims=True)
        with np.errstate(all="ignore"):
            powers = np.exp(scores - peaks)
            shares = powers / np.sum(powers, -1, keepdims=True)
            if op.nan_as_zero:
                shares = np.where(np.isnan(shares), 0, shares)
            if op.empty_as_zero:
                shares = np.where(peaks == -np.inf, 0, shares)
            return [rounded(shares @ v, numpy_dtype(op.results[0].type))]

    def loop(
        self, op: mgx.LoopOp, operands: Sequence[Array], values: Mapping[ir.Value, Array]
    ) -> list[Array]:
        limit, condition, *carried = operands
        body = op.body.blocks[0]
        counter = ir.RankedTensorType(body.arguments[0].type)
        scans: list[list[Array]] = [[] for _ in range(len(op.results) - len(carried))]
        count, step = len(carried), 0
        while step < int(limit.reshape(-1)[0]) and condition.reshape(-1)[0]:
            index = np.array(step, np.int64).reshape(counter.shape)
            condition, *rest = self.block(body, [index, condition, *carried], outer=values)
            carried = rest[:count]
            for scan, value in zip(scans, rest[count:], strict=True):
                scan.append(value)
            step += 1
        stacked = [
            _stacked(scan, result.type)
            for scan, result in zip(scans, list(op.results)[count:], strict=True)
        ]
        return [*carried, *stacked]


def _stacked(rows: list[Array], type_: ir.Type) -> Array:
    """The rows, and as many of zeros as a type states beyond them."""
    count, *sizes = (max(n, 0) for n in ir.RankedTensorType(type_).shape)
    shape = rows[0].shape if rows else sizes
    rest = np.zeros((max(count - len(rows), 0), *shape), numpy_dtype(type_))
    return np.concatenate([np.stack(rows), rest]) if rows else rest


def _last_uses(block: ir.Block) -> dict[int, list[ir.Value]]:
    """Values by the position of the last op that needs them: large tensors go early."""
    last: dict[ir.Value, int] = dict.fromkeys(block.arguments, -1)
    for position, op in enumerate(block.operations):
        for value in used_values(op):
            if value in last:
                last[value] = position
        last.update((result, position) for result in op.results)
    positions: dict[int, list[ir.Value]] = {}
    for value, position in last.items():
        positions.setdefault(position, []).append(value)
    return positions
