"""The problem of a kernel: all that its schedules depend on, the same for kernels alike.

Kernels that differ in constants alone have one problem: an epilogue's class is its ops and their
types. Sizes, element types and layouts are those of the kernel's ops.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from mlir import ir

from mgx_mlir.artifact.plan import TensorSpec
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.rewriting.portable import read_kernel


@dataclass(frozen=True)
class Problem:
    """The work of a kernel as `text`, an op a line, and its tensors.

    `inputs` and `outputs` are empty where sizes are arguments.
    """

    text: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()

    @cached_property
    def key(self) -> str:
        """A SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def describe(self) -> str:
        """The ops and the shapes of the inputs, one line."""
        named = (line.split()[0].removeprefix("mgx.") for line in self.text.splitlines()[1:])
        ops = [name for name in dict.fromkeys(named) if name not in _PLAIN]
        shapes = ", ".join(f"{x.dtype} {'x'.join(map(str, x.shape)) or '1'}" for x in self.inputs)
        return f"{' '.join(ops) or 'copy'} of {shapes or 'any sizes'}"


# Ops that say nothing to people: they are there in every kernel.
_PLAIN = frozenset(("constant", "convert", "multibroadcast", "pointwise", "return", "yield"))


def problem_of(kernel: mgx.KernelOp) -> Problem:
    """The problem of a stored kernel."""
    signature = ir.FunctionType(kernel.function_type.value)
    types = [[ir.RankedTensorType(t) for t in x] for x in (signature.inputs, signature.results)]
    lines = "\n".join(_lines(kernel.operation, {}))
    if not all(t.has_static_shape for x in types for t in x):
        return Problem(lines)
    inputs, outputs = (
        tuple(
            TensorSpec(f"{name}{number}", numpy_dtype(t).name, tuple(t.shape))
            for number, t in enumerate(found)
        )
        for name, found in zip(("in", "out"), types, strict=True)
    )
    return Problem(lines, inputs, outputs)


def problem_of_bytecode(bytecode: bytes) -> Problem:
    """The problem of a stored kernel. Raises as read_kernel does."""
    module, kernel = read_kernel(bytecode)
    found = problem_of(kernel)
    del module  # kept until here: the kernel lives in it
    return found


def _lines(op: ir.Operation, numbers: dict[ir.Value, int]) -> Iterator[str]:
    """An op and those inside of it, a line each; values by the order of their definitions."""
    operands = " ".join(str(numbers[value]) for value in op.operands)
    attributes = "" if isinstance(op.opview, mgx.ConstantOp) else _attributes(op)
    types = ", ".join(str(result.type) for result in op.results)
    yield f"{op.name} ({operands}) {attributes} -> {types}"
    for result in op.results:
        numbers[result] = len(numbers)
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                numbers[argument] = len(numbers)
            for inner in block.operations:
                yield from _lines(inner.operation, numbers)


def _attributes(op: ir.Operation) -> str:
    return ", ".join(f"{name} = {op.attributes[name]}" for name in sorted(op.attributes))
