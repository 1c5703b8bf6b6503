"""From the command line to a program that runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import mgx_mlir
from mgx_mlir.compiler import Report, compile_to_bytecode, options_for
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.plan import TensorSpec
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.staged import Model
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.console import Tick, print_report


def program_of(options: argparse.Namespace, tick: Tick) -> Program:
    """The program of the model or artifact that the options name, for their target."""
    if shared.is_artifact(options.model):
        shared.expect_no_compile_options(options)
        artifact = mgx_mlir.load(options.model)
    else:
        report = Report()
        artifact = compile_to_bytecode(
            options.model,
            options_for(shared.compile_options(options), shared.target_of(options)),
            report=report,
            reproducer=Path("mgx-reproducer.mlir"),
        )
        print_report(report, options)
    program = mgx_mlir.compile(
        artifact,
        shared.target_of(options),
        progress=tick,
        device=options.device,
        graph=not options.no_graph,
    )
    where = getattr(program, "device", None)
    if where is not None:
        from mgx_mlir.runtime.hip.library import library_kind

        print(f"on {where}, {library_kind()}", file=sys.stderr)
    return program


def runnable_of(options: argparse.Namespace, tick: Tick) -> Program | Model:
    """As `program_of`; a model that no static program holds is run in parts."""
    try:
        return program_of(options, tick)
    except UnsupportedError as error:
        if shared.is_artifact(options.model):
            raise
        model = Model(
            options.model,
            shared.target_of(options),
            shared.compile_options(options),
            device=options.device,
            graph=not options.no_graph,
        )
        model.staged(refused=error)
        return model


def inputs_of(
    runnable: Program | Model, given: Sequence[str], seed: int, dims: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """The inputs of a run, read from the files that `given` names, else random.

    Random ones of a program for any sizes have those of `dims`, by symbol, or of the files;
    else a symbol's first optimal size, or its least.
    """
    if isinstance(runnable, SizedProgram):
        chosen = _chosen(runnable, given, dims)
        return shared.read_inputs(runnable.specs(chosen), given, seed)
    if isinstance(runnable, Program):
        return shared.read_inputs(runnable.inputs, given, seed)
    named = {text.partition("=")[0] for text in given}
    specs = [_spec(name, type_, name in named) for name, type_ in runnable.input_types.items()]
    return shared.read_inputs(specs, given, seed)


def _chosen(
    program: SizedProgram, given: Sequence[str], dims: Mapping[str, object]
) -> dict[str, int]:
    plan = program.plan
    chosen = {dim.name: (*dim.optimals, dim.low)[0] for dim in plan.dims}
    chosen |= {name: size for name, size in dims.items() if isinstance(size, int)}
    for text in given:
        name, _, file = text.partition("=")
        spec = next((s for s in program.inputs if s.name == name), None)
        shape = np.load(file, mmap_mode="r").shape if spec and Path(file).is_file() else ()
        for number, size in zip(spec.shape if spec else (), shape, strict=False):
            if number < 0 and plan.formulas[-1 - number] in chosen:
                chosen[plan.formulas[-1 - number]] = size
    return chosen


def _spec(name: str, type_: onnx.TypeProto, given: bool) -> TensorSpec:
    """An input of a model; one that a file gives may have any size and type."""
    if given:
        return TensorSpec(name, "float32", ())
    if type_.WhichOneof("value") != "tensor_type":
        raise UsageError(f"input '{name}' is no tensor; run the model from Python")
    dims = [d.dim_value if d.HasField("dim_value") else None for d in type_.tensor_type.shape.dim]
    if None in dims or type_.tensor_type.elem_type == onnx.TensorProto.STRING:
        raise UsageError(f"input '{name}' cannot be random: give --input {name}=FILE")
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type))
    return TensorSpec(name, dtype.name, tuple(d for d in dims if d is not None))


def flat_arrays(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of the outputs; those of sequences as NAME[i]. What is empty is left out."""
    found: dict[str, np.ndarray] = {}
    for name, value in outputs.items():
        if isinstance(value, list):
            found |= flat_arrays({f"{name}[{i}]": item for i, item in enumerate(value)})
        elif isinstance(value, dict):
            found |= flat_arrays({f"{name}[{key}]": item for key, item in value.items()})
        elif value is not None:
            array = np.asarray(value)
            found[name] = array.astype(np.str_) if array.dtype.kind == "O" else array
    return found


def note_host_nodes(runnable: Program | Model) -> None:
    """Says on standard error which nodes the host ran."""
    if isinstance(runnable, Model) and runnable.host_nodes:
        nodes = runnable.host_nodes
        first = ", ".join(f"{entry.operator} '{entry.node}'" for entry in nodes[:4])
        more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
        print(f"on the host: {first}{more} (mgx check says why)", file=sys.stderr)
