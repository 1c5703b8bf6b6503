"""Element types and constants between numpy and MLIR."""

import ml_dtypes
import numpy as np
import pytest
from mlir import ir

from mgx_mlir.dialects import context, mgx, types


@pytest.fixture(autouse=True)
def _context():
    with context(), ir.Location.unknown():
        yield


@pytest.mark.parametrize("name", sorted(types.DTYPES))
def test_dtype_and_element_type_are_inverse(name):
    element = ir.Type.parse(name)
    assert types.element_type(types.numpy_dtype(element)) == element


def test_numpy_dtype_of_a_tensor_is_that_of_its_elements():
    assert types.numpy_dtype(ir.Type.parse("tensor<2x?xbf16>")) == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["complex64", "U3", "object"])
def test_refuses_a_dtype_that_models_do_not_have(dtype):
    with pytest.raises(ValueError, match="no element type of mgx"):
        types.element_type(dtype)


def test_refuses_an_element_type_without_a_dtype():
    with pytest.raises(ValueError, match="no numpy dtype for index"):
        types.numpy_dtype(ir.IndexType.get())


def test_tensor_type_takes_sizes_names_and_unknown_sizes():
    made = types.tensor_type(["batch", 3, None], types.element_type("float32"))
    assert str(made) == "tensor<?x3x?xf32, #mgx.dims<[batch : 1 ... ?, _, _]>>"
    dims = types.dims_of(made)
    assert dims[0].name == "batch" and dims[1:] == [3, None]


@pytest.mark.parametrize(
    ("text", "size"),
    [("tensor<2x3xf32>", 24), ("tensor<5xi1>", 5), ("tensor<3xi4>", 3), ("tensor<f64>", 8)],
)
def test_byte_size(text, size):
    assert types.byte_size(ir.Type.parse(text)) == size


def test_byte_size_refuses_a_dynamic_shape():
    with pytest.raises(ValueError, match="dynamic"):
        types.byte_size(ir.Type.parse("tensor<?xf32>"))


def _values(dtype: np.dtype) -> np.ndarray:
    """Values that every format of the kind holds."""
    if dtype == np.bool_:
        return np.array([True, False, True, True])
    if dtype == ml_dtypes.float8_e8m0fnu:
        return np.array([1, 2, 4, 0.5]).astype(dtype)
    if dtype.kind == "i" or dtype in (ml_dtypes.int4, ml_dtypes.int2):
        return np.array([-2, -1, 0, 1]).astype(dtype)
    if dtype.kind == "u" or dtype in (ml_dtypes.uint4, ml_dtypes.uint2):
        return np.array([0, 1, 2, 3]).astype(dtype)
    return np.array([0.5, -1.5, 0, 2]).astype(dtype)


@pytest.mark.parametrize("name", sorted(types.DTYPES))
def test_constants_keep_their_elements(name):
    array = _values(types.numpy_dtype(ir.Type.parse(name))).reshape(2, 2)
    with ir.InsertionPoint(ir.Module.create().body):
        made = mgx.constant(array)
        assert str(made.type) == f"tensor<2x2x{name}>"
        back = mgx.constant_array(made)
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
    assert not back.flags.writeable


@pytest.mark.parametrize("name", sorted(types.DTYPES))
def test_splats_hold_one_element(name):
    one = _values(types.numpy_dtype(ir.Type.parse(name)))[0]
    with ir.InsertionPoint(ir.Module.create().body):
        made = mgx.splat(one, ir.Type.parse(f"tensor<100x200x{name}>"))
        back = mgx.constant_array(made)
        assert made.owner.attributes["value"].is_splat
    assert back.shape == (100, 200) and back.strides == (0, 0) and back[3, 5] == one


def test_a_broadcast_array_becomes_a_splat():
    with ir.InsertionPoint(ir.Module.create().body):
        made = mgx.constant(np.broadcast_to(np.float32(3), (4, 5)))
        assert "dense<3.000000e+00> : tensor<4x5xf32>" in str(made)


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [(2, "f32", "2.000000e+00 : f32"), (-1, "i8", "-1 : i8"), (True, "i1", "true"),
     (200, "ui8", "200 : ui8"), (0.5, "bf16", "5.000000e-01 : bf16"),
     (2**64 - 1, "ui64", "18446744073709551615 : ui64")],
)  # fmt: skip
def test_scalar_constants_are_for_bodies(value, name, text):
    with ir.InsertionPoint(ir.Module.create().body):
        made = mgx.constant(value, type=ir.Type.parse(name))
        assert f"mgx.constant {text}" in str(made)
        assert mgx.constant_array(made) == np.asarray(value).astype(types.numpy_dtype(made.type))


def test_constants_convert_to_the_dtype_given():
    with ir.InsertionPoint(ir.Module.create().body):
        assert str(mgx.constant([1, 2], "float16").type) == "tensor<2xf16>"
