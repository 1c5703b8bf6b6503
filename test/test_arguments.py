"""Wrong calls of the package are the caller's errors, and name the argument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import importer
from mgx_mlir.arguments import wrong_argument
from mgx_mlir.errors import CompilerError, Edge, UsageError

MODEL = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
)
X = {"x": np.zeros(2, np.float32)}


@pytest.fixture(scope="module")
def program():
    return mgx_mlir.compile(MODEL)


@pytest.fixture(scope="module")
def artifact():
    return mgx_mlir.compile_to_bytecode(MODEL)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mgx_mlir.load("x.mgx", "gfx942"), "takes 1 positional argument but 2"),
        (lambda: mgx_mlir.load(), "missing 1 required positional argument: 'path'"),
        (lambda: mgx_mlir.finalize("x.mgx"), "'arch'"),
        (lambda: mgx_mlir.parse_onnx(MODEL, foo=1), "unexpected keyword argument 'foo'"),
        (lambda: importer.check_model(MODEL, foo=1), "unexpected keyword argument 'foo'"),
        (lambda: mgx_mlir.quantize(MODEL), "'precision'"),
        (lambda: mgx_mlir.Model(), "'model'"),
        (lambda: mgx_mlir.Target.get(3), "by a str such as 'cpu', not by 3"),
    ],
)
def test_arguments_that_are_no_parameters_are_type_errors(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize("given", [{}, {"inputs": X, "outputz": 1}])
def test_a_run_of_wrong_arguments_is_a_type_error(program, given):
    with pytest.raises(TypeError, match=r"Program\.run\(\)"):
        program.run(**given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mgx_mlir.load(None), "path is None, of type NoneType; it takes str"),
        (lambda: mgx_mlir.parse_onnx(MODEL, dim_params=["n"]), r"dim_params is \['n'\]"),
        (lambda: mgx_mlir.parse_onnx(MODEL, input_dims={"x": 3}), "input_dims is"),
        (lambda: mgx_mlir.compile(MODEL, None), "target is None"),
        (lambda: mgx_mlir.compile(MODEL, "cpu", "fast"), "options is 'fast', of type str"),
        (lambda: mgx_mlir.compile(MODEL, settings=3), "settings is 3"),
        (lambda: mgx_mlir.compile(MODEL, progress=3), "progress is 3"),
        (lambda: mgx_mlir.compile(MODEL, exact="no"), "exact is 'no'"),
        (lambda: mgx_mlir.CompileOptions(mode=None), "mode is None"),
        (lambda: mgx_mlir.CompileOptions(mode="fats"), "no mode 'fats'; did you mean fast"),
        (lambda: mgx_mlir.CompileOptions(dim_params={"n": True}), "dim_params is"),
        (lambda: mgx_mlir.CompileOptions(dim_params={"n": "5"}), "dim_params is"),
        (lambda: mgx_mlir.CompileOptions(dim_params={"n": 2.5}), "dim_params is"),
        (lambda: mgx_mlir.quantize(MODEL, "int8"), "precision is 'int8'"),
        (lambda: mgx_mlir.Artifact.from_bytes("a"), "data is 'a', of type str; it takes bytes"),
    ],
)
def test_an_argument_of_another_type_is_named(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def test_targets_of_other_types_are_named(artifact):
    with pytest.raises(UsageError, match=r"arch is \[None\]"):
        mgx_mlir.finalize(artifact, [None])
    with pytest.raises(UsageError, match="path is of type Artifact"):
        mgx_mlir.load(artifact)


def test_a_fault_with_sound_arguments_stays_one_of_the_compiler():
    @Edge("the work")
    def work(sizes: Mapping[str, Sequence[int | None]]) -> None:
        sizes["x"].gone  # noqa: B018

    with pytest.raises(CompilerError, match="this is a fault of mgx-mlir"):
        work({"x": [np.int64(1), None]})


def test_a_type_error_inside_of_the_work_is_no_wrong_call():
    @Edge("the work")
    def work(x: int) -> int:
        return len(x)

    with pytest.raises(CompilerError, match="has no len"):
        work(3)


def test_annotations_that_cannot_be_read_rule_nothing_out():
    def function(a: Unknown, b: Any, c: Iterator[int], d: float) -> None:  # noqa: F821
        pass

    assert not wrong_argument(function, (1, 2, iter([None]), 3), {})
    assert "d is 'x'" in wrong_argument(function, (1, 2, iter([]), "x"), {})
