"""Which families of models run with any sizes, on which targets: the table of docs/families.md.

    python -m test.exported.table [--targets cpu gfx942] [--folder FOLDER] [--write PAGE]

FOLDER has the files of test/exported/families.py; `python -m test.exported.export families`
writes them. Each model runs with three combinations of sizes, then with these again, beside
onnxruntime; GPUs are emulated.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from mgx_mlir.errors import MgxError
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings
from test.exported.agreement import agree
from test.exported.export import FOLDER

TARGETS = ("cpu", "gfx942", "gfx1100")
# The line of docs/families.md behind which the table stands.
MARK = "<!-- python -m test.exported.table -->\n"


def cell(path: Path, target: str, settings: Settings) -> str:
    """How a model runs on a target, in a few words."""
    model = Model(path, target=target, settings=settings, warm=None)
    try:
        compiled = agree(path, model, sets=2)
    except AssertionError as error:
        return f"differs: {_line(error)}"
    except MgxError as error:
        return f"fails: {_line(error)}"
    first, all_sizes, again = compiled[0], compiled[len(compiled) // 2 - 1], compiled[-1]
    assert again == all_sizes, f"{path.stem} on {target} compiles for sizes that it has met"
    on_host = sorted({entry.operator for entry in model.host_nodes})
    parts = [f"{first} program{'s' if first > 1 else ''}"]
    parts += [f"{all_sizes - first} more for two more sizes"] if all_sizes > first else []
    return "; ".join(parts + ([f"host: {', '.join(on_host)}"] if on_host else []))


def table(folder: Path, targets: list[str], settings: Settings) -> list[str]:
    """The lines of the table."""
    lines = [f"| model | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for path in sorted(p for s in ("onnx", "refused") for p in folder.glob(f"*.{s}")):
        if path.suffix == ".refused":
            cells = ["not exported"] * len(targets)
        else:
            cells = [cell(path, target, settings) for target in targets]
        lines.append(f"| {path.stem.replace('_', ' ')} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160].replace("|", "/")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--folder", type=Path, default=FOLDER / "families")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    given = parser.parse_args()
    chips = tuple(target for target in given.targets if target != "cpu")
    with tempfile.TemporaryDirectory() as cache:
        settings = replace(
            Settings.from_environment(), cache_dir=Path(cache), hip="emulated",
            emulated_devices=chips,
        )  # fmt: skip
        text = "\n".join(table(given.folder, given.targets, settings)) + "\n"
    if given.write is None:
        print(text, end="")
        return
    before, _, old = given.write.read_text().partition(MARK)
    _, head, after = old.partition("\n## ")
    given.write.write_text(f"{before}{MARK}\n{text}{head}{after}")


if __name__ == "__main__":
    main()
