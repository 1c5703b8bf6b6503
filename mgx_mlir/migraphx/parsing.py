"""MIGraphX's `parse_onnx`: its arguments, for the importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mgx_mlir import importer
from mgx_mlir.artifact.plan import MAX_LOOP_ITERATIONS
from mgx_mlir.errors import MgxError
from mgx_mlir.migraphx.program import program
from mgx_mlir.migraphx.shape import dynamic_dimension
from mgx_mlir.sizes.range import Range


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
) -> program:
    """The program of an ONNX file.

    A dimension without a size gets `default_dim_value`, 1 where that is 0; or the bounds
    `default_dyn_dim_value`. `dim_params` gives dimensions by name, `map_input_dims` and
    `map_dyn_input_dims` whole inputs. Debug symbols, the nodes' names, are always kept.
    Raises ModelError, and UnsupportedError for operators that are not known: none is skipped.
    """
    del skip_unknown_operators, use_debug_symbols
    return _parsed(
        Path(filename),
        None,
        default_dim_value,
        default_dyn_dim_value,
        dim_params or {},
        {**(map_input_dims or {}), **_ranges(map_dyn_input_dims)},
        min(max_loop_iterations, limit_max_iterations),
        print_program_on_error,
    )


def parse_onnx_buffer(
    onnx_buffer: bytes,
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
) -> program:
    """As `parse_onnx`, from the bytes of a file. `external_data_path`: its tensors' folder."""
    del skip_unknown_operators, use_debug_symbols
    return _parsed(
        bytes(onnx_buffer),
        external_data_path or None,
        default_dim_value,
        default_dyn_dim_value,
        dim_params or {},
        {**(map_input_dims or {}), **_ranges(map_dyn_input_dims)},
        min(max_loop_iterations, limit_max_iterations),
        print_program_on_error,
    )


def get_onnx_operators() -> list[str]:
    """The names of the operators that can be imported."""
    return sorted({operator.name for operator in importer.operators()})


def _parsed(
    model: Path | bytes,
    folder: str | None,
    default_dim: int,
    default_range: dynamic_dimension | None,
    dim_params: Mapping[str, dynamic_dimension | int],
    input_dims: Mapping[str, Any],
    max_loop_iterations: int,
    show: bool,
) -> program:
    try:
        names = {name: _size(size) for name, size in dim_params.items()}
        return program(
            importer.parse_onnx(
                model,
                input_dims=input_dims,
                dim_params=names,
                default_dim=_size(default_range or default_dim or 1),
                external_data_folder=folder,
                max_loop_iterations=max_loop_iterations,
            )
        )
    except MgxError as error:
        if show:
            print(error)
        raise


def _ranges(dims: Mapping[str, Sequence[dynamic_dimension]] | None) -> dict[str, list[int | Range]]:
    return {name: [_size(dim) for dim in given] for name, given in (dims or {}).items()}


def _size(dim: dynamic_dimension | int) -> int | Range:
    if isinstance(dim, int):
        return dim
    return dim.min if dim.is_fixed() else Range(dim.min, dim.max, tuple(sorted(dim.optimals)))
