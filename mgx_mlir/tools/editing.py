"""Models that the command line changes before they are compiled: outputs, sizes, length."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.errors import UsageError
from mgx_mlir.importer import io_types, loading, prepare, reopening, structure
from mgx_mlir.models.staged.skipping import skip_unknown, without_unknown
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.suggest import instead, listed
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing
from mgx_mlir.tools.files import is_saved_program


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
        inputs = _trim(model, inputs, count, size)
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


def _trim(
    model: onnx.ModelProto, inputs: tuple[str, ...], count: int, size: int
) -> tuple[str, ...]:
    """Drops the last `count` nodes, and all but `size` of the others; the inputs that are left.

    The results that nothing reads then are the outputs. Results of nodes before those that stay
    are inputs, but for constants.
    """
    graph = model.graph
    if count >= len(graph.node):
        raise UsageError(f"--trim {count}: the model has {len(graph.node)} nodes, and one stays")
    types = prepare.infer(loading.load(model).model) if size else {}
    end = len(graph.node) - count
    start = max(end - size, 0) if size else 0
    fixed = set(_fixed_before(model, inputs, start))
    kept = [
        *(node for n, node in enumerate(graph.node[:start]) if n in fixed),
        *graph.node[start:end],
    ]
    before = {name for n, node in enumerate(graph.node[:start]) if n not in fixed
              for name in node.output}  # fmt: skip
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in graph.node for name in structure.uses_of(node)}
    made = [name for node in graph.node[len(fixed) :] for name in node.output if name]
    _set_outputs(graph, [name for name in made if name not in read])
    if not start:
        return inputs
    unread = [n for n, value in enumerate(graph.input)
              if value.name in inputs and value.name not in read]  # fmt: skip
    for place in reversed(unread):
        del graph.input[place]
    new = sorted(before & read)
    for name in new:
        if name not in types:
            raise UsageError(f"--trim-size {size}: the type of '{name}', then an input, is unknown")
        graph.input.append(onnx.ValueInfoProto(name=name, type=types[name]))
    return (*(name for name in inputs if name in read), *new)


def _fixed_before(model: onnx.ModelProto, inputs: tuple[str, ...], start: int) -> Iterator[int]:
    """The nodes before `start` that compute constants."""
    open_values = {*inputs}
    for place, node in enumerate(model.graph.node[:start]):
        if structure.uses_of(node) & open_values:
            open_values |= set(node.output)
        else:
            yield place


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
