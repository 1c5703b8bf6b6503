"""Numbers on the command line, each in its range."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole(low: int) -> Callable[[str], int]:
    """The type of an option that takes whole numbers from `low`."""

    def read(text: str) -> int:
        number = text.removeprefix("-")
        value = int(text) if number.isascii() and number.isdecimal() else low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number from {low}")
        return value

    return read


def real(low: float = 0, high: float = math.inf, *, share: bool = False) -> Callable[[str], float]:
    """The type of an option that takes finite numbers from `low` to `high`; shares may be 5%."""
    upto = "" if high == math.inf else f" to {high:g}"

    def read(text: str) -> float:
        percent = share and text.endswith("%")
        try:
            value = float(text.removesuffix("%")) / 100 if percent else float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {low:g}{upto}")
        return value

    return read
