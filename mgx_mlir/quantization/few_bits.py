"""The products that get weights of few bits, and the form of these."""

from __future__ import annotations

from mgx_mlir.quantization.blocks import Blocks
from mgx_mlir.quantization.network import Network, Product
from mgx_mlir.quantization.precision import Precision


def form_of(product: Product, network: Network, precision: Precision) -> Blocks:
    """The form of a product's weight in blocks of few bits."""
    shape = network.shape(product.weight)
    assert shape is not None
    rows, size = shape[product.axis], shape[1 - product.axis]
    return Blocks(rows, size, precision.block, precision.bits, precision.rounding)


_NOT_IN_BLOCKS = "MX products are those of MatMul and Gemm with a matrix as weight"


def refusal(product: Product, network: Network, precision: Precision) -> str:
    """The reason why a product stays in f32; '' for one that takes weights of few bits."""
    node, shape = product.node, network.shape(product.weight)
    if not precision.takes(node):
        return "left out by name"
    if not precision.bits and not precision.products:
        return "only its caches are quantized"
    if not precision.bits:
        if not precision.takes_product(node):
            return "left out by name"
        if network.is_body and not precision.is_mx:
            return "in a body of If, Loop or Scan, without a range"
        return "no range" if precision.is_static(product, network) else _NOT_IN_BLOCKS
    if shape is None or len(shape) != 2 or node.op_type == "Conv":
        return f"{precision.weights} weights are those of MatMul and Gemm"
    if any(a.name in ("alpha", "beta") and a.f != 1 for a in node.attribute):
        return "alpha and beta of Gemm are not 1"
    if product.bias and network.shape(product.bias) != (shape[product.axis],):
        return "its bias is no vector of the output channels"
    return ""
