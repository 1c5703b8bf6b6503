"""Types and small values between MIGraphX's interface and mgx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.migraphx.shape import ENDLESS_DIM, dynamic_dimension, shape, type_name
from mgx_mlir.rewriting.queries import element_type


def shape_of(type_: ir.Type) -> shape:
    """The shape of a tensor type."""
    name = type_name(mgx.numpy_dtype(type_))
    dims = dims_of(type_)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) == len(dims):
        return shape(type=name, lens=sizes)
    bounds = [_bounds(dim) for dim in dims]
    return shape(type=name, dyn_dims=bounds)


def _bounds(dim: Any) -> dynamic_dimension:
    if isinstance(dim, int):
        return dynamic_dimension(dim, dim)
    if dim is None or dim.max is None:
        return dynamic_dimension(0 if dim is None else dim.min, ENDLESS_DIM)
    return dynamic_dimension(dim.min, dim.max, dim.optimals)


def tensor_type(name: str, s: shape) -> ir.Type:
    element = mgx.element_type(s.dtype)
    if not s.dynamic():
        return mgx.tensor_type(s.lens(), element)
    dims = [
        d.min if d.is_fixed() else mgx.DimAttr.get(f"{name}_{i}", d.min, d.max, sorted(d.optimals))
        for i, d in enumerate(s.dyn_dims())
    ]
    return mgx.tensor_type(dims, element)


def zeros(dims: Sequence[int], like: ir.Value) -> ir.Value:
    element = element_type(like)
    return mgx.splat(0, mgx.tensor_type(dims, element))


def as_type(value: ir.Value, dtype: Any) -> ir.Value:
    wanted = mgx.element_type(dtype)
    return value if element_type(value) == wanted else mgx.convert(value, wanted)


def sizes_of(value: ir.Value) -> list[int]:
    """The sizes of a tensor."""
    return list(ir.RankedTensorType(value.type).shape)


def rank_of(value: ir.Value) -> int:
    """The number of dimensions of a tensor."""
    return int(ir.RankedTensorType(value.type).rank)


def scalar_bool(value: ir.Value) -> ir.Value:
    scalar = value if rank_of(value) == 0 else mgx.reshape(value, [])
    return as_type(scalar, np.bool_)
