"""Programs in stages: where they are cut, and what the stages hand on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import CompileOptions
from mgx_mlir.errors import ResourceError, TargetError, UsageError
from mgx_mlir.tools.mgx import main
from test import chain_models

ANY = CompileOptions(mode="full-dynamic")
FOUR = CompileOptions(dim_params={"b": 4})


def run_in_turn(
    stages: tuple[mgx_mlir.Artifact, ...], inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The values of all stages, run on the host."""
    values = dict(inputs)
    for stage in stages:
        program = mgx_mlir.compile(stage, "cpu")
        values |= program.run({spec.name: values[spec.name] for spec in program.inputs})
    return values


def agree(model: onnx.ModelProto, count: int, options: CompileOptions, *shape: int) -> None:
    """The stages give what the model gives."""
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    found = run_in_turn(mgx_mlir.compile_stages(model, count, options), {"x": x})
    for name, array in mgx_mlir.compile(model, "cpu", options).run({"x": x}).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def names(stage: mgx_mlir.Artifact) -> tuple[list[str], list[str]]:
    return [s.name for s in stage.plan.inputs], [s.name for s in stage.plan.outputs]


def test_stages_need_equal_memory() -> None:
    model = chain_models.layers([64] * 9)
    for count, most in ((2, 4), (4, 2), (8, 1)):
        stages = mgx_mlir.compile_stages(model, count, ANY)
        assert [len(stage.weights) for stage in stages] == [most] * count
    kept = {key for stage in stages for key in stage.weights}
    assert kept == mgx_mlir.compile_to_bytecode(model, ANY).weights.keys()


def test_the_cut_is_where_the_fewest_bytes_cross() -> None:
    """Near the middle the layers are 512, 8 and 512 wide."""
    stages = mgx_mlir.compile_stages(chain_models.layers([256, 512, 8, 512, 256]), 2, ANY)
    (crossing,) = stages[1].plan.inputs
    assert crossing.shape[1] == 8


def test_memory_that_is_given_moves_the_cut() -> None:
    """Three layers of 256 kB and one of 64 kB, the last: 1.5 MB hold all but a narrow end."""
    model = chain_models.layers([256, 256, 256, 256, 16, 256])
    first, second = mgx_mlir.compile_stages(model, 2, FOUR)
    assert len(first.weights) == 2
    first, second = mgx_mlir.compile_stages(model, 2, FOUR, memory=1 << 20)
    assert len(first.weights) == 4
    assert second.plan.inputs[0].shape == (4, 16)
    with pytest.raises(ResourceError, match=r"a stage of 2 needs at least .*, and a device is to"):
        mgx_mlir.compile_stages(model, 2, FOUR, memory=100 << 10)


@pytest.mark.parametrize("options", [ANY, FOUR], ids=["any", "given"])
def test_a_value_is_handed_to_each_stage_that_needs_it(options: CompileOptions) -> None:
    model = chain_models.skipping()
    stages = mgx_mlir.compile_stages(model, 3, options)
    given, made = zip(*map(names, stages), strict=True)
    assert made[0] == ["first"] and given[1] == ["first"]
    assert "first" in given[2] and made[2] == ["y"]
    agree(model, 3, options, 4, 32)


def test_sizes_that_fold_into_one_come_from_the_model_s_input() -> None:
    model = chain_models.folded_rows()
    assert names(mgx_mlir.compile_stages(model, 2, ANY)[1])[0][0] == "x"
    for shape in ((2, 3, 16), (5, 1, 16)):
        agree(model, 2, ANY, *shape)


def test_a_concat_in_place_stays_whole() -> None:
    model = chain_models.joined()
    stages = mgx_mlir.compile_stages(model, 2)
    assert [len(stage.weights) for stage in stages] == [3, 1]
    agree(model, 2, CompileOptions(), 1, 64)
    with pytest.raises(UsageError, match="cannot be cut into 3 stages"):
        mgx_mlir.compile_stages(model, 3)


def test_control_flow_is_one_step() -> None:
    model = chain_models.model(
        "g (float[4, 8] x, bool c) => (float[4, 8] y) { a = MatMul(x, w0) b = Tanh(a)"
        " d = If (c) <then_branch = t () => (float[4, 8] e) { f = MatMul(b, w1) e = Tanh(f) },"
        " else_branch = u () => (float[4, 8] h) { h = Sin(b) }> p = MatMul(d, w2) y = Tanh(p) }",
        {"w0": (8, 8), "w1": (8, 8), "w2": (8, 8)},
    )
    whole = mgx_mlir.compile(model, "cpu")
    stages = mgx_mlir.compile_stages(model, 2)
    for condition in (True, False):
        inputs = {"x": np.full((4, 8), 0.3, np.float32), "c": np.array(condition)}
        np.testing.assert_allclose(
            run_in_turn(stages, inputs)["y"], whole.run(inputs)["y"], rtol=1e-5
        )


def test_equal_models_give_equal_stages() -> None:
    model = chain_models.layers([64] * 5)
    one, other = (mgx_mlir.compile_stages(model, 2, ANY) for _ in range(2))
    assert [s.to_bytes() for s in one] == [s.to_bytes() for s in other]


def test_requests_that_make_no_stages_are_refused(tmp_path: Path) -> None:
    model = chain_models.layers([16, 16, 16])
    best = CompileOptions(dim_params={"b": mgx_mlir.Range(1, 8, (1, 8))}, mode="full-dynamic")
    for count, options, said in (
        (1, FOUR, "at least 2 stages"),
        (9, FOUR, "cannot be cut into 9 stages"),
        (2, CompileOptions(kind="cpu"), "stages are for GPUs"),
        (2, best, "leave out sizes that get programs of their own"),
    ):
        with pytest.raises(UsageError, match=said):
            mgx_mlir.compile_stages(model, count, options)


def test_a_chain_takes_the_stages_of_one_program_on_gpus() -> None:
    one, two = mgx_mlir.compile_stages(chain_models.layers([16, 16, 16]), 2, FOUR)
    other = mgx_mlir.compile_stages(chain_models.skipping(), 2, FOUR)[1]
    whole = mgx_mlir.compile_to_bytecode(chain_models.layers([16, 16, 16]), FOUR)
    for stages, said in (
        ([], "got none"),
        ([one], "got 1 of 2"),
        ([two, one], "got 2 of 2, 1 of 2"),
        ([whole, two], "got a whole program, 2 of 2"),
        ([one, other], "are of two programs"),
    ):
        with pytest.raises(UsageError, match=said):
            mgx_mlir.Chain(stages)
    with pytest.raises(UsageError, match="stages run on GPUs"):
        mgx_mlir.Chain([one, two], "cpu")
    with pytest.raises(UsageError, match="2 stages need as many devices, not 1"):
        mgx_mlir.Chain([one, two], devices=[0])
    with pytest.raises(TargetError, match="no device 7"):
        mgx_mlir.Chain([one, two], devices=[0, 7])


def test_the_command_writes_a_file_for_each_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(chain_models.layers([16] * 5), "m.onnx")
    assert main(["compile", "m.onnx", "--mode", "full-dynamic", "--devices", "2"]) == 0
    files = ["m-1-of-2.mgx", "m-2-of-2.mgx"]
    assert sorted(file.name for file in tmp_path.glob("*.mgx")) == files
    assert all(name in capsys.readouterr().out for name in files[:1])
    assert [len(mgx_mlir.load(name).weights) for name in files] == [2, 2]
    for words, said in (
        (["--target", "cpu", "--devices", "2"], "stages are for GPUs"),
        (["--device-memory", "4"], "--device-memory is for the stages"),
        (["--devices", "2", "--report", "r.html"], "show one program"),
        (["--devices", "30"], "cannot be cut into 30 stages"),
    ):
        assert main(["compile", "m.onnx", "--batch", "2", "-o", "n.mgx", *words]) == 2
        assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("n*.mgx"))
