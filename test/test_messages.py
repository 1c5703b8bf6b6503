"""Twenty mistakes, and a message for each that names the mistake and the next step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir import settings
from mgx_mlir.errors import MgxError
from mgx_mlir.settings import Settings
from mgx_mlir.suggest import instead, listed
from mgx_mlir.tools.mgx import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx, of any batch; strings.onnx, which the host runs; model.mgx; sub/, empty."""
    folder = tmp_path_factory.mktemp("messages")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in ("in", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["in"], ["y"], "relu")], "g", [x], [y])
    onnx.save(helper.make_model(graph), folder / "model.onnx")
    s, t = (helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "st")
    graph = helper.make_graph([helper.make_node("StringNormalizer", ["s"], ["t"])], "h", [s], [t])
    onnx.save(helper.make_model(graph), folder / "strings.onnx")
    artifact = mgx_mlir.compile_to_bytecode(folder / "model.onnx", default_dim=2)
    mgx_mlir.save(artifact, folder / "model.mgx")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Reluu", ["x"], ["y"], "n")], "r", [x], [y])
    onnx.save(helper.make_model(graph), folder / "typo.on")
    (folder / "sub").mkdir()
    return folder


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("rum model.onnx", 2, "there is no verb 'rum'; did you mean run?"),
        ("run model.onnx --bacth 2", 2, "there is no option --bacth; did you mean --batch?"),
        ("run -- model.onnx --batch 2", 2, "--batch is behind '--', which ends the options"),
        ("run model.onnx model.onnx", 2, "unexpected argument 'model.onnx'"),
        ("compile model.onnx --mode fasst", 2, "there is no choice 'fasst'; did you mean fast?"),
        ("compile model.onnx --arch gfx924", 1, "unknown target 'gfx924'; did you mean gfx942?"),
        ("compile model.onnx --disable-pass mgx-fuse-pointwize", 2,
         "there is no pass 'mgx-fuse-pointwize'; did you mean mgx-fuse-pointwise?"),
        ("op Convv", 2, "'Convv' is not supported; did you mean Conv?"),
        ("run typo.on", 1, "Reluu (node 'n'): this operator is not supported; did you mean Relu?"),
        ("run model.onnx --batch 2 --input inn=x.npy", 2,
         "--input inn: no input has this name; did you mean in?"),
        ("run model.onnx --dim-param @bacth 2", 2, "called 'bacth'; did you mean batch?"),
        ("compile model.onnx", 1,
         "'batch' (dimension 0 of input 'in') has no size; give one by --dim-param @batch N, by "
         "--input-dim @in N 3, or by --batch N for all; or compile for all sizes (--mode "
         "full-dynamic)"),
        ("check modle.onnx", 1, "modle.onnx; did you mean model.onnx?"),
        ("check .", 1, "is a folder, not a model; it holds model.onnx, strings.onnx"),
        ("verify model.mgx", 2, "takes the .onnx model, and mgx run model.mgx runs an artifact"),
        ("compile model.mgx", 2, "mgx finalize model.mgx --arch CHIP adds code for chips"),
        ("inspect model.onnx", 2, "is no artifact; mgx inspect takes the .mgx file"),
        ("finalize sub --arch cpu", 2, "sub is a folder; mgx finalize takes the .mgx file"),
        ("compile model.onnx --batch 2 -o sub", 2, "sub is a folder; name a file with -o"),
        ("read model.onnx -o sub", 2, "sub is a folder; name a file with -o"),
        ("verify model.onnx --batch 2 --rtol -1", 2, "'-1' is no number from 0"),
        ("run model.onnx --batch 2 --target gpu --device 99", 1, "there is no device 99; there"),
        ("run model.onnx --batch 2 --device 1", 2, "device 1 is a GPU, and the target is"),
        ("perf strings.onnx --target nowhere", 1, "unknown target"),
    ],
)  # fmt: skip
def test_messages_of_the_command_line(
    command: str, code: int, message: str, folder: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(folder)
    try:
        found = main(command.split())
    except SystemExit as end:  # argparse's way
        found = end.code
    said = capsys.readouterr().err
    assert found == code and message in said
    assert said.startswith("mgx") and "Traceback" not in said and "[Errno" not in said


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: mgx_mlir.complie, "no attribute 'complie'; did you mean compile?"),
        (lambda: mgx_mlir.compile("model.onnx", dim_param={}), "'dim_param'; did you mean dim_"),
        (lambda: mgx_mlir.compile("model.onnx", devise=1), "option 'devise'; did you mean device"),
        (lambda: mgx_mlir.compile("model.onnx"), r"by dim_params=\{'batch': N\}, by input_dims="),
        (lambda: mgx_mlir.compile("model.onnx", "gfx924"), "did you mean gfx942?"),
        (lambda: mgx_mlir.compile(np.zeros(3)), "a model is a path, .*; got ndarray"),
        (lambda: mgx_mlir.compile("model.mgx", exact=True), "an artifact, compiled with options"),
        (lambda: mgx_mlir.compile("model.mgx", device=3), "device 3 is a GPU"),
        (lambda: mgx_mlir.compile("model.mgx").run({"inn": 1}), "input 'inn'; did you mean in?"),
        (lambda: mgx_mlir.compile_to_bytecode("model.mgx"), "compiled already; mgx_mlir.compile"),
        (lambda: mgx_mlir.compile("strings.onnx"), r"mgx_mlir\.Model .* run the model"),
        (lambda: mgx_mlir.load("model.onnx"), "no .mgx artifact.*mgx_mlir.compile takes models"),
        (lambda: mgx_mlir.compile("gone.mgx"), "gone.mgx cannot be opened: No such file"),
        (lambda: mgx_mlir.save("model.onnx", "x.mgx"), "'model.onnx' is no artifact; mgx_mlir.loa"),
        (lambda: mgx_mlir.Model("model.onnx").run({"inn": 1}), "no input 'inn'; did you mean in?"),
        (lambda: mgx_mlir.Model("model.onnx", sed=1), "option 'sed'; did you mean seed?"),
        (lambda: mgx_mlir.finalize("model.mgx", "gfx94"), "unknown target 'gfx94'; did you mean"),
    ],
)  # fmt: skip
def test_messages_of_python(
    mistake: Callable[[], object], message: str, folder: Path, monkeypatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises((MgxError, AttributeError), match=message) as caught:
        mistake()
    assert "fault of mgx-mlir" not in str(caught.value)


def test_unknown_variables_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    settings._warn.cache_clear()
    for _ in range(2):
        Settings.from_environment({"MGX_CACHE_DIRR": "x", "MGX_EMULATED_DEVICES": "gfx942"})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "MGX_CACHE_DIRR is set, and no such variable is read" in record.message
    assert "did you mean MGX_CACHE_DIR?" in record.message


def test_options_are_keywords_or_a_value(folder: Path) -> None:
    options = mgx_mlir.CompileOptions(default_dim=2)
    one = mgx_mlir.compile_to_bytecode(folder / "model.onnx", options)
    two = mgx_mlir.compile_to_bytecode(folder / "model.onnx", default_dim=2)
    assert one.to_bytes() == two.to_bytes()
    ranged = mgx_mlir.compile(str(folder / "model.onnx"), mode="full-dynamic",
                              dim_params={"batch": mgx_mlir.Range(1, 4)})  # fmt: skip
    assert ranged.plan.dims[0].high == 4
    assert mgx_mlir.check(folder / "model.onnx", default_dim=2).state.name == "ARTIFACT"


def test_representations_are_one_line(folder: Path) -> None:
    artifact = mgx_mlir.load(folder / "model.mgx")
    shown = "in: float32[2, 3] -> y: float32[2, 3]"
    assert repr(artifact) == f"Artifact(model: {shown}, 1 kernels, code for no target)"
    assert repr(mgx_mlir.compile(artifact)) == f"Program({shown})"
    assert repr(mgx_mlir.Model(folder / "model.onnx")) == "Model(model: in -> y)"


def test_every_option_is_a_keyword() -> None:
    from dataclasses import fields

    from mgx_mlir.compiler import CompileOptions, OptionKeywords

    assert list(OptionKeywords.__annotations__) == [field.name for field in fields(CompileOptions)]


def test_the_nearest_words_are_suggested() -> None:
    assert instead("GFX942", ["gfx942", "gfx950"], "") == "did you mean gfx942?"
    assert instead("gfx110", ["gfx1100", "gfx1101", "gfx942"], "") == (
        "did you mean gfx1101 or gfx1100?"
    )
    assert instead("q", ["x", "y"], "there are: x, y") == "there are: x, y"
    assert listed([]) == "none" and listed(map(str, range(99))).endswith("39, ...")
