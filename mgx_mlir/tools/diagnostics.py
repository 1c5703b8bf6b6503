"""Diagnostics of MLIR, shown as mlir-opt shows them, or matched with expected-* comments."""

from __future__ import annotations

import re
import sys

from mlir import ir

# expected-error@+1 2 {{text}}: severity, line, count, text.
EXPECTED = re.compile(
    r"expected-(error|warning|remark|note)\s*(?:@([+-]\d+|above|below|unknown))?\s*"
    r"(\d+)?\s*\{\{(.*?)\}\}"
)


class Diagnostics:
    """The diagnostics of a part of a file: of `text`, which begins at line `first` of the file."""

    def __init__(self, name: str, text: str, first: int, *, shown: bool) -> None:
        self.name = name
        self.lines = text.splitlines()
        self.first = first
        self.shown = shown
        # Line, severity, message.
        self.found: list[tuple[int, str, str]] = []

    def take(self, diagnostic: ir.Diagnostic) -> bool:
        """Takes one, with its notes; the handler of a context."""
        severity = str(diagnostic.severity).rpartition(".")[2].lower()
        entries = [(diagnostic.location, severity, diagnostic.message)]
        entries += [(note.location, "note", note.message) for note in diagnostic.notes]
        for location, kind, message in entries:
            self.found.append((_line(location), kind, message))
            if self.shown:
                print(f"{self._where(location)}: {kind}: {message}", file=sys.stderr)
                self._show_line(location)
        return True

    def are_expected(self) -> bool:
        """Whether diagnostics and the `expected-*` comments match one to one."""
        missing = []
        left = list(self.found)
        for number, content in enumerate(self.lines, 1):
            for match in EXPECTED.finditer(content):
                kind, offset, count, message = match.groups()
                line = number + {"above": -1, "below": 1}.get(offset, 0)
                if offset and offset[0] in "+-":
                    line = number + int(offset)
                for _ in range(int(count or 1)):
                    hit = _match(left, None if offset == "unknown" else line, kind, message)
                    if hit is None:
                        missing.append(f"{line + self.first - 1}: {kind}: {message}")
                    else:
                        left.remove(hit)
        for entry in missing:
            print(f"mgx-opt: expected but not seen at line {entry}", file=sys.stderr)
        unexpected = [entry for entry in left if entry[1] != "note"]
        for line, kind, message in unexpected:
            shown = line + self.first - 1
            print(f"mgx-opt: unexpected {kind} at line {shown}: {message}", file=sys.stderr)
        return not missing and not unexpected

    def _where(self, location: ir.Location) -> str:
        if not location.is_a_file():
            return str(location)
        return f"{self.name}:{location.start_line + self.first - 1}:{location.start_col}"

    def _show_line(self, location: ir.Location) -> None:
        """The line that a location names, and a caret below its column."""
        if not 1 <= _line(location) <= len(self.lines):
            return
        line = self.lines[location.start_line - 1]
        before = line[: max(location.start_col - 1, 0)]
        indent = "".join("\t" if c == "\t" else " " for c in before)
        print(f"{line}\n{indent}^", file=sys.stderr)


def _line(location: ir.Location) -> int:
    return location.start_line if location.is_a_file() else 0


def _match(
    found: list[tuple[int, str, str]], line: int | None, kind: str, message: str
) -> tuple[int, str, str] | None:
    for entry in found:
        if entry[1] == kind and message in entry[2] and line in (None, entry[0]):
            return entry
    return None
