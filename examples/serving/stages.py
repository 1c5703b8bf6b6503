"""A model larger than one GPU: its stages on a GPU each, with a request on each of them.

    mgx compile model.onnx --devices 2 --mode full-dynamic
    python examples/serving/stages.py model-1-of-2.mgx model-2-of-2.mgx rows.npy results.npy

The rows of an array are the requests' first dimension, `--chunk` rows each. A request moves from
GPU to GPU by copies between them, and the next one follows while it is on the way. Without GPUs:
MGX_EMULATED_DEVICES=gfx942,gfx942.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mgx_mlir


def results(
    chain: mgx_mlir.Chain, chunks: list[np.ndarray], in_flight: int
) -> Iterator[np.ndarray]:
    """The first output for each chunk, in order, with so many requests in flight."""
    (name,) = (spec.name for spec in chain.inputs)
    first = chain.outputs[0].name
    waiting: deque[mgx_mlir.chain.ChainRun] = deque()
    for chunk in chunks:
        if len(waiting) == in_flight:
            yield waiting.popleft().result()[first]
        waiting.append(chain.run_async({name: chunk}))
    while waiting:
        yield waiting.popleft().result()[first]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", type=Path, nargs="+", help="the stages, in their order")
    parser.add_argument("rows", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", default="gpu", help="gpu, or a chip")
    parser.add_argument("--chunk", type=int, default=8, help="rows of a request")
    parser.add_argument("--in-flight", type=int, help="requests; default: two a stage")
    options = parser.parse_args()
    chain = mgx_mlir.Chain(options.stages, options.target)
    rows = np.load(options.rows)
    chunks = [rows[n : n + options.chunk] for n in range(0, len(rows), options.chunk)]
    chain.run({chain.inputs[0].name: chunks[0]})  # memory and graphs are made at the first run
    started = time.perf_counter()
    found = list(results(chain, chunks, options.in_flight or 2 * len(options.stages)))
    seconds = time.perf_counter() - started
    np.save(options.output, np.concatenate(found))
    print(f"{len(rows)} rows in {seconds:.2f} s, {len(rows) / seconds:.0f} a second")


if __name__ == "__main__":
    main()
