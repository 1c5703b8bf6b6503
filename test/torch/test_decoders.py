"""Decoders with a cache in torch.compile: a program for prompts, and one for steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
transformers = pytest.importorskip("transformers", reason="make test-torch installs it")


pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("dynamic", "most"), [(True, 2), (None, 4)])
def test_prompts_and_steps_of_any_length_compile_once(
    dynamic: bool | None, most: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    options = {"cache": str(tmp_path)}
    fast = torch.compile(model, backend="mgx", dynamic=dynamic, options=options)
    counts = []
    with torch.no_grad():
        for length in (7, 12, 9):
            ids = torch.randint(0, 90, (1, length))
            ours, theirs = (transformers.DynamicCache(config=config) for _ in range(2))
            for _ in range(4):
                found = fast(ids, past_key_values=ours, use_cache=True).logits
                wanted = model(ids, past_key_values=theirs, use_cache=True).logits
                torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
                ids = wanted[:, -1:].argmax(-1)
            counts.append(len(list(tmp_path.glob("*.mgx"))))
    assert counts[-1] == counts[-2] == most
    same_cache(ours, theirs)


def same_cache(one: Any, other: Any) -> None:
    for layer, wanted in zip(one.layers, other.layers, strict=True):
        torch.testing.assert_close(layer.keys, wanted.keys, rtol=1e-5, atol=1e-5)
