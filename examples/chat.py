"""A chat on the terminal with a decoder from your own files.

    python examples/chat.py FOLDER [--target gfx942] [--precision q4]
    python examples/chat.py model.onnx tokenizer.json [--target gfx942] [--stop 2]

A folder is onnxruntime-genai's, or Hugging Face's with ONNX files, as transformers.js has them; a
model is one that either exports with a cache. The package `tokenizers` reads tokenizer.json, and
`jinja2` writes chats by a folder's template.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

from mgx_mlir.models.generation import Decoder, Sampling, folder_of
from mgx_mlir.models.generation.text import tokenizer_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a folder, or a model")
    parser.add_argument("tokenizer", nargs="?", help="that of a model")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--precision", default="", help="which file of a folder")
    parser.add_argument("--stop", type=int, action="append", default=[])
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float)
    options = parser.parse_args()
    folder = folder_of(options.model, options.precision)
    sampling, encode = Sampling(0.7, top_p=0.9), plain
    if folder is None:
        words = tokenizer_of(options.tokenizer)
        decoder, stop = Decoder(options.model, options.target), options.stop
    else:
        words, sampling, stop = folder.words.tokenizer, folder.sampling, options.stop or folder.stop
        decoder = Decoder(folder.source(), options.target)
        if folder.words.has_template:
            encode = lambda words, messages: folder.chat(messages)  # noqa: E731
    if options.temperature is not None:
        sampling = replace(sampling, temperature=options.temperature)

    def answer(tokens: list[int]) -> str:
        """Prints the answer as it comes."""
        found: list[int] = []
        shown = ""
        room = options.max_new_tokens
        if folder is not None:
            room = folder.room([tokens], room)
        stream = decoder.stream([tokens], max_new_tokens=room, stop=stop, sampling=sampling)
        for (token,) in stream:
            if token is not None and token not in stop:
                found.append(token)
            text = words.decode(found)
            print(text[len(shown) :], end="", flush=True)
            shown = text
        print()
        return shown

    talk(lambda messages: answer(encode(words, messages)))


def plain(words: object, messages: list[dict[str, str]]) -> list[int]:
    """The tokens of a chat without a template."""
    lines = [f"{one['role'].capitalize()}: {one['content']}" for one in messages]
    return list(words.encode("\n".join([*lines, "Assistant:"])).ids)  # type: ignore[attr-defined]


def talk(answer: Callable[[list[dict[str, str]]], str]) -> None:
    messages: list[dict[str, str]] = []
    while True:
        try:
            messages.append({"role": "user", "content": input("> ")})
        except (EOFError, KeyboardInterrupt):
            print()
            return
        messages.append({"role": "assistant", "content": answer(messages)})


if __name__ == "__main__":
    main()
