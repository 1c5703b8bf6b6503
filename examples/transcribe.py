"""Writes down the speech of a sound file, with Whisper as optimum exports it.

    optimum-cli export onnx --model openai/whisper-tiny whisper/
    python examples/transcribe.py whisper/ speech.wav [--target gfx942] [--language de]

The folder has encoder_model.onnx, decoder_model.onnx, decoder_with_past_model.onnx,
generation_config.json and tokenizer.json, which the package `tokenizers` reads. The sound has
16,000 samples a second of 16 bits: `ffmpeg -i speech.mp3 -ar 16000 speech.wav` makes such a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mgx_mlir

RATE, WINDOW, STEP = 16_000, 400, 160  # samples a second, of a spectrum, and between two of them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sound", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--language", help="such as en; else the likeliest")
    parser.add_argument("--max-new-tokens", type=int, default=440, help="of each part")
    options = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    speech = Whisper(options.folder, options.target)
    language = f"<|{options.language}|>" if options.language else None
    if language and language not in speech.config.get("lang_to_id", {}):
        sys.exit(f"{options.folder / 'generation_config.json'} has no language {language}")
    samples = samples_of(options.sound)
    for start in range(0, len(samples), speech.samples):
        features = spectrum(samples[start : start + speech.samples], *speech.shape)
        stream = speech.tokens(features, language, options.max_new_tokens)
        text: list[int] = []
        for token in stream:
            before = tokenizer.decode(text)
            text.append(token)
            print(tokenizer.decode(text)[len(before) :], end="", flush=True)
        print()


class Whisper:
    """The encoder, and the decoder's first step and its others: one program for any sizes each."""

    def __init__(self, folder: Path, target: str) -> None:
        names = ("encoder_model", "decoder_model", "decoder_with_past_model")
        missing = [name for name in names if not (folder / f"{name}.onnx").exists()]
        if missing:
            sys.exit(f"{folder} lacks {missing[0]}.onnx; `optimum-cli export onnx` writes it")
        self.encoder, self.first, self.step = (
            mgx_mlir.Model(folder / f"{name}.onnx", target) for name in names
        )
        self.config: dict[str, Any] = json.loads((folder / "generation_config.json").read_text())
        dims = self.encoder.input_types["input_features"].tensor_type.shape.dim
        self.shape = dims[1].dim_value or 80, dims[2].dim_value or 3000
        self.samples = self.shape[1] * STEP

    def tokens(self, features: np.ndarray, language: str | None, most: int) -> Iterator[int]:
        """The most likely token at each place, until the end of the text."""
        (hidden,) = self.encoder.run({"input_features": features}).values()
        given = {"encoder_hidden_states": hidden}
        given["input_ids"] = np.array([self.prompt(hidden, language)])
        model = self.first
        for _ in range(most):
            results = model.run({n: a for n, a in given.items() if n in model.inputs})
            token = int(results["logits"][0, -1].argmax())
            if token == self.config["eos_token_id"]:
                return
            yield token
            # The keys and values of the sound are those of the first step.
            caches = {n: a for n, a in results.items() if n.startswith("present.")}
            given |= {n.replace("present.", "past_key_values.", 1): a for n, a in caches.items()}
            given["input_ids"] = np.array([[token]])
            model = self.step

    def prompt(self, hidden: np.ndarray, language: str | None) -> list[int]:
        """The tokens before the text: start, language, task, and that no times are wanted."""
        config = self.config
        start, plain = config["decoder_start_token_id"], config["no_timestamps_token_id"]
        languages = config.get("lang_to_id")
        if not languages:  # a model of one language
            return [start, plain]
        given = {"input_ids": np.array([[start]]), "encoder_hidden_states": hidden}
        logits = self.first.run(given)["logits"][0, -1]
        likely = max(languages.values(), key=lambda token: logits[token])
        return [start, languages.get(language, likely), config["task_to_id"]["transcribe"], plain]


def samples_of(file: Path) -> np.ndarray:
    """The samples of a sound from -1 to 1, the mean of its channels."""
    with wave.open(str(file)) as sound:
        if (sound.getframerate(), sound.getsampwidth()) != (RATE, 2):
            sys.exit(f"{file}: {RATE} samples a second of 16 bits are needed; ffmpeg -ar {RATE}")
        data = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        mean: np.ndarray = data.reshape(-1, sound.getnchannels()).mean(1) / 32768
        return mean


def spectrum(samples: np.ndarray, bands: int, frames: int) -> np.ndarray:
    """The logarithm of the power in each band at each time: float32, (1, bands, frames)."""
    padded = np.pad(samples, (0, frames * STEP - len(samples)))
    padded = np.pad(padded, WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[: frames * STEP : STEP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(windows * hann)) ** 2
    found = np.log10(np.maximum(filters(bands) @ power.T, 1e-10))
    found = np.maximum(found, found.max() - 8)
    return ((found + 4) / 4)[None].astype(np.float32)


def filters(bands: int) -> np.ndarray:
    """The share of each frequency in each band: triangles of equal area, evenly apart in mel.

    Slaney's mel: 3 a 200 Hz up to 1,000 Hz, then 27 a factor of 6.4.
    """
    turn, rate = 15.0, 27 / np.log(6.4)
    mels = np.linspace(0, turn + rate * np.log(RATE / 2 / 1000), bands + 2)
    edges = np.where(mels < turn, mels * 200 / 3, 1000 * np.exp((mels - turn) / rate))
    given = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (given - low) / (middle - low), (high - given) / (high - middle)
    triangles: np.ndarray = np.maximum(np.minimum(rising, falling), 0) * 2 / (high - low)
    return triangles


if __name__ == "__main__":
    main()
