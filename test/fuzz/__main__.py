"""Fuzzes the reader of artifacts and, in worker processes, programs and the reader of kernels.

    python -m test.fuzz [--seconds 3600] [--seed 0]

An artifact that gives anything but ArtifactError is a failure, and is kept in test/fuzz/failures.
A kernel that ends its worker is what workers are for: the first of each way to end one is kept in
test/fuzz/corpus, which the tests read.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import resource
import sys
import time
from pathlib import Path

import numpy as np

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ArtifactError, UserError
from mgx_mlir.finalizer import finalize_kernel_for
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.settings import Settings
from test.fuzz import mutate
from test.golden.files import ARTIFACTS

HERE = Path(__file__).parent
# Seconds for a kernel that takes milliseconds, and for a program that takes tenths.
TIME_LIMIT = 10.0
_MEMORY = 6 << 30


def read_artifact(data: bytes) -> str:
    """The outcome of reading: 'read', or 'refused'. Anything else is raised."""
    try:
        Artifact.from_bytes(data).weight_arrays()
    except ArtifactError:
        return "refused"
    return "read"


def run_artifact(data: bytes) -> str:
    """The outcome of compiling for the CPU and running: 'ran', or 'refused'. For a worker."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    settings = Settings(cache_dir=None, jobs=1, threads=1)
    try:
        program = mgx_mlir.compile(Artifact.from_bytes(data), "cpu", settings=settings)
        program.run({s.name: np.ones([abs(d) for d in s.shape], s.dtype) for s in program.inputs})
    except UserError:
        return "refused"
    return "ran"


def run_in(pool: WorkerPool, data: bytes) -> str:
    """As run_artifact. What takes too long has another try.

    MLIR's reader of damaged kernels may loop by what lies in memory that nobody has written.
    """
    try:
        return str(pool.submit(run_artifact, data).result())
    except WorkerError as error:
        if "seconds" not in str(error):
            raise
    return str(pool.submit(run_artifact, data).result())


def read_kernel(data: bytes, pool: WorkerPool) -> str:
    """The outcome of reading in a worker: 'read', 'refused', or how the worker ended."""
    try:
        pool.submit(finalize_kernel_for, data, ()).result()
    except ArtifactError:
        return "refused"
    except WorkerError as error:
        return re.sub(r"\W+", "-", str(error).splitlines()[0])
    return "read"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seeds = [path.read_bytes() for path in ARTIFACTS]
    kernels = [k.bytecode for data in seeds for k in Artifact.from_bytes(data).kernels]
    counts: collections.Counter[str] = collections.Counter()
    failures = 0
    deadline = time.monotonic() + options.seconds
    number = options.seed
    # A damaged kernel may corrupt the memory of its worker: programs have a worker of their own.
    with WorkerPool(1, TIME_LIMIT) as programs, WorkerPool(1, TIME_LIMIT) as readers:
        while time.monotonic() < deadline:
            number += 1
            rng = random.Random(number)
            data = mutate.artifact(rng.choice(seeds), rng)
            try:
                found = read_artifact(data)
                counts["artifact " + found] += 1
                if found == "read":
                    counts["artifact " + run_in(programs, data)] += 1
            except Exception as error:
                failures += 1
                print(f"seed {number}: {error!r}", file=sys.stderr)
                (HERE / "failures").mkdir(exist_ok=True)
                (HERE / "failures" / f"{number}.mgx").write_bytes(data)
            kernel = mutate.bytecode(rng.choice(kernels), rng)
            found = read_kernel(kernel, readers)
            kept = HERE / "corpus" / f"{found}.mlirbc"
            if found not in ("read", "refused") and not kept.exists():
                kept.write_bytes(kernel)
            counts["kernel " + found] += 1
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    from test.fuzz.__main__ import main  # whose functions workers find by name

    sys.exit(main())
