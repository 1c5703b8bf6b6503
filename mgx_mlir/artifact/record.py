"""The artifact: a compiled program as one value, and as one `.mgx` file.

docs/artifact.md describes the file byte for byte; `writer.py` writes it, `reader.py` reads it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgx_mlir.artifact import reader, writer
from mgx_mlir.artifact.contents import Contents
from mgx_mlir.errors import Edge


@dataclass(frozen=True, repr=False)
class Artifact(Contents):
    """A compiled program, which files hold."""

    @staticmethod
    @Edge("opening the artifact")
    def open(path: str | os.PathLike[str], *, allow_absolute: bool = False) -> Artifact:
        """Opens a file by memory-mapping it. ArtifactError where it is not sound.

        Weights beside the file must lie below its folder; `allow_absolute` lets them lie
        anywhere, for files that the user trusts.
        """
        return reader.open_file(Path(path), allow_absolute, Artifact)

    @staticmethod
    @Edge("reading the artifact")
    def from_bytes(data: bytes) -> Artifact:
        """The artifact that `to_bytes` gave. ArtifactError where the bytes are not sound."""
        return reader.parse(memoryview(data), None, False, Artifact)

    def __reduce__(self) -> tuple[Any, ...]:
        """The file's bytes: what is read of them is checked as a file is."""
        return Artifact.from_bytes, (self.to_bytes(),)

    def __copy__(self) -> Artifact:
        return self

    def __deepcopy__(self, memo: object) -> Artifact:
        return self

    @Edge("saving the artifact")
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        weights: str = "inside",
        version: tuple[int, int] | None = None,
    ) -> None:
        """Writes one file, whole or not at all.

        `weights`: 'inside', or 'beside' to name the files that hold them, which have to be
        in the folder of `path` or below. `version`: that of the reader that has to
        understand the file, by default this one. Raises UsageError, also for a kernel that
        the version cannot hold, and UserError where the file cannot be written.
        """
        writer.save(self, Path(path), weights, version)

    @Edge("writing the artifact")
    def to_bytes(self, *, version: tuple[int, int] | None = None) -> bytes:
        """The file, with the weights inside, in memory. See `save`."""
        return writer.to_bytes(self, version)
