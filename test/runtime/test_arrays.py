"""The door for arrays: other libraries' tensors, layouts, byte orders, lists; what is refused."""

from __future__ import annotations

import array
import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.errors import UsageError
from mgx_mlir.models.specialize import SpecializedModel
from mgx_mlir.quantization import samples
from mgx_mlir.runtime.arrays import host_array, host_output
from mgx_mlir.runtime.dlpack import export_capsule, import_tensor

F32 = np.dtype(np.float32)


class Tensor:
    """A tensor of another library, as torch's are: numpy gets none that has a gradient."""

    def __init__(self, values: np.ndarray, requires_grad: bool = False, device: int = 1) -> None:
        self.values, self.requires_grad, self.device = values, requires_grad, device
        self.shape, self.dtype = values.shape, f"lib.{values.dtype.name}"

    def detach(self) -> Tensor:
        return Tensor(self.values)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device < 0:
            raise ValueError("Unknown device type meta for Dlpack")
        return (self.device, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.values.dtype == ml_dtypes.bfloat16:
            shape, address = self.values.shape, self.values.ctypes.data
            return export_capsule(address, (1, 0), "bfloat16", shape, self)
        return self.values.__dlpack__(**options)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class Sparse(Tensor):
    """One that DLPack does not have."""

    def __dlpack__(self, **options: Any) -> Any:
        raise RuntimeError("layout Sparse is not supported")


class Old(Tensor):
    """One of a library that knows no versions."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.values.__dlpack__()


class Interface:
    def __init__(self, values: np.ndarray) -> None:
        self.__array_interface__ = values.__array_interface__
        self.values = values


class Converted:
    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return np.arange(4, dtype=np.float32)


def model() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def runs() -> dict[str, Callable[[Any], Any]]:
    """All that takes arrays of callers."""
    given = mgx_mlir.compile(model(), input_dims={"x": [4]})
    for_any = mgx_mlir.compile(model(), mode="full-dynamic")
    whole, specialized = mgx_mlir.Model(model()), SpecializedModel(model())
    return {
        "program": lambda x: given.run({"x": x})["y"],
        "any sizes": lambda x: for_any.run({"x": x})["y"],
        "model": lambda x: whole.run({"x": x})["y"],
        "specialized": lambda x: specialized.run({"x": x})["y"],
    }


WANT = np.arange(4, dtype=np.float32)
WIDE = np.arange(8, dtype=np.float32).reshape(4, 2) / 2
READ_ONLY = WANT.copy()
READ_ONLY.flags.writeable = False
TYPED: dict[str, Any] = {
    "a tensor": Tensor(WANT),
    "a tensor with a gradient": Tensor(WANT, requires_grad=True),
    "a tensor of every second element": Tensor(WIDE[:, 0]),
    "a tensor of an old library": Old(WANT),
    "a read-only tensor": Tensor(READ_ONLY),
    "an interface": Interface(WANT),
    "what converts itself": Converted(),
    "a buffer": memoryview(WANT),
    "an array of Python": array.array("f", WANT),
    "big-endian": WANT.astype(">f4"),
    "every second element": WIDE[:, 0],
    "backwards": WANT[::-1].copy()[::-1],
    "a record's field": np.rec.fromarrays([WANT, WANT], names="a,b").a,
    "read-only": READ_ONLY,
    "masked nowhere": np.ma.masked_array(WANT),
}


@pytest.mark.parametrize("given", TYPED.values(), ids=TYPED)
def test_all_arrays_of_the_type_are_taken(given: Any, runs: dict[str, Callable]) -> None:
    for name, run in runs.items():
        np.testing.assert_array_equal(run(given), -WANT, err_msg=name)


@pytest.mark.parametrize("given", [[0, 1, 2, 3], (0.0, 1, 2.0, 3), [np.float32(v) for v in WANT]])
def test_lists_take_the_type_of_the_input(given: Any, runs: dict[str, Callable]) -> None:
    for name in ("program", "any sizes", "model"):
        np.testing.assert_array_equal(runs[name](given), -WANT, err_msg=name)


REFUSED: dict[str, tuple[Any, str]] = {
    "meta": (Tensor(WANT, device=-1), "cannot be taken as an array .*Unknown device type meta"),
    "another device": (Tensor(WANT, device=2), "is on another device .*copy it to the host"),
    "sparse": (Sparse(WANT), "cannot be taken as an array .*layout Sparse"),
    "an object": (object(), "is a object, which is no array; give a numpy array"),
    "masked": (np.ma.masked_array(WANT, [0, 1, 0, 0]), "has masked elements"),
    "a set": ({1.0}, "is a set, which is no array"),
    "dates": (WANT.astype("M8[s]"), "(is float32.*datetime64|has elements of datetime64)"),
    "records": (WANT.astype([("a", "f4")]), r"(is float32.*void32|has elements of \[\('a')"),
}


@pytest.mark.parametrize("given, message", REFUSED.values(), ids=REFUSED)
def test_others_are_refused_by_name(given: Any, message: str, runs: dict[str, Callable]) -> None:
    for run in runs.values():
        with pytest.raises(UsageError, match=f"input 'x'.* {message}|input 'x' {message}"):
            run(given)


def test_lists_that_are_no_arrays_are_refused(runs: dict[str, Callable]) -> None:
    for name in ("program", "any sizes", "model"):
        with pytest.raises(UsageError, match="input 'x'"):
            runs[name]([[1.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    "value, dtype", [([0.5], "int32"), ([300], "uint8"), ([-1], "uint8"), ([2**70], "int64"),
                     ([1], "bool"), (["a"], "float32"), ([None], "float32")],
)  # fmt: skip
def test_lists_keep_their_values(value: list[Any], dtype: str) -> None:
    try:
        found = host_array(value, "x", np.dtype(dtype))
    except UsageError:
        return
    assert found.dtype.kind == "U"  # text, which a program refuses by its type


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int4", "bool", "uint64"])
def test_lists_of_small_numbers_are_of_any_type(dtype: str) -> None:
    wanted = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = [True, False] if dtype == "bool" else [0, 1]
    assert host_array(value, "x", wanted).dtype == wanted
    assert host_array([], "x", wanted).dtype == wanted


def test_bfloat16_and_scalars_pass_dlpack() -> None:
    values = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    found = host_array(Tensor(values), "x")
    assert found.dtype == ml_dtypes.bfloat16 and found.ctypes.data == values.ctypes.data
    np.testing.assert_array_equal(found.astype(F32), values.astype(F32))
    assert host_array(Tensor(np.array(3.0, F32)), "x").shape == ()
    assert host_array(Tensor(np.empty((0, 3), F32)), "x").shape == (0, 3)
    backwards = np.arange(6, dtype=F32).reshape(2, 3)[::-1, ::-1]
    np.testing.assert_array_equal(host_array(Tensor(backwards), "x"), backwards)


@pytest.mark.parametrize("size", ["2", "n"])
def test_an_array_of_one_element_is_a_scalar(size: str) -> None:
    """Callers hand rates and lengths over so, which onnxruntime takes."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[{size}] x, float s) => '
        f"(float[{size}] y) {{ y = Mul(x, s) }}"
    )
    x, wrong = np.ones(2, F32), np.ones(2, F32)
    runs = [mgx_mlir.Model(model).run]
    if size == "2":
        runs.append(mgx_mlir.compile(model, "cpu").run)
    for run in runs:
        np.testing.assert_array_equal(run({"x": x, "s": np.array([3], F32)})["y"], 3 * x)
        with pytest.raises(UsageError, match="'s' is float32"):
            run({"x": x, "s": wrong})


def test_an_array_keeps_its_tensor_alive() -> None:
    values = np.arange(4, dtype=F32)
    kept = weakref.ref(values)
    found = import_tensor(values).numpy()
    del values
    gc.collect()
    assert kept() is not None
    np.testing.assert_array_equal(found, WANT)
    del found
    gc.collect()
    assert kept() is None


WRITTEN: dict[str, Callable[[np.ndarray], Any]] = {
    "an array": lambda a: a,
    "a tensor": Tensor,
    "a buffer": memoryview,
    "an interface": Interface,
    "a subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("form", WRITTEN.values(), ids=WRITTEN)
def test_results_are_written_in_place(form: Callable[[np.ndarray], Any]) -> None:
    program = mgx_mlir.compile(model(), input_dims={"x": [4]})
    own = np.zeros(4, F32)
    given = form(own)
    assert program.run({"x": WANT}, {"y": given})["y"] is given
    np.testing.assert_array_equal(own, -WANT)


@pytest.mark.parametrize(
    "given, message",
    [
        (Tensor(np.zeros(4, F32), requires_grad=True), "requires_grad"),
        (Tensor(np.zeros(4, F32), device=2), "another device"),
        (Tensor(np.zeros((4, 2), F32)[:, 0]), "not contiguous"),
        (Tensor(READ_ONLY), "not contiguous, aligned and writeable"),
        (Tensor(np.zeros(4)), "got float64"),
        (Tensor(np.zeros(5, F32)), r"got float32\[5\]"),
        (Converted(), "written into a Converted"),
        ([0.0] * 4, "written into a list"),
        (bytes(16), "output 'y'"),
        (np.zeros(4, ">f4"), "byte order"),
        (READ_ONLY, "writeable"),
    ],
)
def test_results_go_to_memory_of_their_form(given: Any, message: str) -> None:
    program = mgx_mlir.compile(model(), input_dims={"x": [4]})
    with pytest.raises(UsageError, match=f"output 'y'.*{message}|{message}"):
        program.run({"x": WANT}, {"y": given})


def test_an_output_shares_the_memory_of_what_is_given() -> None:
    own = np.zeros(4, F32)
    for form in WRITTEN.values():
        assert np.shares_memory(host_output(form(own), "y"), own)


def test_samples_are_tensors_too() -> None:
    types = mgx_mlir.Model(model()).input_types
    (found,) = samples.read([{"x": Tensor(WANT, requires_grad=True)}], types)
    np.testing.assert_array_equal(found["x"], WANT)
    with pytest.raises(UsageError, match=r"sample 0 of .*'x'.* cannot be taken as an array"):
        list(samples.read([{"x": Tensor(WANT, device=-1)}], types))


def test_torch_tensors_are_taken(runs: dict[str, Callable]) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    for given in (
        x,
        x.clone().requires_grad_(),
        torch.nn.Parameter(x),
        torch.stack([x, x], 1)[:, 0],
    ):
        for run in runs.values():
            np.testing.assert_array_equal(run(given), -WANT)
    for wrong in (torch.empty(4, device="meta"), x.to_sparse()):
        for run in runs.values():
            with pytest.raises(UsageError, match="input 'x'"):
                run(wrong)
    found = host_array(x.bfloat16(), "x")
    assert found.dtype == ml_dtypes.bfloat16
    program = mgx_mlir.compile(model(), input_dims={"x": [4]})
    y = torch.empty(4)
    assert program.run({"x": x}, {"y": y})["y"] is y and torch.equal(y, -x)
    with pytest.raises(UsageError, match="requires_grad"):
        program.run({"x": x}, {"y": torch.empty(4, requires_grad=True)})
