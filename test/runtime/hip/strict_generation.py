"""Generates on one emulated chip, with caches in device memory that steps write in place.

A program of its own, because strict mode is chosen once a process:

    MGX_HIP=emulated MGX_EMULATOR_STRICT=1 python strict_generation.py gfx942
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3])]

from mgx_mlir import emulator  # noqa: E402
from mgx_mlir.models.generation import Decoder  # noqa: E402
from mgx_mlir.models.generation.form import Form  # noqa: E402
from test.decoder_models import grouped, llama  # noqa: E402

PROMPTS = [[3, 17, 5, 40], [8], [21, 2, 9]]


def main(chip: str) -> None:
    for model in (llama(), grouped()):
        wanted = Decoder(model, warm=None).generate(PROMPTS, max_new_tokens=6)
        decoder = Decoder(model, chip, warm=2)
        assert decoder.generate(PROMPTS, max_new_tokens=6) == wanted
        decoder.model.wait()
        assert decoder.model.compiled == 2
        assert calls(decoder, wanted, 6)[:2] == (1, 6)  # the steps' graph is made, and replayed
        made, launched, changed = calls(decoder, wanted, 6)
        assert (made, launched) == (0, 6)
        # A step more changes nodes where its caches move, and else none.
        more = changed - calls(decoder, [tokens[:5] for tokens in wanted], 5)[2]
        assert more > 0 if decoder.form is Form.APPENDED else more == 0, more
        one = Decoder(model, chip, warm=None)
        draft = {"draft": decoder, "draft_tokens": 2, "max_new_tokens": 6}
        assert one.generate(PROMPTS[:1], **draft) == wanted[:1]


def calls(decoder: Decoder, wanted: list[list[int]], tokens: int) -> tuple[int, int, int]:
    """How many graphs a generation makes, launches, and how many nodes it changes."""
    emulator.set_failures("hipMalloc:1000000")  # counts calls by name
    assert decoder.generate(PROMPTS, max_new_tokens=tokens) == wanted
    names = ("hipGraphInstantiateWithFlags", "hipGraphLaunch", "hipGraphExecKernelNodeSetParams")
    found = tuple(map(emulator.call_count, names))
    emulator.set_failures("")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
