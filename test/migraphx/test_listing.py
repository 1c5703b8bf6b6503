"""`to_py` prints programs that compute the same, or refuses."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.migraphx import listing

RNG = np.random.default_rng(0)
BITS = {
    "b": RNG.integers(0, 256, (4, 2, 8)).astype(np.uint8),
    "s": RNG.uniform(0.5, 1, (4, 2)).astype(np.float32),
}
MODELS = {
    "cubic": (
        "(float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y)"
        '{ y = Resize<mode = "cubic", cubic_coeff_a = -0.5>(x, , to) }',
        {"to": np.array([1, 1, 2, 2], np.float32)},
    ),
    "antialias": (
        "(float[1, 1, 8, 8] x) => (float[1, 1, 3, 3] y)"
        '{ y = Resize<mode = "linear", antialias = 1>(x, , , to) }',
        {"to": np.array([1, 1, 3, 3])},
    ),
    "outside": (
        "(float[1, 1, 4, 4] x) => (float[1, 1, 8, 8] y)"
        '{ y = Resize<mode = "cubic", exclude_outside = 1>(x, , to) }',
        {"to": np.array([1, 1, 2, 2], np.float32)},
    ),
    "packed weights": (
        "(float[2, 32] x) => (float[2, 4] y)"
        "{ y = com.microsoft.MatMulNBits<K = 32, N = 4, bits = 4, block_size = 16>(x, b, s) }",
        BITS,
    ),
}


def program_of(text, weights):
    opsets = '["": 19, "com.microsoft": 1]'
    made = onnx.parser.parse_model(f"<ir_version: 9, opset_import: {opsets}> g {text}")
    for name, array in weights.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return migraphx.parse_onnx_buffer(made.SerializeToString())


@pytest.mark.parametrize("name", MODELS)
def test_the_printed_program_computes_the_same(name, monkeypatch):
    p = program_of(*MODELS[name])
    monkeypatch.setitem(sys.modules, "migraphx", migraphx)
    names = {}
    exec(p.to_py(), names)
    x = {"x": RNG.normal(size=p.get_parameter_shapes()["x"].lens()).astype(np.float32)}
    found = []
    for each in (p, names["p"]):
        each.compile(migraphx.get_target("ref"))
        found.append(np.array(each.run(x)[0]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ({"cubic_coeff_a": -0.25}, "resize has attributes that resize of this interface lacks"),
        ({"unknown": 1}, "resize has no attribute 'unknown'"),
    ],
)
def test_an_op_that_would_be_built_otherwise_is_refused(lost, says, monkeypatch):
    described = listing.described

    def other(found):
        name, attributes = described(found)
        if found.attributes.get("cubic_coeff_a") is not None and not other.seen:
            other.seen, attributes = True, attributes | lost
        return name, attributes

    other.seen = False
    monkeypatch.setattr(listing, "described", other)
    with pytest.raises(UnsupportedError, match=says):
        program_of(*MODELS["cubic"]).to_py()


def test_printing_leaves_the_program_as_it_is():
    p = program_of(*MODELS["packed weights"])
    before = str(p)
    p.to_py()
    assert str(p) == before


def test_parts_of_the_host_are_not_printed():
    p = program_of("(float[4] x) => (float[n] y) { y = Unique(x) }", {})
    with pytest.raises(UsageError, match="its operators cannot be listed"):
        p.to_py()
