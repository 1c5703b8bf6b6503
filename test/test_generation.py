"""Generation with a decoder's export, beside a greedy loop of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import mgx_mlir
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.models.generation import Decoder, Sampling
from mgx_mlir.tools.mgx import main
from test.decoder_models import EACH, SHARED, llama
from test.dynamic_models import MODELS

PROMPTS = [[3, 17, 5, 40], [8], [21, 2, 9]]


def greedy(model, prompt: list[int], count: int) -> list[int]:
    """The tokens that onnxruntime gives for one prompt, without padding."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in model.graph.input]
    caches = {n: np.zeros((1, SHARED, 0, EACH), np.float32) for n in names if n.startswith("past")}
    ids, found = np.array([prompt]), []
    for _ in range(count):
        total = caches["past_key_values.0.key"].shape[2] + ids.shape[1]
        given = {
            "input_ids": ids,
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(total - ids.shape[1], total)[None],
        }
        given = {n: v for n, v in given.items() if n in names}
        logits, *present = session.run(None, {**given, **caches})
        caches = dict(zip(caches, present, strict=True))
        found.append(int(logits[0, -1].argmax()))
        ids = np.array([found[-1:]])
    return found


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder(llama())


def test_greedy_tokens_are_onnxruntimes(decoder: Decoder) -> None:
    """Prompts of unequal length, padded on the left, and one program for all steps."""
    found = decoder.generate(PROMPTS, max_new_tokens=6)
    assert found == [greedy(llama(), prompt, 6) for prompt in PROMPTS]
    assert decoder.model.compiled == 1


def test_positions_may_follow_from_the_mask() -> None:
    model = llama(positions=False)
    decoder = Decoder(model)
    assert decoder.generate([PROMPTS[0]], max_new_tokens=4) == [greedy(model, PROMPTS[0], 4)]


def test_tokens_come_one_by_one(decoder: Decoder) -> None:
    wanted = greedy(llama(), PROMPTS[0], 5)
    stop = wanted[2]
    first = wanted.index(stop)
    stream = decoder.stream(PROMPTS[:1], max_new_tokens=5, stop=[stop])
    assert [tokens[0] for tokens in stream] == wanted[: first + 1]
    assert decoder.generate(PROMPTS[:1], max_new_tokens=5, stop=[stop]) == [wanted[:first]]


def test_seeds_decide(decoder: Decoder) -> None:
    def tokens(seed: int, prompts: list[list[int]] = PROMPTS) -> list[list[int]]:
        return mgx_mlir.generate(
            decoder, prompts, max_new_tokens=6, temperature=1.5, top_k=20, top_p=0.9, seed=seed
        )

    assert tokens(1) == tokens(1) != tokens(2)
    assert tokens(1, PROMPTS[:1]) == tokens(1)[:1]  # a sequence draws for itself


def test_choices_follow_their_numbers() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))

    def drawn(**numbers: float) -> set[int]:
        sampling = Sampling(temperature=1, **numbers)
        (generator,) = sampling.generators(1)
        return {sampling.choose(logits, [], generator) for _ in range(300)}

    assert drawn() == {0, 1, 2, 3}
    assert drawn(top_k=2) == {0, 1}
    assert drawn(top_p=0.7) == {0, 1}
    assert drawn(top_p=0.4) == {0}
    penalised = Sampling(repetition_penalty=4.0)
    (generator,) = penalised.generators(1)
    assert penalised.choose(logits, [0], generator) == 1
    assert penalised.choose(-logits, [3], generator) == 2


@pytest.mark.parametrize(
    ("prompts", "arguments", "message"),
    [
        ([[]], {}, "a prompt is empty"),
        ([[1]], {"max_new_tokens": 0}, "max_new_tokens is 0; it is 1 or more"),
        ([[1]], {"sampling": Sampling(top_p=0)}, "top_p is 0; it is above 0 and at most 1"),
    ],
)
def test_wrong_arguments_are_named(decoder: Decoder, prompts, arguments, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        decoder.generate(prompts, **arguments)


def test_other_models_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"generation needs a decoder .* has the inputs x"):
        Decoder(MODELS["mlp"]())


def test_the_verb_prints_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "llama.onnx"
    onnx.save(llama(), path)
    assert main(["generate", str(path), "--ids", "8", "--max-new-tokens", "3"]) == 0
    assert [int(token) for token in capsys.readouterr().out.split()] == greedy(llama(), [8], 3)
    assert main(["generate", str(path), "--prompt", "text"]) != 0
    assert "give --tokenizer tokenizer.json, or --ids" in capsys.readouterr().err
