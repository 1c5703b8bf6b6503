"""No command writes over a file that it reads, nor two results to one file; nor does Python."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError
from mgx_mlir.importer import loading
from mgx_mlir.quantization import Calibration, Precision, quantize
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.mgx_opt import main as opt
from mgx_mlir.tuning.database import NAME, Database


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, one with its weights beside it, artifacts of both, inputs, a cache."""
    folder = tmp_path_factory.mktemp("made")
    weights = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 24]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "one", [x], [y], [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    onnx.save(model, folder / "outside.onnx", save_as_external_data=True, location="q.onnx.data",
              size_threshold=0)  # fmt: skip
    shutil.copy(folder / "q.onnx.data", folder / "weights.mgx")
    mgx_mlir.compile_to_bytecode(folder / "m.onnx").save(folder / "m.mgx")
    beside = mgx_mlir.compile_to_bytecode(folder / "outside.onnx")
    beside.save(folder / "outside.mgx", weights="beside")
    (folder / "in").mkdir()
    np.save(folder / "in/x.npy", np.ones((2, 24), np.float32))
    np.save(folder / "in/y.npy", np.ones((2, 24), np.float32))
    np.savez(folder / "in/s.npz", x=np.ones((2, 24), np.float32))
    (folder / "ranges.json").write_text("{}")
    (folder / "m.mlir").write_text("module {}")
    Database(folder / "cache", write=True).close()
    (folder / "key.pem").write_text("key")
    return folder


@pytest.fixture
def files(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "files"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MGX_CACHE_DIR", str(folder / "cache"))
    for link in ("m.onnx", "q.onnx.data", "in/x.npy", "key.pem"):
        Path(f"{link}.soft").symlink_to(folder / link)
        os.link(link, f"{link}.hard")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


READ = [
    "compile m.onnx -o m.onnx",
    "compile m.onnx -o ./in/../m.onnx",
    "compile m.onnx -o m.onnx.soft",
    "compile m.onnx.soft -o m.onnx",
    "compile m.onnx -o m.onnx.hard",
    "compile m.onnx --log-file m.onnx",
    "compile outside.onnx -o q.onnx.data",
    "compile outside.onnx -o q.onnx.data.hard",
    "compile m.onnx -o cache/tuning.sqlite",
    "compile m.onnx --int8 --calibrate in -o in/s.npz",
    "compile m.onnx --int8 --ranges ranges.json --save-ranges ranges.json",
    "tune m.onnx --target gfx942 -o m.onnx",
    "tune m.mgx --target gfx942 -o m.mgx",
    "tune --export cache/tuning.sqlite",
    "perf m.onnx --report m.onnx",
    "perf m.onnx --trace m.onnx.soft",
    "perf m.onnx --compare ranges.json --report ranges.json",
    "run m.onnx -v --log-file m.onnx",
    "run m.onnx --input x=in/x.npy --log-file in/x.npy",
    "run m.onnx --load-arg @x in/x.npy --log-file in/x.npy.soft",
    "run m.onnx --input x=in/y.npy --output in",
    "quantize m.onnx -o m.onnx --int8",
    "quantize m.onnx -o n.onnx --int8 --save-ranges m.onnx",
    "quantize m.onnx -o n.onnx --int8 --calibrate in --report in/s.npz",
    "quantize outside.onnx -o q.onnx --int8",
    "finalize m.mgx --arch gfx942 --log-file m.mgx",
    "finalize outside.mgx --arch gfx942 -o q.onnx.data",
    "sign m.mgx --key key.pem -o key.pem",
    "sign m.mgx --key key.pem -o key.pem.hard",
    "read m.onnx -o m.onnx",
    "verify m.onnx --input x=in/x.npy --bisect -o in",
    "cache export cache/tuning.sqlite",
    "params m.onnx --log-file m.onnx",
    "generate m.onnx --ids 1 --tokenizer ranges.json --log-file ranges.json",
]
TWICE = [
    "perf m.onnx --report a.html --trace a.html",
    "perf m.onnx --report a.html --trace in/../a.html",
    "compile m.onnx -o a.mgx --log-file ./a.mgx",
    "compile m.onnx --log-file m.mgx.log --int8 --save-ranges m.mgx.log",
    "quantize m.onnx -o n.onnx --int8 --calibrate in --report n.onnx.data",
]


@pytest.mark.parametrize("command", READ)
def test_no_command_writes_over_a_file_that_it_reads(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(files)
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert " would overwrite " in error and "which is read" in error
    assert contents(files) == before


@pytest.mark.parametrize("command", TWICE)
def test_no_command_writes_two_results_to_one_file(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(files)
    assert main(command.split()) == 2
    assert " are one file; name two" in capsys.readouterr().err
    assert contents(files) == before


def test_a_default_output_is_checked_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load("outside.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = "weights.mgx" if entry.key == "location" else entry.value
    onnx.save(model, "weights.onnx")
    before = contents(files)
    assert main(["compile", "weights.onnx"]) == 2
    assert "-o weights.mgx would overwrite" in capsys.readouterr().err
    assert contents(files) == before


def test_an_artifact_is_finalized_in_its_place(files: Path) -> None:
    assert main(["finalize", "m.mgx", "--arch", "gfx942", "-o", "./m.mgx"]) == 0
    assert list(mgx_mlir.load("m.mgx").code_objects)


def test_devices_take_several_results(files: Path) -> None:
    quiet = ["perf", "m.onnx", "--runs", "1", "--report", "/dev/null", "--trace", "/dev/null"]
    assert main(quiet) == 0


def test_older_results_are_replaced(files: Path) -> None:
    run = ["run", "m.onnx", "--input", "x=in/x.npy", "--output", "out"]
    assert main(run) == main(run) == 0
    assert main(["compile", "m.onnx", "-o", "old.mgx"]) == 0
    assert main(["compile", "m.onnx", "-o", "old.mgx"]) == 0


def test_passes_do_not_write_over_their_input(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(files)
    crash = "--mlir-pass-pipeline-crash-reproducer"
    for command in (["-o", "./m.mlir"], [crash, "m.mlir"], ["-o", "n.mlir", crash, "./n.mlir"]):
        assert opt(["m.mlir", "--cse", *command]) == 2
        assert "m.mlir, which is read" in (said := capsys.readouterr().err) or "one file" in said
    assert contents(files) == before


def test_python_does_not_write_over_the_files_of_a_program(files: Path) -> None:
    before = contents(files)
    outside = mgx_mlir.compile_to_bytecode("outside.onnx")
    quantized = quantize("outside.onnx", Precision("int8"))
    ways = [
        lambda: mgx_mlir.save(mgx_mlir.compile_to_bytecode("m.onnx"), "m.onnx.hard"),
        lambda: mgx_mlir.save(mgx_mlir.finalize(outside, "gfx942"), "outside.onnx"),
        lambda: outside.save("q.onnx.data.soft"),
        lambda: mgx_mlir.load("outside.mgx").save("q.onnx.data"),
        lambda: mgx_mlir.compile_to_bytecode(mgx_mlir.parse_onnx("m.onnx")).save("m.onnx"),
        lambda: mgx_mlir.compile_to_bytecode(quantize("m.onnx", Precision("int8")).source)
        .save("m.onnx"),
        lambda: quantized.save("q.onnx"),
        lambda: quantized.save("outside.onnx"),
        lambda: migraphx.save(migraphx.parse_onnx("m.onnx"), "m.onnx"),
        lambda: quantize("m.onnx", Precision("int8"), Calibration("in", partial=Path("in/s.npz"))),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(UsageError, match=r"would overwrite .*, which is read"):
            way()
    assert before.items() <= contents(files).items()
    artifact = mgx_mlir.load("m.mgx")
    mgx_mlir.save(mgx_mlir.finalize(artifact, "gfx942"), "m.mgx")


def test_a_source_knows_its_files(files: Path) -> None:
    found = loading.load("outside.onnx")
    assert {file.name for file in found.files} == {"outside.onnx", "q.onnx.data"}
    assert found.copy().files == found.files


def test_outputs_of_like_names_have_files_of_their_own(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    names = ["a/b", "a:b", "n" * 300]
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names]
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], outputs), opset_imports=opset)
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["run", str(tmp_path / "m.onnx"), "--output", str(tmp_path / "out")]) == 0
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == [
        "a_b-2.npy", "a_b.npy", f"{'n' * 200}.npy"]  # fmt: skip


def test_half_of_a_pair_of_keys_is_not_left(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    (tmp_path / "k.pub.pem").write_text("there")
    assert main(["sign", "--new-key", str(tmp_path / "k.pem")]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["k.pub.pem"]


def test_the_database_is_called_so(files: Path) -> None:
    assert (files / "cache" / NAME).is_file()


def test_a_device_in_place_of_a_key_is_not_read_for_ever(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cryptography")
    assert main(["sign", "m.mgx", "--key", "/dev/zero"]) == 2
    assert "/dev/zero is no key" in capsys.readouterr().err
