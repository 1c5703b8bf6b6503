"""Greatest sizes that a model's constants leave, such as the rows of a table of positions."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import func

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import tensors
from mgx_mlir.sizes.arithmetic import alone


def lower(main: func.FuncOp, limits: Mapping[str, int]) -> None:
    """Lowers the greatest sizes in all types of a program: some ops want types to be equal."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(a for block in blocks for a in block.arguments)):
            if isinstance(value.type, ir.RankedTensorType):
                value.set_type(_lowered(value.type, limits))
        return ir.WalkResult.ADVANCE

    if limits:
        main.operation.walk(visit)


def _lowered(type_: ir.RankedTensorType, limits: Mapping[str, int]) -> ir.Type:
    dims = dims_of(type_)
    for place, dim in enumerate(dims):
        symbol = alone(tensors.size(dim.name)) if isinstance(dim, mgx.DimAttr) else None
        if isinstance(dim, mgx.DimAttr) and symbol is not None and symbol.name in limits:
            most = min(limits[symbol.name], dim.max or limits[symbol.name])
            if dim.min > most:
                raise UnsupportedError(f"its constants are for '{dim.name}' up to {most}")
            optimals = [size for size in dim.optimals if size <= most]
            dims[place] = mgx.DimAttr.get(dim.name, dim.min, most, optimals)
    return mgx.tensor_type(dims, type_.element_type)
