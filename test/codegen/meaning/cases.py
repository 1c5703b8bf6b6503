"""Small kernels, lowered, run, and compared with the reference."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import context
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference import evaluate_kernel
from test.codegen.meaning.execution import Executable, kernels_of

Array = np.ndarray[Any, Any]
Fill = Callable[[np.random.Generator, tuple[int, ...], np.dtype[Any]], Array]

_KERNEL = """mgx.kernel @{name}({arguments}) -> ({results})
    attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
  {body}
  mgx.return {returned} : {results}
}}
"""


@dataclass(frozen=True)
class Case:
    """One kernel. arguments: "%x: tensor<2xf32>"; returns: "%y: tensor<2xf32>"."""

    name: str
    arguments: str
    body: str
    returns: str
    inputs: Mapping[str, Fill] = field(default_factory=dict)  # by argument, "%x"
    rtol: float | None = None
    atol: float | None = None

    @property
    def text(self) -> str:
        names = [part.partition(":")[0].strip() for part in _split(self.returns)]
        types = [part.partition(":")[2].strip() for part in _split(self.returns)]
        return _KERNEL.format(
            name=self.name,
            arguments=self.arguments,
            body=self.body,
            returned=", ".join(names),
            results=", ".join(types),
        )


def _split(text: str) -> list[str]:
    return [("%" + part).strip().rstrip(",") for part in text.split("%")[1:]]


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Numbers around 0, of any dtype."""
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -9
        return rng.integers(low, 10, shape).astype(dtype)
    if dtype in (ml_dtypes.int4, ml_dtypes.int2, ml_dtypes.uint4, ml_dtypes.uint2):
        limits = ml_dtypes.iinfo(dtype)
        return (
            rng.integers(int(limits.min), int(limits.max) + 1, shape).astype(np.int8).astype(dtype)
        )
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def between(low: float, high: float) -> Fill:
    """Numbers uniformly in [low, high)."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iu":
            return rng.integers(int(low), int(high), shape).astype(dtype)
        return rng.uniform(low, high, shape).astype(dtype)

    return fill


def values(*given: Any) -> Fill:
    """These numbers, repeated to fill the shape."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.resize(np.array(given), shape).astype(dtype)

    return fill


# rtol, atol by the narrowest element: a few units in the last place, more where f32 sums differ.
_TOLERANCE = {
    np.dtype(np.float64): (1e-9, 1e-12),
    np.dtype(np.float32): (2e-5, 2e-6),
    np.dtype(np.float16): (2e-3, 1e-3),
    np.dtype(ml_dtypes.bfloat16): (1.6e-2, 1e-2),
}


def check(cases: Sequence[Case]) -> None:
    """Compiles all cases in one module, runs each, and compares with the reference."""
    text = "".join(case.text for case in cases)
    with context() as ctx:
        module = ir.Module.parse(text, ctx)
        executable = Executable(module)
        kernels = kernels_of(module)
        for case in cases:
            inputs = arguments_of(case, kernels[case.name])
            expected = evaluate_kernel(kernels[case.name], inputs)
            actual = executable.run(case.name, inputs)
            for want, have in zip(expected, actual, strict=True):
                compare(case, np.asarray(want), have)


def arguments_of(case: Case, kernel: ir.OpView) -> list[Array]:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    names = [part.partition(":")[0].strip() for part in _split(case.arguments)]
    arguments = []
    for name, argument in zip(names, kernel.regions[0].blocks[0].arguments, strict=True):
        fill = case.inputs.get(name, normal)
        arguments.append(fill(rng, tuple(argument.type.shape), numpy_dtype(argument.type)))
    return arguments


def compare(case: Case, want: Array, have: Array) -> None:
    assert want.shape == have.shape and want.dtype == have.dtype, (
        f"{case.name}: {have.dtype}{have.shape} for {want.dtype}{want.shape}"
    )
    rtol, atol = _TOLERANCE.get(want.dtype, (0, 0))
    rtol, atol = case.rtol or rtol, case.atol or atol
    if rtol or atol:
        np.testing.assert_allclose(
            have.astype(np.float64), want.astype(np.float64), rtol, atol, err_msg=case.name
        )
    else:
        np.testing.assert_array_equal(
            have.astype(np.float64), want.astype(np.float64), err_msg=case.name
        )
