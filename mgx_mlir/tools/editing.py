"""Models that the command line changes before they are compiled: outputs, sizes, length."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import onnx

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.errors import UsageError
from mgx_mlir.importer import io_types, loading, reopening, structure
from mgx_mlir.models.staged.skipping import skip_unknown, without_unknown
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.suggest import instead, listed
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing
from mgx_mlir.tools.files import is_saved_program
from mgx_mlir.tools.trimming import trim


def model_of(options: argparse.Namespace) -> Path | loading.Source:
    """The model that the options name: its file, or its structure with their changes.

    It is quantized where they say so. Raises UsageError for a change that does not fit, ModelError
    for a malformed model.
    """
    model = quantizing.source_of(options, plain_model_of(options))
    types = shared.compile_options(options).io
    return io_types.change_types(loading.load(model), types) if types else model


def model_or_program_of(options: argparse.Namespace) -> Path | loading.Source | Graph:
    """As `model_of`, or as `graph_of` where the options name or make a program."""
    return graph_of(options) if is_program(options) else model_of(options)


def graph_of(options: argparse.Namespace) -> Graph:
    """The program of the options' model, or of a file that `mgx_mlir.migraphx` saved uncompiled.

    It is quantized and changed where they say so. Raises UsageError for changes of models that are
    imported already, ArtifactError where the file is damaged.
    """
    saved = is_saved_program(options.model)
    graph = _saved(options) if saved else import_model(options)
    if _changes(options):
        from mgx_mlir.tools.changing import change

        change(graph, options)
    return graph


def is_program(options: argparse.Namespace) -> bool:
    """Whether the options name or make a program that is no ONNX model."""
    return is_saved_program(options.model) or _changes(options)


def _changes(options: argparse.Namespace) -> bool:
    """Whether the options change the imported program."""
    return bool(getattr(options, "apply_pass", None) or getattr(options, "replace_literals", False))


def import_model(options: argparse.Namespace) -> Graph:
    """The program of the options' model. Raises what the importer raises."""
    from mgx_mlir import compiler  # loads MLIR

    return compiler.import_model(model_of(options), shared.compile_options(options))


def _saved(options: argparse.Namespace) -> Graph:
    from mgx_mlir.migraphx.files import load

    changes = ("input_dim", "dim_param", "dyn_input_dim", "batch", "default_dyn_dim",
               "io", "output_names", "skip_unknown_operators", "trim", "trim_size")  # fmt: skip
    if any(getattr(options, name, None) for name in changes):
        raise UsageError(f"{options.model} is imported already; its sizes and outputs are fixed")
    graph = load(str(options.model)).graph()
    quantizing.quantize_saved(options, graph)
    return graph


def plain_model_of(options: argparse.Namespace) -> Path | loading.Source:
    """The model that the options name, with all their changes but quantization."""
    source = loading.load(options.model)
    if options.skip_unknown_operators:
        source = without_unknown(source)
    changed = edit(source.model, source.inputs, options)
    source.inputs = changed or source.inputs
    return source if changed is not None or options.skip_unknown_operators else options.model


def whole_model(options: argparse.Namespace) -> onnx.ModelProto:
    """The model with its weights and the options' changes, every node named, in order."""
    if quantizing.is_asked(options):
        return quantizing.quantized_of(options, plain_model_of(options)).proto()
    source = loading.load(options.model)  # its errors name the place
    model = onnx.load(options.model)
    structure.normalise(model)
    more = skip_unknown(model) if options.skip_unknown_operators else ()
    inputs = (*source.inputs, *more)
    inputs = edit(model, inputs, options) or inputs
    io_types.change(model, inputs, shared.compile_options(options).io)
    return model


def save_model(model: onnx.ModelProto, file: Path) -> None:
    """Writes a model; large weights go to a file beside it."""
    if model.ByteSize() <= 1 << 30:  # protocol buffers end at 2 GB
        write_atomically(file, model.SerializeToString())
        return
    data = f"{file.name}.data"
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".mgx-") as folder:
        made = Path(folder) / file.name
        onnx.save(model, made, save_as_external_data=True, location=data)
        for one in (made.with_name(data), made):
            os.replace(one, file.with_name(one.name))


def edit(
    model: onnx.ModelProto, inputs: tuple[str, ...], options: argparse.Namespace
) -> tuple[str, ...] | None:
    """Changes a model as the options say. Returns the names of its inputs where it did."""
    count, size = options.trim, getattr(options, "trim_size", 0)
    if count or size:
        structure.normalise(model)
        inputs = trim(model, inputs, count, size)
        _set_outputs(model.graph, _ends(model.graph))
    if options.output_names:
        _choose_outputs(model.graph, options.output_names)
    changed = bool(count or size or options.output_names)
    if changed:
        _drop_unread(model.graph)
    given = shared.compile_options(options)
    declared = {value.name: value for value in model.graph.input if value.name in inputs}
    opened = reopening.open_inputs(model.graph, inputs, given.input_dims)
    others = [v for n, v in declared.items() if n not in given.input_dims]
    if options.batch is not None and _open_batch(others, options.batch):
        reopening.forget_shapes(model.graph)
        opened = True
    return inputs if changed or opened else None


def _ends(graph: onnx.GraphProto) -> list[str]:
    """The results that no node reads."""
    read = {name for node in graph.node for name in structure.uses_of(node)}
    return [name for node in graph.node for name in node.output if name and name not in read]


def _choose_outputs(graph: onnx.GraphProto, names: list[str]) -> None:
    made = [name for node in graph.node for name in node.output if name]
    for name in names:
        if name not in made:
            hint = instead(name, made, f"the first of its results are {listed(made[:8])}")
            raise UsageError(f"--output-names {name}: no node has a result of this name; {hint}")
    _set_outputs(graph, list(dict.fromkeys(names)))


def _set_outputs(graph: onnx.GraphProto, names: list[str]) -> None:
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    values = [known.get(name, onnx.ValueInfoProto(name=name)) for name in names]
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in values]
    del graph.output[:]
    graph.output.extend(copies)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Drops the nodes that no output depends on. Inputs stay."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= structure.uses_of(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(kept)]
    del graph.node[:]
    graph.node.extend(nodes)


def _open_batch(values: list[onnx.ValueInfoProto], batch: int) -> bool:
    """Makes the first dimension of all inputs open, where all are fixed and the first is one size.

    Returns whether it did: a model with open dimensions has its batch among them.
    """
    dims = [v.type.tensor_type.shape.dim for v in values if v.type.tensor_type.shape.dim]
    sizes = {d.dim_value for shape in dims for d in shape[:1]}
    if any(not d.HasField("dim_value") for shape in dims for d in shape):
        return False
    if len(sizes) != 1 or sizes == {batch}:
        return False
    for shape in dims:
        shape[0].Clear()
    return True
