"""Candidates that Dask's workers finalize in a second: 1, 2 and 4 workers on this machine.

    python -m benchmarks.farm [--workers 1,2,4] [--candidates 96]

Candidates are the schedules of the products of a BERT's layer for gfx942, the same ones for each
number of workers, which are warm. Compare the rows of one run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.tuning.farm import finalized
from mgx_mlir.tuning.search import COMPILE_LIMIT
from mgx_mlir.tuning.tune import problems
from test.onnx_models import bert, half
from test.tuning.cluster import Cluster

CHIP = Target.get("gfx942")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", default="1,2,4", metavar="N,N")
    parser.add_argument("--candidates", type=int, default=96, metavar="N")
    options = parser.parse_args()
    artifact = mgx_mlir.compile_to_bytecode(half(bert(layers=1, width=768)))
    with WorkerPool(1, COMPILE_LIMIT) as pool:
        works = [w for w in problems(artifact, CHIP, pool) if w.space.family == "contraction"]
    each = options.candidates // len(works)
    jobs = [(w.bytecode, CHIP, o.schedule) for w in works for o in w.space.options[:each]]
    first = 0.0
    for count in map(int, options.workers.split(",")):
        rate = measured(count, jobs)
        first = first or rate
        print(
            f"{count} workers: {rate:.1f} candidates a second, {rate / first:.2f} times", flush=True
        )
    return 0


def measured(count: int, jobs: list[tuple[object, ...]]) -> float:
    """Candidates a second by so many workers; those that are refused count too."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(count):
                cluster.worker()
            with Client(cluster.address(count), set_as_default=False) as client:
                everyone = list(client.scheduler_info(n_workers=-1)["workers"])
                client.gather([client.submit(finalized, *jobs[0], workers=w, pure=False)
                               for w in everyone])  # fmt: skip
                start = time.perf_counter()
                futures = [client.submit(finalized, *job, pure=False) for job in jobs]
                for future in futures:
                    future.exception()
                return len(jobs) / (time.perf_counter() - start)
        finally:
            cluster.close()


if __name__ == "__main__":
    sys.exit(main())
