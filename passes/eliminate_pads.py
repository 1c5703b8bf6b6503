"""mgx-eliminate-pads: padding becomes part of the window that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, definition, erase_dead, op_name

_CONVOLUTIONS = frozenset({"mgx.convolution", "mgx.quant_convolution"})


@dataclass(frozen=True)
class EliminatePads(Pass):
    """Folds a pad of the spatial dimensions into the convolution or pooling that reads it.

    Before:  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] : ...
             %y = mgx.convolution %p, %w pads = [0, 0, 0, 0] ...
    After:   %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] ...

    A convolution and an average (which then counts the padding) take padding of zeros; a
    maximum takes one of -inf, or of zeros where no element is negative and each window sees
    one.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-eliminate-pads"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                operation = op.operation
                if operation.name not in _CONVOLUTIONS | {"mgx.pooling"}:
                    continue
                # Pads of pads, innermost last.
                while (pad := _zeros_around(operation.operands[0])) and _takes(op, pad):
                    context.note("pad", node_name(op))
                    operation.attributes["pads"] = ir.DenseI64ArrayAttr.get(_pads(op, pad))
                    operation.operands[0] = pad.source
            erase_dead(block)


@dataclass(frozen=True)
class _Pad:
    """`source` with `low` and `high` elements of `value` around its spatial dimensions."""

    source: ir.Value
    low: list[int]
    high: list[int]
    value: float


def _zeros_around(value: ir.Value) -> _Pad | None:
    op = definition(value)
    if op_name(op) != "mgx.pad":
        return None
    assert op is not None
    attributes = op.operation.attributes
    if "mode" in attributes and "constant" not in str(attributes["mode"]):
        return None
    low, high = (list(ir.DenseI64ArrayAttr(attributes[key])) for key in ("low", "high"))
    if any(low[:2]) or any(high[:2]) or min(*low, *high) < 0:
        return None
    number = ir.FloatAttr(attributes["value"]).value if "value" in attributes else 0.0
    return _Pad(op.operation.operands[0], low[2:], high[2:], number)


def _takes(op: ir.OpView, pad: _Pad) -> bool:
    attributes = op.operation.attributes
    if op.operation.name in _CONVOLUTIONS:
        return pad.value == 0
    if "ceil_mode" in attributes and ir.BoolAttr(attributes["ceil_mode"]).value:
        return False
    mode = str(attributes["mode"])
    if "max" in mode:
        return pad.value == -np.inf or (pad.value == 0 and _is_max_of_some(op, pad))
    if "average" in mode and pad.value == 0:
        counts = "count_include_pad" in attributes
        if counts or not any(ir.DenseI64ArrayAttr(attributes["pads"])):
            attributes["count_include_pad"] = ir.BoolAttr.get(True)
            return True
    return False


def _is_max_of_some(op: ir.OpView, pad: _Pad) -> bool:
    """Whether each window holds an element that is not negative."""
    if op_name(definition(pad.source)) != "mgx.relu":
        return False
    lengths = ir.DenseI64ArrayAttr(op.operation.attributes["lengths"])
    # A window of dilated taps could step over all elements.
    if any(d != 1 for d in ir.DenseI64ArrayAttr(op.operation.attributes["dilations"])):
        return False
    pads = _pads(op, pad)
    rank = len(pads) // 2
    return all(
        before < length and after < length
        for before, after, length in zip(pads[:rank], pads[rank:], lengths, strict=True)
    )


def _pads(op: ir.OpView, pad: _Pad) -> list[int]:
    own = ir.DenseI64ArrayAttr(op.operation.attributes["pads"])
    return [a + b for a, b in zip(own, [*pad.low, *pad.high], strict=True)]
