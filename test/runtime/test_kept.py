"""Launches that make something of weights alone run once for each loaded program."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from host_programs import kernel
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ArtifactError
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from test.onnx_models import Builder

A, B, C = (32, 40), (40, 72), (32, 72)


def _product():
    a, b, c = (f"tensor<{m}x{n}xf32>" for m, n in (A, B, C))
    return kernel(
        f"mgx.kernel @p(%a: {a}, %b: {b}) -> {c} "
        f'attributes {{arch = #mgx.arch<"gfxMIGX">}} {{\n'
        f"%c = mgx.dot %a, %b : {a}, {b} -> {c}\nmgx.return %c : {c}\n}}"
    )


def _program(b: np.ndarray | None, code=None) -> Program:
    """a @ b, where b is a weight, or an input of the program."""
    code = code or _product()
    second = Buffer("input", 4 * 40 * 72, index=1)
    if b is not None:
        second = Buffer("weight", 4 * 40 * 72, key="b")
    inputs = [TensorSpec("a", "float32", A), TensorSpec("b", "float32", B)]
    inputs = inputs[: 1 if b is not None else 2]
    buffers = (
        Buffer("input", 4 * 32 * 40, index=0),
        second,
        Buffer("output", 4 * 32 * 72, index=0),
    )
    plan = Plan(tuple(inputs), (TensorSpec("c", "float32", C),), 0, buffers, (Step(0, (0, 1, 2)),))
    return Program(plan, [code], {} if b is None else {"b": b}, 2)


def _arrays(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=A).astype(np.float32), rng.normal(size=B).astype(np.float32)


def test_a_weight_is_packed_before_the_first_run():
    programs = [(_program(_arrays(seed)[1]), _arrays(seed)[1]) for seed in (1, 2)]
    for program, _ in programs:
        assert len(program.launches) == len(_product().launches) - 1 == 1
    for seed in range(3, 7):
        a, _ = _arrays(seed)
        for program, b in programs:
            np.testing.assert_allclose(program.run({"a": a})["c"], a @ b, rtol=1e-4, atol=1e-4)


def test_an_input_is_packed_in_each_run():
    program = _program(None)
    assert len(program.launches) == 2
    for seed in range(3):
        a, b = _arrays(seed)
        found = program.run({"a": a, "b": b})["c"]
        np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_threads_share_a_packed_weight():
    b, wrong = _arrays(0)[1], []
    program = _program(b)

    def work(seed: int) -> None:
        a, _ = _arrays(seed)
        for _ in range(20):
            if not np.allclose(program.run({"a": a})["c"], a @ b, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_refuses_to_keep_more_than_scratch():
    code = _product()
    first, *others = code.launches
    launches = (replace(first, kept=code.scratch_bytes + 1), *others)
    with pytest.raises(ArtifactError, match="keeps more than its scratch"):
        _program(_arrays(0)[1], replace(code, launches=launches))


def _open_model() -> tuple[bytes, np.ndarray, np.ndarray]:
    """x @ v @ w of any number of rows, and v and w."""
    b = Builder()
    y = b.op(
        "Relu", b.op("MatMul", b.op("MatMul", "x", b.weight("v", 40, 48)), b.weight("w", 48, 72))
    )
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 40])
    model = b.model({"x": (TensorProto.FLOAT, [1, 40])}, {"y": (y, [1, 72])}, "sizes")
    model.graph.input[0].CopyFrom(given)
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    v, w = (np.frombuffer(t.raw_data, np.float32).reshape(t.dims) for t in model.graph.initializer)
    return model.SerializeToString(), v, w


def test_any_sizes_share_weights():
    model, v, w = _open_model()
    runs = mgx_mlir.Model(model, target="cpu")
    for rows in (20, 33, 20, 50, 33, 33):
        x = np.random.default_rng(rows).normal(size=(rows, 40)).astype(np.float32)
        want = np.maximum(x @ v @ w, 0)
        np.testing.assert_allclose(runs.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)


def test_programs_for_any_sizes_pack_once():
    model, v, w = _open_model()
    program = mgx_mlir.compile(model, "cpu", CompileOptions(mode="full-dynamic"))
    assert isinstance(program, SizedProgram)
    made = []
    for rows in (1, 3, 4, 7, 31, 70, 1):
        x = np.random.default_rng(rows).normal(size=(rows, 40)).astype(np.float32)
        want = np.maximum(x @ v @ w, 0)
        np.testing.assert_allclose(program.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)
        made.append(program.program({"x": x}).memory_bytes["weights"])
        assert len(program.program({"x": x}).launches) == 2
    # Both weights and what launches made of them, once.
    assert made[0] > v.nbytes + w.nbytes and all(one == made[0] for one in made)
