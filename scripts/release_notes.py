"""The notes of a release: what CHANGELOG.md says of it, in short and what users must do first.

    python -m scripts.release_notes [VERSION]

The default is the version of the package. A version whose heading has no date is said to be not
released yet, on standard error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mgx_mlir.version import __version__

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
# The part of a version that every one has: what its users must do, or that it is nothing.
MUST = "### Steps for users"


def notes(text: str, version: str) -> tuple[str, str]:
    """The heading of a version, and what stands below it. Raises KeyError where there is none."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        if heading.partition(",")[0].strip() == version:
            return heading, body.strip()
    raise KeyError(version)


def ordered(body: str) -> str:
    """The body of a version with its titled parts first, and then its list of changes."""
    changes, *parts = re.split(r"^(?=### )", body, flags=re.M)
    return "\n\n".join([*(part.strip() for part in parts), f"### Changes\n\n{changes.strip()}"])


def main(words: list[str]) -> int:
    """The command; returns its exit code."""
    version = words[0] if words else __version__
    try:
        heading, body = notes(CHANGELOG.read_text(), version)
    except KeyError:
        print(f"{CHANGELOG.name} has no version {version}", file=sys.stderr)
        return 1
    if not re.search(r"\d{4}-\d\d-\d\d", heading):
        print(f"{version} has no date in {CHANGELOG.name}: {heading}", file=sys.stderr)
    print(f"# mgx-mlir {version}\n\n{ordered(body)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
