"""A model as the quantizer sees it: its products, and the tensors that share a scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.errors import MgxError, UnsupportedError
from mgx_mlir.importer import functions, loading, prepare, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.quantization.groups import Group, groups_of, is_moved, least_gain

# The opset that has float8e8m0, of version 12 of ONNX's file format.
MX_OPSET = 24
# The operators that only move or choose elements, with the operands that hold these.
CARRIERS = {
    **dict.fromkeys(("Concat",), None),
    **dict.fromkeys(
        ("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Resize",
         "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
        1,
    ),
}  # fmt: skip
_FOREIGN = "mgx.foreign"
# Operators that need all bits of their operand: a scale does not fold over their neighbours.
_STATISTICS = frozenset(
    ("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
     "LogSoftmax", "LpNormalization", "RMSNormalization", "ReduceL2", "ReduceMean",
     "ReduceSumSquare", "SkipLayerNormalization", "Softmax")
)  # fmt: skip


@dataclass(frozen=True)
class Product:
    """A node that multiplies a tensor `x` with a constant `weight`.

    `axis` is that of the output channels in the weight, `channel` that of the summed channels in x.
    """

    node: onnx.NodeProto
    x: str
    weight: str
    axis: int
    channel: int

    @property
    def name(self) -> str:
        return str(self.node.name)

    @property
    def bias(self) -> str:
        """The name of the bias; '' without one."""
        return self.node.input[2] if len(self.node.input) > 2 else ""


@dataclass
class Network:
    """A model apart from its large weights, whose nodes are named and in order.

    `rounded`: weights of few bits that were computed from samples, as they are stored, by product.
    `is_body`: it is a body of If, Loop or Scan.
    """

    source: Source
    arrays: dict[str, onnx.TensorProto] = field(default_factory=dict)
    rounded: dict[str, Sequence[np.ndarray]] = field(default_factory=dict)
    is_body: bool = False

    @staticmethod
    def of(model: loading.AnySource, opset: int) -> Network:
        """Reads a model and brings it to an opset that can express quantized tensors.

        Raises ModelError for a malformed model, UnsupportedError for one that cannot be converted.
        """
        source = loading.load(model)
        structure.normalise(source.model)
        if source.model.functions:
            source.model = functions.inline(source.model)
            structure.normalise(source.model)
        if prepare.opsets(source.model).get("", opset) < opset:
            source.model = _converted(source.model, opset)
            structure.normalise(source.model)
        least = 12 if opset >= MX_OPSET else 10
        source.model.ir_version = max(source.model.ir_version, least)
        return Network.on(source)

    @staticmethod
    def on(source: Source) -> Network:
        """A network of a model that is in order already."""
        network = Network(source)
        for tensor in network.graph.initializer:
            network.arrays[tensor.name] = tensor
        for node in network.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                network.arrays[node.output[0]] = node.attribute[0].t
        return network

    def inside(self, body: onnx.GraphProto) -> Network:
        """A network of a copy of a body, which reads the constants around it too."""
        imports = self.source.model.opset_import
        model = onnx.ModelProto(ir_version=self.source.model.ir_version, opset_import=imports)
        model.graph.CopyFrom(body)
        inner = Network.on(Source(model, dict(self.source.weights), (), self.source.name))
        inner.arrays = {**self.arrays, **inner.arrays}
        inner.is_body = True
        return inner

    def with_bodies(self) -> Iterator[Network]:
        """This network, and those of all bodies in it."""
        yield self
        for node in self.graph.node:
            for body in structure.subgraphs(node):
                yield from self.inside(body).with_bodies()

    @property
    def graph(self) -> onnx.GraphProto:
        return self.source.model.graph

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a constant of f32 elements; None for other values."""
        weight = self.source.weights.get(name)
        if weight is not None:
            return weight.shape if weight.dtype == np.float32 else None
        tensor = self.arrays.get(name)
        is_float = tensor is not None and tensor.data_type == TensorProto.FLOAT
        return tuple(tensor.dims) if tensor is not None and is_float else None

    def depth(self, product: Product) -> int:
        """The products that a MatMul or a Gemm sums up for one result."""
        shape = self.shape(product.weight)
        assert shape is not None
        return shape[product.axis - 1]

    def array(self, name: str) -> np.ndarray:
        """The value of a constant, mapped where it lies in a file."""
        weight = self.source.weights.get(name)
        return weight.array() if weight is not None else numpy_helper.to_array(self.arrays[name])

    def identity(self, name: str) -> int:
        """A number for a constant, which bodies that read it share."""
        return id(self.source.weights.get(name) or self.arrays[name])

    @cached_property
    def readers(self) -> dict[str, list[onnx.NodeProto]]:
        """The nodes that read a value, by its name."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in self.graph.node:
            for name in structure.uses_of(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def makers(self) -> dict[str, onnx.NodeProto]:
        """The node that makes a value, by its name."""
        return {name: node for node in self.graph.node for name in node.output if name}

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The products of f32 with constant weights, in order, without those in bodies of loops."""
        return tuple(found for node in self.graph.node if (found := self._product(node)))

    def _product(self, node: onnx.NodeProto) -> Product | None:
        if node.domain or node.op_type not in ("Conv", "Gemm", "MatMul"):
            return None
        x, weight = node.input[:2]
        shape = self.shape(weight)
        if shape is None or len(shape) < 2 or 0 in shape or self.is_constant(x):
            return None
        options = {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}
        if node.op_type == "Conv":
            return Product(node, x, weight, 0, 1)
        if node.op_type == "Gemm":
            if options.get("transA", 0):
                return None
            return Product(node, x, weight, 0 if options.get("transB", 0) else 1, -1)
        return Product(node, x, weight, len(shape) - 1, -1)

    def is_constant(self, name: str) -> bool:
        """Whether a value is stored in the model."""
        return name in self.source.weights or name in self.arrays

    def carried(self, node: onnx.NodeProto) -> list[str] | None:
        """The operands whose elements a node moves or chooses; None where it computes."""
        if node.domain or node.op_type not in CARRIERS:
            return None
        if node.op_type == "MaxPool" and len([o for o in node.output if o]) > 1:
            return None
        modes = {a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "mode"}
        if node.op_type == "Resize" and modes != {"nearest"}:
            return None
        names = list(node.input[: CARRIERS[node.op_type]])
        return None if any(self.is_constant(name) for name in names) else names

    def groups(self, tensors: Sequence[str]) -> list[Group[str]]:
        """The tensors that are quantized for these, each with those that share its scale."""
        return groups_of(tensors, self._folded)

    def _folded(self, name: str) -> list[str] | None:
        """The tensors that share a scale with one, because their elements only move to it."""
        sources = self._moved(name)
        return sources if sources is not None and all(map(self._may_round, sources)) else None

    def _moved(self, name: str) -> list[str] | None:
        maker = self.makers.get(name)
        return self.carried(maker) if maker is not None else None

    def gaining(self, wanted: Sequence[Product]) -> list[Product]:
        """The products but those of the model's inputs that have a small part of all weights."""
        sizes = {p.name: prod(self.shape(p.weight) or ()) for p in wanted}
        least = least_gain(list(sizes.values()))
        given = {v.name for v in self.graph.input if not self.is_constant(v.name)}
        return [
            p for p in wanted
            if sizes[p.name] > least or not is_moved(p.x, self._moved, given.__contains__)
        ]  # fmt: skip

    def _may_round(self, name: str) -> bool:
        outputs = {value.name for value in self.graph.output}
        readers = self.readers.get(name, [])
        return name not in outputs and not any(r.op_type in _STATISTICS for r in readers)


def _converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    # onnx refuses operators that onnxruntime has put into ONNX's domain, but keeps foreign ones.
    for node in model.graph.node:
        if not node.domain and not onnx.defs.has(node.op_type):
            node.domain = _FOREIGN
    model.opset_import.add(domain=_FOREIGN, version=1)
    try:
        converted = onnx.version_converter.convert_version(model, opset)
        for node in converted.graph.node:
            node.domain = "" if node.domain == _FOREIGN else node.domain
        imports = [each for each in converted.opset_import if each.domain != _FOREIGN]
        del converted.opset_import[:]
        converted.opset_import.extend(imports)
        return converted
    except MgxError:
        raise
    except Exception as error:  # onnx's library raises errors of its own and of C++
        version = prepare.opsets(model)[""]
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnsupportedError(
            f"quantized tensors need opset {opset}, and opset {version} cannot be converted: "
            f"{first}; export the model with a newer opset"
        ) from error


def with_outputs(source: Source, names: Sequence[str]) -> Source:
    """A copy of a model whose outputs are these values: f32, but for outputs of another type."""
    copy = source.copy()
    kinds = {v.name: v.type.tensor_type.elem_type for v in copy.model.graph.output}
    del copy.model.graph.output[:]
    copy.model.graph.output.extend(
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None)
        for name in names
    )
    return copy
