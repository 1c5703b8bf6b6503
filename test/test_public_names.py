"""The names that others rely on stay; new ones are entered on purpose."""

from __future__ import annotations

from pathlib import Path

from mgx_mlir.tools.public_names import lines

FILE = Path(__file__).with_name("public_names.txt")
ADVICE = (
    "public names changed; CONTRIBUTING says how a name goes. Where this is meant: "
    "python -m mgx_mlir.tools.public_names > test/public_names.txt"
)


def test_public_names_are_those_of_the_snapshot() -> None:
    assert lines() == FILE.read_text().splitlines(), ADVICE
