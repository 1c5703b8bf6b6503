"""Scores a data set with Dask: the artifact goes once to each worker, and every row is scored once.

    python examples/serving/score.py model.mgx rows.npy scores.npy --workers 4

The rows are an array whose first dimension is split into chunks; a chunk whose worker dies is
scored by another. Needs the package distributed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, get_worker

import mgx_mlir


class Loaded(WorkerPlugin):
    """The program of an artifact, in each worker that there is and that comes."""

    name = "mgx"

    def __init__(self, artifact: bytes, target: str) -> None:
        self.artifact, self.target = artifact, target
        self.program: Any = None

    def setup(self, worker: Any) -> None:
        self.program = mgx_mlir.compile(mgx_mlir.Artifact.from_bytes(self.artifact), self.target)


def scored(rows: np.ndarray) -> np.ndarray:
    """The first output for a chunk of rows, in a worker."""
    program = get_worker().plugins["mgx"].program
    return next(iter(program.run({program.inputs[0].name: rows}).values()))


def score(client: Client, file: Path, rows: np.ndarray, chunk: int, target: str) -> np.ndarray:
    """The outputs of all rows, in their order."""
    client.register_plugin(Loaded(file.read_bytes(), target))
    chunks = [rows[n : n + chunk] for n in range(0, len(rows), chunk)]
    futures = client.map(scored, chunks, pure=False)
    return np.concatenate(client.gather(futures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    rows = np.load(options.rows, mmap_mode="r")
    with (
        LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address=None
        ) as one,
        Client(one) as client,
    ):
        found = score(client, options.artifact, rows, options.chunk, options.target)
    np.save(options.output, found)
    print(f"{len(found)} rows")


if __name__ == "__main__":
    main()
