"""Kernels of the GPU tests as text, and numpy's names for their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import context

DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "i8": np.int8,
    "ui8": np.uint8,
    "ui32": np.uint32,
}
SMALLEST = {"f16": 2**-24}  # of its subnormal numbers
# Half a unit in the last place, relative; and what f32 inside adds.
ROUNDING = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-21, "f64": 2**-48}

# The shape and the element of a tensor.
Type = tuple[tuple[int, ...], str]


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def kernel_text(inputs: Sequence[Type], results: Sequence[Type], body: str) -> str:
    """A kernel of %x0, %x1, ... that gives %y."""
    arguments = ", ".join(f"%x{n}: {tensor(*i)}" for n, i in enumerate(inputs))
    types = ", ".join(tensor(*r) for r in results)
    names = ["%y"] if len(results) == 1 else [f"%y#{n}" for n in range(len(results))]
    return (
        f"mgx.kernel @k({arguments}) -> ({types}) "
        f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n{body}\n'
        f"mgx.return {', '.join(names)} : {types}\n}}"
    )


def parsed(text: str) -> tuple[ir.Module, ir.OpView]:
    """The module, to be kept, and the kernel in it."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return module, next(iter(module.body.operations))


def result_dtypes(kernel: ir.OpView) -> list[Any]:
    """numpy's types of a kernel's results."""
    type_ = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value)
    return [DTYPES[str(result.element_type)] for result in type_.results]


def first_wrong(wrong: Any, want: Any, have: Any) -> str:
    """Where results differ, in words; '' where they do nowhere."""
    if not wrong.any():
        return ""
    place = tuple(int(x) for x in np.argwhere(wrong)[0])
    return (
        f"{wrong.sum()} of {wrong.size} wrong, first at {place}: {have[place]}, want {want[place]}"
    )
