"""Text of decoders: prompts in, tokens out, one at a time.

    decoder = Decoder("model.onnx", target="cpu")
    for tokens in decoder.stream([[1, 15, 7], [1, 9]], max_new_tokens=20):
        print(tokens)              # the next token of each sequence; None where it has ended
    sequences = generate("model.onnx", [[1, 15, 7]], temperature=0.7, top_p=0.9, stop=[2])

Decoders are those that optimum and onnxruntime-genai export: `input_ids`, `attention_mask`,
`position_ids` and `past_key_values.*` to `logits` and `present.*`. One program for any sizes runs
the prompt, and each step until there is one for the sizes of a step. A folder of one of these, or
of Hugging Face, says itself which tokens end an answer and how tokens are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mgx_mlir.errors import UsageError
from mgx_mlir.models.generation.decoder import Decoder
from mgx_mlir.models.generation.folder import Folder
from mgx_mlir.models.generation.sampling import Sampling

__all__ = ["Decoder", "Folder", "Sampling", "generate"]

# The arguments of `Decoder.stream` beside the sampling.
_STREAM = ("max_new_tokens", "stop", "pad", "draft_tokens")


def generate(
    model: Any,
    prompt_ids: Sequence[Any],
    target: Any = "cpu",
    options: Any = None,
    *,
    draft: Any = None,
    precision: str = "",
    **keywords: Any,
) -> list[list[int]]:
    """The new tokens of each prompt, without the token that ended it.

    `model` is a Decoder, a Folder or the path of one, or what `Model` takes; so is `draft`.
    `precision` chooses a file of Hugging Face's folder. The prompts of a folder may be texts.
    Keywords are the fields of Sampling, arguments of `Decoder.stream`, and else of `Model`. Errors
    as `Decoder.stream`'s and `Folder.open`'s.
    """
    folder = folder_of(model, precision)
    names = {field.name for field in fields(Sampling)}
    given = {n: v for n, v in keywords.items() if n in names}
    stream = {n: v for n, v in keywords.items() if n in _STREAM}
    rest = {n: v for n, v in keywords.items() if n not in names and n not in _STREAM}
    sampling = Sampling(**given)
    if folder is not None:
        sampling = replace(folder.sampling, **given)
        stream = {"stop": folder.stop, "pad": folder.pad, **stream}
        prompt_ids = [folder.ids([p])[0] if isinstance(p, str) else p for p in prompt_ids]
        stream["max_new_tokens"] = folder.room(prompt_ids, stream.get("max_new_tokens"))
    decoder = _decoder(model if folder is None else folder, target, options, rest)
    if draft is not None:
        draft = _decoder(folder_of(draft) or draft, target, None, rest)
    return decoder.generate(prompt_ids, sampling=sampling, draft=draft, **stream)


def folder_of(model: Any, precision: str = "") -> Folder | None:
    """The folder that a model is, or the path of; None for a model of another kind."""
    if isinstance(model, Folder):
        return model
    if isinstance(model, str | os.PathLike) and Path(model).is_dir():
        return Folder.open(model, precision)
    if precision:
        raise UsageError(f"precision '{precision}' chooses a file of a folder; {model} is none")
    return None


def _decoder(model: Any, target: Any, options: Any, rest: dict[str, Any]) -> Decoder:
    if isinstance(model, Decoder):
        return model
    source = model.source() if isinstance(model, Folder) else model
    return Decoder(source, target, options, **rest)
