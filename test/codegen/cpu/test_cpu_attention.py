"""Attention on the host: blocks of queries over blocks of keys."""

import numpy as np
import pytest
from cpu_kernels import HostKernel, program_of
from mlir import ir

from mgx_mlir.artifact.plan import TensorSpec
from mgx_mlir.artifact.target import Target, executable_levels
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.dialects import context
from test.codegen.attention_kernels import AttentionCase
from test.codegen.bound_code import bound_code
from test.codegen.open_attention import CASES as OPEN
from test.codegen.open_attention import DTYPES, SIZES, Case

CASES = (
    AttentionCase(3, 5, 7, 8, element="f32"),
    AttentionCase(2, 33, 70, 24, 40, "f32", mask="padding"),
    AttentionCase(2, 17, 19, 16, element="f64", mask="where"),
    AttentionCase(4, 20, 20, 16, element="f32", causal=0),
    AttentionCase(4, 3, 40, 32, element="f16", causal=37, group=2),
    AttentionCase(2, 18, 18, 16, element="bf16", mask="bias"),
    AttentionCase(3, 40, 40, 16, element="f32", packed=True),
    AttentionCase(2, 1, 100, 16, element="f32"),
    AttentionCase(2, 1, 19, 16, element="f32", causal=3),
    AttentionCase(2, 1, 19, 16, element="f32", causal=11, earliest=2),
    AttentionCase(2, 18, 19, 16, element="f32", mask="safe"),
    AttentionCase(2, 18, 19, 16, element="f32", mask="empty"),
    AttentionCase(2, 40, 43, 16, element="f32", causal=3, earliest=-9),
    AttentionCase(2, 20, 43, 16, element="f32", earliest=5),
    AttentionCase(2, 17, 19, 16, 23, element="f32", mask="padding", tail="added"),
    AttentionCase(2, 5, 19, 16, element="f16", tail="added"),
    AttentionCase(2, 9, 11, 16, element="f32", tail="quantized"),
    AttentionCase(3, 9, 11, 16, element="f32", mask="where", tail="gated"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_attention_equals_that_of_higher_precision(case: AttentionCase) -> None:
    kernel = HostKernel(case.text())
    inputs = case.arrays()
    assert not len(case.wrong(kernel.run(*inputs), case.meaning(*inputs)))
    assert len(kernel.code.launches) == 1


@pytest.mark.parametrize("level", executable_levels(), ids=lambda level: level.name)
@pytest.mark.parametrize("case", [*OPEN, Case("f32", 200, groups=1, mask="b,1,s,t")], ids=str)
def test_attention_of_any_sizes(case: Case, level: Target) -> None:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(case.text())
        code = compile_kernel(next(iter(module.body.operations)), level)
    assert "generic" not in code.why
    for known, arrays in case.runs((*SIZES, (1, 4, 40), (2, 300, 523))):
        want = case.meaning(arrays)
        inputs = [TensorSpec(f"i{n}", x.dtype.name, x.shape) for n, x in enumerate(arrays)]
        outputs = [TensorSpec("y", np.dtype(DTYPES[case.element]).name, want.shape)]
        program = program_of(bound_code(code, known), inputs, outputs, threads=2)
        have = program.run({f"i{n}": x for n, x in enumerate(arrays)})["y"]
        assert not case.wrong(have, want), known


def test_queries_without_scores_are_zero_on_the_generic_path_too() -> None:
    case = AttentionCase(1, 7, 5, 8, element="f32", mask="safe")
    type_ = "tensor<1x7x8xf32>"
    add = f"%z = mgx.add %x0, %o : {type_}, {type_} -> {type_}"
    zero = f"%o = mgx.constant dense<0.0> : {type_}"
    text = case.text().replace("%m = mgx", f"{zero}\n{add}\n%m = mgx", 1)
    kernel = HostKernel(text.replace("attention(%x0", "attention(%z"))
    inputs = case.arrays()
    (got,) = kernel.run(*inputs)
    assert not len(case.wrong([got], case.meaning(*inputs)))
    assert not got[:, ::3].any()


@pytest.mark.parametrize("tail", ["", "added", "gated"])
def test_the_generic_path_means_the_same(tail: str) -> None:
    # An input that no view of fixed strides reaches: the sum of two.
    text = AttentionCase(2, 5, 7, 8, element="f32", tail=tail).text()
    type_ = "tensor<2x5x8xf32>"
    text = text.replace(
        "%y = mgx", f"%twice = mgx.add %x0, %x0 : {type_}, {type_} -> {type_}\n%y = mgx"
    )
    HostKernel(text.replace("attention(%x0", "attention(%twice")).check()
