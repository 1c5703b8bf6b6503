"""Text of decoders: prompts in, tokens out, one at a time.

    decoder = Decoder("model.onnx", target="cpu")
    for tokens in decoder.stream([[1, 15, 7], [1, 9]], max_new_tokens=20):
        print(tokens)              # the next token of each sequence; None where it has ended
    sequences = generate("model.onnx", [[1, 15, 7]], temperature=0.7, top_p=0.9, stop=[2])

Decoders are those that optimum and onnxruntime-genai export: `input_ids`, `attention_mask`,
`position_ids` and `past_key_values.*` to `logits` and `present.*`. One program for any sizes runs
the prompt, and each step until there is one for the sizes of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from mgx_mlir.models.generation.decoder import Decoder
from mgx_mlir.models.generation.sampling import Sampling

__all__ = ["Decoder", "Sampling", "generate"]

# The arguments of `Decoder.stream` beside the sampling.
_STREAM = ("max_new_tokens", "stop", "pad", "draft_tokens")


def generate(
    model: Any,
    prompt_ids: Sequence[Sequence[int]],
    target: Any = "cpu",
    options: Any = None,
    *,
    draft: Any = None,
    **keywords: Any,
) -> list[list[int]]:
    """The new tokens of each prompt, without the token that ended it.

    `model` is a Decoder, or what `Model` takes; so is `draft`. Keywords are the fields of
    Sampling, arguments of `Decoder.stream`, and else of `Model`. Errors as `Decoder.stream`'s.
    """
    names = {field.name for field in fields(Sampling)}
    sampling = Sampling(**{n: v for n, v in keywords.items() if n in names})
    stream = {n: v for n, v in keywords.items() if n in _STREAM}
    rest = {n: v for n, v in keywords.items() if n not in names and n not in _STREAM}
    decoder = model if isinstance(model, Decoder) else Decoder(model, target, options, **rest)
    if draft is not None and not isinstance(draft, Decoder):
        draft = Decoder(draft, target, **rest)
    return decoder.generate(prompt_ids, sampling=sampling, draft=draft, **stream)
