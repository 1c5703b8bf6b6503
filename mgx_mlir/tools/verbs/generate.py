"""generate: text of a decoder, token by token.

The model is a decoder with a cache, as optimum and onnxruntime-genai export it. Prompts are
token ids, or text where a tokenizer.json is given, which takes the package tokenizers.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from mgx_mlir.tools import options as shared
from mgx_mlir.tools.numbers import real, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model of a decoder")
    add = parser.add_argument
    add(
        "--ids",
        action="append",
        default=[],
        metavar="1,2,3",
        help="a prompt's token ids; may come again",
    )
    add("--prompt", action="append", default=[], metavar="TEXT", help="a prompt; may come again")
    add("--tokenizer", type=Path, metavar="FILE", help="the tokenizer.json of prompts and results")
    add("--max-new-tokens", type=whole(0), default=128, metavar="N", help="default 128")
    add("--stop", type=int, action="append", default=[], metavar="ID", help="a token that ends")
    add("--pad", type=int, default=0, metavar="ID", help="the token before shorter prompts")
    add(
        "--temperature", type=real(), default=0.0, metavar="T", help="0, the default: the likeliest"
    )
    add("--top-k", type=whole(0), default=0, metavar="K", help="draw from the K likeliest tokens")
    add(
        "--top-p",
        type=real(0, 1),
        default=1.0,
        metavar="P",
        help="draw from the likeliest of share P",
    )
    add(
        "--repetition-penalty",
        type=real(),
        default=1.0,
        metavar="F",
        help="for tokens that are there",
    )
    add("--seed", type=whole(0), default=0, metavar="N", help="of the draws")
    add(
        "--draft",
        type=Path,
        metavar="MODEL",
        help="a smaller decoder of the same tokens, which proposes tokens",
    )
    add("--draft-tokens", type=whole(0), default=4, metavar="N", help="proposals for each step")
    shared.add_target_options(parser, "where to run")
    shared.add_shape_options(parser)
    shared.add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.models.generation import Decoder, Sampling

    tokenizer: Any = None
    if options.tokenizer is not None:
        tokenizer = _tokenizer(options.tokenizer)
    elif options.prompt:
        raise UsageError("--prompt is text; give --tokenizer tokenizer.json, or --ids")
    prompts = [_ids(text) for text in options.ids]
    prompts += [tokenizer.encode(text).ids for text in options.prompt]
    if not prompts:
        raise UsageError("give a prompt by --prompt or --ids")
    target, how = shared.target_of(options), shared.compile_options(options)
    device: dict[str, Any] = {"device": options.device, "graph": not options.no_graph}
    decoder = Decoder(options.model, target, how, **device)
    draft = None
    if options.draft is not None:
        draft = Decoder(options.draft, target, replace(how, input_dims={}, dim_params={}), **device)
    sampling = Sampling(
        options.temperature, options.top_k, options.top_p, options.repetition_penalty, options.seed
    )
    stream = decoder.stream(
        prompts,
        max_new_tokens=options.max_new_tokens,
        stop=options.stop,
        pad=options.pad,
        sampling=sampling,
        draft=draft,
        draft_tokens=options.draft_tokens,
    )
    _print(stream, len(prompts), tokenizer, frozenset(options.stop))
    return 0


def _print(stream: Any, count: int, tokenizer: Any, stop: frozenset[int]) -> None:
    """Prints one sequence as it grows, several when they have ended."""
    found: list[list[int]] = [[] for _ in range(count)]
    shown = 0
    for tokens in stream:
        for own, token in zip(found, tokens, strict=True):
            if token is not None and token not in stop:
                own.append(token)
        if count == 1:
            text = _text(found[0], tokenizer)
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # a part of a character
                print(text[shown:], end="", flush=True)
                shown = len(text)
    if count == 1:
        print(_text(found[0], tokenizer)[shown:])
    else:
        print("\n".join(_text(own, tokenizer) for own in found))
    sys.stdout.flush()


def _text(ids: list[int], tokenizer: Any) -> str:
    if tokenizer is None:
        return " ".join(map(str, ids))
    return str(tokenizer.decode(ids))


def _ids(text: str) -> list[int]:
    from mgx_mlir.errors import UsageError

    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--ids {text!r}: token ids are numbers, as in 1,2,3") from None


def _tokenizer(path: Path) -> Any:
    from mgx_mlir.errors import UsageError

    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            "--tokenizer needs the package tokenizers: pip install tokenizers"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no class of its own
        raise UsageError(f"--tokenizer {path}: {error}") from None
