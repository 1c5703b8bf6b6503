"""Generates on one emulated chip, with caches in device memory that steps write in place.

A program of its own, because strict mode is chosen once a process:

    MGX_HIP=emulated MGX_EMULATOR_STRICT=1 python strict_generation.py gfx942
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3])]

from mgx_mlir.models.generation import Decoder  # noqa: E402
from mgx_mlir.models.generation.form import Form  # noqa: E402
from mgx_mlir.runtime.hip.graph import RunGraph  # noqa: E402
from test.decoder_models import grouped, llama  # noqa: E402

launched: Counter[tuple[RunGraph, str]] = Counter()
PROMPTS = [[3, 17, 5, 40], [8], [21, 2, 9]]


def main(chip: str) -> None:
    for model in (llama(), grouped()):
        wanted = Decoder(model, warm=None).generate(PROMPTS, max_new_tokens=6)
        decoder = Decoder(model, chip, warm=2)
        assert decoder.generate(PROMPTS, max_new_tokens=6) == wanted
        decoder.model.wait()
        assert decoder.model.compiled == 2
        launched.clear()
        assert decoder.generate(PROMPTS, max_new_tokens=6) == wanted
        replayed(6 - 1, moving=decoder.form is Form.APPENDED)
        one = Decoder(model, chip, warm=None)
        draft = {"draft": decoder, "draft_tokens": 2, "max_new_tokens": 6}
        assert one.generate(PROMPTS[:1], **draft) == wanted[:1]


def replayed(steps: int, moving: bool) -> None:
    """The steps after the prompt were one graph, whose nodes change where the caches move."""
    (graph,) = [g for (g, what), n in launched.items() if what == "launch" and n == steps]
    assert launched[graph, "update"] == (steps - 1 if moving else 0), launched


def counted(name: str) -> None:
    """Counts the calls of a method of graphs."""
    method = getattr(RunGraph, name)

    def call(self: RunGraph, *arguments: object) -> None:
        launched[self, name] += 1
        method(self, *arguments)

    setattr(RunGraph, name, call)


if __name__ == "__main__":
    counted("launch")
    counted("update")
    main(*sys.argv[1:])
