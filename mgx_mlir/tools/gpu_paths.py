"""How operators and mgx ops become GPU code, found out on ONNX's own test cases.

    python -m mgx_mlir.tools.gpu_paths

writes gpu_paths.json beside this file: the generators that took kernels on any of the chips,
most frequent first. 'loop' is a loop in one kernel, 'generic' the path for everything else.
"operators" has the kernels of the cases of one ONNX operator, "ops" those that hold an mgx op.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mlir import ir

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.kernel import FAMILIES
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.errors import UserError
from mgx_mlir.models.staged import bounded
from mgx_mlir.rewriting.kernel_loops import has_loop
from mgx_mlir.rewriting.portable import read_kernel

CHIPS = ("gfx942", "gfx1100")
_FILE = Path(__file__).with_name("gpu_paths.json")
# Ops of a kernel that are no work.
_SILENT = frozenset(("constant", "kernel", "pointwise", "return", "yield", "fused_reduce"))


Paths = dict[str, list[str]]


@cache
def gpu_paths() -> dict[str, Paths]:
    """The generators by operator and by op, as they were found."""
    found: dict[str, Paths] = json.loads(_FILE.read_text())
    return found


def measure(cases: Iterator[tuple[Any, dict[str, Any]]]) -> dict[str, Paths]:
    """The generators. `cases` are models (onnx.ModelProto) with the arrays of their inputs.

    Models that do not compile as a whole are left out; where the data decide the size of
    results, the first half counts (see mgx_mlir.models.staged.bounded).
    """
    counts: dict[str, dict[str, Counter[str]]] = {"operators": {}, "ops": {}}
    seen: dict[str, tuple[set[str], list[str]]] = {}
    for case, inputs in cases:
        model = bounded.first_halves(case)
        for portable in _kernels(model, inputs):
            first = portable.sha256 not in seen
            if first:
                seen[portable.sha256] = _ops_and_paths(portable.bytecode)
            ops, paths = seen[portable.sha256]
            if first:
                for op in ops:
                    counts["ops"].setdefault(op, Counter()).update(paths)
            if len(model.graph.node) == 1:
                name = model.graph.node[0].op_type
                counts["operators"].setdefault(name, Counter()).update(paths)
    return {
        what: {name: [p for p, _ in found[name].most_common()] for name in sorted(found)}
        for what, found in counts.items()
    }


def _ops_and_paths(bytecode: bytes) -> tuple[set[str], list[str]]:
    """The ops of a kernel, and for each chip the generator that takes it."""
    module, kernel = read_kernel(bytecode)
    other = "loop" if has_loop(kernel) else "generic"
    paths = []
    with module.context, ir.Location.unknown():
        for chip in CHIPS:
            target = Target.get(chip)
            programs = ((family.name, family.program(kernel, target)) for family in FAMILIES)
            taken = (name for name, made in programs if isinstance(made, Generated))
            paths.append(next(taken, other))
        return _names(kernel.operation), paths


def _kernels(model: Any, inputs: dict[str, Any]) -> tuple[PortableKernel, ...]:
    """The kernels of a model, whose small inputs are built in where it asks for that."""
    small = {n: a for n, a in inputs.items() if a.ndim <= 1 and a.size <= 64}
    for values in ({}, small):
        dims = {n: list(a.shape) for n, a in inputs.items() if n not in values}
        options = CompileOptions(input_dims=dims, input_values=values)
        try:
            return compile_to_bytecode(model, options).kernels
        except (UserError, TypeError):  # strings have no form here
            continue
    return ()


def _names(operation: ir.Operation) -> set[str]:
    found: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.add(op.name.removeprefix("mgx."))
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    return found - _SILENT


def onnx_cases() -> Iterator[tuple[Any, dict[str, Any]]]:
    """The models and inputs of ONNX's cases of operators and layers that have only tensors."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for kind in ("pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            model = onnx.load(Path(case.model_dir) / "model.onnx")
            files = sorted(Path(case.model_dir).glob("test_data_set_0/input_*.pb"))
            tensors = [onnx.TensorProto.FromString(file.read_bytes()) for file in files]
            weights = {t.name for t in model.graph.initializer}
            names = [v.name for v in model.graph.input if v.name not in weights]
            yield model, {n: numpy_helper.to_array(t) for n, t in zip(names, tensors, strict=False)}
    for case in cases:
        inputs = case.data_sets[0][0]
        if not all(isinstance(x, np.ndarray | np.generic | onnx.TensorProto) for x in inputs):
            continue
        arrays = [
            numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)
            for x in inputs
        ]
        names = [value.name for value in case.model.graph.input]
        yield case.model, dict(zip(names, arrays, strict=False))


if __name__ == "__main__":
    _FILE.write_text(json.dumps(measure(onnx_cases()), indent=1) + "\n")
