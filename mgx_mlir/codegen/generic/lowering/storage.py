"""Constants as tensors of storage types."""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.codegen.generic.lowering.element import BOOL, Element
from mgx_mlir.dialects.constants import attribute_array, dense_attribute


def storage_constant(value: ir.DenseElementsAttr, element: Element) -> ir.DenseElementsAttr:
    """The same elements as memory holds them."""
    storage = element.storage()
    if ir.ShapedType(value.type).element_type == storage:
        return value
    assert element.kind != BOOL
    array = attribute_array(value)
    narrow = element.is_integer and element.bits < 8
    held = array.astype(np.int8) if narrow else array.view(f"int{max(element.bits, 8)}")
    return dense_attribute(held, storage)
