"""Output of the tools: names from models never reach a terminal as control characters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mgx_mlir.errors import ModelError, Unsupported, UnsupportedError
from mgx_mlir.text import name_text, printable
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.mgx_opt import main as opt

EVIL = "\x1b]0;owned\x07\u202e\nverified"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model whose names of graph, node, input and output are hostile."""
    x, y = (helper.make_tensor_value_info(n + EVIL, TensorProto.FLOAT, [2]) for n in "xy")
    node = helper.make_node("Relu", ["x" + EVIL], ["y" + EVIL], "relu" + EVIL)
    graph = helper.make_graph([node], "g" + EVIL, [x], [y])
    file = tmp_path / "evil.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)
    return str(file)


def test_control_characters_are_escaped_in_all_output(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, open_model, unknown = (str(tmp_path / name) for name in ("evil.mgx", "open.on", "no.on"))
    proto = onnx.load(model)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n" + EVIL
    onnx.save(proto, open_model)
    proto.graph.node[0].op_type = "Foo" + EVIL
    onnx.save(proto, unknown)
    for command in (
        ["compile", model, "-o", made, "--explain"],
        ["run", model],
        ["verify", model],
        ["perf", model, "--runs", "1"],
        ["params", model],
        ["params", made],
        ["check", model],
        ["read", model, "--locations"],
        ["inspect", made],
        ["inspect", made, "--json"],
        ["run", made, "--input", "nothing=x.npy"],
        ["run", model, "--input-dim", "@x", "3"],
        ["compile", open_model, "-o", made],
        ["run", unknown],
    ):
        main(command)
        shown, said = capsys.readouterr()
        assert not set(shown + said) & set("\x1b\x07\u202e"), command
        assert "\nverified" not in (shown + said).replace("\nverified\n", "", 1), command


def test_errors_escape_names() -> None:
    said = str(ModelError(f"node '{EVIL}':\n  the loop's limit\n  isn't set"))
    assert said == "node '\\x1b]0;owned\\x07\\u202e\\nverified':\n  the loop's limit\n  isn't set"
    entry = Unsupported("n'" + EVIL, "Foo" + EVIL, "why")
    assert "\n" not in str(UnsupportedError(str(entry)))
    assert printable("a\tb\nc\r\ud800é") == "a\tb\nc\\r\\ud800é"
    assert name_text("a\nb\tc") == r"a\nb\tc"


def test_mgx_opt_escapes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.mlir"
    file.write_text('func.func @f() attributes {a = "\\1B]0;owned\\07"} { return }')
    assert opt([str(file)]) == 0
    assert opt([str(tmp_path / "\x1b.mlir")]) == 1
    assert "\x1b" not in "".join(capsys.readouterr())


def test_pickled_input_is_refused_and_never_suggested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, any_sizes = tmp_path / "x.npy", tmp_path / "any.mgx"
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy")
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y])), tmp_path / "any.onnx")
    full = ["--mode", "full-dynamic", "-o", str(any_sizes)]
    assert main(["compile", str(tmp_path / "any.onnx"), *full]) == 0
    np.save(file, np.array([{}], object), allow_pickle=True)
    pickled = tmp_path / "p.npy"
    pickled.write_bytes(b"\x80\x04.")
    for given in (file, pickled):
        for program in (tmp_path / "any.onnx", any_sizes):
            assert main(["run", str(program), "--input", f"x={given}"]) == 2
            said = capsys.readouterr().err
            assert "which can hold code and are not read" in said or "is no .npy file" in said
            assert "allow_pickle" not in said and "unsafely" not in said


ENDING = """
import argparse, atexit, sys, threading, time
from mgx_mlir.tools.command import end_with

def late():
    time.sleep(0.2)
    print("thread")

def main():
    atexit.register(print, "exit function")
    threading.Thread(target=late).start()
    print("main")
    {ending}

end_with(main)
"""


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("return 3", 3),
        ("argparse.ArgumentParser().error('words')", 2),
        ("sys.exit()", 0),
        ("raise ValueError", 1),
    ],
)
def test_a_command_ends_with_its_code_and_waits_for_its_threads(ending: str, code: int) -> None:
    script = ENDING.format(ending=ending)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == code
    assert found.stdout == "main\nthread\nexit function\n"
    assert ("ValueError" in found.stderr) == ("ValueError" in ending)
