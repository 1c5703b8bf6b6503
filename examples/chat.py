"""A chat on the terminal with a decoder from your own files.

    python examples/chat.py model.onnx tokenizer.json [--target gfx942] [--stop 2]

The model is one that optimum or onnxruntime-genai exports with a cache; the package
`tokenizers` reads tokenizer.json.
"""

from __future__ import annotations

import argparse

from mgx_mlir.models.generation import Decoder, Sampling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("tokenizer")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--stop", type=int, action="append", default=[])
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.7)
    options = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(options.tokenizer)
    decoder = Decoder(options.model, options.target)
    history = ""
    while True:
        try:
            history += f"User: {input('> ')}\nAssistant:"
        except (EOFError, KeyboardInterrupt):
            print()
            return
        answer: list[int] = []
        shown = ""
        stream = decoder.stream(
            [tokenizer.encode(history).ids],
            max_new_tokens=options.max_new_tokens,
            stop=options.stop,
            sampling=Sampling(temperature=options.temperature, top_p=0.9),
        )
        for (token,) in stream:
            if token is not None and token not in options.stop:
                answer.append(token)
            text = tokenizer.decode(answer)
            print(text[len(shown) :], end="", flush=True)
            shown = text
        print()
        history += f"{shown}\n"


if __name__ == "__main__":
    main()
