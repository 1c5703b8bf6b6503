"""Models that onnxruntime.quantization made: their products are of integers, in fused kernels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from mlir import ir

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.kernel import FAMILIES
from mgx_mlir.codegen.problem.match import match_contraction
from mgx_mlir.codegen.problem.reduced import ReducedProduct
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.portable import read_kernel
from mgx_mlir.rewriting.queries import element_type, ops_inside
from test.dynamic_models import inputs_of
from test.onnx_models import random_inputs
from test.quantized_models import FORMS, MODELS, SMALL, quantized

TARGETS = ("cpu", "gfx1100", "gfx942")
# Products of each model; the last number is those that onnxruntime's dynamic quantizer takes.
COUNTS = {
    "bert": (7, 7), "llama": (10, 8), "mobilenet": (14, 14), "resnet18": (11, 11),
    "resnext": (8, 8),
}  # fmt: skip
QUICK = [
    ("bert", "dynamic_s8"),
    ("llama", "qdq_s8s8"),
    ("mobilenet", "operators_u8u8"),
    ("resnet18", "qdq_s8s8_channel"),
    ("resnext", "qdq_u8s8_channel"),
]
CASES = [
    pytest.param(name, form, marks=() if (name, form) in QUICK else pytest.mark.slow)
    for name in MODELS
    for form in FORMS
]


def generator(kernel: mgx.KernelOp, target: str) -> str:
    """'fused' where a generator of products takes the kernel, else 'generic'."""
    if target == "cpu":
        parts = ReducedProduct.of(kernel)
        return "fused" if match_contraction(parts.product if parts else kernel) else "generic"
    programs = (family.program(kernel, Target.get(target)) for family in FAMILIES)
    return "fused" if any(isinstance(made, Generated) for made in programs) else "generic"


def products(model: onnx.ModelProto) -> Counter[tuple[str, str, str]]:
    """How many products there are by target, element type of the operands, and generator."""
    artifact = compile_to_bytecode(model)
    found: Counter[tuple[str, str, str]] = Counter()
    for step in artifact.plan.steps:
        module, kernel = read_kernel(artifact.kernels[step.kernel].bytecode)
        anchors = ops_inside(kernel, *mgx.DOTS, *mgx.CONVOLUTIONS)
        with module.context, ir.Location.unknown():
            for target in TARGETS if anchors else ():
                path = generator(kernel, target)
                kinds = [str(element_type(value)) for op in anchors for value in op.operands[:1]]
                found.update((target, kind, path) for kind in kinds)
    return found


@pytest.mark.parametrize(("name", "form"), CASES)
def test_products_are_of_integers_and_results_onnxruntimes(name: str, form: str) -> None:
    source = MODELS[name](**SMALL[name])
    model = quantized(source, form)
    found = products(model)
    assert {kind for _, kind, _ in found} <= {"i8", "i32"}, found
    assert {path for _, _, path in found} == {"fused"}, found
    least = min(COUNTS[name])
    # One channel a group and a zero point of the weights: differences, as integers of 32 bits.
    if name == "mobilenet" and ("u8u8" in form or form == "dynamic_u8"):
        least -= 4
    for target in TARGETS:
        assert found[target, "i8", "fused"] >= least, found

    inputs = random_inputs(source, 5)
    (mine,) = list(mgx_mlir.compile(model, target="cpu").run(inputs).values())[:1]
    # Quantized at run time: the last bit of a sum, which differs by CPU, can turn one code of many.
    decibels = 60 if form.startswith("dynamic") else 100
    plain, rewritten = references(model, inputs)
    # Ties round by the order of a product's factors: by a step, where onnxruntime's own ways do.
    least = min(decibels, signal_to_noise(rewritten, plain) - 3)
    assert max(signal_to_noise(mine, theirs) for theirs in (plain, rewritten)) > least


@pytest.mark.every(3)
@pytest.mark.parametrize("target", ["cpu", "gfx1100"])
@pytest.mark.parametrize(("name", "form"), [c for c in CASES if c.values[0] != "llama"])
def test_programs_for_any_sizes_multiply_integers_too(name: str, form: str, target: str) -> None:
    """Any number of images of any height and width, or of sequences."""
    model = quantized(MODELS[name](**SMALL[name]), form)
    sizes = {"batch": 2, "h": 40, "w": 24} if name != "bert" else {"batch": 3}
    places = (0, 2, 3)[: len(sizes)]
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        for place, size in zip(places, sizes, strict=True):
            if place < len(dims):
                dims[place].dim_param = size
    del model.graph.value_info[:]
    programs = [
        mgx_mlir.compile(model, target, options)
        for options in (CompileOptions(mode="full-dynamic"), CompileOptions(dim_params=sizes))
    ]
    inputs = inputs_of(model, sizes)
    mine, given = (program.run(inputs) for program in programs)
    for result, array in given.items():
        # Means are summed in another order, and a quantizer behind them moves by a step.
        most = 2e-2 * np.abs(array).max() if target != "cpu" else 1e-5
        np.testing.assert_allclose(mine[result], array, rtol=1e-5, atol=most)
    artifact = compile_to_bytecode(model, CompileOptions(mode="full-dynamic"))
    for step in artifact.plan.steps:
        _module, kernel = read_kernel(artifact.kernels[step.kernel].bytecode)
        for op in ops_inside(kernel, *mgx.DOTS, *mgx.CONVOLUTIONS):
            assert str(element_type(op.operands[0])) in ("i8", "ui8", "i32")


def test_residual_additions_are_in_the_kernels_of_convolutions() -> None:
    """Besides convolutions, the first of which quantizes the image: a pooling, the average, and the
    classes."""
    model = quantized(MODELS["resnet18"](**SMALL["resnet18"]), "qdq_s8s8_channel")
    artifact = compile_to_bytecode(model)
    names = [artifact.kernels[step.kernel].name.split("_", 1)[1] for step in artifact.plan.steps]
    others = ["pooling", "fused_reduce", "quant_dot"]
    count = sum(node.op_type == "Conv" for node in model.graph.node)
    assert Counter(names) == Counter({"quant_convolution": count, **dict.fromkeys(others, 1)})


def references(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The first result of onnxruntime, without and with its rewrites, whose rounding differs."""
    levels = onnxruntime.GraphOptimizationLevel
    found = []
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        found.append(session.run(None, inputs)[0])
    return found


def signal_to_noise(mine: np.ndarray, theirs: np.ndarray) -> float:
    """In dB; 300 where there is no difference. One step of 8 bits is some 40 dB."""
    noise = np.square((mine - theirs).astype(np.float64)).sum()
    signal = np.square(theirs.astype(np.float64)).sum()
    return float(10 * np.log10(signal / noise)) if noise else 300.0
