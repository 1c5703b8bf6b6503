"""An artifact behind Ray Serve: a replica for each device, and batches of any size by one program.

    mgx compile model.onnx -o model.mgx --mode full-dynamic --target cpu
    python examples/serving/ray_serve.py model.mgx --replicas 1 4 --port 8000
    curl localhost:8000/model -d '{"inputs": {"image": [[[[0, 1, ...]]]]}}'

A request has the inputs by name, as nested lists whose first dimension is a batch; so has the
answer the outputs. With `--target gpu` Ray gives each replica a GPU of its own (num_gpus), which
is device 0 there. Ray starts and stops replicas by the number of requests that wait, and another
in place of one that dies; requests of that one fail, and their callers ask again.

Needs ray[serve].
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

import mgx_mlir
from mgx_mlir.errors import MgxError


@serve.deployment(max_ongoing_requests=64, graceful_shutdown_timeout_s=5, health_check_period_s=2)
class Served:
    """A program, loaded once in a replica. The artifact travels as its bytes."""

    def __init__(self, artifact: bytes, target: str, wait: float, batch: int) -> None:
        self.program = mgx_mlir.compile(mgx_mlir.Artifact.from_bytes(artifact), target)
        self.types = {spec.name: np.dtype(spec.dtype) for spec in self.program.inputs}
        self.ranks = {spec.name: len(spec.shape) for spec in self.program.inputs}
        self.batched.set_batch_wait_timeout_s(wait)  # type: ignore[attr-defined]
        self.batched.set_max_batch_size(batch)  # type: ignore[attr-defined]
        self.sizes: list[int] = []

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.005)
    async def batched(self, requests: list[dict[str, np.ndarray]]) -> list[Any]:
        """The outputs of requests that came together, or the error of each."""
        answers: list[Any] = [None] * len(requests)
        for some in grouped(requests):
            counts = [len(next(iter(requests[n].values()))) for n in some]
            given = {k: np.concatenate([requests[n][k] for n in some]) for k in self.types}
            self.sizes.append(sum(counts))
            try:
                found = self.program.run(given)
            except MgxError as error:
                found = None
                for n in some:
                    answers[n] = str(error)
            ends = np.cumsum(counts)
            for n, end, count in zip(some, ends, counts, strict=True):
                if found is not None:
                    answers[n] = {k: v[end - count : end] for k, v in found.items()}
        return answers

    async def __call__(self, request: Request) -> JSONResponse:
        if request.method == "GET":
            return JSONResponse({"inputs": list(self.types), "batches": self.sizes[-1000:]})
        try:
            given = self.taken(await request.json())
        except (ValueError, TypeError, KeyError) as error:
            return JSONResponse({"error": str(error)}, 400)
        answer = await self.batched(given)
        if isinstance(answer, str):
            return JSONResponse({"error": answer}, 400)
        return JSONResponse({"outputs": {name: array.tolist() for name, array in answer.items()}})

    def taken(self, body: Any) -> dict[str, np.ndarray]:
        """The arrays of a request. Raises ValueError, TypeError."""
        inputs = body["inputs"] if isinstance(body, dict) and "inputs" in body else None
        if not isinstance(inputs, dict) or inputs.keys() != self.types.keys():
            raise ValueError(f"a request has 'inputs' with {', '.join(self.types)}")
        given = {name: np.asarray(inputs[name], dtype) for name, dtype in self.types.items()}
        for name, array in given.items():
            if array.ndim != self.ranks[name]:
                raise ValueError(f"'{name}' has {array.ndim} dimensions, not {self.ranks[name]}")
        if len({len(array) for array in given.values()}) != 1:
            raise ValueError("the inputs have batches of different sizes")
        return given


def grouped(requests: list[dict[str, np.ndarray]]) -> list[list[int]]:
    """The numbers of requests whose arrays differ in the first dimension alone."""
    groups: dict[Any, list[int]] = {}
    for number, one in enumerate(requests):
        groups.setdefault(tuple(array.shape[1:] for array in one.values()), []).append(number)
    return list(groups.values())


def application(
    file: Path,
    target: str = "cpu",
    replicas: tuple[int, int] = (1, 1),
    wait: float = 0.005,
    batch: int = 32,
) -> serve.Application:
    """What `serve.run` takes: between so many replicas, with a device each."""
    device = {"num_cpus": 1} if target == "cpu" else {"num_gpus": 1}
    scale = {"min_replicas": replicas[0], "max_replicas": replicas[1], "target_ongoing_requests": 8}
    served = Served.options(ray_actor_options=device, autoscaling_config=scale)
    return served.bind(file.read_bytes(), target, wait, batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--replicas", type=int, nargs=2, default=(1, 1), metavar=("LEAST", "MOST"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--wait", type=float, default=0.005, help="seconds for more requests")
    parser.add_argument("--batch", type=int, default=32, help="the most requests of a batch")
    options = parser.parse_args()
    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    replicas = tuple(options.replicas)
    made = application(options.artifact, options.target, replicas, options.wait, options.batch)
    serve.run(made, name="model", route_prefix="/model")
    print("ready", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
