"""Kernels from text to results on the host, and the same from the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.dialects import context
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference import evaluate_kernel
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.runtime.program import Program

Array = np.ndarray[Any, Any]


def kernel_text(arguments: str, results: str, body: str, returned: str) -> str:
    """An mgx.kernel; `results` are types, `returned` the names of the values."""
    return (
        f'mgx.kernel @k({arguments}) -> ({results}) attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"{body}\nmgx.return {returned} : {results}\n}}"
    )


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


class HostKernel:
    """One kernel, compiled for the host and read by the reference."""

    def __init__(self, text: str, target: Target | None = None, threads: int = 2) -> None:
        with context(), ir.Location.unknown():
            self.module = ir.Module.parse(text)
            self.kernel = next(iter(self.module.body.operations))
            type_ = ir.FunctionType(ir.TypeAttr(self.kernel.attributes["function_type"]).value)
            self.inputs, self.outputs = _specs("i", type_.inputs), _specs("o", type_.results)
            self.code = compile_kernel(self.kernel, target or Target.host_cpu())
        self._threads = threads

    @cached_property
    def program(self) -> Program:
        return program_of(self.code, self.inputs, self.outputs, self._threads)

    def random(self, seed: int = 0, low: float = -1, high: float = 1) -> list[Array]:
        """An array for each input, of numbers from low to high."""
        rng = np.random.default_rng(seed)
        arrays = []
        for spec in self.inputs:
            numbers = rng.uniform(low, high, spec.shape)
            dtype = np.dtype(numpy_dtype_of(spec.dtype))
            if dtype.kind in "iu":
                limit = min(np.iinfo(dtype).max, 100)
                numbers = np.abs(numbers * limit) if dtype.kind == "u" else numbers * limit
            arrays.append((numbers > 0) if dtype.kind == "b" else numbers.astype(dtype))
        return arrays

    def run(self, *arrays: Array) -> list[Array]:
        return list(self.program.run({f"i{n}": a for n, a in enumerate(arrays)}).values())

    def reference(self, *arrays: Array) -> list[Array]:
        with self.module.context:
            return evaluate_kernel(self.kernel, list(arrays))

    def run_over(self, place: int, *arrays: Array) -> list[Array]:
        """As `run`, with the result written over an input's copy."""
        (result,) = self.program.outputs
        given = [np.array(array, order="C") for array in arrays]
        memory = given[place].view(numpy_dtype_of(result.dtype)).reshape(result.shape)
        program = program_of(
            self.code, self.inputs, self.outputs, self._threads, in_place=((0, place),)
        )
        names = (f"i{n}" for n in range(len(given)))
        program.run(dict(zip(names, given, strict=True)), {result.name: memory})
        return [memory]

    def check(self, *arrays: Array, rtol: float = 1e-4, atol: float = 1e-5) -> None:
        """Runs both and compares; random inputs where none are given."""
        given = list(arrays) or self.random()
        want = self.reference(*given)
        self._compare(self.run(*given), want, rtol, atol)
        with self.module.context:
            places = overwritable(self.kernel)
        for place in sorted(places):
            self._compare(self.run_over(place, *given), want, rtol, atol)

    def _compare(
        self, found: Sequence[Array], wanted: Sequence[Array], rtol: float, atol: float
    ) -> None:
        for got, want in zip(found, wanted, strict=True):
            assert got.dtype == want.dtype
            if got.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want)
            else:
                wide = np.float64
                np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol, atol)


def numpy_dtype_of(name: str) -> np.dtype[Any]:
    from mgx_mlir.runtime.program import numpy_dtype as by_name

    return by_name(name)


def _specs(prefix: str, types: Sequence[ir.Type]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(f"{prefix}{n}", numpy_dtype(t.element_type).name, tuple(t.shape))
        for n, t in enumerate(types)
    )


def program_of(
    code: CodeObject,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    threads: int,
    in_place: tuple[tuple[int, int], ...] = (),
) -> Program:
    """A program of one step."""

    def size(spec: TensorSpec) -> int:
        return int(np.prod(spec.shape, dtype=np.int64)) * numpy_dtype_of(spec.dtype).itemsize

    buffers = [Buffer("input", size(s), index=n) for n, s in enumerate(inputs)]
    buffers += [Buffer("output", size(s), index=n) for n, s in enumerate(outputs)]
    step = Step(0, tuple(range(len(buffers))))
    plan = Plan(tuple(inputs), tuple(outputs), 0, tuple(buffers), (step,), in_place=in_place)
    return Program(plan, [code], {}, threads)
