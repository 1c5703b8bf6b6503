"""The width of the blocks of channels in models that onnxruntime's optimiser saves for one machine.

At its level "all" it lays filters out in blocks of 8 or 16 channels, as the machine's vectors are
wide, and its files do not say which. Sizes that blocks of the other width would not have tell it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import onnx
from onnx import NodeProto, helper

from mgx_mlir.importer import structure
from mgx_mlir.machine import host

_log = logging.getLogger(__name__)

DOMAIN = "com.microsoft.nchwc"
# Attributes that this module states at each node of the domain.
BLOCK = "block"


def state(model: onnx.ModelProto) -> None:
    """States the width of blocks as an attribute of each such node."""
    nodes = [n for n in structure.all_nodes(model.graph) if n.domain == DOMAIN]
    if not nodes:
        return
    sizes = {t.name: tuple(t.dims) for t in model.graph.initializer}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        sizes.setdefault(value.name, tuple(d.dim_value for d in dims))
    makers = {name: node for node in structure.all_nodes(model.graph) for name in node.output}
    width = next((found for n in nodes if (found := _told_by(n, sizes, makers))), 0)
    if not width:
        width = _of_this_machine()
        _log.warning(
            "the model's filters are in blocks of 8 or of 16 channels, and no size says which; "
            "they are read in blocks of %d, as onnxruntime writes them on this machine",
            width,
        )
    for node in nodes:
        kept = [a for a in node.attribute if a.name != BLOCK]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(BLOCK, width)])


def _of_this_machine() -> int:
    """The width that MLAS, onnxruntime's library of kernels, takes here (mlas/lib/platform.cpp)."""
    flags = host.machine_flags()
    return 8 if "avx" in flags and "avx512f" not in flags else 16


def _told_by(
    node: NodeProto, sizes: Mapping[str, tuple[int, ...]], makers: Mapping[str, NodeProto]
) -> int:
    """The width that a node's sizes tell; 0 where they fit both."""
    if len(node.input) < (2 if node.op_type == "Conv" else 1):
        return 0
    if node.op_type == "ReorderOutput":
        have = _filters(node.input[0], sizes, makers)
        wanted = next((a.i for a in node.attribute if a.name == "channels"), have)
        return 16 if have - wanted >= 8 else 0
    if node.op_type != "Conv":
        return 0
    filters, channels = (*sizes.get(node.input[1], ()), 0, 0)[:2]
    if filters % 16:
        return 8
    if any(a.name == "group" and a.i > 1 for a in node.attribute):
        return 8 if channels > 1 and channels % 16 else 0
    if channels % 16 == 8:
        maker = makers.get(node.input[0])
        blocked = maker is not None and maker.domain == DOMAIN and maker.op_type != "ReorderOutput"
        return 8 if blocked or channels > 16 else 16
    return 16 if 8 < channels < 16 else 0


def _filters(
    name: str, sizes: Mapping[str, tuple[int, ...]], makers: Mapping[str, NodeProto]
) -> int:
    """The channels, with those that fill up a block, of what a convolution makes; 0 of others."""
    maker = makers.get(name)
    while maker is not None and maker.op_type != "Conv" and len(maker.input) == 1:
        maker = makers.get(maker.input[0])
    if maker is None or maker.domain != DOMAIN or maker.op_type != "Conv" or len(maker.input) < 2:
        return 0
    return (*sizes.get(maker.input[1], ()), 0)[0]
