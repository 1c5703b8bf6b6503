"""A plan gives its kernels no other memory than they may touch, or nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.fit import check_code
from mgx_mlir.artifact.interface import Interface, Operand
from mgx_mlir.artifact.plan import Buffer, Loop, Plan, Row, Step, TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.range import Range

ROWS = "g (float[n, 24] x) => (float[n, 24] y) { a = Softmax (x) b = CumSum (a, i) y = Add (b, a) }"


def model(text: str) -> Any:
    found = parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    one = parser.parse_graph("c () => () <int64 i = {1}> {}").initializer
    found.graph.initializer.extend(one)
    return found


@pytest.fixture(scope="module")
def given() -> Artifact:
    """Three kernels, with two tensors between them in the arena."""
    return mgx_mlir.compile_to_bytecode(model(ROWS.replace("n,", "6,")))


@pytest.fixture(scope="module")
def symbolic() -> Artifact:
    """The same for any n to 400."""
    options = CompileOptions(mode="full-dynamic", dim_params={"n": Range(1, 400)})
    return mgx_mlir.compile_to_bytecode(model(ROWS), options)


def sent(artifact: Artifact, plan: Plan) -> Artifact:
    """The artifact with another plan, as somebody else's file."""
    return Artifact.from_bytes(replace(artifact, plan=plan).to_bytes())


def with_buffers(plan: Plan, change: Callable[[Buffer], Buffer]) -> Plan:
    return replace(plan, buffers=tuple(map(change, plan.buffers)))


def small(plan: Plan, kind: str) -> Plan:
    """The input or the output has one row less, wherever the plan says how large it is."""
    name = f"{kind}s"
    (spec,) = getattr(plan, name)
    plan = replace(plan, **{name: (replace(spec, shape=(5, 24)),)})
    return with_buffers(plan, lambda b: replace(b, bytes=480) if b.kind == kind else b)


def with_arguments(plan: Plan, step: int, *arguments: int) -> Plan:
    steps = list(plan.steps)
    steps[step] = replace(steps[step], arguments=arguments)
    return replace(plan, steps=tuple(steps))


def test_tensors_smaller_than_their_kernel_are_refused(given: Artifact) -> None:
    mgx_mlir.compile(sent(given, given.plan)).run({"x": np.ones((6, 24), np.float32)})
    for kind, said in (
        ("input", "480 bytes for input 0, which takes 576"),
        ("output", "480 bytes"),
    ):
        with pytest.raises(ArtifactError, match=said):
            mgx_mlir.compile(sent(given, small(given.plan, kind)))


def test_a_tensor_and_its_buffers_have_one_size(given: Artifact) -> None:
    short = replace(given.plan.outputs[0], shape=(4,))
    with pytest.raises(ArtifactError, match="576 bytes of output 'y', which has 16"):
        sent(given, replace(given.plan, outputs=(short,)))


def test_elements_are_as_wide_as_the_kernel_s(given: Artifact) -> None:
    halves = replace(given.plan.inputs[0], dtype="float16", shape=(12, 24))
    with pytest.raises(ArtifactError, match="other elements than float32 for input 0"):
        mgx_mlir.compile(sent(given, replace(given.plan, inputs=(halves,))))


def test_other_arguments_and_places_are_refused(given: Artifact) -> None:
    plan = given.plan
    first, second, third = (step.arguments for step in plan.steps if isinstance(step, Step))
    faults = {
        "has 1 arguments; its kernel reads 1 and writes 1": with_arguments(plan, 0, first[0]),
        "writes output 0 of its kernel over input 0": with_arguments(plan, 1, second[0], second[0]),
        "writes to a buffer of kind 'input'": with_arguments(plan, 2, *third[:-1], first[0]),
        "which is misaligned": with_buffers(
            replace(plan, arena_bytes=1 << 20),
            lambda b: replace(b, offset=b.offset + 8) if b.kind == "arena" else b,
        ),
        "cannot have the memory of input 'x'": replace(plan, in_place=((0, 0),)),
    }
    for fault, changed in faults.items():
        with pytest.raises(ArtifactError, match=fault):
            mgx_mlir.compile(sent(given, changed))


def test_copies_within_one_memory_are_refused() -> None:
    spec = TensorSpec("x", "float32", (8,))
    buffers = (Buffer("arena", 64, offset=0), Buffer("arena", 64, offset=32))
    plan = Plan((spec,), (), 128, buffers, (Step(-1, (0, 1), "copy"),))
    with pytest.raises(ArtifactError, match="copies memory to a part of itself"):
        plan.check()
    numbers = (Buffer("input", 8, index=1), Buffer("input", 1, index=2))
    inputs = (spec, TensorSpec("n", "int64", ()), TensorSpec("go", "bool", ()))
    rows = (Buffer("arena", 16, offset=16), Buffer("arena", 64, offset=0))
    loop = Loop(0, 1, 1, (Row(2, 3, "row"),))
    with pytest.raises(ArtifactError, match="copies memory to a part of itself"):
        Plan(inputs, (), 128, (*numbers, *rows), (loop,)).check()


def test_formulas_that_fit_nowhere_are_refused_when_they_are_read(symbolic: Artifact) -> None:
    mgx_mlir.compile(sent(symbolic, symbolic.plan)).run({"x": np.ones((7, 24), np.float32)})
    program = mgx_mlir.finalize(symbolic, "cpu")
    halves = replace(symbolic.plan, formulas=(*symbolic.plan.formulas, "48*n"))
    changed = with_buffers(
        halves, lambda b: replace(b, bytes=-len(halves.formulas)) if b.kind == "arena" else b
    )
    with pytest.raises(ArtifactError, match="which takes"):
        sent(program, changed)
    with pytest.raises(ArtifactError, match="which takes"):
        mgx_mlir.compile(sent(symbolic, changed))


def test_formulas_that_fit_some_sizes_are_checked_for_those_of_a_run(symbolic: Artifact) -> None:
    plan = replace(symbolic.plan, formulas=(*symbolic.plan.formulas, "96*n-96*max(n-300, 0)"))
    plan = with_buffers(
        plan, lambda b: replace(b, bytes=-len(plan.formulas)) if b.kind == "arena" else b
    )
    program = mgx_mlir.compile(sent(symbolic, plan))
    program.run({"x": np.ones((300, 24), np.float32)})
    with pytest.raises(ArtifactError, match="28800 bytes for output 0, which takes 28896"):
        program.run({"x": np.ones((301, 24), np.float32)})


def test_code_runs_for_the_sizes_alone_that_its_kernel_states(symbolic: Artifact) -> None:
    (dim,) = symbolic.plan.dims
    plan = replace(symbolic.plan, dims=(replace(dim, high=1000),))
    program = mgx_mlir.compile(sent(symbolic, plan))
    program.run({"x": np.ones((400, 24), np.float32)})
    with pytest.raises(ArtifactError, match="is for 'n' from 1 to 400; the plan gives it 401"):
        program.run({"x": np.ones((401, 24), np.float32)})


def test_grids_out_of_range_are_refused(symbolic: Artifact) -> None:
    program = mgx_mlir.finalize(symbolic, "cpu")
    ((target, codes),) = program.code_objects.items()
    formulas = (*codes[0].formulas, "16777216*n")
    launches = tuple(replace(one, grid=(-len(formulas), 1, 1)) for one in codes[0].launches)
    changed = replace(codes[0], formulas=formulas, launches=launches)
    program = program.with_code_objects({target: [changed, *codes[1:]]})
    loaded = mgx_mlir.compile(Artifact.from_bytes(program.to_bytes()), trust_code=True)
    with pytest.raises(
        ArtifactError, match="5033164800 x 1 x 1 work-groups, which is out of range"
    ):
        loaded.run({"x": np.ones((300, 24), np.float32)})


def test_an_output_takes_the_memory_of_inputs_that_the_kernel_lets_it() -> None:
    specs = tuple(TensorSpec(name, "float32", (8,)) for name in ("x", "u"))
    output = TensorSpec("y", "float32", (8,))
    buffers = (*(Buffer("input", 32, index=n) for n in (0, 1)), Buffer("output", 32, index=0))
    operand = Operand("float32", 32)
    code = CodeObject("cpu", b"", (), 0, {})
    over = replace(code, interface=Interface((operand, operand), (replace(operand, over=(1,)),)))
    plan = Plan(specs, (output,), 0, buffers, (Step(0, (0, 1, 2)),))
    check_code(replace(plan, in_place=((0, 1),)), [over])
    for wrong in (
        replace(plan, in_place=((0, 0),)),
        replace(plan, in_place=((0, 1),), steps=plan.steps * 2),  # another step has the input
        replace(plan, in_place=((0, 1),), steps=(Step(0, (1, 1, 2)),)),
    ):
        with pytest.raises(ArtifactError, match="cannot have the memory of input"):
            check_code(wrong, [over])
