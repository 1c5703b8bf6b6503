"""Makers of models, and the process that runs those of one exporter.

    python -m test.exported.registry MODULE FOLDER

runs in the exporter's own environment and writes NAME.onnx, NAME.N.npz for its Nth set of
inputs, or, where the exporter itself fails, NAME.refused with its words.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# A serialized ModelProto, or the object, and one or more sets of inputs by name.
Made = tuple[Any, Mapping[str, Any] | Sequence[Mapping[str, Any]]]
MODELS: dict[str, Callable[[], Made]] = {}


def model(make: Callable[[], Made]) -> Callable[[], Made]:
    """Registers a maker under its own name."""
    return named(make.__name__, make)


def named(name: str, make: Callable[[], Made]) -> Callable[[], Made]:
    """Registers a maker under `name`."""
    assert name not in MODELS, name
    MODELS[name] = make
    return make


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Normal numbers, seeded."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(high: int, *shape: int, seed: int = 0, dtype: Any = np.int64) -> np.ndarray:
    """Integers from 0 up to `high`, seeded."""
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def write(name: str, folder: Path) -> None:
    """Makes one model and writes its files."""
    try:
        made, inputs = MODELS[name]()
        data = made if isinstance(made, bytes) else made.SerializeToString()
    except (Exception, SystemExit):  # whatever a foreign exporter raises
        (folder / f"{name}.refused").write_text(traceback.format_exc())
        return
    for number, arrays in enumerate([inputs] if isinstance(inputs, Mapping) else inputs):
        # Strings are kept by their width: arrays of objects need pickle.
        plain = {k: np.asarray(v) for k, v in arrays.items()}
        plain = {k: v.astype(str) if v.dtype == object else v for k, v in plain.items()}
        np.savez(folder / f"{name}.{number}.npz", **plain)
    (folder / f"{name}.onnx").write_bytes(data)


def main(module: str, folder: Path) -> None:
    """Writes the models of one exporter's module; the folder appears when it is complete."""
    importlib.import_module(f"test.exported.{module}")
    # Running as __main__ leaves a second copy of this module to the makers.
    models = importlib.import_module("test.exported.registry")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    warnings.simplefilter("ignore")
    for name in models.MODELS:
        with contextlib.redirect_stdout(io.StringIO()):
            models.write(name, partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
