"""A model with quantized products: QDQ around those of int8 and fp8, MatMulNBits for few bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from onnx import NodeProto, TensorProto, helper

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.importer import element_types, structure
from mgx_mlir.importer.loading import SMALL_ELEMENTS, Source
from mgx_mlir.quantization import channels, dynamic, microscaling
from mgx_mlir.quantization.calibration import group_range
from mgx_mlir.quantization.channels import Parameters
from mgx_mlir.quantization.few_bits import form_of, refusal
from mgx_mlir.quantization.network import Network, Product
from mgx_mlir.quantization.parts import Job, Parts, tensor_of
from mgx_mlir.quantization.precision import Precision
from mgx_mlir.quantization.ranges import Ranges
from mgx_mlir.sizes.arithmetic import ceil_div


@dataclass(frozen=True)
class Choice:
    """The precision that a product got, and the reason where it stays in f32."""

    node: str
    operator: str
    precision: str
    reason: str = ""


@dataclass
class Rewritten:
    """A quantized model: its structure, the large constants that it keeps, and those to compute.

    `outside`: constants of the original lay in files of their own. With switches, `switches` gives
    the boolean inputs that turn each product's quantization on.
    """

    source: Source
    jobs: list[Job]
    choices: list[Choice]
    outside: bool
    switches: dict[str, list[str]] = field(default_factory=dict)

    def whole(self) -> Source:
        """The model with its constants computed, to be compiled."""
        source = self.source.copy()
        for job in self.jobs:
            for (name, (dtype, shape)), array in zip(job.made.items(), job.compute(), strict=True):
                if array.size <= SMALL_ELEMENTS:
                    source.model.graph.initializer.append(tensor_of(array, name))
                    continue
                source.weights[name] = Weight(name, dtype, shape, data=array)
                kind = element_types.of_numpy(dtype).onnx
                value = helper.make_tensor_value_info(name, kind, shape)
                source.model.graph.input.append(value)
        return source


def rewrite(
    network: Network,
    precision: Precision,
    ranges: Ranges | None,
    *,
    switches: bool = False,
    bodies: bool = False,
) -> Rewritten:
    """The model with the products that `precision` names quantized by `ranges`.

    The network stays as it is. `switches` adds an input for each product that turns it to f32.
    `bodies`: products in bodies of If, Loop and Scan too, by Precision.of_bodies.
    """
    parts = Parts.of(network, switches)
    rewriter = _Rewriter(network, precision, ranges or Ranges({}), parts)
    rewriter.run(bodies)
    weights = network.source.weights.values()
    outside = any(weight.file and weight.file.suffix != ".onnx" for weight in weights)
    return Rewritten(parts.source, parts.jobs, rewriter.choices, outside, parts.switches)


class _Rewriter:
    def __init__(
        self, network: Network, precision: Precision, ranges: Ranges, parts: Parts
    ) -> None:
        self.network = network
        self.precision = precision
        self.ranges = ranges
        self.parts = parts
        self.source = parts.source
        self.choices: list[Choice] = []
        self.replaced: dict[str, NodeProto] = {}
        self.dequantized: dict[str, str] = {}
        self.parameters: dict[str, Parameters] = {}
        self.weights: dict[tuple[str, int, bytes], str] = {}
        self.left: set[str] = set()  # products for which 8 bits gain nothing

    def run(self, bodies: bool) -> None:
        chosen = self._chosen()
        self._quantize_tensors(chosen)
        rounded = self._rounded()
        names = {p.name for p in chosen}
        for product in self.network.products:
            if product.name in names:
                self._quantize_product(product)
            elif product.x in rounded and self.precision.is_dynamic(product, self.network):
                self._quantize_dynamic(product, rounded[product.x])
            else:
                self._take_few_bits(product)
        if bodies:
            self._quantize_bodies()
        self._assemble()

    def _quantize_bodies(self) -> None:
        for node in self.network.graph.node:
            if not any(structure.subgraphs(node)):
                continue
            for body in structure.subgraphs(self._copy(node)):
                inner = self.network.inside(body)
                parts = self.parts.inside(inner)
                rewriter = _Rewriter(inner, self.precision.of_bodies, Ranges({}), parts)
                rewriter.run(bodies=True)
                body.CopyFrom(parts.source.model.graph)
                self.choices += rewriter.choices

    def _chosen(self) -> list[Product]:
        """The products whose both operands are quantized: those with a range for x."""
        wanted = [p for p in self.network.products if self.precision.is_static(p, self.network)]
        if self.precision.include == ("*",):
            gaining = self.network.gaining(wanted)
            self.left = {p.name for p in wanted} - {p.name for p in gaining}
            wanted = gaining
        for group in self.network.groups([p.x for p in wanted]):
            ends = group_range(self.ranges, group.roots)
            if ends is None:
                continue
            kind = self.precision.products
            found = Parameters.of(kind, ends, asymmetric=self.precision.asymmetric)
            self.parameters |= dict.fromkeys(group.members, found)
        return [p for p in wanted if p.x in self.parameters]

    def _quantize_tensors(self, chosen: list[Product]) -> None:
        """Quantizes and dequantizes the tensors that the products read, and those carried there."""
        users: dict[str, list[str]] = {}
        for product in chosen:
            users.setdefault(product.x, []).append(product.name)
        for group in self.network.groups(list(users)):
            names = [name for member in group.members for name in users.get(member, ())]
            for tensor in group.members:
                self._quantize_tensor(tensor, names)

    def _quantize_tensor(self, tensor: str, users: list[str]) -> None:
        found = self.parameters[tensor]
        scale = self.parts.constant(f"{tensor}/scale", np.array(found.scale))
        zero = self.parts.constant(
            f"{tensor}/zero", np.array(found.zero, channels.TYPES[found.kind])
        )
        codes, floats = self.parts.fresh(f"{tensor}/codes"), self.parts.fresh(f"{tensor}/dq")
        nodes = self.parts.after.setdefault(tensor, [])
        nodes += [
            self.parts.node("QuantizeLinear", [tensor, scale, zero], codes),
            self.parts.node("DequantizeLinear", [codes, scale, zero], floats),
        ]
        self.dequantized[tensor] = self.parts.switched(nodes, tensor, floats, users)

    def _rounded(self) -> dict[str, str]:
        """The tensors whose scales follow from their values, by the names of what they were."""
        users: dict[str, list[Product]] = {}
        for product in self.network.products:
            if self.precision.is_dynamic(product, self.network):
                users.setdefault(product.x, []).append(product)
        found = {}
        for x, products in users.items():
            depth = self.network.depth(products[0])
            y = dynamic.rounded(self.parts, x, depth, self.precision.products)
            names = [product.name for product in products]
            found[x] = self.parts.switched(self.parts.after[x], x, y, names)
        return found

    def _quantize_dynamic(self, product: Product, x: str) -> None:
        """Quantizes the weight of a product whose x has scales that follow from its values."""
        kind, network = self.precision.products, self.network
        nodes = self.parts.before.setdefault(product.name, [])
        node = self._copy(product.node)
        if kind in microscaling.FORMATS:
            node.input[1] = self._blocks(product, nodes)
        else:
            scales = channels.scales_of(network.array(product.weight), product.axis, kind)
            node.input[1] = self._weight(product, scales, nodes)
        node.input[0] = x
        self.choices.append(Choice(product.name, node.op_type, kind))

    def _blocks(self, product: Product, nodes: list[NodeProto]) -> str:
        """The name of the dequantized weight in blocks of MX."""
        key = (product.weight, product.axis, b"")
        if key in self.weights and not self.parts.with_switches:
            return self.weights[key]
        kind, axis = self.precision.products, 1 - product.axis
        form, shape = microscaling.FORMATS[kind], self.network.shape(product.weight)
        assert shape is not None
        count = [ceil_div(n, microscaling.BLOCK) if i == axis else n for i, n in enumerate(shape)]
        floats = self.parts.fresh(f"{product.weight}/dq")
        weight = partial(self.network.array, product.weight)
        compute = lambda: microscaling.quantized(weight(), axis, kind)  # noqa: E731
        made = {"codes": (form.dtype, shape), "scales": (microscaling.SCALE, tuple(count))}
        stored = (self.network.identity(product.weight), axis, kind)
        codes, scales = self.parts.computed(stored, product.weight, made, compute)
        where = {"axis": axis, "block_size": microscaling.BLOCK, "output_dtype": TensorProto.FLOAT}
        nodes.append(self.parts.node("DequantizeLinear", [codes, scales], floats, **where))
        self.weights[key] = floats
        return self.parts.switched(nodes, product.weight, floats, [product.name])

    def _quantize_product(self, product: Product) -> None:
        """Quantizes the weight and the bias of a product whose x is quantized."""
        kind = self.precision.products
        parameters = self.parameters[product.x]
        weight = self.network.array(product.weight)
        scales = channels.scales_of(weight, product.axis, kind)
        bias_at, bias = self._bias(product, len(scales))
        if bias is not None and bias_at is product.node and kind == "int8":
            scales = channels.with_room(scales, bias, parameters.scale)
        nodes = self.parts.before.setdefault(product.name, [])
        name = self._weight(product, scales, nodes)
        node = self._copy(product.node)
        node.input[1] = name
        corrected = self._corrected(product, scales, bias, bias_at)
        if corrected is not None and bias_at is product.node:
            del node.input[2:]
            node.input.append(
                self._stored_bias(product, corrected, parameters.scale * scales, nodes)
            )
        elif corrected is not None and bias_at is not None:
            self._replace_added(product, bias_at, corrected)
        self.choices.append(Choice(product.name, product.node.op_type, kind))

    def _weight(self, product: Product, scales: np.ndarray, nodes: list[NodeProto]) -> str:
        """The name of the dequantized weight, which products with equal scales share."""
        key = (product.weight, product.axis, scales.tobytes())
        if key in self.weights and not self.parts.with_switches:
            return self.weights[key]
        kind = self.precision.products
        shape = self.network.shape(product.weight)
        assert shape is not None
        weight = partial(self.network.array, product.weight)
        axis = product.axis
        compute = lambda: [channels.quantized(weight(), scales, axis, kind)]  # noqa: E731
        made = {"codes": (channels.TYPES[kind], shape)}
        stored = (self.network.identity(product.weight), axis, scales.tobytes())
        (codes,) = self.parts.computed(stored, product.weight, made, compute)
        scale = self.parts.constant(f"{product.weight}/scale", scales)
        zero = np.zeros(len(scales), channels.TYPES[kind])
        floats = self.parts.fresh(f"{product.weight}/dq")
        inputs = [codes, scale, self.parts.constant(f"{product.weight}/zero", zero)]
        nodes.append(self.parts.node("DequantizeLinear", inputs, floats, axis=axis))
        self.weights[key] = floats
        return self.parts.switched(nodes, product.weight, floats, [product.name])

    def _bias(self, product: Product, count: int) -> tuple[NodeProto | None, np.ndarray | None]:
        """The node that adds a product's bias, and the bias: (count,), 0 where there is none."""
        network = self.network
        if product.node.op_type == "MatMul":
            readers = network.readers.get(product.node.output[0], [])
            if len(readers) == 1 and readers[0].op_type == "Add":
                for name in readers[0].input:
                    if network.shape(name) == (count,):
                        return readers[0], network.array(name)
            return None, None
        if not product.bias:
            scaled = any(a.name == "beta" and a.f != 1 for a in product.node.attribute)
            return (None, None) if scaled else (product.node, np.zeros(count, np.float32))
        if network.shape(product.bias) == (count,):
            return product.node, network.array(product.bias)
        return None, None

    def _corrected(
        self,
        product: Product,
        scales: np.ndarray,
        bias: np.ndarray | None,
        at: NodeProto | None,
    ) -> np.ndarray | None:
        """The bias less the mean error of the rounded weight; None where it stays as it is."""
        if bias is None or at is None:
            return None
        plain = bias if at is product.node and product.bias else None
        means = self.ranges.means.get(product.x)
        scaled = any(a.name in ("alpha", "beta") and a.f != 1 for a in product.node.attribute)
        if not self.precision.bias_correction or means is None or scaled:
            return plain
        weight = self.network.array(product.weight)
        kind = self.precision.products
        error = channels.mean_error(weight, scales, product.axis, kind, means)
        return plain if error is None else (bias - error).astype(np.float32)

    def _stored_bias(
        self, product: Product, bias: np.ndarray, scales: np.ndarray, nodes: list[NodeProto]
    ) -> str:
        """The name of a product's bias: of 32-bit integers beside int8, else of f32."""
        name = product.bias or f"{product.name}/bias"
        plain = product.bias
        if self.parts.with_switches and not plain:
            plain = self.parts.constant(name, np.zeros_like(bias))
        if self.precision.products != "int8":
            stored = self.parts.constant(f"{name}/corrected", bias)
            return self.parts.switched(nodes, plain, stored, [product.name])
        codes = np.round(bias / scales.astype(np.float64)).astype(np.int32)
        inputs = [
            self.parts.constant(f"{name}/codes", codes),
            self.parts.constant(f"{name}/scale", scales),
        ]
        inputs.append(self.parts.constant(f"{name}/zero", np.zeros(len(scales), np.int32)))
        floats = self.parts.fresh(f"{name}/dq")
        nodes.append(self.parts.node("DequantizeLinear", inputs, floats, axis=0))
        return self.parts.switched(nodes, plain, floats, [product.name])

    def _replace_added(self, product: Product, added: NodeProto, bias: np.ndarray) -> None:
        """Gives the node that adds a bias to a product the corrected one."""
        node = self._copy(added)
        place = 1 if node.input[0] == product.node.output[0] else 0
        plain = node.input[place]
        stored = self.parts.constant(f"{plain}/corrected", bias)
        nodes = self.parts.before.setdefault(added.name, [])
        node.input[place] = self.parts.switched(nodes, plain, stored, [product.name])

    def _take_few_bits(self, product: Product) -> None:
        """A product that is not quantized in whole: with weights of few bits, or in f32."""
        node, precision = product.node, self.precision
        reason = refusal(product, self.network, precision)
        if product.name in self.left and not precision.bits:
            reason = "small, and to quantize the model's input takes longer"
        if reason:
            self.choices.append(Choice(product.name, node.op_type, "f32", reason))
            return
        form = form_of(product, self.network, precision)
        types: list[np.dtype] = [np.dtype(np.uint8), np.dtype(np.float32), form.zero_type]
        words = ("codes", "scales", "zeros")
        made = {n: (t, s) for n, t, s in zip(words, types, form.shapes(), strict=True)}
        weight = partial(self.network.array, product.weight)
        turn = product.axis != 0
        done = self.network.rounded.get(product.name)
        compute = lambda: done or form.quantize(weight().T if turn else weight())  # noqa: E731
        stored = (self.network.identity(product.weight), turn, product.name if done else "")
        names = self.parts.computed(stored, product.weight, made, compute)
        x = self.dequantized.get(product.x, product.x)
        inputs = [x, *names, *(["", product.bias] if product.bias else [])]
        new = helper.make_node(
            "MatMulNBits", inputs, list(node.output), node.name, domain="com.microsoft",
            K=form.size, N=form.rows, bits=precision.bits, block_size=precision.block,
        )  # fmt: skip
        if self.parts.with_switches:
            self._choose_result(product, new)
        else:
            self.replaced[node.name] = new
        self.choices.append(Choice(product.name, node.op_type, precision.weights))

    def _choose_result(self, product: Product, new: NodeProto) -> None:
        """Computes a product in both ways, between which a switch chooses."""
        plain = NodeProto()
        plain.CopyFrom(product.node)
        result = product.node.output[0]
        plain.input[0] = new.input[0]
        plain.output[0], new.output[0] = (
            self.parts.fresh(f"{result}/{word}") for word in ("plain", "few")
        )
        nodes = [plain, new]
        self.parts.switched(nodes, plain.output[0], new.output[0], [product.name])
        where = nodes.pop()
        where.output[0], where.name = result, product.name
        new.name = self.parts.fresh(f"{product.name}/few")
        plain.name = self.parts.fresh(f"{product.name}/plain")
        self.parts.before.setdefault(product.name, []).extend(nodes)
        self.replaced[product.name] = where

    def _copy(self, node: NodeProto) -> NodeProto:
        """The node's own copy, made once."""
        if node.name not in self.replaced:
            copy = NodeProto()
            copy.CopyFrom(node)
            self.replaced[node.name] = copy
        return self.replaced[node.name]

    def _assemble(self) -> None:
        """Puts the new nodes in order, and drops what nothing reads any more."""
        graph = self.source.model.graph
        made = {name for node in graph.node for name in node.output}
        given = [name for name in self.parts.after if name not in made]
        nodes = [node for name in given for node in self.parts.after[name]]
        for old in graph.node:
            nodes += self.parts.before.get(old.name, ())
            node = self._copy(old)
            if node.op_type != "Shape":
                for place, name in enumerate(node.input):
                    node.input[place] = self.dequantized.get(name, name)
            nodes.append(node)
            for name in old.output:
                nodes += self.parts.after.get(name, ())
        self.parts.assemble(nodes)
