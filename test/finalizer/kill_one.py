"""Two processes finalize the same kernels into one cache, one is killed: again and again.

    python kill_one.py FOLDER ROUNDS SEED

After each round the cache must hold every entry, and the right one.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from mgx_mlir.artifact.record import Artifact  # noqa: E402
from mgx_mlir.artifact.target import Target  # noqa: E402
from mgx_mlir.finalizer import finalize_all  # noqa: E402
from mgx_mlir.finalizer.build import build_id  # noqa: E402
from mgx_mlir.finalizer.cache import Cache, cache_key  # noqa: E402
from mgx_mlir.rewriting.portable import portable_kernel, read_kernel  # noqa: E402
from test.golden.files import VERSIONS  # noqa: E402

TARGETS = [Target.get("gfx942"), Target.get("gfx1100")]


def main(folder: Path, rounds: int, seed: int) -> None:
    kernels = []
    for kernel in Artifact.open(VERSIONS[1, 0] / "attention.mgx").kernels:
        module, op = read_kernel(kernel.bytecode)  # ours: no process is needed to read them
        kernels.append(portable_kernel(op))
        del module
    build_id()  # known before the children start
    want = finalize_all(kernels, TARGETS)
    started = time.perf_counter()
    finalize_all(kernels, TARGETS)
    whole = time.perf_counter() - started
    rng = random.Random(seed)
    left = 0
    for number in range(rounds):
        shutil.rmtree(folder, ignore_errors=True)
        children = [start(kernels, folder) for _ in range(2)]
        time.sleep(rng.uniform(0, 1.5 * whole))
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
        _, status = os.waitpid(children[1], 0)
        assert status == 0, f"round {number}: the other process ended with {status}"
        cache = Cache(folder)
        assert cache.verify() == [], f"round {number}: damaged entries"
        for target in TARGETS:
            for kernel, code in zip(kernels, want[target.identity], strict=True):
                key = cache_key(kernel.sha256, target.identity, build_id())
                assert cache.get(key) == code, f"round {number}: {kernel.name} for {target.name}"
        left += len(list(folder.glob("??/.*")))
    print(f"{rounds} rounds, {left} unfinished files left behind")


def start(kernels: list, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        finalize_all(kernels, TARGETS, cache=Cache(folder))
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
