"""Lays out the pages of the site in build/docs: those of docs/, the README, and the reference.

Links to docs/X.md become X.md; links to other files of the repository become their names.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from mgx_mlir.tools import reference_pages

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs"
PICTURES = ROOT / "docs" / "pictures"


def site_page(text: str, folder: str) -> str:
    """A page of `folder` as one of the site."""

    def link(match: re.Match[str]) -> str:
        name, place = match[1], match[2]
        file, hash_, anchor = place.partition("#")
        if "://" in place or not file:
            return match[0]
        inside = (ROOT / folder / file).resolve()
        if inside.is_relative_to(ROOT / "docs") and inside.suffix == ".md":
            # Pages of folders of docs/ lie in folders of the site.
            here = PAGES / (Path(folder).relative_to("docs") if folder != "." else "")
            there = os.path.relpath(PAGES / inside.relative_to(ROOT / "docs"), here)
            return f"[{name}]({there}{hash_}{anchor})"
        if inside.parent == PICTURES:
            return f"[{name}]({PICTURES.name}/{inside.name})"
        return f"{name} (`{inside.relative_to(ROOT)}`)"

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(PICTURES, PAGES / PICTURES.name)
    for file in sorted((ROOT / "docs").rglob("*.md")):
        page = PAGES / file.relative_to(ROOT / "docs")
        page.parent.mkdir(exist_ok=True)
        page.write_text(site_page(file.read_text(), str(file.parent.relative_to(ROOT))))
    (PAGES / "index.md").write_text(site_page((ROOT / "README.md").read_text(), "."))
    (PAGES / "commands.md").write_text(reference_pages.commands())
    (PAGES / "python.md").write_text(reference_pages.python())


if __name__ == "__main__":
    main()
