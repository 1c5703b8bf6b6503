"""Runs artifacts whose plans were changed, with hashes made right, between guard pages.

    python -m test.fuzz.artifacts [--count 1000] [--seed 0] [--target cpu|gfx942] [--keep FOLDER]

Nothing may be read or written outside of what the plan's kernels may touch: an artifact is refused,
or runs. A signal, a fault of the emulated device and an error that is not the user's are findings.
Prints each with the change; the exit code says whether there is one.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
from pathlib import Path

from mgx_mlir.finalizer.server import Server
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.settings import Settings
from test.fuzz import mutate
from test.fuzz.artifacts.attempt import attempt
from test.fuzz.artifacts.damage import damaged
from test.fuzz.artifacts.programs import seeds

# Seconds for one artifact; far more than it takes.
TIME_LIMIT = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=("cpu", "gfx942"), default="cpu")
    parser.add_argument("--keep", type=Path, help="where artifacts of findings are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgx-fuzz-") as name:
        counts = fuzz(Path(name), options.target, options.seed, options.count, options.keep)
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    return 1 if counts["findings"] else 0


def fuzz(
    folder: Path, target: str, seed: int, count: int, keep: Path | None
) -> collections.Counter[str]:
    """The outcomes of so many artifacts; files are written to `folder`."""
    settings = Settings(cache_dir=folder / "cache", threads=1, hip="emulated")
    files = seeds(folder, target, settings)
    counts: collections.Counter[str] = collections.Counter()
    server = Server(["mgx_mlir.models.staged", "test.fuzz.artifacts.attempt"])
    path = folder / "mutant.mgx"
    with WorkerPool(1, TIME_LIMIT, server) as pool:
        for number in range(count):
            rng = random.Random(seed * 1_000_003 + number)
            # The first of each program is as it was.
            names, whole = list(files), number < len(files)
            program = names[number] if whole else rng.choice(names)
            manifest, body = mutate.split(files[program])
            done = "as it was" if whole else damaged(manifest, rng)
            path.write_bytes(mutate.joined(manifest, body))
            try:
                said = pool.submit(attempt, path, target, number, folder / "cache").result()
            except Exception as error:
                said = "findings"
                print(f"{seed} {number} {program}: {done}", flush=True)
                print(f"    {type(error).__name__}: {error!s:.600}", flush=True)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{target}-{seed}-{number}.mgx").write_bytes(path.read_bytes())
            # Loops may make more trips than there is time for, or than a model allows.
            if whole and said not in ("ran", "stopped", "refused: ModelError", "findings"):
                print(f"{program}, as it was, is {said}", flush=True)
                said = "findings"
            counts[said] += 1
    return counts


if __name__ == "__main__":
    sys.exit(main())
