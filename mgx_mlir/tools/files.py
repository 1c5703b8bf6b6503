"""Models and artifacts, told apart by their first bytes."""

from __future__ import annotations

from pathlib import Path

from mgx_mlir.artifact_file import MAGIC
from mgx_mlir.errors import UsageError

SUFFIX = ".mgx"


def is_artifact(file: Path) -> bool:
    """Whether a file is called an artifact, or begins as one does."""
    return file.suffix == SUFFIX or _begins_as_one(file)


def expect_artifact(file: Path, verb: str) -> None:
    """Raises UsageError where the file is neither called an artifact nor begins as one does."""
    if file.is_file() and not is_artifact(file):
        raise UsageError(
            f"{file} is no artifact; mgx {verb} takes the {SUFFIX} file that mgx compile writes"
        )


def _begins_as_one(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
