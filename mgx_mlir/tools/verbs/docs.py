"""docs: show a page of the documents: how to do one thing, each in under a screen."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
# Those of a wheel, and those of a checkout.
FOLDERS = (PACKAGE / "_docs", PACKAGE.parent / "docs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a page; without it, list them")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.suggest import instead

    pages = {file.stem: file for file in reversed(_files())}
    if not options.name:
        for name in sorted(pages):
            print(f"{name:28} {_title(pages[name])}")
        return 0
    if options.name not in pages:
        hint = instead(options.name, list(pages), "`mgx docs` lists them")
        raise UsageError(f"no page '{options.name}'; {hint}")
    _show(pages[options.name].read_text(encoding="utf-8"))
    return 0


def _files() -> list[Path]:
    """The pages, those of tasks first. Raises UsageError where none are installed."""
    from mgx_mlir.errors import UsageError

    for folder in FOLDERS:
        found = [*sorted(folder.glob("tasks/*.md")), *sorted(folder.glob("*.md"))]
        if found:
            return found
    raise UsageError("no documents are installed beside this package")


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as stream:
        return stream.readline().lstrip("# ").rstrip()


def _show(text: str) -> None:
    """Prints a page: on a terminal in a pager, as people read it; elsewhere as it is written."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
