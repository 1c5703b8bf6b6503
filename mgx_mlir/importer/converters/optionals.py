"""Operators of optional values, where the value is a tensor: it is always there."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


@operator("OptionalHasElement", (15, 28), "constant")
def optional_has_element(node: Node) -> np.ndarray:
    return np.array(node.given(0))


@operator("OptionalGetElement", (15, 28), "")
def optional_get_element(node: Node) -> Any:
    if not node.given(0):
        raise ModelError("its optional value is empty")
    return node.value(0)
