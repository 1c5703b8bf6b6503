"""The whole way, for every model of the foundation: small forms on the CPU, all chips."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.capabilities import FILTER_BLOCKS
from mgx_mlir.compiler import (
    CompileOptions,
    Report,
    compile_to_bytecode,
    optimize,
    options_for,
    pipeline_of,
)
from mgx_mlir.dialects import context
from mgx_mlir.errors import UsageError
from mgx_mlir.pipelines.modes import MODES, mode_pipelines
from mgx_mlir.pipelines.registry import parse_pipeline
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.rewriting.pass_base import CLEANUP, Pass
from mgx_mlir.settings import Settings
from test.onnx_models import MODELS, light, light_names, random_inputs, small

CHIPS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", jobs=1, threads=1)


def expected(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_small_models_agree_with_onnxruntime(name: str, settings: Settings) -> None:
    model = small(name)
    inputs = random_inputs(model)
    program = mgx_mlir.compile(model, "cpu", settings=settings)
    found = program.run(inputs)
    for output, values in expected(model, inputs).items():
        np.testing.assert_allclose(found[output], values, 1e-3, 1e-4)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "default"])
@pytest.mark.parametrize("name", ["lstm", "vit"])
def test_every_mode_gives_the_same(name: str, mode: str, settings: Settings) -> None:
    model = small(name)
    inputs = random_inputs(model)
    found = mgx_mlir.compile(model, "cpu", CompileOptions(mode), settings=settings).run(inputs)
    for output, values in expected(model, inputs).items():
        np.testing.assert_allclose(found[output], values, 1e-3, 1e-4)


@pytest.mark.parametrize("target", ["cpu", "x86-64-v3", Target.get("x86-64-v3")])
def test_programs_for_the_host_alone_store_filters_as_vectors(target: str | Target) -> None:
    options = options_for(None, target)
    assert options.kind == "cpu" and options.to_json()["kind"] == "cpu"
    artifact = compile_to_bytecode(small("resnet"), options)
    shapes = [weight.shape for weight in artifact.weights.values()]
    assert any(len(shape) == 5 and shape[-1] in FILTER_BLOCKS for shape in shapes)


@pytest.mark.parametrize("target", ["gpu", "gfx942", Target.get("gfx1100")])
def test_programs_for_gpus_keep_all_passes(target: str | Target) -> None:
    options = options_for(None, target)
    assert options == CompileOptions() and "kind" not in options.to_json()


def test_with_symbols_only_passes_run_that_are_right_for_these() -> None:
    options = CompileOptions(mode="full-dynamic")
    steps = [s for name in mode_pipelines(options.mode) for s in pipeline_of(name, options)]
    assert len(steps) > 20 and all(s.symbolic for s in steps if isinstance(s, Pass))


@pytest.mark.slow
@pytest.mark.parametrize("name", light_names())
def test_light_models_with_random_weights_agree(name: str, settings: Settings) -> None:
    model = light(name, seed=0)
    inputs = random_inputs(model)
    found = mgx_mlir.compile(model, "cpu", settings=settings).run(inputs)
    for output, values in expected(model, inputs).items():
        np.testing.assert_allclose(found[output], values, 1e-3, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*light_names(), *sorted(MODELS)])
def test_every_kernel_finalizes_for_every_chip(name: str) -> None:
    model = small(name) if name in MODELS else light(name)
    artifact = mgx_mlir.finalize(
        mgx_mlir.compile_to_bytecode(model), CHIPS, settings=Settings(cache_dir=None)
    )
    assert sorted(artifact.code_objects) == sorted(CHIPS)


def test_a_small_model_finalizes_for_every_chip(tmp_path: Path) -> None:
    artifact = mgx_mlir.compile_to_bytecode(small("bert"))
    assert artifact.code_objects == {}
    artifact = mgx_mlir.finalize(artifact, CHIPS, settings=Settings(cache_dir=None))
    machines = {"gfx90a": "gfx90a", "gfx942": "gfx942", "gfx1100": "gfx1100", "gfx1201": "gfx1201"}
    for chip, name in machines.items():
        for number, code in enumerate(artifact.code_objects[chip]):
            file = tmp_path / f"{chip}-{number}.hsaco"
            file.write_bytes(code.data)
            header = subprocess.run(
                ["/usr/lib/llvm-22/bin/llvm-readelf", "-h", str(file)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert name in header and "AMDGPU" in header


def test_equal_inputs_give_equal_bytes() -> None:
    first = mgx_mlir.compile_to_bytecode(small("lstm")).to_bytes()
    assert mgx_mlir.compile_to_bytecode(small("lstm")).to_bytes() == first


def test_an_artifact_survives_the_disk(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "digits.mgx"
    mgx_mlir.save(mgx_mlir.compile_to_bytecode(ROOT / "examples/digits.onnx"), file)
    program = mgx_mlir.compile(mgx_mlir.load(file), "cpu", settings=settings)
    data = np.load(ROOT / "examples/digits_test.npz")
    right = sum(
        int(program.run({"image": image[None, None].astype(np.float32)})["probabilities"].argmax())
        == label
        for image, label in zip(data["images"][:60], data["labels"][:60], strict=True)
    )
    assert right >= 57


def test_memory_stays_near_what_is_alive() -> None:
    # The largest sum of live bytes is a bound from below; a plan may waste 15 % on top.
    for name in ("squeezenet", "resnet50"):
        plan = mgx_mlir.compile_to_bytecode(light(name)).plan
        last = {a: n for n, step in enumerate(plan.steps) for a in step.arguments}
        first: dict[int, int] = {}
        for n, step in enumerate(plan.steps):
            for a in step.arguments:
                first.setdefault(a, n)
        alive = []
        for n in range(len(plan.steps)):
            spans = {
                (plan.buffers[a].offset, plan.buffers[a].offset + plan.buffers[a].bytes)
                for a in last
                if plan.buffers[a].kind == "arena" and first[a] <= n <= last[a]
            }
            alive.append(_covered(spans))
        assert plan.arena_bytes <= 1.15 * max(alive)


def _covered(spans: set[tuple[int, int]]) -> int:
    total, end = 0, 0
    for low, high in sorted(spans):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


def test_reports_name_stages_passes_and_rewrites() -> None:
    report = Report()
    mgx_mlir.compile_to_bytecode(small("vit"), report=report)
    assert [name for name, _ in report.stages] == [
        "import",
        *mode_pipelines("default"),
        "portable",
    ]
    assert any(name == "mgx-fuse-reduce" for name, _ in report.passes.entries)
    assert any(name == "mgx-fuse-reduce" for name, _, _ in report.fired)


def test_disabled_passes_do_not_run() -> None:
    report = Report()
    options = CompileOptions(disable=("mgx-fuse-reduce",))
    artifact = mgx_mlir.compile_to_bytecode(small("vit"), options, report=report)
    assert all(name != "mgx-fuse-reduce" for name, _ in report.passes.entries)
    assert artifact.options["disable"] == ["mgx-fuse-reduce"]


def test_order_and_options_are_recorded() -> None:
    options = CompileOptions(disable=("mgx-fuse-reduce",), exact=True)
    report = Report()
    artifact = mgx_mlir.compile_to_bytecode(small("vit"), options, report=report)
    assert artifact.options["exact"] is True
    assert [name for name, _ in artifact.pipelines] == list(mode_pipelines("default"))
    recorded = [str(s) for _, text in artifact.pipelines for s in parse_pipeline(text)]
    # The passes that ran, less the clean-up that the driver adds.
    ran = [name for name, _ in report.passes.entries]
    assert [n for n in ran if n not in CLEANUP] == [n for n in recorded if n not in CLEANUP]
    assert "mgx-fuse-reduce" not in recorded and "mgx-simplify-algebra" not in recorded


@pytest.mark.parametrize("exact", [True, False])
def test_exact_programs_keep_the_sum_of_zeros(exact: bool) -> None:
    """-0 + 0 is 0; without --exact, x + 0 is x."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    zero = numpy_helper.from_array(np.float32([0]), "zero")
    node = helper.make_node("Add", ["x", "zero"], ["y"])
    graph = helper.make_graph([node], "sum", values[:1], values[1:], [zero])
    program = mgx_mlir.compile(helper.make_model(graph), "cpu", CompileOptions(exact=exact))
    found = program.run({"x": np.float32([-0.0, 1])})["y"]
    assert np.signbit(found).tolist() == [not exact, False]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mgx-fuse-redcue", "did you mean mgx-fuse-reduce"),
        ("fuse-reduce", "there is no pass 'fuse-reduce'; did you mean mgx-fuse-reduce"),
        ("mgx-plan-memory", "mgx-plan-memory makes the program; it cannot be left out"),
    ],
)
def test_a_pass_that_cannot_be_left_out_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CompileOptions(disable=(name,))


def test_exact_programs_keep_the_formulas_of_the_model() -> None:
    # 1 / sqrt(x) becomes rsqrt(x), unless that is not wanted.
    text = """
    func.func @main(%x: tensor<4xf32> {mgx.name = "x"}) -> (tensor<4xf32> {mgx.name = "y"}) {
      %s = mgx.sqrt %x : tensor<4xf32>
      %y = mgx.recip %s : tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    for exact, op in ((True, "mgx.sqrt"), (False, "mgx.rsqrt")):
        with context():
            graph = Graph(ir.Module.parse(text), WeightStore())
        optimize(graph, CompileOptions(exact=exact), Report(), pipelines=["optimize"])
        assert op in str(graph.module)


def test_wrong_inputs_say_what_was_expected(settings: Settings) -> None:
    program = mgx_mlir.compile(ROOT / "examples/digits.onnx", "cpu", settings=settings)
    with pytest.raises(UsageError, match=r"'image' is missing"):
        program.run({})
    with pytest.raises(
        UsageError, match=r"'image' is float32\[1, 1, 8, 8\]; got float32\[1, 8, 8\]"
    ):
        program.run({"image": np.zeros((1, 8, 8), np.float32)})
    with pytest.raises(UsageError, match=r"got float64"):
        program.run({"image": np.zeros((1, 1, 8, 8))})
