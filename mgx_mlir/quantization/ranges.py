"""Ranges of tensors, and the files that hold them: JSON of this project, and others' tables."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.errors import UsageError

_FORMAT = "mgx-ranges-1"
# TensorRT's table begins with its version, and has a float in hexadecimal for each tensor.
_TENSORRT = re.compile(r"TRT-\d+-\w+")
_LARGEST_FILE = 1 << 28


@dataclass(frozen=True)
class Ranges:
    """The least and the greatest element of tensors by name, and the means of their channels.

    `samples` counts those that were read; 0 where another tool made the ranges.
    """

    ranges: Mapping[str, tuple[float, float]]
    means: Mapping[str, np.ndarray] = field(default_factory=dict)
    method: str = ""
    samples: int = 0

    def save(self, file: Path) -> None:
        """Writes JSON, whole or not at all."""
        record = {
            "format": _FORMAT,
            "method": self.method,
            "samples": self.samples,
            "ranges": {name: list(ends) for name, ends in sorted(self.ranges.items())},
            "means": {name: [*map(float, m)] for name, m in sorted(self.means.items())},
        }
        write_atomically(file, f"{json.dumps(record, indent=1)}\n".encode())


def load(file: Path) -> Ranges:
    """Reads this project's JSON, onnxruntime's calibration.json and .cache, or TensorRT's table.

    Raises UsageError for other files, and for ranges that are none.
    """
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise UsageError(f"{file} has more than {_LARGEST_FILE >> 20} MB, and holds no ranges")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text: {error}") from error
    if text.lstrip()[:1] == "{":
        try:
            found = _of_json(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UsageError(f"{file} holds no ranges: {error}") from error
    else:
        found = Ranges(_of_lines(file, text))
    for name, (low, high) in found.ranges.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise UsageError(f"{file}: the range of '{name}' is {low} to {high}, which is none")
    if not found.ranges:
        raise UsageError(f"{file} holds no ranges")
    return found


def _of_json(record: dict[str, Any]) -> Ranges:
    if record.get("format") == _FORMAT:
        ranges = {str(name): _ends(*ends) for name, ends in record["ranges"].items()}
        means = {str(n): np.array(m, np.float64) for n, m in record["means"].items()}
        if any(array.ndim != 1 or not np.isfinite(array).all() for array in means.values()):
            raise ValueError("its means are no lists of numbers")
        return Ranges(ranges, means, str(record["method"]), int(record["samples"]))
    if "format" in record:
        raise ValueError(f"its format is '{record['format']}', and {_FORMAT} is known")
    return Ranges(
        {str(n): _ends(_number(e["lowest"]), _number(e["highest"]))
         for n, e in record.items() if isinstance(e, dict)}
    )  # fmt: skip


def _ends(low: Any, high: Any) -> tuple[float, float]:
    return float(low), float(high)


def _number(value: Any) -> float:
    """A number of onnxruntime's file: itself, or a record of an array."""
    while isinstance(value, dict | list):
        value = value["data"] if isinstance(value, dict) else value[0]
    return float(value)


def _of_lines(file: Path, text: str) -> dict[str, tuple[float, float]]:
    """Tables with a line for each tensor, whose range is symmetric."""
    lines = [line for line in text.splitlines() if line.strip()]
    is_tensorrt = bool(lines) and _TENSORRT.match(lines[0]) is not None
    found = {}
    for line in lines[is_tensorrt:]:
        name, between, word = line.rpartition(":" if is_tensorrt else " ")
        try:
            if is_tensorrt:  # the scale of 127, as the bits of a float
                largest = 127 * struct.unpack(">f", bytes.fromhex(word.strip().zfill(8)))[0]
            else:
                largest = float(word)
        except (ValueError, struct.error):
            between = ""
        if not between or not name:
            raise UsageError(
                f"{file} is neither JSON of ranges nor a calibration table: '{line[:60]}'"
            )
        found[name.strip()] = (-abs(largest), abs(largest))
    return found
