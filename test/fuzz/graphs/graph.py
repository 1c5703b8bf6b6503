"""A graph that is evaluated while it grows, so that every node of it is known to be sound.

Two evaluations go side by side: one as precise as onnxruntime is in f32 (f64 for f64), and one
whose every result is rounded to the graph's own type and shaken by a few units in the last
place. Their difference is the effect of rounding on this graph: the tolerance of a comparison.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (F16, BF16, F32, F64)
I8, U8, I32, I64, BOOL = (np.dtype(t) for t in (np.int8, np.uint8, np.int32, np.int64, np.bool_))

# Sums whose rounding errors are those of their addends, which may be larger than the result.
_SUMS = ("ReduceMean", "ReduceSum")
# The noise that shakes a result, relative to each element and to the largest.
_NOISE = {F16: 5e-4, BF16: 4e-3, F32: 1e-6, F64: 1e-6}
# Graphs amplify rounding; beyond this share of the largest element nothing is compared.
_MOST_NOISE = 0.02
_SIZES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    13,
    16,
    17,
    24,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    96,
    127,
    128,
    130,
    197,
    257,
)
OPSET = 23


class UnsoundError(Exception):
    """The node is not one to test: refused by the reference, too large, or too sensitive."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph. `exact` and `shaken` hold 16-bit floats as f32."""

    name: str
    dtype: np.dtype[Any]
    exact: Array
    shaken: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.exact.shape

    @property
    def rank(self) -> int:
        return self.exact.ndim

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def array(self) -> Array:
        """The value in its own type."""
        return self.exact.astype(self.dtype)

    def tolerance(self) -> float:
        """The error that rounding explains; 0 of integers."""
        if not self.is_float or not self.exact.size:
            return 0.0
        # A result that should be zero may be a rounding error of large numbers.
        most = float(np.abs(self.exact).max()) or 10.0
        # One sample of noise may change a few elements by less than rounding does.
        times = 10 if self.exact.size >= 16 else 100
        return times * float(np.abs(self.exact - self.shaken).max()) + 4 * _NOISE[self.dtype] * most


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that onnxruntime computes it in here."""
    return F32 if dtype in (F16, BF16) else dtype


class Graph:
    """Nodes and what they give, with a source of random choices."""

    def __init__(self, rng: random.Random, most_elements: int = 1 << 14) -> None:
        self.rng = rng
        self.numpy = np.random.default_rng(rng.getrandbits(32))
        self.most_elements = most_elements
        self.float = rng.choice((F32, F32, F32, F16, F16, BF16, F64))
        self.made = 0  # tensors that are no node's
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, Value] = {}
        self.weights: dict[str, Value] = {}
        self.values: dict[str, Value] = {}  # of inputs and nodes; of weights none

    # Choices.

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def size(self, most: int = 257) -> int:
        return self.rng.choice([s for s in _SIZES if s <= most])

    def shape(self, rank: int, most_elements: int | None = None) -> tuple[int, ...]:
        """A random shape that is not too large; rarely with a 0."""
        left = most_elements or self.most_elements
        sizes = []
        for _ in range(rank):
            sizes.append(self.size(max(1, left)))
            left //= max(1, sizes[-1])
        self.rng.shuffle(sizes)
        if rank and self.chance(0.01):
            sizes[self.rng.randrange(rank)] = 0
        return tuple(sizes)

    def pick(self, where: Callable[[Value], bool] = lambda v: v.is_float) -> Value | None:
        """A value that there is; rather a late one."""
        found = [v for v in self.values.values() if where(v)]
        if not found:
            return None
        return found[-1] if self.chance(0.5) else self.rng.choice(found)

    def real(self, *ranks: int, most: int | None = None) -> Value:
        """A tensor of floats, of one of these ranks: one that there is, or a new input."""
        found = self.pick(
            lambda v: (
                v.is_float
                and (not ranks or v.rank in ranks)
                and (most is None or v.exact.size <= most)
            )
        )
        if found is not None and self.chance(0.9):
            return found
        rank = self.rng.choice(ranks or (1, 2, 3, 4))
        return self.fresh(self.shape(rank, most), found.dtype if found else self.float)

    # New tensors.

    def fresh(
        self,
        shape: Sequence[int],
        dtype: Any = None,
        weight: bool | None = None,
        scale: float = 1.0,
        low: int = -8,
        high: int = 8,
    ) -> Value:
        """A new input or weight: normal floats, or integers from `low` up to `high`, both in."""
        dtype = np.dtype(dtype or self.float)
        if weight is None:
            weight = self.chance(0.5)
        if int(np.prod(shape)) > 1 << 18:
            raise UnsoundError("too large")
        if dtype in FLOATS:
            array = (self.numpy.normal(0, scale, shape)).astype(dtype)
        elif dtype == BOOL:
            array = self.numpy.integers(0, 2, shape).astype(bool)
        else:
            low = max(low, int(np.iinfo(dtype).min))
            array = self.numpy.integers(low, high, shape, endpoint=True).astype(dtype)
        return self.hold(np.asarray(array), weight)

    def hold(self, array: Array, weight: bool = True) -> Value:
        """A tensor with these values."""
        exact = np.asarray(array).astype(wide(array.dtype))
        self.made += 1
        name = f"{'w' if weight else 'x'}{self.made}"
        value = Value(name, array.dtype, exact, exact)
        if weight:
            self.weights[name] = value
        else:
            self.inputs[name] = self.values[name] = value
        return value

    def ints(self, *numbers: int, dtype: Any = np.int64) -> Value:
        return self.hold(np.array(numbers, dtype))

    def number(self, value: float, dtype: Any) -> Value:
        return self.hold(np.array(value).astype(dtype))

    # Nodes.

    def op(
        self,
        kind: str,
        *inputs: Value | None,
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Adds a node. Raises UnsoundError where it is not one to test."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        given = [v.name if v is not None else "" for v in inputs]
        node = helper.make_node(
            kind, given, names, f"{kind}_{len(self.nodes)}", domain=domain, **attributes
        )
        known = {v.name: v for v in inputs if v is not None}
        dtypes = _types(node, known)
        exact = evaluate(node, {n: v.exact for n, v in known.items()})
        shaken = evaluate(node, {n: self._addends(kind, v) for n, v in known.items()})
        results = []
        for name, dtype, a, b in zip(names, dtypes, exact, shaken, strict=True):
            results.append(Value(name, dtype, a, self._shake(a, b, dtype)))
        self.nodes.append(node)
        self.values.update({v.name: v for v in results})
        return results[0] if outputs == 1 else results

    def _addends(self, kind: str, value: Value) -> Array:
        """A shaken input; of a sum of many numbers with noise on each."""
        if kind not in _SUMS or not value.is_float:
            return value.shaken
        noise = self.numpy.uniform(-_NOISE[F32], _NOISE[F32], value.shape)
        return np.asarray(value.shaken * (1 + noise)).astype(value.exact.dtype)

    def _shake(self, exact: Array, shaken: Array, dtype: np.dtype[Any]) -> Array:
        if exact.size > 8 * self.most_elements:
            raise UnsoundError("too large")
        if dtype not in FLOATS:
            if not np.array_equal(exact, shaken):
                raise UnsoundError("rounding changes an integer")
            return exact
        if not exact.size:
            return exact
        most = np.abs(exact).max()
        limit = {F16: 2e3, F32: 1e6}.get(dtype, 1e5)
        if not np.isfinite(exact).all() or most > limit or 0 < most < 1e-3:
            raise UnsoundError("too large, or too small")
        step = _NOISE[dtype]
        noise = self.numpy.uniform(-step, step, exact.shape)
        with np.errstate(all="ignore"):
            shaken = np.asarray(shaken * (1 + noise)).astype(dtype).astype(exact.dtype)
        if not np.isfinite(shaken).all() or np.abs(exact - shaken).max() > _MOST_NOISE * most:
            raise UnsoundError("amplifies rounding")
        return shaken

    def undo(self, count: int) -> None:
        """Forgets the nodes after the first `count`, and the inputs that only they read."""
        self.nodes = self.nodes[:count]
        read = {n for node in self.nodes for n in node.input}
        made = {n for node in self.nodes for n in node.output}
        self.inputs = {n: v for n, v in self.inputs.items() if n in read}
        self.values = {n: v for n, v in self.values.items() if n in made or n in self.inputs}


@dataclass(frozen=True)
class Case:
    """Nodes, their values, and which are inputs, constants and outputs: a model to check."""

    nodes: tuple[NodeProto, ...]
    inputs: tuple[Value, ...]
    weights: tuple[Value, ...]
    outputs: tuple[Value, ...]
    values: dict[str, Value]

    @staticmethod
    def of(graph: Graph, more: float = 0.05) -> Case:
        """The graph with what nothing reads, and a share of the rest, as its outputs."""
        read = {n for node in graph.nodes for n in node.input}
        made = [n for node in graph.nodes for n in node.output]
        outputs = [n for n in made if n not in read or graph.chance(more)]
        kept = [graph.values[n] for n in outputs]
        return Case(
            tuple(graph.nodes),
            tuple(graph.inputs.values()),
            tuple(graph.weights.values()),
            tuple(kept),
            graph.values,
        ).pruned()

    def pruned(self) -> Case:
        """Without what the outputs do not need."""
        needed = {v.name for v in self.outputs}
        nodes = []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        inputs = tuple(v for v in self.inputs if v.name in needed)
        weights = tuple(v for v in self.weights if v.name in needed)
        return Case(tuple(reversed(nodes)), inputs, weights, self.outputs, self.values)

    def model(self, is_open: bool = False) -> onnx.ModelProto:
        """The model, with f16 and bf16 as they are; some of the inputs' sizes open, if so."""
        rng = random.Random(len(self.nodes))
        sizes = sorted({size for v in self.inputs for size in v.shape if size > 1})
        names = {size: f"s{size}" for size in sizes if is_open and rng.random() < 0.6}
        graph = helper.make_graph(
            list(self.nodes),
            "random",
            [_info(v, [names.get(size, size) for size in v.shape]) for v in self.inputs],
            [_info(v, None if names else v.shape) for v in self.outputs],
            [numpy_helper.from_array(v.array(), v.name) for v in self.weights],
        )
        return _model(graph)

    def feeds(self) -> dict[str, Array]:
        return {v.name: v.array() for v in self.inputs}

    def text(self) -> str:
        """The nodes, a line each, and the shapes that they read."""
        lines = [f"  {v.name}: {v.dtype}{list(v.shape)}" for v in (*self.inputs, *self.weights)]
        for node in self.nodes:
            attributes = {a.name: _short(helper.get_attribute_value(a)) for a in node.attribute}
            shown = ", ".join(f"{k}={v}" for k, v in attributes.items())
            results, inputs = ", ".join(node.output), ", ".join(node.input)
            lines.append(f"  {results} = {node.op_type}({inputs}) {{{shown}}}")
        lines += [f"  -> {v.name}: {v.dtype}{list(v.shape)}" for v in self.outputs]
        return "\n".join(lines)


def _short(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _info(value: Value, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(value.name, kind, shape)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _types(node: NodeProto, known: dict[str, Value]) -> list[np.dtype[Any]]:
    """The element types of a node's results by onnx's inference, else the first input's."""
    outputs = [onnx.ValueInfoProto(name=n) for n in node.output]
    for output in outputs:
        output.type.tensor_type.elem_type = TensorProto.UNDEFINED
    model = _model(
        helper.make_graph([node], "one", [_info(v, v.shape) for v in known.values()], outputs)
    )
    try:
        inferred = onnx.shape_inference.infer_shapes(model, True, True).graph.output
    except Exception as error:  # onnx's own, of a class without a public name
        raise UnsoundError(f"{node.op_type}: {error}") from None
    kinds = [v.type.tensor_type.elem_type for v in inferred]
    return [
        np.dtype(helper.tensor_dtype_to_np_dtype(k)) if k else known[node.input[0]].dtype
        for k in kinds
    ]


def evaluate(node: NodeProto, inputs: dict[str, Array]) -> list[Array]:
    """The node's results by onnxruntime, with 16-bit floats as f32. Raises UnsoundError."""
    widened = NodeProto()
    widened.CopyFrom(node)
    for attribute in widened.attribute:
        if attribute.name in ("to", "output_dtype", "dtype") and attribute.i in _NARROW:
            attribute.i = TensorProto.FLOAT
        if attribute.type == AttributeProto.TENSOR and attribute.t.data_type in _NARROW:
            raise UnsoundError("a narrow attribute")
    if node.op_type == "MatMulInteger":
        # onnxruntime's sums of u8 x i8 saturate on processors without VNNI.
        return _by_reference(widened, inputs)
    key = tuple((n, a.dtype.str, a.shape) for n, a in inputs.items())
    try:
        session = _session(widened.SerializeToString(), key)
        found = session.run(None, inputs)
    except Exception as error:  # onnxruntime's own, of many kinds
        if "NOT_IMPLEMENTED" not in str(error):
            raise UnsoundError(f"{node.op_type}: {str(error)[:300]}") from None
        found = _by_reference(widened, inputs)
    return [np.asarray(a) for a in found]


def _by_reference(node: NodeProto, inputs: dict[str, Array]) -> list[Array]:
    """By onnx's own evaluator: what onnxruntime has in f32 only."""
    if node.op_type in ("ConvTranspose", "GlobalMaxPool", "LRN"):
        raise UnsoundError("onnx's evaluator does not do what its text says")
    if node.op_type == "LpPool" and any(a.name == "ceil_mode" and a.i for a in node.attribute):
        raise UnsoundError("onnx's evaluator divides by elements that it cut off")
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(node).run(None, inputs)
    except Exception as error:  # of many kinds
        raise UnsoundError(f"{node.op_type}: {error}") from None
    return list(found)


@functools.lru_cache(maxsize=4)
def _session(node: bytes, inputs: tuple[tuple[str, str, tuple[int, ...]], ...]) -> Any:
    parsed = NodeProto.FromString(node)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape)
        for n, t, shape in inputs
    ]
    outputs = [onnx.ValueInfoProto(name=n) for n in parsed.output]
    model = _model(helper.make_graph([parsed], "one", infos, outputs))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


_NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
