"""A bound plan on a device: functions and weights loaded, arguments laid out.

What every execution context of a program shares. Arguments are addresses, one after
another in launch order; a context has its own copy of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgx_mlir.errors import ArtifactError
from mgx_mlir.finalizer.code_object import CodeObject
from mgx_mlir.plan import Plan
from mgx_mlir.runtime.binding import BoundCopy, Place, arena_bytes, bind, scratch_bytes
from mgx_mlir.runtime.hip.memory import aligned
from mgx_mlir.runtime.hip.module import load_module
from mgx_mlir.runtime.hip.weights import device_weight
from mgx_mlir.weights import Weight

# An input or an output: its kind and number.
Tensor = tuple[str, int]


@dataclass(frozen=True)
class PreparedLaunch:
    """One kernel launch; `first` is the place of its first argument among all of them.

    `step` is the number of the plan's step.
    `shape` is what hipModuleLaunchKernel takes first: function, grid, block, dynamic LDS bytes.
    """

    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    first: int
    name: str
    shape: tuple[Any, ...]
    step: int


@dataclass(frozen=True)
class PreparedCopy:
    """A copy on the device: source and target are the arguments `first` and `first + 1`."""

    bytes: int
    first: int
    step: int


class Prepared:
    """The steps of a program on device `ordinal`, and where each of their pointers lies.

    `arguments` holds weights' addresses and offsets; those at `in_arena` become addresses
    when a context adds its arena's. `entries` are the arguments that point to a tensor of
    the caller, `touching` the steps that have such arguments.
    """

    def __init__(
        self,
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Mapping[str, Weight],
        ordinal: int,
    ) -> None:
        """Raises ArtifactError where the parts do not fit together, DeviceError."""
        self.ordinal = ordinal
        self.arena_bytes = arena_bytes(plan)
        self.memory_bytes = self.arena_bytes + scratch_bytes(code_objects)
        self.steps: list[PreparedLaunch | PreparedCopy] = []
        self.entries: dict[Tensor, list[int]] = {}
        self.touching: dict[Tensor, list[int]] = {}
        bound = bind(plan, code_objects)
        # A kernel whose results have no elements has no functions, and no bytes either.
        self._modules = {
            number: load_module(ordinal, code)
            for number, code in enumerate(code_objects)
            if code.launches
        }
        self._weights = {
            b.key: device_weight(ordinal, _weight(weights, b.key, b.bytes))
            for b in plan.buffers
            if b.kind == "weight"
        }
        values: list[int] = []
        self._in_arena: list[int] = []
        for step in bound:
            if isinstance(step, BoundCopy):
                self.steps.append(PreparedCopy(step.bytes, len(values), step.step))
            else:
                launch = step.launch
                function = self._modules[step.kernel].function(launch.function)
                name = f"{launch.function} of '{step.node}' (kernel {step.kernel})"
                grid, block = launch.grid, launch.block
                shape = (function, *grid, *block, 0)
                first = len(values)
                self.steps.append(
                    PreparedLaunch(function, grid, block, first, name, shape, step.step)
                )
            for place in step.places:
                values.append(self._value(place, len(values)))
        self.arguments = np.array(values, np.uint64)
        self.in_arena = np.array(self._in_arena, np.intp)
        self.staging, self.staging_bytes = _staging(plan)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, which other programs may share."""
        return sum(memory.size for memory in self._weights.values())

    def _value(self, place: Place, number: int) -> int:
        if place.kind == "weight":
            return self._weights[place.key].address
        if place.kind in ("arena", "scratch"):
            self._in_arena.append(number)
            return place.index + (self.arena_bytes if place.kind == "scratch" else 0)
        tensor = (place.kind, place.index)
        self.entries.setdefault(tensor, []).append(number)
        steps = self.touching.setdefault(tensor, [])
        if steps[-1:] != [len(self.steps) - 1]:
            steps.append(len(self.steps) - 1)
        return 0


def _staging(plan: Plan) -> tuple[dict[Tensor, int], int]:
    """Where the host's tensors lie in the memory that they are copied through."""
    offsets, end = {}, 0
    for kind, specs in (("input", plan.inputs), ("output", plan.outputs)):
        sizes = {b.index: b.bytes for b in plan.buffers if b.kind == kind}
        for index in range(len(specs)):
            offsets[kind, index] = end
            end += aligned(sizes.get(index, 0))
    return offsets, end


def _weight(weights: Mapping[str, Weight], key: str, size: int) -> Weight:
    if key not in weights:
        raise ArtifactError(f"the plan needs weight '{key}', which is missing")
    if weights[key].nbytes != size:
        raise ArtifactError(f"weight '{key}' has {weights[key].nbytes} bytes; the plan says {size}")
    return weights[key]
