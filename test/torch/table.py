"""Which architectures torch.compile(backend="mgx") runs: the second table of docs/families.md.

    python -m test.torch.table [NAME...] [--write PAGE]

NAME is a part of an architecture's name. Needs torchvision, timm, diffusers and transformers
beside torch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

import mgx_mlir.torch
from test.torch.architectures import ARCHITECTURES, MARKED

# The line of docs/families.md behind which the table stands.
MARK = "<!-- python -m test.torch.table -->\n"
# Beside the largest element of the result, or 1.
TOLERANCE = 1e-5


@dataclass
class Row:
    """How an architecture runs: graphs, the largest error, and what is eager."""

    graphs: int
    error: float
    eager: list[str]

    def __str__(self) -> str:
        count = f"{self.graphs} graph{'s' if self.graphs > 1 else ''}"
        said = f"{count}, {self.error:.0e}"
        return said if not self.eager else f"{said}; eager: {'; '.join(self.eager)}"

    @property
    def passes(self) -> bool:
        return not self.eager and self.error <= TOLERANCE


def run(module: Any, calls: list[dict[str, Any]], dynamic: bool | None, cache: str) -> Row:
    """Calls a module as compiled, and as it is.

    `dynamic` is torch.compile's; None opens the sizes alone that differ between the calls.
    """
    torch._dynamo.reset()
    noted: list[Any] = []
    token = mgx_mlir.torch._noted.set(noted)
    error = 0.0
    try:
        fast = torch.compile(module, backend="mgx", dynamic=dynamic, options={"cache": cache})
        if dynamic is None:
            _open_sizes(*calls)
        with torch.no_grad():
            for given in calls:
                error = max(error, _error(fast(**given), module(**given)))
    finally:
        mgx_mlir.torch._noted.reset(token)
    stories = [graph.story for graph in noted]
    eager = [" ".join(said.split())[:200] for s in stories if (said := s.reason or s.others)]
    return Row(len(stories), error, eager)


def _open_sizes(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name, value in first.items():
        if isinstance(value, torch.Tensor):
            for axis, sizes in enumerate(zip(value.shape, second[name].shape, strict=True)):
                if sizes[0] != sizes[1]:
                    torch._dynamo.mark_dynamic(value, axis)


def _error(found: Any, wanted: Any) -> float:
    ours, theirs = _pytree.tree_leaves(found), _pytree.tree_leaves(wanted)
    assert len(ours) == len(theirs)
    errors = [0.0]
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor) and other.is_floating_point():
            assert one.shape == other.shape and one.dtype == other.dtype
            scale = max(1.0, other.abs().max().item())
            errors.append((one - other).abs().max().item() / scale)
        elif isinstance(other, torch.Tensor):
            assert torch.equal(one, other)
    return max(errors)


def cells(name: str) -> list[str]:
    """The architecture with given sizes, and with any: two combinations each."""
    torch.manual_seed(0)
    module, call = ARCHITECTURES[name]()
    module.eval()
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for dynamic in (False, None if name in MARKED else True):
            started = time.monotonic()
            try:
                calls = [call(0)] if dynamic is False else [call(0), call(1)]
                row = str(run(module, calls, dynamic, cache))
            except Exception as error:  # an architecture may fail in any way
                row = f"fails: {' '.join(str(error).split())[:160]}"
            found.append(row.replace("|", "/"))
            print(
                f"{name}: {row} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    lines = ["| architecture | given sizes | any sizes |", "|---|---|---|"]
    for name in ARCHITECTURES:
        if not options.names or any(part in name for part in options.names):
            lines.append(f"| {name} | {' | '.join(cells(name))} |")
    if options.write is None:
        print("\n".join(lines))
        return
    before, mark, _ = options.write.read_text().partition(MARK)
    if not mark:
        sys.exit(f"{options.write} has no line {MARK.strip()}")
    options.write.write_text(f"{before}{mark}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
