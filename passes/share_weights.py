"""mgx-share-weights: equal weights are stored once."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore, is_splat, splat_element
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks

# Leading bytes that distinguish most weights.
_FRONT = 4096


@dataclass(frozen=True)
class ShareWeights(Pass):
    """Gives literals whose weights have the same type and the same numbers the same name.

    Before:  %a = mgx.literal "embedding" : tensor<9x4xf32>
             %b = mgx.literal "head" : tensor<9x4xf32>      // a copy, as exporters write it
    After:   %a = mgx.literal "embedding" : tensor<9x4xf32>
             %b = mgx.literal "embedding" : tensor<9x4xf32>

    Common subexpressions are then found by clean-up. Numbers are compared bit by bit, and
    read only where the first ones are equal.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-share-weights"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        names: dict[str, str] = {}
        kinds: dict[tuple[object, ...], list[str]] = {}
        for block in blocks(main_function(module)):
            for op in block.operations:
                if not isinstance(op, mgx.LiteralOp) or op.key.value not in context.weights:
                    continue
                key = op.key.value
                if key not in names:
                    names[key] = _first_equal(key, context.weights, kinds)
                if names[key] != key:
                    context.note(f"{key} is {names[key]}", node_name(op))
                    op.key = ir.StringAttr.get(names[key])


def _first_equal(key: str, weights: WeightStore, kinds: dict[tuple[object, ...], list[str]]) -> str:
    """The first weight seen that equals this one."""
    array = weights[key].array()
    alike = kinds.setdefault((array.dtype, array.shape, _front(array)), [])
    found = next((other for other in alike if _are_equal(weights[other].array(), array)), key)
    if found == key:
        alike.append(key)
    return found


def _front(array: np.ndarray) -> int:
    first = array.flat[: _FRONT // array.itemsize]  # copies no more than these
    return zlib.crc32(np.ascontiguousarray(first).view(np.uint8))


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    if is_splat(a) and is_splat(b):
        a, b = splat_element(a), splat_element(b)
    return a is b or np.array_equal(_bytes(a), _bytes(b))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
