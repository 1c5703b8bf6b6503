"""Types and small values between MIGraphX's interface and mgx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.shape import ENDLESS_DIM, dynamic_dimension, shape, type_name
from mgx_mlir.rewriting.queries import element_type
from mgx_mlir.sizes.arithmetic import Symbol

# The dimensions of inputs, by name: those of other tensors follow from them.
Known: TypeAlias = Mapping[str, Symbol]


def known_dims(types: Iterable[ir.Type]) -> Known:
    """The named dimensions of these types."""
    dims = [d for type_ in types for d in dims_of(type_) if isinstance(d, mgx.DimAttr)]
    return {d.name: Symbol(d.name, d.min, d.max, tuple(d.optimals)) for d in dims}


def shape_of(type_: ir.Type, known: Known = MappingProxyType({})) -> shape:
    """The shape of a tensor type; formulas of `known` dimensions have the bounds that follow."""
    name = type_name(mgx.numpy_dtype(type_))
    dims = dims_of(type_)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) == len(dims):
        return shape(type=name, lens=sizes)
    return shape(type=name, dyn_dims=[bounds_of(dim, known) for dim in dims])


def bounds_of(dim: Any, known: Known = MappingProxyType({})) -> dynamic_dimension:
    """A dimension of a tensor type with its bounds."""
    if isinstance(dim, int):
        return dynamic_dimension(dim, dim)
    if dim is None:
        return dynamic_dimension(0, ENDLESS_DIM)
    if known and dim.max is None:
        with suppress(UsageError):
            return dynamic_dimension.of(dim.name, known)
    most = ENDLESS_DIM if dim.max is None else dim.max
    return dynamic_dimension(dim.min, most, dim.optimals, dim.name)


def dim_of(size: Any, name: str = "") -> Any:
    """A size, or a dimension with bounds, for a tensor type; `name` where it has none."""
    if not isinstance(size, dynamic_dimension):
        return size if isinstance(size, mgx.DimAttr) else int(size)
    if size.is_fixed():
        return size.min
    if not size.name and not name:
        raise ValueError(f"{size!r} has no name, which says whose size it has in a run")
    most = None if size.max >= ENDLESS_DIM else size.max
    return mgx.DimAttr.get(size.name or name, size.min, most, sorted(size.optimals))


def tensor_type(name: str, s: shape) -> ir.Type:
    element = mgx.element_type(s.dtype)
    if not s.dynamic():
        return mgx.tensor_type(s.lens(), element)
    dims = [dim_of(d, f"{name}_{i}") for i, d in enumerate(s.dyn_dims())]
    return mgx.tensor_type(dims, element)


def zeros(dims: Sequence[int], like: ir.Value) -> ir.Value:
    element = element_type(like)
    return mgx.splat(0, mgx.tensor_type(dims, element))


def as_type(value: ir.Value, dtype: Any) -> ir.Value:
    wanted = mgx.element_type(dtype)
    return value if element_type(value) == wanted else mgx.convert(value, wanted)


def sizes_of(value: ir.Value) -> list[Any]:
    """The sizes of a tensor: numbers, and a DimAttr, or None, where a size is open."""
    return list(dims_of(value.type))


def sizes_together(*shapes: Sequence[Any]) -> list[Any]:
    """The sizes of tensors that are broadcast to one shape. Raises ValueError where none is."""
    found: list[Any] = []
    for place in range(-max(map(len, shapes)), 0):
        sizes = {}
        for dims in shapes:
            if len(dims) >= -place and dims[place] != 1:
                size = dims[place]
                sizes[size if isinstance(size, int) else size and size.name] = size
        if len(sizes) > 1:
            raise ValueError(f"sizes {' and '.join(map(str, sizes))} are not known to be equal")
        found.append(next(iter(sizes.values()), 1))
    return found


def rank_of(value: ir.Value) -> int:
    """The number of dimensions of a tensor."""
    return int(ir.RankedTensorType(value.type).rank)


def scalar_bool(value: ir.Value) -> ir.Value:
    scalar = value if rank_of(value) == 0 else mgx.reshape(value, [])
    return as_type(scalar, np.bool_)
