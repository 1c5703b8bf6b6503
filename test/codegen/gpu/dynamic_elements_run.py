"""Runs reductions and pointwise kernels of any number of rows through HIP on one chip.

A program of its own, as `emulated_run` is; prints what went wrong:

    ... python dynamic_elements_run.py gfx942
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import element_kernels
import movement_kernels
import numpy as np
from emulated_run import run
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.dialects import context
from mgx_mlir.sizes.arithmetic import evaluate
from mgx_mlir.sizes.parser import parse
from test.codegen.bound_code import bound_code
from test.codegen.open_attention import tensor

DTYPES = {"f16": np.float16, "f32": np.float32, "i64": np.int64}


@dataclass(frozen=True)
class Case:
    """Inputs (dimensions and elements), ops with %x0 .. to %y, what they mean."""

    name: str
    inputs: tuple[tuple[str, str], ...]
    result: tuple[str, str]
    ops: str
    meaning: Callable[..., np.ndarray]
    axis: int = 0
    shaped: bool = False  # whether the meaning takes the result's shape too

    def text(self) -> str:
        types = [tensor(*x) for x in self.inputs]
        named = {f"T{i}": type_ for i, type_ in enumerate(types)} | {"R": tensor(*self.result)}
        ops = self.ops
        for name, type_ in named.items():
            ops = ops.replace(f"@{name}", type_)
        heads = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
        result = named["R"]
        return (
            f"mgx.kernel @k({heads}) -> ({result}) attributes "
            f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n{ops}\nmgx.return %y : {result}\n}}'
        )


def softmax(dims: str, element: str, axis: int = -1) -> Case:
    sizes = dims.split(",")
    axis %= len(sizes)
    one = tensor(",".join("1" if d == axis else size for d, size in enumerate(sizes)), "f32")
    wide = tensor(dims, "f32")
    convert = element != "f32"
    ops = "%y = mgx.fused_reduce(%x0) axes = [AXIS] : (@T0) -> @R {\n^bb0(%a: @T0):\n"
    ops += f"%w = mgx.convert %a : @T0 -> {wide}\n" if convert else ""
    a = "%w" if convert else "%a"
    ops += (
        f"%m = mgx.reduce_max {a} axes = [AXIS] : {wide} -> {one}\n"
        f"%b = mgx.multibroadcast %m : {one} -> {wide}\n"
        f"%d = mgx.sub {a}, %b : {wide}, {wide} -> {wide}\n%e = mgx.exp %d : {wide}\n"
        f"%s = mgx.reduce_sum %e axes = [AXIS] : {wide} -> {one}\n"
        f"%c = mgx.multibroadcast %s : {one} -> {wide}\n"
        f"%q = mgx.div %e, %c : {wide}, {wide} -> {wide}\n"
    )
    ops += f"%z = mgx.convert %q : {wide} -> @R\n" if convert else ""
    ops += f"mgx.yield {'%z' if convert else '%q'} : @R\n}}"

    def meaning(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    pair = (dims, element)
    name = f"softmax {axis} of {dims} {element}"
    return Case(name, (pair,), pair, ops.replace("AXIS", str(axis)), meaning)


def mean(dims: str, result: str, axes: list[int], element: str) -> Case:
    """The mean along some dimensions."""
    ops = f"%y = mgx.reduce_mean %x0 axes = {axes} : @T0 -> @R"
    meaning = lambda x: x.mean(tuple(axes), keepdims=True)  # noqa: E731
    return Case(f"mean {axes} of {dims}", ((dims, element),), (result, element), ops, meaning)


def repeated(dims: str, other: str, element: str) -> Case:
    """The sum along the last dimension of what is repeated there; `dims` are the sizes alone."""
    ops = (
        "%b = mgx.multibroadcast %x1 : @T1 -> @T0\n"
        f"%y = mgx.reduce_sum %b axes = [{dims.count(',')}] : @T0 -> @R"
    )
    meaning = lambda x, y: np.sum(np.broadcast_to(y, x.shape), -1, keepdims=True)  # noqa: E731
    result = ",".join((*dims.split(",")[:-1], "1"))
    name = f"sum of {other} repeated to {dims}"
    return Case(name, ((dims, element), (other, element)), (result, element), ops, meaning)


def added(dims: str, other: str, element: str) -> Case:
    """relu(x + y), with y broadcast."""
    ops = (
        "%b = mgx.multibroadcast %x1 : @T1 -> @T0\n"
        f"%y = mgx.pointwise(%x0, %b) : (@T0, @T0) -> @R {{\n^bb0(%i: {element}, %j: {element}):\n"
        f"%s = mgx.add %i, %j : {element}, {element} -> {element}\n"
        f"%r = mgx.relu %s : {element}\nmgx.yield %r : {element}\n}}"
    )
    pair = (dims, element)
    return Case(
        f"{dims} + {other} {element}",
        (pair, (other, element)),
        pair,
        ops,
        lambda x, y: np.maximum(x + y, 0),
    )


def transposed(dims: str, order: tuple[int, ...], element: str) -> Case:
    """relu of x, whose dimensions change places, and a number for each last index."""
    result = ",".join(dims.split(",")[d] for d in order)
    ops = (
        f"%t = mgx.transpose %x0 permutation = {list(order)} : @T0 -> @R\n"
        "%b = mgx.multibroadcast %x1 : @T1 -> @R\n"
        f"%y = mgx.pointwise(%t, %b) : (@R, @R) -> @R {{\n^bb0(%i: {element}, %j: {element}):\n"
        f"%s = mgx.add %i, %j : {element}, {element} -> {element}\n"
        f"%r = mgx.relu %s : {element}\nmgx.yield %r : {element}\n}}"
    )
    pairs = ((dims, element), (result.rpartition(",")[2], element))
    meaning = lambda x, y: np.maximum(np.transpose(x, order) + y, 0)  # noqa: E731
    return Case(f"{dims} {element} transposed {order}", pairs, (result, element), ops, meaning)


def pooled(mode: str, dims: str, result: str, element: str) -> Case:
    """Windows of 3 in steps of 2, with padding of 1, and a number that is added to all."""
    ops = (
        f"%p = mgx.pooling {mode} %x0 lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] "
        "dilations = [1, 1] : @T0 -> @R\n%b = mgx.multibroadcast %x1 : @T1 -> @R\n"
        f"%y = mgx.pointwise(%p, %b) : (@R, @R) -> @R {{\n^bb0(%i: {element}, %j: {element}):\n"
        f"%s = mgx.add %i, %j : {element}, {element} -> {element}\nmgx.yield %s : {element}\n}}"
    )

    def meaning(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        fill, (high, wide) = (-np.inf if mode == "max" else 0), x.shape[2:]
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=fill)
        inside = np.pad(np.ones(x.shape), [(0, 0), (0, 0), (1, 1), (1, 1)])
        taps = [
            (..., slice(i, i + high, 2), slice(j, j + wide, 2)) for i in range(3) for j in range(3)
        ]
        if mode == "max":
            return np.max([padded[tap] for tap in taps], 0) + y
        return sum(padded[tap] for tap in taps) / sum(inside[tap] for tap in taps) + y

    pairs = ((dims, element), (f"{dims.split(',')[1]},1,1", element))
    return Case(f"{mode} pooling of {dims} {element}", pairs, (result, element), ops, meaning)


def resized(mode: str, dims: str, result: str, scales: str, element: str, **given: str) -> Case:
    """x, resized by `scales`, those that only a run knows as 'inf'."""
    known = "".join(f", {name} = #mgx<{name} {value}>" for name, value in given.items())
    numbers = scales.replace("inf", "0x7FF0000000000000")
    ops = (
        f"%y = mgx.resize %x0 scales = [{numbers}] {{mode = #mgx<resize_mode {mode}>{known}}} : "
        "@T0 -> @R"
    )

    def meaning(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        found = movement_kernels.resize(x.shape, shape, element, mode, **given)
        return found.meaning(x)[0]

    text = f"{mode} {dims} as {result} {element} {' '.join(given.values())}"
    return Case(text, ((dims, element),), (result, element), ops, meaning, shaped=True)


def normalized(dims: str, size: int, element: str) -> Case:
    """Local response normalization over channels."""
    ops = (
        f"%y = mgx.lrn %x0 size = {size} "
        "{alpha = 0.1 : f32, beta = 0.75 : f32, bias = 1.5 : f32} : @T0"
    )
    pair = (dims, element)

    def meaning(x: np.ndarray) -> np.ndarray:
        return element_kernels.lrn(x.shape, size, 0.75, element).meaning(x)[0]

    return Case(f"lrn of {size} of {dims} {element}", (pair,), pair, ops, meaning)


def below_maximum(dims: str, other: str) -> Case:
    """x + y less its maximum in the row, with rows of y that other dimensions repeat."""
    one, axis = tensor(dims.rpartition(",")[0] + ",1", "f32"), dims.count(",")
    ops = (
        f"%p = mgx.multibroadcast %x1 : @T1 -> @T0\n"
        f"%y = mgx.fused_reduce(%x0, %p) axes = [{axis}] : (@T0, @T0) -> @R {{\n"
        f"^bb0(%a: @T0, %q: @T0):\n%s = mgx.add %a, %q : @T0, @T0 -> @T0\n"
        f"%m = mgx.reduce_max %s axes = [{axis}] : @T0 -> {one}\n"
        f"%b = mgx.multibroadcast %m : {one} -> @T0\n"
        f"%d = mgx.sub %s, %b : @T0, @T0 -> @R\nmgx.yield %d : @R\n}}"
    )

    def meaning(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = x + y
        return s - s.max(-1, keepdims=True)

    pairs = ((dims, "f32"), (other, "f32"))
    return Case(f"rows of {dims} + {other}", pairs, pairs[0], ops, meaning)


def joined(dims: str, other: str, result: str, axis: int, element: str) -> Case:
    """x, y and x, one after another."""
    ops = f"%y = mgx.concat %x0, %x1, %x0 axis = {axis} : @T0, @T1, @T0 -> @R"
    pairs = ((dims, element), (other, element))
    meaning = lambda x, y: np.concatenate([x, y, x], axis)  # noqa: E731
    return Case(f"{dims} beside {other} {element}", pairs, (result, element), ops, meaning)


def chosen_channels(dims: str, indices: str, result: str, element: str) -> Case:
    """Channels of an image that is stored with channels last, and loses two lines."""
    n, high, wide, channels = dims.split(",")
    seen = f"{n},{channels},{high},{wide}"
    ops = (
        "%t = mgx.transpose %x0 permutation = [0, 3, 1, 2] : @T0 -> @S\n"
        "%y = mgx.gather %t[%x1] axis = 1 : @S, @T1 -> @R"
    ).replace("@S", tensor(seen, element))
    pairs = ((dims, element), (indices, "i64"))

    def meaning(x: np.ndarray, i: np.ndarray) -> np.ndarray:
        return np.take(np.transpose(x, (0, 3, 1, 2)), i.astype(np.int64), 1)

    name = f"channels {indices} of {dims} {element}"
    return Case(name, pairs, (result, element), ops, meaning, 3)


def chosen(dims: str, indices: str, result: str, axis: int, element: str) -> Case:
    """Slices of x; negative indices count from the end."""
    ops = f"%y = mgx.gather %x0[%x1] axis = {axis} : @T0, @T1 -> @R"
    pairs = ((dims, element), (indices, "i64"))
    meaning = lambda x, i: np.take(x, i.astype(np.int64), axis)  # noqa: E731
    return Case(
        f"slices {indices} of {dims} {element}", pairs, (result, element), ops, meaning, axis
    )


def padded(dims: str, result: str, low: str, high: str, element: str) -> Case:
    """x with 2 around it."""
    ops = f"%y = mgx.pad %x0 low = [{low}] high = [{high}] {{value = 2.0 : f64}} : @T0 -> @R"
    widths = [(int(a), int(b)) for a, b in zip(low.split(","), high.split(","), strict=True)]
    meaning = lambda x: np.pad(x, widths, constant_values=2)  # noqa: E731
    pair = ((dims, element),)
    return Case(f"padded {dims} {element}", pair, (result, element), ops, meaning)


def begun(dims: str, begin: str, result: str, op: str, meaning: Callable[..., np.ndarray]) -> Case:
    """The first element along the last dimension: its size is given, its strides are not."""
    last = dims.count(",")
    ops = f"%t = mgx.slice %x0 axes = [{last}] starts = [0] ends = [1] : @T0 -> @S\n{op}"
    if not op:
        ops = ops.replace("%t", "%y")
    ops = ops.replace("@S", tensor(begin, "f32"))
    of_first = lambda x: meaning(x[..., :1])  # noqa: E731
    name = f"begin of {dims}, {op.partition(' ')[2] or 'moved'}"
    return Case(name, ((dims, "f32"),), (result, "f32"), ops, of_first)


def multiplied(dims: str, other: str, result: str, element: str, turned: str = "") -> Case:
    """x times y; `turned`: y is stored with its last dimensions exchanged, which are these."""
    rank = dims.count(",")
    order = [*range(rank - 1), rank, rank - 1]
    stored = other if not turned else ",".join([*other.split(",")[:-2], *turned.split(",")])
    ops = f"%y = mgx.dot %x0, {'%b' if turned else '%x1'} : @T0, @B -> @R"
    if turned:
        ops = f"%b = mgx.transpose %x1 permutation = {order} : @T1 -> @B\n{ops}"
    ops = ops.replace("@B", tensor(other, element))

    def meaning(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x @ (np.swapaxes(y, -1, -2) if turned else y)

    pairs = ((dims, element), (stored, element))
    return Case(f"{dims} times {other} {element}", pairs, (result, element), ops, meaning)


CASES = (
    below_maximum("a,b,40", "b,40"),
    below_maximum("a,5,b,37", "5,b,1"),
    below_maximum("a,12,20", "12,1"),
    below_maximum("a,6,b,40", "a,6,1,40"),
    softmax("a,b,40", "f16"),
    softmax("a,37", "f32"),
    softmax("a,1100", "f16"),
    added("a,b,64", "64", "f16"),
    added("a,b,30", "30", "f32"),
    added("a,5", "a,1", "f16"),
    added("a,b", "a,b", "f32"),
    added("a,4096", "1", "f16"),
)
# Vectors divide both of the sizes that change places, one, or none.
TRANSPOSED = (
    transposed("a,b", (1, 0), "f32"),
    transposed("a,b", (1, 0), "f16"),
    transposed("2,a,3,b", (0, 3, 2, 1), "f16"),
    transposed("a,b,24", (0, 2, 1), "f16"),
    transposed("a,24,b", (0, 2, 1), "f32"),
    transposed("a,b,3,8", (0, 2, 1, 3), "f16"),
)
# Rows of any length, and rows that other dimensions repeat.
OPEN = (
    repeated("a,b", "a,1", "f32"),
    repeated("a,b", "1", "f32"),
    softmax("3,a", "f32"),
    below_maximum("2,b,a", "b,1"),
    mean("2,a,b", "2,1,1", [1, 2], "f16"),
)
# The same of any number of rows.
ROWS = (
    softmax("a,3,b", "f16"),
    below_maximum("a,3,b", "b"),
    below_maximum("a,5,b", "a,1,b"),
)
# Rows that lie across memory.
ACROSS = (
    softmax("a,b", "f16", 0),
    softmax("b,a", "f32", 0),
    softmax("2,a,b", "f16", 1),
    softmax("a,5,b", "f32", 1),
    softmax("b,a,24", "f16", 1),
    mean("2,a,b", "2,1,b", [1], "f16"),
    mean("a,b", "1,b", [0], "f32"),
)
MOVES = (
    joined("a,b,8", "a,3,8", "a,2*b+3,8", 1, "f16"),
    joined("a,b", "a,1", "a,2*b+1", 1, "f32"),
    joined("a,b", "b,b", "2*a+b,b", 0, "f16"),
    chosen("37,24", "a,b", "a,b,24", 0, "f16"),
    chosen("b,a", "5", "5,a", 0, "f32"),
    chosen("a,b,3", "2,a", "a,2,a,3", 1, "f32"),
    chosen_channels("2,a+b-1,6,24", "3", "2,3,a+b-1,6", "f32"),
    padded("a,b,4", "a,b+3,4", "0,1,0", "0,2,0", "f16"),
    padded("a,b", "a+1,b+2", "1,0", "0,2", "f32"),
    begun("a", "1", "1", "", np.copy),
    begun(
        "4,a",
        "4,1",
        "8,1",
        "%y = mgx.resize %t scales = [2.0, 1.0] {mode = #mgx<resize_mode nearest>, "
        "coordinate_mode = #mgx<coordinate_mode asymmetric>, "
        "nearest_mode = #mgx<nearest_mode floor>} : @S -> @R",
        lambda x: np.repeat(x, 2, 0),
    ),
)
# Vectors divide the last size of a run, or not.
IMAGES = (
    pooled("max", "2,3,a,b", "2,3,(a+1)//2,(b+1)//2", "f16"),
    pooled("average", "a,5,b,b", "a,5,(b+1)//2,(b+1)//2", "f32"),
    normalized("2,16,a,b", 5, "f16"),
    normalized("a,6,b", 4, "f32"),
    resized("linear", "2,3,a,b", "2,3,2*a,2*b", "1.0, 1.0, 2.0, 2.0", "f16"),
    resized("linear", "2,3,a,b", "2,3,3*a,3*b", "1.0, 1.0, 3.0, 3.0", "f32"),
    resized("nearest", "2,a,b,8", "2,2*a,4*b,8", "1.0, 2.0, 4.0, 1.0", "f16"),
    resized("linear", "2,3,a,b", "2,3,5,7", "1.0, 1.0, inf, inf", "f32"),
    resized("nearest", "2,3,a,b", "2,3,b,a+3", "1.0, 1.0, inf, inf", "f32", nearest_mode="floor"),
    resized(
        "cubic", "2,3,a,b", "2,3,4*a,4*b", "1.0, 1.0, 4.0, 4.0", "f32", coordinate_mode="asymmetric"
    ),
    resized(
        "linear",
        "a,3,b,7",
        "a,3,2*b+1,5",
        "1.0, 1.0, inf, inf",
        "f32",
        coordinate_mode="align_corners",
    ),
)
PRODUCTS = (
    multiplied("a,b,64", "a,64,b", "a,b,b", "f16", "b,64"),
    multiplied("a,5,b", "a,b,40", "a,5,40", "f16"),
    multiplied("b,a", "a,24", "b,24", "f32"),
    multiplied("a,64", "64,b", "a,b", "f16"),
    multiplied("2,b,a", "2,a,b", "2,b,b", "f32"),
    multiplied("2,3,b,a", "2,3,a,33", "2,3,b,33", "f16", "33,a"),
    # One row of each of several matrices, whose elements vectors do not divide.
    multiplied("3,b,a", "3,a,40", "3,b,40", "f16", "40,a"),
    multiplied("3,b,a", "3,a,40", "3,b,40", "f16"),
)
SIZES = ((1, 1), (7, 3), (1, 67), (131, 2))
# Lengths of rows that vectors divide and that they do not, which threads keep in registers and
# which they do not: both sides of the ends of regimes.
LENGTHS = ((2, 300), (1500, 1), (9000, 1), (3, 256), (264, 5), (1024, 3), (1032, 1), (4104, 1))
# Many short rows, and few long ones.
COUNTS = ((2, 300), (1500, 1), (3, 256), (264, 5), (3, 1032), (1, 4104))

HEIGHTS = ((33, 40), (300, 8), (20, 131), (2, 512))
WIDTHS = ((9, 48), (2, 16), (33, 80), (6, 56))
SIDES = ((64, 40), (24, 131), (257, 8), (129, 67))
MORE = ((OPEN, LENGTHS), (ROWS, COUNTS), (ACROSS, HEIGHTS), (TRANSPOSED, SIDES), (IMAGES, WIDTHS))


def _size(text: str, known: dict[str, int]) -> int:
    """The size that the text of a dimension says."""
    size = evaluate(parse(text), known)
    assert isinstance(size, int)
    return size


def main(chip: str) -> int:
    failed = 0
    rng = np.random.default_rng(0)
    for case in (*CASES, *TRANSPOSED, *OPEN, *ROWS, *ACROSS, *MOVES, *IMAGES, *PRODUCTS):
        words = "any sizes, "
        with context(), ir.Location.unknown():
            module = ir.Module.parse(case.text())
            code = compiler(next(iter(module.body.operations)))(Target.get(chip))
        if words not in code.why:
            failed += 1
            print(f"{case.name} on {chip}: {code.why}")
            continue
        more = next((own for some, own in MORE if case in some), ())
        for a, b in (*SIZES, *more):
            known = {"a": a, "b": b}
            inputs = []
            for dims, element in case.inputs:
                shape = [_size(x, known) for x in dims.split(",")]
                if element == "i64":
                    rows = case.inputs[0][0].split(",")[case.axis]
                    size = _size(rows, known)
                    inputs.append(rng.integers(-size, size, shape))
                else:
                    inputs.append(rng.normal(size=shape).astype(DTYPES[element]))
            shape = tuple(_size(x, known) for x in case.result[0].split(","))
            more = (shape,) if case.shaped else ()
            want = case.meaning(*(x.astype(np.float64) for x in inputs), *more)
            have = np.full(want.shape, 99).astype(DTYPES[case.result[1]])
            text = ",".join(dims for dims, _ in case.inputs)
            used = {name: n for name, n in known.items() if name in text}
            try:
                run(bound_code(code, used), inputs, [have])
            except RuntimeError as error:
                failed += 1
                print(f"{case.name} on {chip}, {known}: {code.why}: {error}")
                continue
            bound = 2e-3 if case.result[1] == "f16" else 1e-5
            wrong = ~(np.abs(have.astype(np.float64) - want) <= bound * (1 + abs(want)))
            if wrong.any():
                failed += 1
                print(f"{case.name} on {chip}, {known}: {code.why}: {wrong.sum()} of {wrong.size}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
