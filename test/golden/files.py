"""The golden files, by version."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
VERSIONS = {
    tuple(map(int, folder.name[1:].split("."))): folder for folder in sorted(HERE.glob("v*.*"))
}
ARTIFACTS = [path for folder in VERSIONS.values() for path in sorted(folder.glob("*.mgx"))]
MODULES = [path for folder in VERSIONS.values() for path in sorted(folder.glob("ops/*.mlirbc"))]


def name_of(path: Path) -> str:
    """The artifact's name in messages, such as v1.0-classifier."""
    return f"{path.relative_to(HERE).parts[0]}-{path.stem}"


def expected(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The input and the output of an artifact's program."""
    with np.load(path.with_suffix(".npz")) as arrays:
        return arrays["x"], arrays["y"]
