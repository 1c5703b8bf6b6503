"""The numbers that a quantized model computes with, as one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import onnx

from mgx_mlir.errors import UsageError
from mgx_mlir.importer.io_types import check_types
from mgx_mlir.quantization.network import Network, Product

# The types of both operands of quantized products.
PRODUCTS = ("int8", "fp8", "mxfp4", "mxfp6", "mxfp8")
# Weights of few bits, by blocks.
WEIGHTS = {"int4": 4, "int2": 2}
ROUNDINGS = ("nearest", "hqq", "gptq")


@dataclass(frozen=True)
class Precision:
    """The precision of a model's products with constant weights.

    `products`: 'int8' or 'fp8' for both operands (QDQ), '' for none. `weights`: 'int4' or 'int2'
    for the weights of the products that `products` leaves out, in blocks of `block` along the
    summed dimension, rounded to 'nearest', by 'hqq' (half-quadratic zero points), or by 'gptq',
    which takes samples. Nodes count
    whose name or operator one pattern of `include` and none of `exclude` matches ('/head/*',
    'Conv'). `only_weights` are the patterns of nodes that `products` leaves to `weights`.

    'mxfp4', 'mxfp6' and 'mxfp8' are OCP MX: blocks of 32 along the summed dimension, whose scales
    are powers of two, for MatMul and Gemm. Their activations are rounded as they come, without
    ranges. `dynamic`: so are those of int8 and fp8 in MatMul and Gemm, with a scale for each row.

    `smooth`: the share of the ranges of activations that moves into the weights (SmoothQuant), 0 to
    1, channel by channel; None for nothing. `equalize`: channels between two layers get equal
    ranges.

    `kv_cache`: 'fp8' for the caches of decoders that join past and new entries by Concat; '' for
    none.

    `io`: other types of float inputs and outputs by name or pattern, as CompileOptions has them.

    `asymmetric`: int8 activations have zero points. `bias_correction`: biases take up the mean
    error of rounded weights. Raises UsageError for values that are none of these.
    """

    products: str = ""
    weights: str = ""
    block: int = 32
    rounding: str = "hqq"
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    only_weights: tuple[str, ...] = ()
    asymmetric: bool = True
    bias_correction: bool = True
    dynamic: bool = False
    smooth: float | None = None
    equalize: bool = False
    kv_cache: str = ""
    io: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("products", self.products, ("", *PRODUCTS)),
            ("weights", self.weights, ("", *WEIGHTS)),
            ("kv_cache", self.kv_cache, ("", "fp8")),
            ("rounding", self.rounding, ROUNDINGS),
        ):
            if value not in known:
                shown = ", ".join(repr(word) for word in known)
                raise UsageError(f"Precision: {name} is '{value}'; use one of {shown}")
        check_types(self.io)
        if self.dynamic and not self.products:
            raise UsageError("Precision: dynamic is for products of int8 and fp8; name one of them")
        if (self.smooth is not None or self.equalize) and not self.products:
            raise UsageError(
                "Precision: smooth and equalize are for products of int8, fp8 and MX; name one"
            )
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise UsageError(f"Precision: smooth is {self.smooth}; a share is from 0 to 1")
        if self.block < 16 or self.block & (self.block - 1):
            raise UsageError(
                f"Precision: block is {self.block}; powers of two from 16 on are defined"
            )

    @property
    def bits(self) -> int:
        """The bits of weights by blocks; 0 for none."""
        return WEIGHTS.get(self.weights, 0)

    def takes(self, node: onnx.NodeProto) -> bool:
        """Whether the patterns include a node."""
        return _matches(node, self.include) and not _matches(node, self.exclude)

    def unmatched(self, nodes: Sequence[onnx.NodeProto]) -> dict[str, str]:
        """Patterns that match none of the nodes, with the option that gives them."""
        options = ("include", "exclude", "only_weights")
        given = {pattern: name for name in options for pattern in getattr(self, name)}
        return {p: name for p, name in given.items() if not any(_matches(n, (p,)) for n in nodes)}

    def takes_product(self, node: onnx.NodeProto) -> bool:
        """Whether both operands of a node are to be quantized."""
        return bool(self.products) and self.takes(node) and not _matches(node, self.only_weights)

    def is_dynamic(self, product: Product, network: Network) -> bool:
        """Whether a product's activations have scales that follow from their values."""
        if not self.takes_product(product.node) or not (self.dynamic or self.is_mx):
            return False
        return product.node.op_type != "Conv" and len(network.shape(product.weight) or ()) == 2

    def is_static(self, product: Product, network: Network) -> bool:
        """Whether a product's activations are quantized by ranges."""
        if not self.takes_product(product.node) or self.is_mx:
            return False
        return not self.is_dynamic(product, network)

    @property
    def of_bodies(self) -> Precision:
        """The precision of products in bodies of If, Loop and Scan, whose tensors have no data."""
        rounding = "hqq" if self.rounding == "gptq" else self.rounding
        return replace(self, dynamic=bool(self.products), rounding=rounding)

    @property
    def is_mx(self) -> bool:
        """Whether products are those of blocks with powers of two."""
        return self.products.startswith("mx")


def _matches(node: onnx.NodeProto, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(word, p) for word in (node.name, node.op_type) for p in patterns)
