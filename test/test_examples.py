"""The examples run, with models that onnx.helper builds."""

from __future__ import annotations

import json
import os
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from test.decoder_models import VOCABULARY, llama

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def detector(form: str) -> onnx.ModelProto:
    """Scores each of the 4 x 4 cells of an image of 32 x 32 by its brightness."""
    at = np.arange(4) * 8.0
    corners = np.stack([*np.meshgrid(at, at)]).reshape(2, 16)
    boxes = np.concatenate([corners, corners + 8])
    if form == "yolo":
        boxes = np.concatenate([corners + 4, np.full((2, 16), 8.0)])
    b = helper.make_node
    nodes = [
        b("AveragePool", ["x"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]),
        b("ReduceMean", ["cells"], ["grey"], axes=[1], keepdims=1),
        b("Reshape", ["grey", "row"], ["scores"]),
    ]
    held = {"boxes": boxes[None].astype(np.float32), "row": np.array([1, 1, 16])}
    if form == "yolo":
        nodes.append(b("Concat", ["boxes", "scores"], ["y"], axis=1))
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 16])]
    else:
        held |= {"kinds": np.zeros((1, 1, 16), np.float32)}
        nodes += [
            b("Concat", ["boxes", "scores", "kinds"], ["rows"], axis=1),
            b("Transpose", ["rows"], ["y"], perm=[0, 2, 1]),
        ]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 6])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])
    constants = [numpy_helper.from_array(v, n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "detector", [x], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("form", ["yolo", "rows"])
def test_boxes_are_drawn(form: str, tmp_path: Path) -> None:
    onnx.save(detector(form), tmp_path / "model.onnx")
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[16:32, 32:48] = 255  # the cell in row 1 and column 2, in a picture of twice the size
    Image.fromarray(pixels).save(tmp_path / "in.png")
    command = [sys.executable, EXAMPLES / "detect.py", "model.onnx", "in.png", "out.png"]
    done = subprocess.run(
        [*command, "--score", "0.6"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("class 0, score ") and line.endswith("box [32, 16, 48, 32]")
    drawn = np.asarray(Image.open(tmp_path / "out.png"))
    assert tuple(drawn[16, 40]) == tuple(drawn[24, 48]) == (255, 0, 0)


# The part of the package tokenizers that the example calls, for a token a letter.
LETTERS = """
import json
from types import SimpleNamespace

class Tokenizer:
    def __init__(self, letters):
        self.letters = letters

    @staticmethod
    def from_file(path):
        return Tokenizer(json.load(open(path)))

    def encode(self, text):
        return SimpleNamespace(ids=[max(self.letters.find(c), 0) for c in text.lower()])

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)
"""


def test_a_chat_answers_each_line(tmp_path: Path) -> None:
    letters = (" " + string.ascii_lowercase + string.digits + string.punctuation)[:VOCABULARY]
    (tmp_path / "tokenizers.py").write_text(LETTERS)
    (tmp_path / "tokenizer.json").write_text(json.dumps(letters))
    onnx.save(llama(), tmp_path / "model.onnx")
    arguments = ["model.onnx", "tokenizer.json", "--max-new-tokens", "5", "--temperature", "0"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "chat.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        input="hi\nwho\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, end = (line.removeprefix("> ") for line in done.stdout.splitlines())
    assert len(first) == len(second) == 5 and set(first + second) <= set(letters)
    assert end == ""
