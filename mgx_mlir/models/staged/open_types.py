"""The types of an island's inputs, with what is open between one run and the next."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TypeProto

from mgx_mlir.importer.loading import Source
from mgx_mlir.importer.prepare import MADE_UP
from mgx_mlir.models.host.values import type_of
from mgx_mlir.sizes.range import Range


def open_types(
    arrays: Mapping[str, np.ndarray], inferred: Mapping[str, TypeProto]
) -> dict[str, TypeProto]:
    """Types of the arrays' ranks: sizes and the model's names where inference found them.

    An inferred size that is not the array's is open, as is a name that two sizes have.
    """
    sizes: dict[str, set[int]] = {}
    types = {name: type_of(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        known = list(inferred[name].tensor_type.shape.dim) if name in inferred else []
        for axis, size in enumerate(array.shape):
            dim = types[name].tensor_type.shape.dim.add()
            if len(known) != array.ndim:
                continue
            if known[axis].dim_value == size and known[axis].HasField("dim_value"):
                dim.dim_value = size
            elif known[axis].dim_param and not known[axis].dim_param.startswith(MADE_UP):
                dim.dim_param = known[axis].dim_param
                sizes.setdefault(dim.dim_param, set()).add(size)
        types[name].tensor_type.shape.SetInParent()
    for found in types.values():
        for dim in found.tensor_type.shape.dim:
            if len(sizes.get(dim.dim_param, ())) > 1:
                dim.Clear()
    return types


def is_open(source: Source) -> bool:
    """Whether an input has a size that the model does not give."""
    tensors = [v.type.tensor_type for v in source.model.graph.input if v.name in source.inputs]
    return any(not d.HasField("dim_value") for t in tensors for d in t.shape.dim)


def data_decided(source: Source) -> dict[str, Range]:
    """The sizes of an island's inputs that have no name of the model's, which may be 0.

    Names those without a name.
    """
    found: dict[str, Range] = {}
    values = [v for v in source.model.graph.input if v.name in source.inputs]
    for value in values:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"{MADE_UP}data_{len(found)}"
            if dim.dim_param.startswith(MADE_UP):
                found[dim.dim_param] = Range(0)
    return found
