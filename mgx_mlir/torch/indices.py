"""Arguments of a graph by which it indexes tensors: torch raises where an index is out of range.

A program clamps it, or reads zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten


@dataclass(frozen=True)
class Range:
    """An argument, by number, whose elements are at least `least` and below `end`."""

    argument: int
    least: int
    end: int

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether all elements of a tensor of the host are in range."""
        if tensor.device.type != "cpu":
            return True
        least, most = torch.aminmax(tensor.detach())
        return int(least) >= self.least and int(most) < self.end


class Indices(TorchDispatchMode):
    """Notes the `ranges` of arguments that index others, or views of them.

    `arguments` are those of a call, by number; a tensor that is none of the `given` ones, nor
    made of them alone, may have other sizes in other calls. What a branch or a loop indexes is
    not noted: it may not run.
    """

    supports_higher_order_operators = True

    def __init__(self, arguments: Mapping[int, torch.Tensor], given: Collection[int]) -> None:
        super().__init__()
        self._memory = {_memory(tensor): n for n, tensor in arguments.items()}
        self._given = {_memory(arguments[n]) for n in given}
        self.ranges: dict[Range, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor, axis, index, negative in _indexed(func, args):
            number = self._memory.get(_memory(index))
            integers = index.dtype in (torch.int32, torch.int64)
            if number is not None and integers and _memory(tensor) in self._given:
                size = int(tensor.shape[axis])
                self.ranges[Range(number, -size if negative else 0, size)] = None
        return func(*args, **(kwargs or {}))


def _indexed(func: Any, args: Sequence[Any]) -> list[tuple[torch.Tensor, int, torch.Tensor, bool]]:
    """The tensors that an operator indexes: the dimension, the index, and if it may be negative."""
    if func is _aten.embedding.default:
        return [(args[0], 0, args[1], False)]
    if func in (_aten.index_select.default, _aten.gather.default, _aten.scatter.src,
                _aten.scatter.value, _aten.scatter_add.default):  # fmt: skip
        return [(args[0], args[1], args[2], False)] if args[0].ndim else []
    if func in (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default):
        pairs = enumerate(args[1])
        return [(args[0], axis, one, True) for axis, one in pairs if one is not None]
    return []


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
