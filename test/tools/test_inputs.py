"""The tools' messages on inputs, sizes and files that do not fit, and on models in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mgx_mlir.tools.mgx import main

HEAD = '<ir_version: 8, opset_import: ["": 20]>'
MODELS = {
    "sized": "g (float[n, 3] x, float[n, 3] z) => (float[n, 3] y) { y = Add(x, z) }",
    "shapeless": "g (float[] x, float[b, 3] z) => (float[b, 3] y) { y = Add(x, z) }",
    "strings": "g (string[n] s) => (string[n] y) { y = StringConcat(s, s) }",
    "parts": "g (float[m, 3] x) => (int64[2, k] y) { y = NonZero(x) }",
    "static": "g (float[3] x) => (float[3] y) { y = Relu(x) }",
    "list": "g (float[4, 3] x) => (seq(float[2, 3]) y) "
    "{ k = Constant<value = int64 {2}>() y = SplitToSequence<axis = 0>(x, k) }",
}
ARRAYS = {
    "two": np.ones((2, 3), np.float32),
    "four": np.ones((4, 3), np.float32),
    "flat": np.ones(3, np.float32),
    "double": np.ones((2, 3)),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models and arrays above, and an artifact, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    for name, text in MODELS.items():
        onnx.save(onnx.parser.parse_model(HEAD + text), f"{name}.onnx")
    for name, array in ARRAYS.items():
        np.save(f"{name}.npy", array)
    assert main(["compile", "static.onnx"]) == 0
    (tmp_path / "damaged.npz").write_bytes(b"PK\3\4 and no more")
    (tmp_path / "copy.bin").write_bytes((tmp_path / "static.mgx").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run sized.onnx", "'n' (dimension 0 of input 'x') has no size; give one by --dim-param"),
        ("run sized.onnx --input x=two.npy", "or give the input by --input z=FILE"),
        ("run sized.onnx --input x=flat.npy --input z=two.npy",
         "input 'x' is float32[n, 3]; got float32[3]"),
        ("run sized.onnx --input x=double.npy --input z=two.npy",
         "input 'x' is float32[n, 3]; got float64[2, 3]"),
        ("run sized.onnx --batch 2 --input x=four.npy", "input 'x' is float32[2, 3]; got"),
        ("run sized.onnx --input q=two.npy", "no input has this name; the model's inputs are x, z"),
        ("run sized.onnx --input x=two.npy --input x=two.npy", "--input x is given twice"),
        ("perf sized.onnx", "has no size; give one by --dim-param @n N"),
        ("verify sized.onnx", "has no size; give one by --dim-param @n N"),
        ("run shapeless.onnx", "input 'x' is float32 of any shape; give it by --input x=FILE"),
        ("run strings.onnx", "input 's' is string n; give it by --input s=FILE"),
        ("run parts.onnx --dim-param @x 3", "no input has a dimension called 'x'; there are: m"),
        ("run static.mgx --input x=two.npy", "input 'x' is float32[3]; got float32[2, 3]"),
        ("run static.mgx --input q=two.npy", "the model's inputs are x"),
        ("run static.mgx --batch 3", "--batch: static.mgx is compiled already"),
        ("perf static.mgx --mode fast", "--mode: static.mgx is compiled already"),
        ("compile static.mgx", "is an artifact; mgx compile takes the .onnx model"),
        ("compile copy.bin", "is an artifact; mgx compile takes the .onnx model"),
        ("check static.mgx", "is an artifact; mgx check takes the .onnx model"),
        ("read static.mgx", "is an artifact; mgx read takes the .onnx model"),
        ("verify static.mgx", "is an artifact; mgx verify takes the .onnx model"),
        ("compile static.onnx -o .", ". is a folder; name a file with -o"),
        ("compile static.onnx -o no/x.mgx", "no is not a folder; make it, or choose another -o"),
        ("compile static.onnx --arch gfx942,", "--arch 'gfx942,': name targets"),
        ("finalize static.mgx --arch gfx942 -o .", ". is a folder; name a file with -o"),
        ("run static.onnx --output two.npy", "--output two.npy is a file; name a folder"),
        ("run static.onnx --input x=static.onnx", "static.onnx is no .npy file"),
        ("run static.onnx --input x=damaged.npz", "damaged.npz is no .npy file"),
        ("run sized.onnx --dim-param @n 99999999999999999999", "'n' cannot have size 9999"),
        ("run sized.onnx --dim-param @n {1,99999999999999999999}", "sizes are from 0"),
        ("run static.onnx --input x=none.npy", "none.npy: No such file or directory"),
        ("inspect static.onnx", "is no artifact; mgx inspect takes the .mgx file"),
        ("finalize static.onnx --arch cpu", "is no artifact; mgx finalize takes the .mgx file"),
    ],
)  # fmt: skip
def test_wrong_input_is_named_with_what_is_wanted(
    command: str, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(command.split()) == 2
    assert message in capsys.readouterr().err


def test_a_folder_is_no_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("check", "compile", "params", "perf", "read", "run", "verify"):
        capsys.readouterr()
        assert main([verb, "."]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"mgx {verb}: /") and "is a folder, not a model" in error


@pytest.mark.parametrize("name", ["none.onnx", "none/m.onnx"])
def test_a_model_that_is_not_there_is_named_before_its_output(
    name: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("check", "compile", "ep-context", "params", "perf", "read", "run", "verify"):
        capsys.readouterr()
        assert main([verb, name]) == 1
        assert capsys.readouterr().err.startswith(f"mgx {verb}: there is no file /")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("run sized.onnx --batch 2", "y: float32 2x3"),
        ("run sized.onnx --input x=two.npy --input z=two.npy", "y: float32 2x3"),
        ("run shapeless.onnx --input x=flat.npy --input z=two.npy", "y: float32 2x3"),
        ("run parts.onnx --dim-param @m 2", "y: int64 2x6"),
        ("run copy.bin", "y: float32 3"),
        ("perf parts.onnx --batch 2 --runs 1", "a run, in parts: min"),
        ("perf sized.onnx --input x=two.npy --input z=two.npy --runs 1", "a run, cpu: min"),
        ("params strings.onnx", "input   s: string n\noutput  y: string n"),
        ("params shapeless.onnx", "input   x: float32 of any shape"),
        ("params parts.onnx --batch 2", "input   x: float32 2x3\noutput  y: int64 2 x ?"),
        ("params list.onnx", "output  y: a sequence of float32 2x3"),
    ],
)
def test_sizes_come_from_options_or_inputs(
    command: str, shown: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(command.split()) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check static.onnx", 0),
        ("check sized.onnx --batch 2", 0),
        ("check sized.onnx --mode full-dynamic", 0),
        ("check parts.onnx", 0),
        ("check shapeless.onnx", 3),
        ("check nothing.onnx", 1),
    ],
)
def test_the_exit_code_of_check_says_what_compile_does(
    command: str, code: int, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == code
    compiled = main(["compile", *command.split()[1:], "-o", "out.mgx"])
    assert (compiled == 0) == (code == 0)


def test_check_of_a_model_of_open_sizes_ends_with_0(files: Path) -> None:
    """`Model` and `run` take it; an artifact asks for sizes, or for the mode for all."""
    assert main(["check", "sized.onnx"]) == 0
