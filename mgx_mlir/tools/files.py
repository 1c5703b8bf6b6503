"""Files and targets that the command line names, looked at before any work."""

from __future__ import annotations

from pathlib import Path

from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.writer import SUFFIX, is_artifact
from mgx_mlir.errors import UsageError


def written(text: str) -> Path:
    """The type of options that name a file to write."""
    return Path(text)


def expect_artifact(file: Path, verb: str) -> None:
    """Raises UsageError where the file is neither called an artifact nor begins as one does."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder; mgx {verb} takes the {SUFFIX} file of an artifact")
    if file.is_file() and not is_artifact(file):
        raise UsageError(
            f"{file} is no artifact; mgx {verb} takes the {SUFFIX} file that mgx compile writes"
        )


def chips(text: str | None) -> list[str]:
    """The targets that `--arch A,B` names, all known. Raises UsageError, TargetError."""
    names = [name.strip() for name in (text or "").split(",")] if text is not None else []
    if text is not None and not all(names):
        raise UsageError(f"--arch '{text}': name targets, separated by commas")
    for name in names:
        Target.get(name)
    return names


def is_saved_program(file: Path) -> bool:
    """Whether a file is one of `mgx_mlir.migraphx` that holds an uncompiled program.

    That is a zip or JSON by its first bytes, Python by its name. A zip of torch is a model.
    """
    if not file.is_file() or file.suffix == ".pt2":
        return False
    if file.suffix == ".py":
        return True
    with file.open("rb") as stream:
        begin = stream.read(64)
    return begin[:4] == b"PK\3\4" or begin.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
