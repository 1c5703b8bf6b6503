"""Small random programs, and the check that a pass keeps what they compute.

Every pass is held to the same: the results stay, running it again changes nothing, and two
runs give the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.dialects import func

from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.dialects import context, mgx
from mgx_mlir.pipelines.registry import Step
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.pass_base import PassContext

DIMS = (2, 3, 4)
UNARY = ("relu", "neg", "abs", "sigmoid", "tanh", "exp", "floor", "sqrt", "recip")
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow")
# Kinds of ops, and how often each is taken.
_SHARES = {
    "binary": 4,
    "concat": 2,
    "convert": 1,
    "dot": 2,
    "gather": 1,
    "part": 1,
    "reduce": 2,
    "softmax": 2,
    "unary": 3,
    "view": 2,
    "weights": 2,
    "window": 2,
}
KINDS = list(_SHARES)
CHANCES = np.array(list(_SHARES.values())) / sum(_SHARES.values())
REDUCE = ("reduce_sum", "reduce_max", "reduce_mean")


def parse(text: str, weights: WeightStore | None = None) -> Graph:
    """A graph from the text of its module."""
    with context():
        return Graph(ir.Module.parse(text), weights or WeightStore())


def parse_case(text: str) -> Graph:
    """A graph from a module of a lit test: values get names, literals get numbers."""
    weights = WeightStore()
    with context():
        module = ir.Module.parse(text)
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        for attribute, prefix, count in (
            ("arg_attrs", "x", len(type_.inputs)),
            ("res_attrs", "y", len(type_.results)),
        ):
            given = ir.ArrayAttr(main.attributes[attribute]) if attribute in main.attributes else ()
            if not any("mgx.name" in ir.DictAttr(entry) for entry in given):
                main.attributes[attribute] = _names(prefix, count)

        def fill(op: ir.Operation) -> ir.WalkResult:
            if op.name == "mgx.literal":
                key = ir.StringAttr(op.attributes["key"]).value
                if key not in weights:
                    array = _random_array(np.random.default_rng(len(weights)), op.results[0].type)
                    weights.add(Weight(key, array.dtype, array.shape, data=array))
            return ir.WalkResult.ADVANCE

        module.operation.walk(fill)
        return Graph(module, weights)


def random_graph(seed: int, size: int = 14, control_flow: bool = False) -> Graph:
    """A program of about `size` ops on two inputs and a few constants.

    With `control_flow`, some are branches and loops with bodies of as many ops; two more
    inputs are a count of trips and a condition.
    """
    generator = np.random.default_rng(seed)
    weights = WeightStore()
    with context() as made, ir.Location.name("random"):
        made.dialects["func"]  # loads it
        module = ir.Module.create()
        f32 = ir.F32Type.get()
        types = [ir.RankedTensorType.get(DIMS, f32), ir.RankedTensorType.get(DIMS[1:], f32)]
        deciding = [ir.Type.parse("tensor<i64>"), ir.Type.parse("tensor<i1>")]
        types += deciding if control_flow else []
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (types, []))
            block = main.add_entry_block()
            with ir.InsertionPoint(block):
                values = [*list(block.arguments)[:2], *_constants(generator, weights)]
                decisions = list(block.arguments)[2:]
                for _ in range(size):
                    values += _random_step(generator, values, decisions, size)
                outputs = _outputs(generator, values)
                func.ReturnOp(outputs)
            main.attributes["function_type"] = ir.TypeAttr.get(
                ir.FunctionType.get(types, [v.type for v in outputs])
            )
            main.attributes["arg_attrs"] = _names("x", len(types))
            main.attributes["res_attrs"] = _names("y", len(outputs))
        assert module.operation.verify()
        return Graph(module, weights)


def check_keeps_results(
    make: Callable[[], Graph],
    steps: Sequence[Step],
    *,
    rtol: float = 1e-5,
    again: bool = True,
    kind: str = "gpu",
) -> Graph:
    """Runs the passes and compares what the program computes before and after.

    `again` also asks that a second run changes nothing. Returns the changed graph.
    """
    graph = make()
    inputs = random_inputs(graph)
    with np.errstate(all="ignore"):
        before = evaluate(graph.module, graph.weights, inputs)
        run(graph, steps, kind)
        after = evaluate(graph.module, graph.weights, inputs)
    assert before.keys() == after.keys()
    for name, expected in before.items():
        found = after[name]
        assert found.dtype == expected.dtype and found.shape == expected.shape, name
        if found.dtype.kind in "fV" and found.dtype.itemsize == 2:
            rtol = max(rtol, 8 * float(ml_dtypes.finfo(found.dtype).eps))
        np.testing.assert_allclose(found, expected, rtol, max(1e-5, rtol / 100), err_msg=name)
    text = str(graph.module)
    twin = make()
    run(twin, steps, kind)
    assert str(twin.module) == text, "two runs differ"
    if again:
        run(graph, steps, kind)
        assert str(graph.module) == text, "a second run changes the program"
    return graph


def run(graph: Graph, steps: Sequence[Step], kind: str = "gpu") -> None:
    run_pipeline(graph.module, steps, PassContext(weights=graph.weights, kind=kind))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the program's shapes."""
    generator = np.random.default_rng(seed)
    inputs = {}
    with graph.module.context:
        main = graph.main.operation
        for argument, entry in zip(
            main.regions[0].blocks[0].arguments,
            ir.ArrayAttr(main.attributes["arg_attrs"]),
            strict=True,
        ):
            name = ir.StringAttr(ir.DictAttr(entry)["mgx.name"]).value
            inputs[name] = _random_array(generator, argument.type, count=3 + seed % 3)
    return inputs


def _random_array(generator: np.random.Generator, tensor: ir.Type, count: int = 3) -> np.ndarray:
    """Numbers for a tensor; floats are positive, so that roots and powers stay real. A single
    integer is `count`: of trips, or a condition."""
    type_ = ir.RankedTensorType(tensor)
    dtype = mgx.numpy_dtype(type_.element_type)
    if not isinstance(type_.element_type, ir.IntegerType):
        return generator.uniform(0.5, 2.0, type_.shape).astype(dtype)
    if not type_.rank:
        return np.array(count, dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, type_.shape).astype(dtype)
    known = ml_dtypes.iinfo(dtype)
    wide = np.uint64 if known.min == 0 else np.int64
    array = generator.integers(known.min, known.max, type_.shape, wide, endpoint=True)
    return array.astype(dtype)


def _names(prefix: str, count: int) -> ir.Attribute:
    return ir.ArrayAttr.get(
        [ir.DictAttr.get({"mgx.name": ir.StringAttr.get(f"{prefix}{i}")}) for i in range(count)]
    )


def _constants(generator: np.random.Generator, weights: WeightStore) -> list[ir.Value]:
    f32 = ir.F32Type.get()
    key = weights.add_array(generator.uniform(0.5, 2, (1, DIMS[1], 1)).astype(np.float32))
    return [
        mgx.constant(generator.choice([0.0, 1.0, 2.0]), np.float32),
        mgx.constant(generator.uniform(0.5, 2, DIMS[2:]).astype(np.float32)),
        mgx.literal(key, ir.RankedTensorType.get((1, DIMS[1], 1), f32)),
    ]


def _random_step(
    generator: np.random.Generator,
    values: Sequence[ir.Value],
    decisions: Sequence[ir.Value],
    size: int,
) -> list[ir.Value]:
    """One op, or a branch or a loop of some; the results."""
    kind = generator.random()
    if not decisions or kind > 0.15 or size < 3:
        return [_random_op(generator, values)]
    trips, condition = decisions
    carried = [values[i] for i in generator.integers(len(values), size=2)]

    def body(inside: Sequence[ir.Value]) -> list[ir.Value]:
        known = [*values, *inside]
        for _ in range(size // 2):
            known += _random_step(generator, known, decisions, size // 2)
        return known

    def fitting(known: list[ir.Value], like: ir.Value) -> ir.Value:
        same = [v for v in known if v.type == like.type]
        return same[int(generator.integers(len(same)))] if kind > 0.02 else same[-1]

    if kind < 0.07:

        def side() -> list[ir.Value]:
            known = body([])
            return [fitting(known, like) for like in carried]

        return list(mgx.if_(condition, side, side))
    fixed = bool(generator.integers(2))

    def trip(i: ir.Value, go: ir.Value, *inside: ir.Value) -> list[ir.Value]:
        number = mgx.convert(i, np.float32)
        known = body([number, *inside])
        following = [fitting(known, like) for like in carried]
        rows = [known[-1]] if fixed else []
        return [go, *following, *rows]

    count = mgx.constant(np.int64(3)) if fixed else trips
    *results, last = mgx.loop(count, condition, carried, trip)
    if not fixed:
        return [*results, last]
    last.set_type(ir.RankedTensorType.get([3, *list(last.type.shape)[1:]], last.type.element_type))
    return [*results, mgx.reduce_sum(last, [0])]


def _random_op(generator: np.random.Generator, values: Sequence[ir.Value]) -> ir.Value:
    """One op on values made before; the later ones are more likely."""

    def pick() -> ir.Value:
        weight = np.arange(1, len(values) + 1)
        return values[generator.choice(len(values), p=weight / weight.sum())]

    x = pick()
    rank = len(x.type.shape)
    kind = generator.choice(KINDS, p=CHANCES)
    if kind == "unary" or rank == 0:
        return getattr(mgx, str(generator.choice(UNARY)))(x)
    if kind == "binary":
        y = pick()
        dims = list(np.broadcast_shapes(tuple(x.type.shape), tuple(y.type.shape)))
        x, y = (v if v.type.shape == dims else mgx.multibroadcast(v, dims) for v in (x, y))
        return getattr(mgx, str(generator.choice(BINARY)))(x, y)
    axis = int(generator.integers(rank))
    if kind == "reduce":
        return getattr(mgx, str(generator.choice(REDUCE)))(x, [axis])
    if kind == "concat":
        # Taken apart again, so that all shapes stay broadcastable.
        size = x.type.shape[0]
        both = mgx.concat([mgx.neg(x), mgx.abs(x)], 0)
        return mgx.add(mgx.slice(both, [0], [0], [size]), mgx.slice(both, [0], [size], [2 * size]))
    if kind == "softmax":
        return mgx.softmax(x, axis)
    if kind == "dot" and rank >= 2:
        transposed = mgx.transpose(x, [*range(rank - 2), rank - 1, rank - 2])
        return mgx.dot(mgx.dot(x, transposed), x)
    if kind == "weights" and rank >= 2:
        return _with_weights(generator, x)
    if kind == "window" and rank == 3:
        return _random_window(generator, x)
    if kind == "part":
        place = int(generator.integers(x.type.shape[axis]))
        return mgx.slice(x, [axis], [place], [place + 1])
    if kind == "gather":
        size = x.type.shape[axis]
        return mgx.gather(x, mgx.constant(generator.integers(0, size, size)), axis)
    if kind == "convert":
        return mgx.convert(mgx.neg(mgx.convert(x, np.float64)), np.float32)
    return _random_view(generator, x)


def _with_weights(generator: np.random.Generator, x: ir.Value) -> ir.Value:
    """A product with a constant, alone, with a bias, or of one row."""
    *batch, rows, size = x.type.shape
    weights = generator.uniform(-0.5, 0.5, (*batch, size, size)).astype(np.float32)
    y = mgx.dot(x, mgx.constant(weights))
    match generator.integers(3):
        case 0:
            return y
        case 1:
            bias = mgx.constant(generator.uniform(-1, 1, size).astype(np.float32))
            return mgx.relu(mgx.add(y, mgx.multibroadcast(bias, list(y.type.shape))))
        case _:
            place = int(generator.integers(rows))
            return mgx.slice(mgx.sigmoid(y), [len(batch)], [place], [place + 1])


def _random_window(generator: np.random.Generator, x: ir.Value) -> ir.Value:
    """A convolution, pooling or resize of rows; the result is of the shape of x."""
    _, channels, size = dims = list(x.type.shape)
    weights = generator.uniform(-0.5, 0.5, (channels, channels, 3)).astype(np.float32)
    match generator.integers(5):
        case 0:
            return mgx.convolution(x, mgx.constant(weights), pads=1)
        case 1:
            own = mgx.constant(weights[:, :1])
            scale = mgx.constant(generator.uniform(0.5, 2, (channels, 1)).astype(np.float32))
            y = mgx.convolution(mgx.pad(x, [0, 0, 1], [0, 0, 1]), own, group=channels)
            return mgx.mul(y, mgx.multibroadcast(scale, dims))
        case 2:
            stride = int(generator.integers(1, 4))
            y = mgx.convolution_backwards(x, mgx.constant(weights), strides=stride)
            return mgx.slice(y, [2], [1], [size + 1])
        case 3:
            return mgx.pooling(x, mgx.PoolingMode.average, 3, pads=1)
        case _:
            wide = mgx.resize(x, [*dims[:2], 2 * size])
            return mgx.slice(wide, [2], [size // 2], [size // 2 + size])


def _random_view(generator: np.random.Generator, x: ir.Value) -> ir.Value:
    """Views that end in the shape they began with, so that all shapes stay broadcastable."""
    dims = list(x.type.shape)
    match generator.integers(4):
        case 0:
            flat = mgx.reshape(x, [int(np.prod(dims))])
            return mgx.reshape(mgx.reverse(flat, [0]), dims)
        case 1:
            # Work in another order, and back.
            order = [int(i) for i in generator.permutation(len(dims))]
            moved = mgx.tanh(mgx.transpose(x, order))
            return mgx.transpose(moved, [order.index(i) for i in range(len(dims))])
        case 2:
            # The elements in column-major order, in the shape they had.
            return mgx.reshape(mgx.transpose(x), dims)
        case _:
            first = mgx.slice(mgx.reshape(x, [1, *dims]), [1], [0], [1])
            return mgx.multibroadcast(mgx.reshape(first, [1, *dims[1:]]), dims)


def _outputs(generator: np.random.Generator, values: Sequence[ir.Value]) -> list[ir.Value]:
    extra = values[int(generator.integers(len(values)))]
    return [values[-1], extra]
