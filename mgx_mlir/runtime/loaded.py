"""A plan with its code objects and weights, as a program of libmgx."""

from __future__ import annotations

import ctypes
import json
import mmap
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int64
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from mgx_mlir.artifact import library
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.library import MAPPED, SPLAT, Handle, Tensor, call, made
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.artifact.weights import Weight, is_splat, splat_element
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.code_library import check_trusted

Weights: TypeAlias = Mapping[str, "Weight | np.ndarray"]
Shapes: TypeAlias = Sequence[tuple[int, ...]]

_TYPES = {row.numpy: row.onnx for row in ELEMENTS}
# Words of 8 bytes that a tensor of libmgx has.
STRIDE = ctypes.sizeof(Tensor) // 8


@cache
def cpu(threads: int) -> Handle:
    """The CPU as a device of so many threads."""
    if threads < 1:
        raise UsageError(f"a program runs on at least one thread, not {threads}")
    return Handle("mgx_device_open", "mgx_device_release", f"cpu:{threads}".encode(), None)


def weight_keys(plan: Plan) -> set[str]:
    """The keys of all weights that runs need, whatever their sizes."""
    return {b.key for p in plan.plans for b in p.buffers if b.kind == "weight"}


def assembled(
    plan: Plan, code_objects: Sequence[CodeObject], weights: Sequence[library.Weight],
    kept: list[Any] | None = None,
) -> Handle:  # fmt: skip
    """The parts as an artifact of libmgx, without the code's bytes where nobody keeps them.

    `kept` outlives the artifact. Raises ArtifactError where the parts do not fit together.
    """
    for code in code_objects:
        check_trusted(code)
    if kept is None:
        code_objects = [replace(code, data=b"") for code in code_objects]
    records = [canonical_json(code.to_json()) for code in code_objects]
    codes = (library.Code * len(records))(
        *(
            library.Code(record, code.data, len(code.data))
            for record, code in zip(records, code_objects, strict=True)
        )
    )
    entries = (library.Weight * len(weights))(*weights)
    assembly = made(
        library.Assembly, plan=canonical_json(plan.to_json()), code=codes, codes=len(codes),
        weights=entries, weight_count=len(entries),
    )  # fmt: skip
    if kept is not None:
        kept += [codes, records]
    return Handle("mgx_artifact_assemble", "mgx_artifact_release", byref(assembly))


class Loaded:
    """A program of libmgx, for given or symbolic sizes, and the memory that it refers to."""

    def __init__(
        self,
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Weights,
        device: Handle,
        shared: bool = False,
    ) -> None:
        """`shared`: equal weights of all programs are one, by their hashes.

        Raises ArtifactError where the parts do not fit together, and ResourceError.
        """
        self._device = device
        self._kept: list[Any] = []
        keys = weight_keys(plan) & weights.keys()
        entries = [self._weight(key, weights[key], shared) for key in sorted(keys)]
        parts = assembled(plan, code_objects, entries, self._kept)
        options = made(library.ProgramOptions, trust_code=1)
        self._program = Handle(
            "mgx_program_create", "mgx_program_release", parts.value, device.value, byref(options)
        )
        self.handle = self._program.value

    def _weight(self, key: str, weight: Weight | np.ndarray, shared: bool) -> library.Weight:
        array, flags = weight if isinstance(weight, np.ndarray) else weight.array(), 0
        if is_splat(array):
            size, flags = array.nbytes, SPLAT
            array = splat_element(array)
        else:
            array = row_major(array)
            size = array.nbytes
            if isinstance(weight, Weight) and _is_mapped(array):
                flags = MAPPED
        self._kept.append(array)
        type_ = _TYPES.get(array.dtype.name, _TYPES["uint8"])
        sha256 = weight.sha256.encode() if shared and isinstance(weight, Weight) else None
        return library.Weight(key.encode(), array.ctypes.data, size, type_, flags, sha256)

    def outputs(self, inputs: Any, count: int) -> list[tuple[int, ...]]:
        """The shapes of `count` outputs for inputs of these sizes, for which memory is made.

        Raises UsageError where sizes do not fit the program.
        """
        rooms = [(c_int64 * 64)() for _ in range(count)]
        found = (Tensor * count)(*(Tensor(sizes=room) for room in rooms))
        call("mgx_program_sizes", self.handle, inputs, len(inputs), found, count, None)
        return [tuple(room[: t.rank]) for room, t in zip(rooms, found, strict=True)]

    def memory_bytes(self, inputs: Any) -> dict[str, int]:
        """The weights' bytes, with those that launches made of them, and the arenas' of runs of
        these sizes."""
        sizes, info = made(library.Sizes), made(library.ProgramInfo)
        call("mgx_program_sizes", self.handle, inputs, len(inputs), None, 0, byref(sizes))
        call("mgx_program_get_info", self.handle, byref(info))
        return {"weights": info.weight_bytes, "arena": sizes.workspace_bytes}

    def plan(self, inputs: Any) -> Plan:
        """The plan of runs of these sizes."""
        texts: list[bytes] = []
        take = library.TextFunction(lambda _, text: texts.append(text))
        call("mgx_program_plan", self.handle, inputs, len(inputs), take, None)
        return Plan.from_json(json.loads(texts[0]))

    def launches(self, inputs: Any) -> list[int]:
        """The number of the plan's step that each launch and copy of a run belongs to."""
        steps: list[int] = []
        take = library.ProfileFunction(lambda _, row: steps.append(row[0].step))
        call("mgx_program_launches", self.handle, inputs, len(inputs), take, None)
        return steps


def row_major(array: np.ndarray) -> np.ndarray:
    """The elements in order, each whole, as kernels want them; not copied where they are so."""
    return np.require(array, requirements=("C", "A"))


def _is_mapped(array: Any) -> bool:
    """Whether the elements lie in a file that is mapped and not written to."""
    if array.flags.writeable:
        return False
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array is not None


def tensors(specs: Sequence[TensorSpec]) -> Any:
    """The tensors of a run, on the host, without their data."""
    return (Tensor * len(specs))(
        *(
            Tensor(None, (c_int64 * len(s.shape))(*s.shape), len(s.shape), _TYPES[s.dtype], 1, 0,
                   s.nbytes)
            for s in specs
        )
    )  # fmt: skip


class Table:
    """The tensors of one run at a time: inputs, then outputs.

    `entries` is their memory in words: the address of tensor i is word i * STRIDE.
    """

    __slots__ = ("entries", "inputs", "outputs", "tensors")

    def __init__(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.tensors = tensors((*inputs, *outputs))
        self.inputs = ctypes.addressof(self.tensors)
        self.outputs = self.inputs + len(inputs) * ctypes.sizeof(Tensor)
        self.entries: Any = memoryview(self.tensors).cast("B").cast("Q") if self.tensors else []
