"""From the command line to a program that runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import mgx_mlir
from mgx_mlir import advice
from mgx_mlir.advice import OpenDim
from mgx_mlir.array_files import read_array
from mgx_mlir.artifact.plan import TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.compiler import CompileOptions, Report, compile_to_bytecode, options_for
from mgx_mlir.errors import MgxError, OpenError, UnsupportedError, UsageError
from mgx_mlir.importer import loading
from mgx_mlir.models.compile import compile_to_bytecode as compile_in_parts
from mgx_mlir.models.host.values import type_text
from mgx_mlir.models.staged import Model
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.sizes.range import Range
from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import saving
from mgx_mlir.tools.console import Tick, print_report
from mgx_mlir.tools.editing import is_program, model_of, model_or_program_of
from mgx_mlir.tools.tuning_options import tune_of


def program_of(
    options: argparse.Namespace, tick: Tick, report: Report | None = None
) -> Program | Model:
    """The program of the model or artifact that the options name, for their target.

    An artifact in parts gives a Model. `report` gets the artifact, and times where it is compiled.
    """
    report = report or Report()
    if is_artifact(options.model):
        shared.expect_no_compile_options(options)
        artifact = mgx_mlir.load(options.model)
    else:
        compile = compile_in_parts if saving.is_asked(options) else compile_to_bytecode
        artifact = compile(
            model_or_program_of(options),
            options_for(shared.compile_options(options), shared.target_of(options)),
            report=report,
            reproducer=Path("mgx-reproducer.mlir"),
        )
        print_report(report, options)
    if saving.is_asked(options):
        artifact = saving.finished(artifact, options, tick)
    report.artifact = artifact
    return loaded(artifact, options, tick)


def loaded(artifact: Artifact, options: argparse.Namespace, tick: Tick) -> Program | Model:
    """The program of an artifact for the options' target; a Model for an artifact in parts."""
    if artifact.parts is not None:
        return _model(artifact, options)
    program = mgx_mlir.compile(
        artifact,
        shared.target_of(options),
        progress=tick,
        device=options.device,
        graph=not options.no_graph,
        settings=shared.settings_of(options),
        tune=tune_of(options),
    )
    where = getattr(program, "device", None)
    if where is not None:
        from mgx_mlir.runtime.hip.library import library_kind

        print(f"on {where}, {library_kind()}", file=sys.stderr)
    return program


def runnable_of(
    options: argparse.Namespace, tick: Tick, report: Report | None = None
) -> Program | Model:
    """As `program_of`; without a static program a Model, which takes sizes from its inputs."""
    try:
        return program_of(options, tick, report)
    except UnsupportedError as error:
        if is_artifact(options.model) or is_program(options) or saving.is_asked(options):
            raise
        model = _model(model_of(options), options, shared.compile_options(options))
        if error.nodes or not isinstance(error, OpenError):  # else it asks for sizes only
            model.staged(refused=error)
        return model


def _model(
    model: Any, options: argparse.Namespace, compile_options: CompileOptions | None = None
) -> Model:
    return Model(
        model,
        shared.target_of(options),
        compile_options,
        device=options.device,
        graph=not options.no_graph,
        settings=shared.settings_of(options),
    )


def output_names(options: argparse.Namespace) -> list[str]:
    """The names of the outputs of the model or artifact; none where it cannot be read."""
    if options.output_names:
        return list(options.output_names)
    try:
        if not is_artifact(options.model):
            graph = loading.load(options.model).model.graph
            return [value.name for value in graph.output]
        artifact = mgx_mlir.load(options.model)
        if artifact.parts is not None:
            return list(_model(artifact, options).outputs)
        return [spec.name for spec in artifact.plan.outputs]
    except MgxError:
        return []


def inputs_of(runnable: Program | Model, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The inputs of a run: the files and the numbers that the options give, else random values.

    For a program for any sizes, random inputs have the sizes that the options give symbols, or
    those of the files; else a symbol's first optimal size, or its least. So have those of a model
    whose options give ranges.
    """
    if isinstance(runnable, SizedProgram):
        chosen = _chosen(runnable, options)
        return shared.read_inputs(runnable.specs(chosen), options)
    if isinstance(runnable, Program):
        return shared.read_inputs(runnable.inputs, options)
    files = shared.input_files(options, runnable.inputs)
    specs = [
        _spec(name, _with_sizes(name, type_, shared.compile_options(options)), name in files)
        for name, type_ in runnable.input_types.items()
    ]
    return shared.read_inputs(specs, options)


def _chosen(program: SizedProgram, options: argparse.Namespace) -> dict[str, int]:
    plan = program.plan
    chosen = {dim.name: (*dim.optimals, dim.low)[0] for dim in plan.dims}
    chosen |= shared.sizes(options)
    for name, file in shared.input_files(options, [s.name for s in program.inputs]).items():
        (spec,) = (s for s in program.inputs if s.name == name)
        shape = read_array(file, "r").shape
        for number, size in zip(spec.shape, shape, strict=False):
            if number < 0 and plan.formulas[-1 - number] in chosen:
                chosen[plan.formulas[-1 - number]] = size
    return chosen


def _with_sizes(name: str, type_: onnx.TypeProto, given: CompileOptions) -> onnx.TypeProto:
    """The type of an input, with a size for each dimension that has a range."""
    found = onnx.TypeProto()
    found.CopyFrom(type_)
    of_input = dict(enumerate(given.input_dims.get(name, ())))
    for number, dim in enumerate(found.tensor_type.shape.dim):
        by_name = given.dim_params.get(dim.dim_param, given.default_dim)
        size = of_input.get(number, by_name)
        if isinstance(size, Range) and not dim.HasField("dim_value"):
            dim.dim_value = (*size.optimals, size.low)[0]
    return found


def _spec(name: str, type_: onnx.TypeProto, given: bool) -> TensorSpec:
    """An input of a model; one that a file gives may have any size and type."""
    if given:
        return TensorSpec(name, "float32", ())
    if type_.WhichOneof("value") != "tensor_type":
        raise UsageError(f"input '{name}' is {type_text(type_)}; run the model from Python")
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or tensor.elem_type == onnx.TensorProto.STRING:
        raise UsageError(f"input '{name}' is {type_text(type_)}; give it by --input {name}=FILE")
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim)
    dims = [OpenDim(d, name, n, shape) for n, d in enumerate(shape) if isinstance(d, str)]
    if dims:
        raise UsageError(
            f"{advice.sizes(dims)}; or give the input by --input {name}=FILE, an array of "
            f"{type_text(type_)}"
        )
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return TensorSpec(name, dtype.name, tuple(d for d in shape if isinstance(d, int)))


def flat_arrays(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of the outputs; those of sequences as NAME[i]. Empty optionals are left out."""
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


def holds_maps(value: Any) -> bool:
    """Whether a value is a map, or a sequence of maps."""
    return isinstance(value, dict) or (isinstance(value, list) and any(map(holds_maps, value)))


def plain(value: Any) -> Any:
    """A value of maps, sequences and tensors as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def note_host_nodes(runnable: Program | Model) -> None:
    """Says on standard error which nodes the host ran."""
    if isinstance(runnable, Model) and runnable.host_nodes:
        nodes = runnable.host_nodes
        first = ", ".join(f"{entry.operator} '{name_text(entry.node)}'" for entry in nodes[:4])
        more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
        print(f"on the host: {first}{more} (mgx check says why)", file=sys.stderr)
