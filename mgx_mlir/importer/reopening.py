"""Sizes that a model fixes, and the caller gives otherwise: the dimensions become open again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx

from mgx_mlir.sizes.range import Range


def open_inputs(
    graph: onnx.GraphProto,
    inputs: Collection[str],
    given: Mapping[str, Sequence[int | Range]],
) -> bool:
    """Makes the fixed dimensions of inputs that are given otherwise open, in place.

    `given` has the sizes of whole inputs, by name. Returns whether there were any.
    """
    declared = {value.name: value for value in graph.input if value.name in inputs}
    opened = [_open_sizes(declared[n], dims) for n, dims in given.items() if n in declared]
    if any(opened):
        forget_shapes(graph)
    return any(opened)


def _open_sizes(value: onnx.ValueInfoProto, dims: Sequence[int | Range]) -> bool:
    """Makes the fixed dimensions that are given otherwise open. Returns whether there were any."""
    declared = value.type.tensor_type.shape.dim
    if len(dims) != len(declared):
        return False  # the importer says that
    found = False
    for dim, size in zip(declared, dims, strict=True):
        if dim.HasField("dim_value") and (isinstance(size, Range) or size != dim.dim_value):
            dim.Clear()
            found = True
    return found


def forget_shapes(graph: onnx.GraphProto) -> None:
    """Drops the shapes that followed from the sizes before."""
    del graph.value_info[:]
    for value in graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
