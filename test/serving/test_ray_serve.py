"""The example of Ray Serve: real replicas, batches, wrong requests, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from test.serving.digits import SERVING, artifact, images, wanted

pytest.importorskip("ray.serve", reason="Ray Serve is not installed: make test-serving")
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.slow

_STARTS = 300.0  # seconds, on a machine that has other work


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Sends a request to two replicas: a status, and the answer."""
    folder = tmp_path_factory.mktemp("ray")
    path = artifact(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, SERVING / "ray_serve.py", path, "--port", str(port)]
    environment = {**os.environ, "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120"}
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--replicas", "2", "2", "--wait", "0.05"],
            stdout=stream, stderr=stream, env=environment, start_new_session=True,
        )  # fmt: skip

    def send(body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{port}/model"
        try:
            with urllib.request.urlopen(url, data, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            return error.code, json.loads(text) if text.startswith("{") else text

    try:
        until = time.monotonic() + _STARTS
        while "ready" not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(1)
        yield send, path
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


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
