"""The examples run, with models that onnx.helper builds."""

from __future__ import annotations

import importlib.util
import json
import os
import string
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import mgx_mlir
from test import whisper_models
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


def imported(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def tone(file: Path, seconds: float) -> None:
    """A sound of two channels whose pitch rises."""
    at = np.arange(int(seconds * 16000)) / 16000
    samples = np.sin(2 * np.pi * (200 + 800 * at) * at) * 20000
    with wave.open(str(file), "wb") as sound:
        sound.setparams((2, 2, 16000, 0, "NONE", ""))
        sound.writeframes(np.stack([samples, samples / 2], 1).astype("<i2").tobytes())


def test_speech_is_written_as_the_model_says(tmp_path: Path) -> None:
    """Letters are those of the whole prefix in onnxruntime, without a cache, for each part."""
    models = {
        "encoder_model": whisper_models.encoder(),
        "decoder_model": whisper_models.decoder(past=False),
        "decoder_with_past_model": whisper_models.decoder(past=True),
    }
    for name, model in models.items():
        onnx.save(model, tmp_path / f"{name}.onnx")
    letters = string.ascii_lowercase + "..."
    config = {
        "decoder_start_token_id": 26,
        "eos_token_id": 28,
        "lang_to_id": {"<|de|>": 5, "<|en|>": 7, "<|fr|>": 8},
        "task_to_id": {"transcribe": 6},
        "no_timestamps_token_id": 27,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizers.py").write_text(LETTERS)
    (tmp_path / "tokenizer.json").write_text(json.dumps(letters))
    tone(tmp_path / "tone.wav", 0.7)  # two parts of 40 frames of 10 ms
    arguments = [tmp_path, tmp_path / "tone.wav", "--max-new-tokens", "9"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "transcribe.py", *arguments],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    example = imported("transcribe")
    encoder, decoder = (
        onnxruntime.InferenceSession(models[name].SerializeToString())
        for name in ("encoder_model", "decoder_model")
    )

    def logits(hidden: np.ndarray, tokens: list[int]) -> np.ndarray:
        given = {"input_ids": np.array([tokens]), "encoder_hidden_states": hidden}
        return np.asarray(decoder.run(["logits"], given)[0])[0, -1]

    samples, wanted = example.samples_of(tmp_path / "tone.wav"), []
    for part in (samples[:6400], samples[6400:]):
        features = example.spectrum(part, whisper_models.BANDS, whisper_models.FRAMES)
        (hidden,) = encoder.run(None, {"input_features": features})
        spoken = max((5, 7, 8), key=lambda token: logits(hidden, [26])[token])
        tokens = [26, spoken, 6, 27]
        while len(tokens) < 13 and tokens[-1] != 28:
            tokens.append(int(logits(hidden, tokens).argmax()))
        wanted.append("".join(letters[t] for t in tokens[4:] if t != 28))
    assert done.stdout.splitlines() == wanted
    assert len(set("".join(wanted))) > 2


def test_bands_of_a_spectrum_follow_the_pitch() -> None:
    """Each tone is loudest in the band whose triangle has its pitch nearest to the middle."""
    example = imported("transcribe")
    shares = example.filters(80)
    np.testing.assert_allclose(shares[40:].sum(1) * 40, 1, atol=0.1)  # of equal area in Hz
    at = np.arange(16000) / 16000
    for pitch in (120, 440, 1000, 3100, 7000):
        found = example.spectrum(np.sin(2 * np.pi * pitch * at), 80, 100)[0]
        assert found.shape == (80, 100) and found.dtype == np.float32
        assert (found[:, 10:80].argmax(0) == shares[:, pitch // 40].argmax()).all()


@pytest.fixture(scope="module")
def train_chat() -> Any:
    return imported("train_chat")


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
