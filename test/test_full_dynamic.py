"""Mode full-dynamic: one program for all sizes, beside onnxruntime with several of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import mgx_mlir
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.plan_binding import sizes_of
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.errors import ArtifactError, UnsupportedError, UsageError
from mgx_mlir.models.specialize import SpecializedModel
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.sizes.range import Range
from test import decoder_models
from test.dynamic_models import MODELS, SIZES, inputs_of
from test.onnx_models import small

FULL = CompileOptions(mode="full-dynamic")


def check(model: onnx.ModelProto, program: Program, sizes: list[dict[str, int]]) -> None:
    """The program gives what onnxruntime does, for symbols of each of some sizes."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for known in sizes:
        inputs = inputs_of(model, known)
        found, wanted = program.run(inputs), session.run(None, inputs)
        for array, other in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_one_artifact_serves_all_sizes(name: str) -> None:
    model = MODELS[name]()
    artifact = Artifact.from_bytes(compile_to_bytecode(model, FULL).to_bytes())
    check(model, mgx_mlir.compile(artifact, "cpu"), SIZES[name])


def one_op(kind: str, shape: list[int | str], **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], "one", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    counts = kind in ("ArgMax", "Shape")
    y = helper.make_tensor_value_info("y", TensorProto.INT64 if counts else TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "model",
    [
        one_op("Transpose", ["a", 3, "b"], perm=[2, 0, 1]),
        one_op("Flatten", ["a", "b", 3], axis=2),
        one_op("Softmax", ["a", "b"], axis=0),
        one_op("LogSoftmax", ["a", "b"], axis=1),
        one_op("ReduceMean", ["a", "b", 2], axes=[1, 2]),
        one_op("ReduceMax", ["a", "b"], axes=[0], keepdims=0),
        one_op("GlobalAveragePool", ["a", 2, "b", "b"]),
        one_op("AveragePool", ["a", 2, "b", 6], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        one_op(
            "MaxPool", ["a", 2, "b", "b"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0]
        ),
        one_op("ArgMax", ["a", "b"], axis=1),
        one_op("Shape", ["a", 3, "b"]),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_operators_of_symbolic_sizes(model: onnx.ModelProto) -> None:
    program = mgx_mlir.compile(model, "cpu", FULL)
    check(model, program, [{"a": 2, "b": 5}, {"a": 1, "b": 4}, {"a": 7, "b": 3}])


def test_an_encoder_is_fused() -> None:
    nodes = [step.node for step in compile_to_bytecode(MODELS["bert"](), FULL).plan.steps]
    assert len(nodes) == 15
    assert "/MatMul_38+/Div_39+/Add_40+/Softmax_41+/MatMul_42+/Transpose_43" in nodes


def test_a_mask_of_indices_and_sizes_is_one_kernel() -> None:
    model = decoder_models.llama()
    nodes = [step.node for step in compile_to_bytecode(model, FULL).plan.steps]
    made = ("Shape", "Range", "Sub", "LessOrEqual", "Cast", "And")
    assert [node for node in nodes if any(kind in node for kind in made)] == ["/And_17+/Where_18"]
    sizes = [
        {**decoder_models.step(tokens, past), "batch_size": batch}
        for batch, tokens, past in ((1, 1, 20), (2, 5, 0), (3, 7, 13))
    ]
    check(model, mgx_mlir.compile(model, "cpu", FULL), sizes)


def test_shapes_that_do_not_fit_are_named() -> None:
    plan = compile_to_bytecode(MODELS["bert"](), FULL).plan
    shapes = {"input_ids": (2, 5), "attention_mask": (2, 5), "position_ids": (1, 5)}
    assert sizes_of(plan, shapes) == {"batch": 2, "seq": 5}
    with pytest.raises(UsageError, match=r"of input 'attention_mask' is 3, and .* are 'batch'"):
        sizes_of(plan, shapes | {"attention_mask": (3, 5)})
    with pytest.raises(UsageError, match=r"'input_ids' is int64\[batch, seq\]; got \[5\]"):
        sizes_of(plan, shapes | {"input_ids": (5,)})
    assert sizes_of(plan, shapes | {"input_ids": (0, 5), "attention_mask": (0, 5)})["batch"] == 0


def test_other_modes_ask_for_sizes() -> None:
    with pytest.raises(UnsupportedError, match=r"or compile for all sizes .*full-dynamic"):
        compile_to_bytecode(MODELS["mlp"]())


def test_older_readers_are_told() -> None:
    artifact = compile_to_bytecode(MODELS["mlp"](), FULL)
    with pytest.raises(UsageError, match=r"for any sizes, which artifacts of version 1\.0"):
        artifact.to_bytes(version=(1, 0))


def test_tensors_that_live_together_lie_apart() -> None:
    program = mgx_mlir.compile(MODELS["bert"](), "cpu", FULL)
    assert isinstance(program, SizedProgram)
    for sizes in SIZES["bert"]:
        bound = program.for_sizes(sizes).plan
        lives: dict[int, list[int]] = {}
        for place, step in enumerate(bound.work()):
            for number in step.arguments:
                if bound.buffers[number].kind == "arena":
                    lives.setdefault(number, []).append(place)
        for a, first in lives.items():
            for b, second in lives.items():
                if a < b and first[0] <= second[-1] and second[0] <= first[-1]:
                    x, y = bound.buffers[a], bound.buffers[b]
                    assert x.offset + x.bytes <= y.offset or y.offset + y.bytes <= x.offset


@pytest.mark.parametrize(
    "damage",
    [
        {"formulas": ["batch*other"]},
        {"formulas": ["batch//0"]},
        {"formulas": [7]},
        {"formulas": []},
        {"dims": [{"name": "batch", "min": -1}]},
        {"dims": [{"name": "batch", "min": 4, "max": 2}]},
    ],
)
def test_hostile_plans_are_refused(damage: dict[str, object]) -> None:
    value = compile_to_bytecode(MODELS["mlp"](), FULL).plan.to_json()
    assert Plan.from_json(value).to_json() == value
    with pytest.raises(ArtifactError):
        Plan.from_json(value | damage)


RANGES = {"batch": Range(1, 64, (1, 7))}


def test_optimal_sizes_get_programs_of_their_own() -> None:
    model = MODELS["mlp"]()
    artifact = compile_to_bytecode(model, CompileOptions(dim_params=RANGES))
    artifact = Artifact.from_bytes(artifact.to_bytes())
    program = mgx_mlir.compile(artifact, "cpu")
    check(model, program, SIZES["mlp"])
    with pytest.raises(UsageError, match="not for batch = 3; it is for batch = 1; batch = 7"):
        program.run(inputs_of(model, {"batch": 3}))


def test_other_sizes_take_the_program_for_all() -> None:
    model = MODELS["mlp"]()
    options = CompileOptions(mode="full-dynamic", dim_params=RANGES)
    program = mgx_mlir.compile(model, "cpu", options)
    check(model, program, [{"batch": 1}, {"batch": 3}, {"batch": 7}])
    with pytest.raises(UsageError, match="is 65; the program is for 'batch' from 1 to 64"):
        program.run(inputs_of(model, {"batch": 65}))


def test_programs_share_weights_and_equal_kernels() -> None:
    options = CompileOptions(dim_params={"batch": Range(1, 8, (2, 4)), "seq": 5})
    artifact = compile_to_bytecode(MODELS["bert"](), options)
    keys = [{b.key for b in p.buffers if b.key} for _, p in artifact.plan.programs]
    assert len(keys) == 2 and len(keys[0] & keys[1]) >= 20
    assert len({kernel.sha256 for kernel in artifact.kernels}) == len(artifact.kernels)


def test_each_symbol_needs_optimal_sizes() -> None:
    with pytest.raises(UsageError, match="'seq' has no optimal sizes and others have"):
        compile_to_bytecode(MODELS["bert"](), CompileOptions(dim_params=RANGES))


def test_a_model_takes_one_program_for_all_sizes_in_time() -> None:
    model = MODELS["mlp"]()
    specialized = SpecializedModel(model, any_after=1)
    programs = [specialized.program(inputs_of(model, {"batch": n})) for n in (1, 2, 3, 1)]
    assert [isinstance(p, SizedProgram) for p in programs] == [False, True, True, False]
    assert programs[1] is programs[2]
    check(model, programs[1], [{"batch": 4}])


def test_a_model_without_one_is_compiled_for_its_sizes() -> None:
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"], "reshape")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    graph = helper.make_graph([reshape], "g", [x, shape], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    specialized = SpecializedModel(model, options=FULL)
    found = specialized.run({"x": np.arange(6, dtype=np.float32), "shape": np.array([2, -1])})
    assert found["y"].shape == (2, 3)


def test_tables_are_cut_by_a_size() -> None:
    model = small("bert", batch="batch", tokens="seq")
    program = mgx_mlir.compile(model, "cpu", FULL)
    check(model, program, [{"batch": 2, "seq": 5}, {"batch": 1, "seq": 9}])
    with pytest.raises(UsageError, match="is 600; the program is for 'seq' from 0 to 512"):
        program.run(inputs_of(model, {"batch": 1, "seq": 600}))


def test_ranges_and_shapes_follow_sizes() -> None:
    def constant(name: str, value: object) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(value, np.int64), name)

    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], "shape"),
        helper.make_node("Gather", ["sizes", "one"], ["count"], "count"),
        helper.make_node("Range", ["zero", "count", "one"], ["places"], "places"),
        helper.make_node("Cast", ["places"], ["floats"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "floats"], ["sum"], "add"),
        helper.make_node("Concat", ["sum", "x"], ["twice"], "concat", axis=1),
        helper.make_node("Mul", ["count", "two"], ["wide"], "wide"),
        helper.make_node("Unsqueeze", ["wide", "axis"], ["last"], "last"),
        helper.make_node("Concat", ["two_ones", "last"], ["wanted"], "wanted", axis=0),
        helper.make_node("Reshape", ["twice", "wanted"], ["y"], "reshape"),
    ]
    constants = [
        *(constant(name, n) for name, n in (("zero", 0), ("one", 1), ("two", 2))),
        *(constant(name, n) for name, n in (("axis", [0]), ("two_ones", [-1, 1]))),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1, None])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = mgx_mlir.compile(model, "cpu", FULL)
    check(model, program, [{"a": 2, "b": 5}, {"a": 4, "b": 1}])
    options = CompileOptions(dim_params={"a": Range(1, 4, (2,)), "b": Range(1, 5, (5,))})
    check(model, mgx_mlir.compile(model, "cpu", options), [{"a": 2, "b": 5}])


def test_sizes_that_leave_nothing_are_named() -> None:
    model = one_op("MaxPool", ["a", 2, "b", 8], kernel_shape=[3, 3])
    program = mgx_mlir.compile(model, "cpu", FULL)
    check(model, program, [{"a": 2, "b": 3}])
    with pytest.raises(UsageError, match=r"no run with a = 2, b = 1: .*'b-2' is -1"):
        program.run(inputs_of(model, {"a": 2, "b": 1}))


def test_names_may_be_formulas() -> None:
    plan = compile_to_bytecode(one_op("Relu", ["past + 1", "past"]), FULL).plan
    assert sizes_of(plan, {"x": (3, 2)}) == {"past": 2}
    with pytest.raises(UsageError, match=r"which is \[4, 3\] with past = 3; got \[3, 3\]"):
        sizes_of(plan, {"x": (3, 3)})


def test_a_formula_of_what_is_no_size_is_a_name() -> None:
    plan = compile_to_bytecode(one_op("Relu", ["past + 1", "other size"]), FULL).plan
    assert sizes_of(plan, {"x": (4, 7)}) == {"past + 1": 4, "other size": 7}


def test_a_bias_of_equal_elements_runs_along_channels() -> None:
    """Five of them, where rows have six elements."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    w = np.random.default_rng(0).standard_normal((5, 3, 3, 3)).astype(np.float32)
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.ones(5, w.dtype), "b")]
    conv = helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv")
    graph = helper.make_graph([conv], "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check(model, mgx_mlir.compile(model, "cpu", FULL), [{"batch": 2}, {"batch": 3}])


def test_values_that_follow_from_known_sizes_are_constants() -> None:
    """Halves of heads, as rotary embeddings take them: x.shape[-1] // 2."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    values = {"open": [1 << 62], "heads": [-1, 8], "first": [0], "last": [3], "h": 2}
    weights = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in values.items()]
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], end=2),
        helper.make_node("Concat", ["sizes", "heads"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["z"]),
        helper.make_node("Shape", ["z"], ["all"]),
        helper.make_node("Gather", ["all", "last"], ["width"]),
        helper.make_node("Div", ["width", "h"], ["half"]),
        helper.make_node("Slice", ["z", "half", "open", "last"], ["right"]),
        helper.make_node("Slice", ["z", "first", "half", "last"], ["left"]),
        helper.make_node("Neg", ["right"], ["turned"]),
        helper.make_node("Concat", ["turned", "left"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sizes = [{"batch": 2, "length": 3}, {"batch": 1, "length": 7}]
    check(model, mgx_mlir.compile(model, "cpu", FULL), sizes)


def test_tensors_are_repeated_as_often_as_sizes_say() -> None:
    """As decoders repeat a table for each sentence."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Tile", ["t", "sizes"], ["wide"]),
        helper.make_node("Neg", ["wide"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(table, "t")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sizes = [{"batch": 2, "length": 3}, {"batch": 1, "length": 7}]
    check(model, mgx_mlir.compile(model, "cpu", FULL), sizes)


@pytest.mark.parametrize("columns", [5, 64])
def test_long_sums_are_as_exact_as_short_ones(columns: int) -> None:
    """One sum of 8192 positive products is off by 1.2e-6; sums of blocks by less than 3e-7."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[B, 8192] x, float[8192, {columns}] w) => (float[B, {columns}] y)
        {{ y = MatMul(x, w) }}"""
    )
    rng = np.random.default_rng(0)
    x, w = (rng.random(shape).astype(np.float32) for shape in ((3, 8192), (8192, columns)))
    (y,) = mgx_mlir.compile(model, "cpu", FULL).run({"x": x, "w": w}).values()
    want = x.astype(np.float64) @ w.astype(np.float64)
    assert np.sqrt(np.mean((y / want - 1) ** 2)) < 3e-7
