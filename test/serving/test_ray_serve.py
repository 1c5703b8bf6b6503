"""The example of Ray Serve: real replicas, batches, wrong requests, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from test.serving import servers
from test.serving.digits import SERVING, artifact, images, wanted, wide

pytest.importorskip("ray.serve", reason="Ray Serve is not installed: make test-serving")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.slow

Send: TypeAlias = "Callable[..., tuple[int, Any]]"


@contextmanager
def _served(folder: Path, path: Path, *words: str) -> Iterator[Send]:
    """Sends a request to the server: a status, and the answer."""
    (port,) = servers.free_ports(1)
    command = [sys.executable, SERVING / "ray_serve.py", path, "--port", port, *words]
    environment = {**os.environ, "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120"}
    log = folder / f"log{port}"

    def send(body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{port}/model"
        try:
            with urllib.request.urlopen(url, data, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            return error.code, json.loads(text) if text.startswith("{") else text

    with servers.started(command, log, lambda: "ready" in log.read_text(), environment):
        yield send


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Send, Path]]:
    """Two replicas, and what they serve."""
    folder = tmp_path_factory.mktemp("ray")
    path = artifact(folder)
    with _served(folder, path, "--replicas", "2", "2", "--wait", "0.05") as send:
        yield send, path


def test_requests_are_answered_in_batches(served: Any) -> None:
    send, path = served
    rows = images()[:64]
    with ThreadPoolExecutor(16) as pool:
        bodies = [{"inputs": {"image": rows[n : n + 1].tolist()}} for n in range(len(rows))]
        answers = list(pool.map(send, bodies))
    assert {status for status, _ in answers} == {200}
    found = np.concatenate([answer["outputs"]["probabilities"] for _, answer in answers])
    np.testing.assert_allclose(found, wanted(path)[:64], 1e-5, 1e-6)
    batches = max(max(send()[1]["batches"], default=0) for _ in range(8))
    assert batches > 1


def test_wrong_requests_are_told_why(served: Any) -> None:
    send, _ = served
    for body, said in (
        ({"inputs": {"imag": [[1]]}}, "image"),
        ({"inputs": {"image": [[1.0]]}}, "2 dimensions, not 4"),
        ({"inputs": {"image": np.zeros((1, 1, 7, 7)).tolist()}}, "'image'"),
        ([], "'inputs'"),
    ):
        status, answer = send(body)
        assert status == 400 and said in answer["error"]


def test_a_replica_that_is_killed_is_replaced_without_a_lost_request(served: Any) -> None:
    send, path = served
    row = images()[:1]
    body = {"inputs": {"image": row.tolist()}}

    def asked() -> Any:
        for _ in range(100):
            try:
                status, answer = send(body)
            except OSError:
                status = 503
            if status == 200:
                return answer["outputs"]["probabilities"]
            time.sleep(0.5)
        return None

    replicas = [p for p in psutil.process_iter() if "ServeReplica" in _title(p)]
    assert len(replicas) == 2
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(asked) for _ in range(40)]
        os.kill(replicas[0].pid, signal.SIGKILL)
        futures += [pool.submit(asked) for _ in range(40)]
        for future in futures:
            np.testing.assert_allclose(future.result(), wanted(path)[:1], 1e-5, 1e-6)


def _title(process: Any) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_batches_beside_single_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints requests a second; the machine has other work, so that none are asserted."""
    path, found = artifact(tmp_path, wide()), {}
    body = {"inputs": {"image": np.ones((1, 512)).tolist()}}
    for batch in (32, 1):
        with _served(tmp_path, path, "--batch", str(batch)) as send, ThreadPoolExecutor(32) as pool:
            rates = [servers.rate(lambda _, ask=send: ask(body), 200, pool) for _ in range(2)]
            found["in batches" if batch > 1 else "one by one"] = round(max(rates))
    with capsys.disabled():
        print("\nRay Serve, requests a second:", found)
