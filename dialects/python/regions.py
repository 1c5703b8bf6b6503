"""The builders of mgx ops with regions, from Python functions that build the bodies.

    y = mgx.pointwise([x, b], lambda x, b: mgx.relu(mgx.add(x, b)))

A body is called with the block's arguments, and returns the values to yield: one, or a
list. The types of the results follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mlir import ir

from mgx_mlir._native import _mgx_ops_gen as gen
from mgx_mlir._native._mgx import ArchAttr
from mgx_mlir.dialects.types import dims_of, scalar_type, tensor_type

Values: TypeAlias = "ir.Value | Sequence[ir.Value]"
Body: TypeAlias = "Callable[..., Values]"

_Place: TypeAlias = "ir.Location | None"

# Builds the terminator of a body of its results.
_End: TypeAlias = Callable[[list[ir.Value]], Any]


class _Block:
    """A body that is built before its op: the op's result types are known only then.

    A holder at the insertion point has the body meanwhile, and is erased with the body where
    the context is left without `move_to`. The holder is part of the module from the start: one
    outside would be destroyed by Python's last reference, maybe after the values that it uses.
    """

    def __init__(
        self,
        arguments: Sequence[ir.Type],
        body: Body,
        end: Callable[[list[ir.Value]], Any],
        loc: _Place,
        ip: Any,
    ) -> None:
        location = loc or ir.Location.current
        assert location is not None, "an op is built at a location"
        self.location = location
        # Any op with a region will do; it is never verified.
        self.holder = ir.Operation.create(
            gen.IfOp.OPERATION_NAME, regions=1, loc=self.location, ip=ip
        )
        try:
            locations = [self.location] * len(arguments)
            self.block = self.holder.regions[0].blocks.append(*arguments, arg_locs=locations)
            with ir.InsertionPoint(self.block), self.location:
                made = body(*self.block.arguments)
                self.values = [made] if isinstance(made, ir.Value) else list(made)
                end(self.values)
        except BaseException:
            self.holder.erase()
            raise

    def __enter__(self) -> _Block:
        return self

    def __exit__(self, *_: object) -> None:
        self.holder.erase()

    @property
    def types(self) -> list[ir.Type]:
        return [value.type for value in self.values]

    def move_to(self, region: ir.Region) -> None:
        self.block.append_to(region)


def _results(op: ir.OpView) -> Any:
    results = tuple(op.operation.results)
    return results[0] if len(results) == 1 else results


def pointwise(inputs: Sequence[ir.Value], body: Body, *, loc: _Place = None, ip: Any = None) -> Any:
    """A loop over the elements of tensors of one shape; the body works on scalars."""
    inputs = list(inputs)
    dims = dims_of(inputs[0].type)
    with _Block([scalar_type(x.type) for x in inputs], body, gen.YieldOp, loc, ip) as block:
        types = [tensor_type(dims, element) for element in block.types]
        op = gen.PointwiseOp(types, inputs, loc=loc, ip=ip)
        block.move_to(op.body)
    return _results(op)


def fused_reduce(
    inputs: Sequence[ir.Value],
    axes: Sequence[int],
    body: Body,
    *,
    loc: _Place = None,
    ip: Any = None,
) -> Any:
    """Reductions along `axes` and the work around them; the body works on whole tensors."""
    inputs = list(inputs)
    with _Block([x.type for x in inputs], body, gen.YieldOp, loc, ip) as block:
        op = gen.FusedReduceOp(block.types, inputs, axes, loc=loc, ip=ip)
        block.move_to(op.body)
    return _results(op)


def attention(
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    extras: Sequence[ir.Value],
    body: Body,
    causal: int | None = None,
    nan_as_zero: bool = False,
    earliest: int | None = None,
    empty_as_zero: bool = False,
    *,
    loc: _Place = None,
    ip: Any = None,
) -> Any:
    """softmax(body(q k^T, extras...)) v; the body works on scalars, its score is f32 or f64."""
    extras = list(extras)
    element = scalar_type(q.type)
    score = element if isinstance(element, ir.F64Type) else ir.F32Type.get()
    arguments = [score, *(scalar_type(x.type) for x in extras)]
    type_ = tensor_type([*dims_of(q.type)[:-1], dims_of(v.type)[-1]], element)
    with _Block(arguments, body, gen.YieldOp, loc, ip) as block:
        op = gen.AttentionOp(
            type_, q, k, v, extras, causal=causal, nan_as_zero=nan_as_zero or None,
            earliest=earliest, empty_as_zero=empty_as_zero or None, loc=loc, ip=ip,
        )  # fmt: skip
        block.move_to(op.body)
    return _results(op)


def if_(
    condition: ir.Value,
    then: Callable[[], Values],
    otherwise: Callable[[], Values],
    *,
    loc: _Place = None,
    ip: Any = None,
) -> Any:
    """The values of one body or of the other; their types are those of `then`."""
    with (
        _Block([], then, gen.YieldOp, loc, ip) as first,
        _Block([], otherwise, gen.YieldOp, loc, ip) as second,
    ):
        op = gen.IfOp(first.types, condition, loc=loc, ip=ip)
        first.move_to(op.then_region)
        second.move_to(op.else_region)
    return _results(op)


def loop(
    max_trip_count: ir.Value,
    condition: ir.Value,
    init: Sequence[ir.Value],
    body: Body,
    *,
    loc: _Place = None,
    ip: Any = None,
) -> Any:
    """ONNX Loop: the last carried values, then the scan outputs with a new first dimension.

    The body gets the iteration number, the condition and the carried values; it returns
    the next condition, the next carried values and the scan outputs.
    In a kernel, a scan output whose type states more rows than trips has zeros there.
    """
    init = list(init)
    arguments = [max_trip_count.type, condition.type, *(x.type for x in init)]
    with _Block(arguments, body, gen.YieldOp, loc, ip) as block:
        scans = block.types[1 + len(init) :]
        types = [x.type for x in init]
        types += [
            tensor_type([None, *dims_of(t)], ir.RankedTensorType(t).element_type) for t in scans
        ]
        op = gen.LoopOp(types, max_trip_count, condition, init, loc=loc, ip=ip)
        block.move_to(op.body)
    return _results(op)


def kernel(
    name: str,
    inputs: Sequence[ir.Type],
    body: Body,
    *,
    arch: str = "gfxMIGX",
    features: Sequence[str] = (),
    loc: _Place = None,
    ip: Any = None,
) -> gen.KernelOp:
    """The kernel op, whose body is built from tensors of the types in `inputs`."""
    with _Block(inputs, body, gen.ReturnOp, loc, ip) as block:
        op = gen.KernelOp(
            name,
            ir.TypeAttr.get(ir.FunctionType.get(list(inputs), block.types)),
            ArchAttr.get(arch),
            features=list(features),
            loc=loc,
            ip=ip,
        )
        block.move_to(op.body)
    return op


def launch(
    kernel: gen.KernelOp, operands: Sequence[ir.Value], *, loc: _Place = None, ip: Any = None
) -> Any:
    """A kernel op applied to tensors."""
    types = ir.FunctionType(kernel.function_type.value).results
    symbol = ir.FlatSymbolRefAttr.get(kernel.sym_name.value)
    return _results(gen.LaunchOp(types, symbol, list(operands), loc=loc, ip=ip))
