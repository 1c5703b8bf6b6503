"""MIGraphX's `parse_onnx`: its arguments, for the importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mgx_mlir import importer
from mgx_mlir.artifact.plan import MAX_LOOP_ITERATIONS
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import Edge, MgxError, UnsupportedError
from mgx_mlir.importer import loading, reopening
from mgx_mlir.migraphx.parted import LateProgram, PartedProgram
from mgx_mlir.migraphx.program import Origin, program
from mgx_mlir.migraphx.shape import dynamic_dimension
from mgx_mlir.models.staged.skipping import without_unknown
from mgx_mlir.sizes.range import Range


@Edge("parsing the model")
def parse_onnx(
    filename: str,
    default_dim_value: int = 0,
    default_dyn_dim_value: dynamic_dimension | None = None,
    dim_params: Mapping[str, dynamic_dimension | int] | None = None,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[dynamic_dimension]] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: int = MAX_LOOP_ITERATIONS,
    limit_max_iterations: int = 65535,
    use_debug_symbols: bool = False,
    use_symbolic_shapes: bool = True,
) -> program:
    """The program of an ONNX file.

    A dimension without a size gets `default_dim_value`, 1 where that is 0; or the bounds
    `default_dyn_dim_value`. `dim_params` gives dimensions by name, `map_input_dims` and
    `map_dyn_input_dims` whole inputs, also where the model fixes sizes. With `use_debug_symbols`
    the names of nodes are debug symbols. The names of open dimensions are always kept
    (`use_symbolic_shapes`). The results of skipped operators are parameters.
    Raises ModelError, and UnsupportedError for operators that are not known.
    """
    del use_symbolic_shapes
    default = default_dyn_dim_value or default_dim_value or 1
    sizes = _Sizes(default, dim_params or {}, map_input_dims or {}, map_dyn_input_dims or {})
    trips = (max_loop_iterations, limit_max_iterations)
    source = partial(_source, Path(filename), None, skip_unknown_operators)
    return _parsed(source, sizes, trips, print_program_on_error, use_debug_symbols)


@Edge("parsing the model")
def parse_onnx_buffer(
    filename: bytes,
    default_dim_value: int = 0,
    default_dyn_dim_value: dynamic_dimension | None = None,
    dim_params: Mapping[str, dynamic_dimension | int] | None = None,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[dynamic_dimension]] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    external_data_path: str = "",
    max_loop_iterations: int = MAX_LOOP_ITERATIONS,
    limit_max_iterations: int = 65535,
    use_debug_symbols: bool = False,
    use_symbolic_shapes: bool = True,
) -> program:
    """As `parse_onnx`, of the bytes of a file, which MIGraphX calls its `filename`.

    `external_data_path` is the folder of its tensors.
    """
    del use_symbolic_shapes
    default = default_dyn_dim_value or default_dim_value or 1
    sizes = _Sizes(default, dim_params or {}, map_input_dims or {}, map_dyn_input_dims or {})
    trips = (max_loop_iterations, limit_max_iterations)
    folder = Path(external_data_path) if external_data_path else None
    source = partial(_source, bytes(filename), folder, skip_unknown_operators)
    return _parsed(source, sizes, trips, print_program_on_error, use_debug_symbols)


def get_onnx_operators() -> list[str]:
    """The names of the operators that can be imported."""
    return sorted({operator.name for operator in importer.operators()})


def parse_tf(
    filename: str,
    is_nhwc: bool = True,
    batch_size: int = 1,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    output_names: Sequence[str] = (),
) -> program:
    """Raises UnsupportedError: files of TensorFlow are not read; export the model to ONNX."""
    del is_nhwc, batch_size, map_input_dims, output_names
    raise UnsupportedError(
        f"{filename}: files of TensorFlow are not read; export the model to ONNX, for example with "
        "tf2onnx, and use parse_onnx"
    )


class _Sizes(NamedTuple):
    """The sizes of dimensions that have none in the file: of all, by name, by input."""

    default: dynamic_dimension | int
    params: Mapping[str, dynamic_dimension | int]
    inputs: Mapping[str, Sequence[int]]
    dyn_inputs: Mapping[str, Sequence[dynamic_dimension]]


def _source(model: Path | bytes, folder: Path | None, skip: bool) -> loading.Source:
    source = loading.load(model, folder)
    return without_unknown(source) if skip else source


def _parsed(
    load: Callable[[], loading.Source],
    sizes: _Sizes,
    trips: tuple[int, int],
    show: bool,
    symbols: bool,
) -> program:
    """The program; a loop has at most the least of `trips`. `show`: an error is printed too.
    `symbols`: nodes' names are debug symbols."""
    try:
        ranges = {name: [_size(dim) for dim in dims] for name, dims in sizes.dyn_inputs.items()}
        options = CompileOptions(
            input_dims={**sizes.inputs, **ranges},
            dim_params={name: _size(size) for name, size in sizes.params.items()},
            default_dim=_size(sizes.default),
            max_loop_iterations=min(trips),
        )
        source = load().copy()
        reopening.open_inputs(source.model.graph, source.inputs, options.input_dims)
        origin = Origin(source, options)
        try:
            graph = origin.graph()
        except UnsupportedError as error:
            return _of_parts(origin, error)
        made = program(graph)
        made._origin, made._state.symbols = origin, symbols
        return made
    except MgxError as error:
        if show:
            print(error)
        raise


def _of_parts(origin: Origin, refused: UnsupportedError) -> program:
    """The program of a model that was refused as a whole. Raises UnsupportedError for no other."""
    try:
        return PartedProgram(origin)
    except UnsupportedError:
        if not refused.entries or not all(entry.open for entry in refused.entries):
            raise
        return LateProgram(origin)


def _size(dim: dynamic_dimension | int) -> int | Range:
    if isinstance(dim, int):
        return dim
    return dim.min if dim.is_fixed() else Range(dim.min, dim.max, tuple(sorted(dim.optimals)))
