"""The inputs and outputs of a decoder, by their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TypeProto, helper

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.models.generation.last_rows import ROWS
from mgx_mlir.suggest import listed

# The prefixes of a cache's inputs, and of the outputs that follow them.
_PREFIXES = (("past_key_values", "present"), ("past_key_values", "present_key_values"),
             ("past", "present"))  # fmt: skip

# The inputs that change with each step, beside the caches.
_STEP = ("input_ids", "attention_mask", "position_ids", "cache_position", "use_cache_branch",
         "seqlens_k", "total_sequence_length")  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """A decoder's inputs by their meaning. `caches` gives the output that follows each cache."""

    types: Mapping[str, TypeProto]
    outputs: tuple[str, ...]
    caches: Mapping[str, str]

    @staticmethod
    def of(types: Mapping[str, TypeProto], outputs: tuple[str, ...]) -> Signature:
        """Raises UnsupportedError where the inputs are not those of a decoder with a cache."""
        caches = {name: found for name in types if (found := _following(name, outputs))}
        others = [name for name in types if name not in {*_STEP, ROWS, *caches}]
        if "input_ids" not in types or others or not caches or "logits" not in outputs:
            raise UnsupportedError(
                "generation needs a decoder with the inputs input_ids, past_key_values.* and, as "
                f"the model has them, {', '.join(_STEP[1:])}, and the outputs logits, present.*; "
                "it has the inputs "
                f"{listed(types)} and the outputs {listed(outputs)}"
            )
        return Signature(types, outputs, caches)

    def has(self, name: str) -> bool:
        """Whether the decoder has an input of that name."""
        return name in self.types

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of an input."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type))

    def rank(self, name: str) -> int:
        """How many dimensions an input has."""
        return len(self.types[name].tensor_type.shape.dim)

    @property
    def fixed_length(self) -> int:
        """The static length of the caches; 0 where it is open."""
        dims = self.types[next(iter(self.caches))].tensor_type.shape.dim
        return int(dims[len(dims) - 2].dim_value) if len(dims) >= 4 else 0

    def shape(self, name: str, batch: int, length: int) -> tuple[int, ...]:
        """The shape of a cache for `length` entries of each sequence.

        Raises UnsupportedError where the heads or their size are open.
        """
        dims = list(self.types[name].tensor_type.shape.dim)
        axis = len(dims) - 4  # in front, there may be one for keys and values
        shape = [d.dim_value for d in dims]
        if axis in (0, 1):
            shape[axis], shape[-2] = batch, length
        if axis not in (0, 1) or 0 in (*shape[:axis], shape[-3], shape[-1]):
            shown = [d.dim_param or d.dim_value or "?" for d in dims]
            raise UnsupportedError(
                f"the cache '{name}' is {shown}; generation needs (batch, heads, length, "
                "size) with known heads and size: give them by dim_params"
            )
        return tuple(shape)


def _following(name: str, outputs: tuple[str, ...]) -> str | None:
    for past, present in _PREFIXES:
        output = present + name.removeprefix(past)
        if name.startswith(past) and output in outputs:
            return output
    return None
