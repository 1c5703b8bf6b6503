"""Names of dimensions, through inference."""

import math

import pytest
from mlir import ir

from mgx_mlir.dialects import context, mgx
from mgx_mlir.dialects.types import dims_of, element_type, tensor_type
from mgx_mlir.rewriting import symbolic
from mgx_mlir.sizes.arithmetic import Symbol, bounds


@pytest.fixture(autouse=True)
def _module():
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            yield


def _value(*dims, dtype="float32"):
    return mgx.literal("x", tensor_type(dims, element_type(dtype)))


def _names(value):
    return [d.name if isinstance(d, mgx.DimAttr) else d for d in dims_of(value.type)]


CASES = [
    (lambda: mgx.relu(_value("b", 3)), ["b", 3]),
    (lambda: mgx.add(_value("b", 3), _value(None, 3)), ["b", 3]),
    (lambda: mgx.add(_value(None, 3), _value("b", 3)), ["b", 3]),
    (lambda: mgx.add(_value("b", 3), _value("b", 3)), ["b", 3]),
    (lambda: mgx.add(_value("b", 3), _value(4, 3)), [4, 3]),
    (lambda: mgx.equal(_value("b", 3), _value("b", 3)), ["b", 3]),
    (lambda: mgx.reduce_sum(_value("b", "s"), [1]), ["b", 1]),
    (lambda: mgx.softmax(_value("b", "s"), 1), ["b", "s"]),
    (lambda: mgx.topk(_value("b", "s"), 5)[0], ["b", 5]),
    (lambda: mgx.transpose(_value("b", 3, "s")), ["s", 3, "b"]),
    (lambda: mgx.squeeze(_value("b", 1, "s")), ["b", "s"]),
    (lambda: mgx.unsqueeze(_value("b", "s"), [1]), ["b", 1, "s"]),
    (lambda: mgx.flatten(_value("b", 3, 4), 1), ["b", 12]),
    (lambda: mgx.flatten(_value("b", "s", 4), 2), [None, 4]),
    (lambda: mgx.slice(_value("b", 9), [1], [0], [4]), ["b", 4]),
    (lambda: mgx.slice(_value("b", 9), [0], [2], [4]), [2, 9]),
    (lambda: mgx.step(_value("b", 9), [0, 1], [1, 2]), ["b", 5]),
    (lambda: mgx.pad(_value("b", "s"), [0, 1], [0, 1]), ["b", None]),
    (lambda: mgx.concat([_value("b", 2), _value("b", 3)], 1), ["b", 5]),
    (lambda: mgx.concat([_value("b", 2), _value("c", 2)], 0), [None, 2]),
    (lambda: mgx.gather(_value(9, "h"), _value("b", "s", dtype="int64"), 0), ["b", "s", "h"]),
    (lambda: mgx.dot(_value("b", "s", 4), _value("b", 4, "t")), ["b", "s", "t"]),
    (lambda: mgx.dot(_value("b", 3, "k"), _value("b", "k", 5)), ["b", 3, 5]),
    (lambda: mgx.convolution(_value("b", 3, "h", 8), _value(4, 3, 3, 3), 1), ["b", 4, "h", 8]),
    (lambda: mgx.convolution(_value("b", 3, "h", 8), _value(4, 3, 3, 3)), ["b", 4, None, 6]),
    (lambda: mgx.pooling(_value("b", 3, 8, 8), "max", 2, strides=2), ["b", 3, 4, 4]),
    (lambda: mgx.convert(_value("b", 3), "float16"), ["b", 3]),
]


@pytest.mark.parametrize(("build", "expected"), CASES)
def test_carries_names_through(build, expected):
    assert _names(build()) == expected


def test_a_size_must_lie_within_the_bounds():
    dim = mgx.DimAttr.get("b", 2, 8)
    with pytest.raises(ir.MLIRError, match="operands must have one shape"):
        mgx.add(_value(dim, 3), _value(9, 3))
    assert _names(mgx.add(_value(dim, 3), _value(8, 3))) == [8, 3]


def test_attributes_show_their_parts():
    dim = mgx.DimAttr.get("batch", 1, 64, [1, 8])
    assert (dim.name, dim.min, dim.max, dim.optimals) == ("batch", 1, 64, [1, 8])
    assert mgx.DimAttr.get("batch").max is None
    assert str(dim) == "#mgx.dim<batch : 1 ... 64 {1, 8}>"
    assert ir.Attribute.parse(str(dim)) == dim
    dims = mgx.DimsAttr.get([dim, None])
    assert len(dims) == 2 and dims.dims == [dim, None]
    assert str(dims) == "#mgx.dims<[batch : 1 ... 64 {1, 8}, _]>"
    assert mgx.ArchAttr.get().name == "gfxMIGX"
    assert isinstance(ir.Attribute.parse(str(dims)), mgx.DimsAttr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "must not be empty"),
        (("b", -1), "must not be negative, got -1"),
        (("b", 4, 2), "at least 4, got 2"),
        (("b", 1, 8, [9]), "optimal size 9 is outside its bounds, 1 to 8"),
    ],
)
def test_refuses_impossible_dimensions(arguments, message):
    with pytest.raises(ValueError, match=message):
        mgx.DimAttr.get(*arguments)


def test_sizes_have_the_bounds_that_hold_where_they_are_asked_for():
    f32 = ir.F32Type.get()
    own = mgx.tensor_type([mgx.DimAttr.get("b", 1), 3], f32)

    def most():
        return bounds(symbolic.shape_of(own)[0])[1]

    for limit in (8, 16):
        with symbolic.symbols_of([mgx.tensor_type([mgx.DimAttr.get("b", 1, limit)], f32)]):
            assert most() == most() == limit
            with symbolic.multiples([Symbol("b", 1, limit)], 4):
                assert str(symbolic.shape_of(own)[0]) == "4*((b)//4)"
    assert most() == math.inf
