"""Generation on an emulated chip gives the tokens of the CPU."""

from __future__ import annotations

import pytest

from mgx_mlir.models.generation import Decoder
from mgx_mlir.settings import Settings
from test.decoder_models import llama
from test.test_generation import PROMPTS, greedy


@pytest.mark.parametrize("chip", ["gfx942", pytest.param("gfx1100", marks=pytest.mark.slow)])
def test_tokens_of_a_chip(chip: str) -> None:
    decoder = Decoder(llama(), chip, settings=Settings(jobs=1, hip="emulated"))
    found = decoder.generate(PROMPTS[:2], max_new_tokens=3)
    assert found == [greedy(llama(), prompt, 3) for prompt in PROMPTS[:2]]
    assert decoder.model.compiled in (1, 2)  # one for the steps, in the background
