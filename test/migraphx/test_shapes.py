"""Shapes and arguments of MIGraphX's interface."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError


def test_a_shape_is_row_major_without_strides():
    s = migraphx.shape(type="half", lens=[2, 3, 4])
    assert (s.lens(), s.strides(), s.ndim(), s.elements()) == ([2, 3, 4], [12, 4, 1], 3, 24)
    assert (s.type_string(), s.type_size(), s.bytes()) == ("half_type", 2, 48)
    assert s.type() == migraphx.shape.type_t.half_type
    assert s.standard() and s.packed() and not s.transposed() and not s.broadcasted()


@pytest.mark.parametrize("name", ["float", "float_type"])
def test_a_type_has_a_short_and_a_long_name(name):
    assert migraphx.shape(type=name, lens=[1]) == migraphx.shape(type="float_type", lens=[1])


def test_a_permutation_gives_the_order_in_memory():
    s = migraphx.shape(lens=[2, 3, 4], permutation=[0, 2, 1])
    assert s.strides() == [12, 1, 3]
    assert s.transposed() and s.packed() and not s.standard()


def test_strides_of_zero_are_a_broadcast():
    s = migraphx.shape(lens=[2, 3], strides=[0, 1])
    assert s.broadcasted() and not s.packed() and not s.scalar() and s.bytes() == 12
    assert migraphx.shape(type="bool", lens=[1], strides=[0]).scalar()


def test_dimensions_with_bounds_make_a_dynamic_shape():
    dim = migraphx.shape.dynamic_dimension(1, 4, {2, 4})
    s = migraphx.shape(type="float", dyn_dims=[dim, migraphx.shape.dynamic_dimension(4, 4)])
    assert s.dynamic() and s.dyn_dims()[0] == dim and s.dyn_dims()[1].is_fixed()
    assert repr(s) == "dynamic, float_type, {[1, 4, {2, 4}], [4, 4]}"


def test_a_formula_gives_a_dimension_its_bounds():
    DIM = migraphx.shape.dynamic_dimension
    made = DIM("n * 3 + 1", {"n": DIM(1, 8)})
    assert (made.min, made.max, made.name, made.is_symbolic()) == (4, 25, "3*n+1", True)
    alone = DIM("n", {"n": DIM(1, 4, {2, 4})})
    assert alone == DIM(1, 4, {2, 4}) and alone.is_symbolic()
    assert not DIM(1, 4).is_symbolic() and not DIM("n", {"n": DIM(3, 3)}).is_symbolic()
    for text, known, says in (
        ("n +", {"n": DIM(1, 2)}, "'n \\+' is not a size"),
        ("n + k", {"n": DIM(1, 2)}, "without bounds: k"),
        ("n", 3, "cannot go from n to 3"),
    ):
        with pytest.raises(UsageError, match=says):
            DIM(text, known)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"type": "complex"}, "'complex' is no element type"),
        ({"lens": [2, 3], "strides": [1]}, "2 sizes have 1 strides"),
        ({"lens": [-1]}, "sizes are from 0"),
        ({"lens": [1 << 63]}, "sizes are from 0"),
        ({"lens": [2, 3], "permutation": [0, 0]}, "no permutation"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(arguments, said):
    with pytest.raises(UsageError, match=said):
        migraphx.shape(**arguments)


def test_memory_has_an_address():
    with pytest.raises(UsageError, match="no memory at 0"):
        migraphx.argument_from_pointer(migraphx.shape(lens=[2]), 0)


def test_numpy_and_arguments_share_memory_both_ways():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    a = migraphx.argument(array)
    assert a.data_ptr() == array.ctypes.data
    assert a.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.array_equal(np.array(a), array)
    assert migraphx.argument(array.T).get_shape().strides() == [1, 3]


def test_arguments_are_made_by_shape():
    s = migraphx.shape(type="int32", lens=[2, 2])
    assert migraphx.fill_argument(s, 3).tolist() == [3] * 4
    assert migraphx.create_argument(s, [1, 2, 3, 4]).tolist() == [1, 2, 3, 4]
    assert migraphx.generate_argument(s, 1) == migraphx.generate_argument(s, 1)
    assert migraphx.generate_argument(s, 1) != migraphx.generate_argument(s, 2)
    with pytest.raises(UsageError, match="has 4 elements, and 3 are given"):
        migraphx.create_argument(s, [1, 2, 3])


def test_numbers_of_another_byte_order_are_converted():
    a = migraphx.argument(np.array([1, 2], ">f4"))
    assert a.get_shape().type_string() == "float_type" and a.tolist() == [1, 2]


def test_arguments_have_sizes():
    s = migraphx.shape(dyn_dims=[migraphx.dynamic_dimension(1, 4)])
    for act in (
        lambda: migraphx.generate_argument(s),
        lambda: migraphx.fill_argument(s, 1),
        lambda: migraphx.create_argument(s, [1]),
        lambda: migraphx.allocate_gpu(s, host=True),
    ):
        with pytest.raises(UsageError, match="open sizes"):
            act()


def test_an_argument_keeps_strides():
    s = migraphx.shape(lens=[2, 3], strides=[1, 2])
    a = migraphx.create_argument(s, [1, 2, 3, 4, 5, 6])
    assert a.tolist() == [1, 2, 3, 4, 5, 6]
    raw = (ctypes.c_float * 6).from_address(a.data_ptr())
    assert list(raw) == [1, 4, 2, 5, 3, 6]
    assert migraphx.argument_from_pointer(s, a.data_ptr()) == a


def test_an_argument_goes_to_a_file_and_back(tmp_path):
    a = migraphx.generate_argument(migraphx.shape(lens=[3]))
    a.save(str(tmp_path / "a.npy"))
    assert migraphx.argument.load(str(tmp_path / "a.npy")) == a
    (tmp_path / "b").write_bytes(b"no array")
    with pytest.raises(UsageError, match="or is damaged"):
        migraphx.argument.load(str(tmp_path / "b"))
