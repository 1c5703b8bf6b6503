"""Artifacts that tests of libmgx share: one for each feature of plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgx_mlir.settings import Settings
from test.fuzz.artifacts.programs import PROGRAMS, seeds

# Those of the gate; the others take longer to make than all that is done with them.
QUICK = ("some sizes and any", "search", "rows of a loop", "caches in place", "weights beside")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files, with a cache of kernels that vouches for them."""
    return tmp_path_factory.mktemp("libmgx")


@pytest.fixture(scope="session")
def files(folder: Path) -> dict[str, bytes]:
    """The file of each quick program, with code for this machine's CPU."""
    return seeds(folder, "cpu", Settings(cache_dir=folder / "cache", threads=1), QUICK)


@pytest.fixture(scope="session")
def all_files(folder: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """The same for every program."""
    others = [name for name in PROGRAMS if name not in QUICK]
    return files | seeds(folder, "cpu", Settings(cache_dir=folder / "cache", threads=1), others)
