"""The sizes that a dimension may have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

# In place of a size: a name holds for no two of its dimensions, which may have different sizes.
APART: Final = "?"


@dataclass(frozen=True)
class Range:
    """The sizes that a dimension may have: from `low` to `high`, which None leaves open.

    `optimals`, ascending, are worth a program of their own.
    """

    low: int = 1
    high: int | None = None
    optimals: tuple[int, ...] = ()

    @staticmethod
    def parse(text: str) -> Range:
        """From '{1, 64}', '{1, 64, {1, 8}}' or '{min: 1, max: 64, optimals: [1, 8]}'.

        Raises ValueError for another text, and for sizes that are in no order.
        """
        found = _RANGE.fullmatch("".join(text.split()))
        if found is None:
            raise ValueError(f"'{text}' is not a range of sizes, such as {{1, 64, {{1, 8}}}}")
        optimals = tuple(int(size) for size in (found[3] or "").split(",") if size)
        result = Range(int(found[1]), int(found[2]), optimals)
        result.check()
        return result

    def check(self) -> None:
        """Raises ValueError for bounds that leave no size, or optimals outside of them."""
        high = _MOST if self.high is None else self.high
        inside = all(self.low <= size <= high for size in self.optimals)
        if (
            not 0 <= self.low <= high <= _MOST
            or not inside
            or list(self.optimals) != sorted({*self.optimals})
        ):
            raise ValueError(
                f"{self} is no range: sizes are from 0, and optimals ascend between its ends"
            )

    def __contains__(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high)

    def __str__(self) -> str:
        optimals = f", {{{', '.join(map(str, self.optimals))}}}" if self.optimals else ""
        return f"{{{self.low}, {'?' if self.high is None else self.high}{optimals}}}"

    def to_json(self) -> dict[str, object]:
        """The range as JSON values."""
        return {"min": self.low, "max": self.high, "optimals": list(self.optimals)}


_MOST = (1 << 63) - 1
_RANGE = re.compile(
    r"\{(?:min:)?(\d+),(?:max:)?(\d+)(?:,(?:optimals:)?[\[{](\d+(?:,\d+)*)?[\]}])?\}"
)

# The size that a caller gives a dimension's name.
Given: TypeAlias = int | Range | Literal["?"]
