"""The examples run, with models that onnx.helper builds."""

from __future__ import annotations

import importlib.util
import json
import os
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import mgx_mlir
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


@pytest.fixture(scope="module")
def train_chat() -> Any:
    spec = importlib.util.spec_from_file_location("train_chat", EXAMPLES / "train_chat.py")
    assert spec and spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def test_the_decoder_of_the_chat_is_the_trained_one(train_chat: Any, tmp_path: Path) -> None:
    """Its tokens, past the window too, are those of the network in numpy."""
    command = [sys.executable, EXAMPLES / "train_chat.py", tmp_path, "--steps", "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < np.log(len(train_chat.LETTERS))
    model = onnx.load(tmp_path / "model.onnx")
    network = train_chat.Network(
        {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    )
    tokens = list(train_chat.dialogue(np.random.default_rng(1), train_chat.WINDOW + 20))
    (found,) = mgx_mlir.generate(tmp_path / "model.onnx", [tokens], max_new_tokens=6)
    for _ in found:
        tokens.append(int(network.forward(np.array([tokens]))[0, -1].argmax()))
    assert len(found) == 6 and found == tokens[-6:]
    letters = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert [letters[c] for c in train_chat.LETTERS] == list(range(len(letters)))


def test_gradients_of_the_chat_are_those_of_small_steps(train_chat: Any) -> None:
    rng = np.random.default_rng(0)
    weights = {n: w.astype(np.float64) for n, w in train_chat.initial(rng).items()}
    tokens = rng.integers(0, len(train_chat.LETTERS), (2, train_chat.WINDOW + 10))
    network = train_chat.Network(weights)
    network.loss(tokens)
    assert network.gradients.keys() == weights.keys()
    for name, gradient in network.gradients.items():
        step = rng.normal(0, 1e-7, gradient.shape)
        up, down = (
            train_chat.Network(weights | {name: weights[name] + sign * step}).loss(tokens)
            for sign in (1, -1)
        )
        assert (up - down) / 2 == pytest.approx((gradient * step).sum(), rel=1e-4), name
