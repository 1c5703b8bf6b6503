"""generate: text of a decoder, token by token.

The model is a decoder with a cache, as optimum and onnxruntime-genai export it, or the folder of
one, which has the tokenizer, the tokens that end an answer, and how tokens are drawn. Prompts are
token ids, or text where there is a tokenizer.json, which takes the package tokenizers.
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
    shared.add_model(parser, "an .onnx model of a decoder, or the folder of one")
    add = parser.add_argument
    add(
        "--ids",
        action="append",
        default=[],
        metavar="1,2,3",
        help="a prompt's token ids; may come again",
    )
    add("--prompt", action="append", default=[], metavar="TEXT", help="a prompt; may come again")
    add(
        "--chat", action="store_true", help="prompts are messages of a user, by a folder's template"
    )
    add("--tokenizer", type=Path, metavar="FILE", help="the tokenizer.json of prompts and results")
    add("--precision", default="", metavar="P", help="which file of a folder: fp16, q4, q4f16 ...")
    add("--max-new-tokens", type=whole(0), metavar="N", help="default: the folder's, else 128")
    add("--stop", type=int, action="append", default=[], metavar="ID", help="a token that ends")
    add("--pad", type=int, metavar="ID", help="the token before shorter prompts")
    said = "default: the folder's, else"
    add("--temperature", type=real(), metavar="T", help=f"0: the likeliest; {said} 0")
    add("--top-k", type=whole(0), metavar="K", help=f"draw from the K likeliest tokens; {said} all")
    add("--top-p", type=real(0, 1), metavar="P", help=f"draw from those of share P; {said} 1")
    add("--repetition-penalty", type=real(), metavar="F", help="for tokens that are there")
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
    from mgx_mlir.models.generation import Decoder, folder_of
    from mgx_mlir.models.generation.decoder import DEFAULT_TOKENS
    from mgx_mlir.models.generation.text import tokenizer_of

    folder = folder_of(options.model, options.precision)
    words: Any = None
    if options.tokenizer is not None:
        words = tokenizer_of(options.tokenizer, "--tokenizer")
    elif folder is not None and (options.prompt or (folder.path / "tokenizer.json").is_file()):
        words = folder.words
    elif options.prompt:
        raise UsageError("--prompt is text; give --tokenizer tokenizer.json, or --ids")
    prompts = [_ids(text) for text in options.ids]
    prompts += [_encoded(text, words, folder, options.chat) for text in options.prompt]
    if not prompts:
        raise UsageError("give a prompt by --prompt or --ids")
    target, how = shared.target_of(options), shared.compile_options(options)
    device: dict[str, Any] = {"device": options.device, "graph": not options.no_graph}
    model = options.model if folder is None else folder.source()
    decoder = Decoder(model, target, how, **device)
    draft = None
    if options.draft is not None:
        draft = Decoder(options.draft, target, replace(how, input_dims={}, dim_params={}), **device)
    stop = options.stop or ([] if folder is None else folder.stop)
    pad = options.pad if options.pad is not None else 0 if folder is None else folder.pad
    wanted = options.max_new_tokens
    room = folder.room(prompts, wanted) if folder is not None else wanted
    stream = decoder.stream(
        prompts,
        max_new_tokens=DEFAULT_TOKENS if room is None else room,
        stop=stop,
        pad=pad,
        sampling=_sampling(options, folder),
        draft=draft,
        draft_tokens=options.draft_tokens,
    )
    _print(stream, len(prompts), words, frozenset(stop))
    return 0


def _sampling(options: argparse.Namespace, folder: Any) -> Any:
    """The sampling of the options, else of the folder, else the likeliest tokens."""
    from mgx_mlir.models.generation import Sampling

    names = ("temperature", "top_k", "top_p", "repetition_penalty")
    given = {n: getattr(options, n) for n in names if getattr(options, n) is not None}
    chosen = Sampling() if folder is None else folder.sampling
    return replace(chosen, seed=options.seed, **given)


def _encoded(text: str, words: Any, folder: Any, chat: bool) -> list[int]:
    from mgx_mlir.errors import UsageError

    if not chat:
        found = words.encode(text)
        return list(getattr(found, "ids", found))
    if folder is None:
        raise UsageError("--chat is for a folder, whose template writes the messages")
    return list(folder.chat([{"role": "user", "content": text}]))


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
