"""The example of MLServer: clients of Triton, by REST and gRPC, and what wrong requests get."""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from test.serving import servers
from test.serving.digits import SERVING, artifact, images, wanted, wide

# Not imported: its classes of the protocol and those of the clients have the same names.
if importlib.util.find_spec("mlserver") is None:
    pytest.skip("MLServer is not installed: make test-serving", allow_module_level=True)
client_http = pytest.importorskip("tritonclient.http")
client_grpc = pytest.importorskip("tritonclient.grpc")
utils = pytest.importorskip("tritonclient.utils")
pytestmark = pytest.mark.slow
CLIENTS = {"http": client_http, "grpc": client_grpc}


def _serve(stack: ExitStack, folder: Path, path: Path, batch: int) -> dict[str, str]:
    """Starts a server; its addresses by kind."""
    http, grpc, metrics = servers.free_ports(3)
    url = f"127.0.0.1:{http}"

    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{url}/v2/models/digits/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    command = [sys.executable, SERVING / "open_inference.py", path, "--batch", batch]
    command += ["--http", http, "--grpc", grpc, "--metrics", metrics, "--wait", "0.02"]
    stack.enter_context(servers.started(command, folder / f"log{batch}", is_ready))
    return {"http": url, "grpc": f"127.0.0.1:{grpc}", "metrics": f"127.0.0.1:{metrics}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server, and the artifact that it serves."""
    folder = tmp_path_factory.mktemp("mlserver")
    path = artifact(folder)
    with ExitStack() as stack:
        yield SimpleNamespace(path=path, where=_serve(stack, folder, path, 32))


def ask(kind: str, client: Any, rows: np.ndarray, name: str = "image", **options: Any) -> Any:
    module = CLIENTS[kind]
    given = module.InferInput(name, list(rows.shape), utils.np_to_triton_dtype(rows.dtype))
    if kind == "http":
        given.set_data_from_numpy(rows, binary_data=False)
        output = module.InferRequestedOutput("probabilities", binary_data=False)
    else:
        given.set_data_from_numpy(rows)
        output = module.InferRequestedOutput("probabilities")
    return client.infer("digits", [given], outputs=[output], **options)


@pytest.mark.parametrize("kind", CLIENTS)
def test_metadata_is_the_artifact_s_signature(kind: str, served: SimpleNamespace) -> None:
    client = CLIENTS[kind].InferenceServerClient(served.where[kind])
    assert client.is_server_live() and client.is_model_ready("digits")
    options = {"as_json": True} if kind == "grpc" else {}
    found = client.get_model_metadata("digits", **options)
    for what, name, shape in (
        ("inputs", "image", [-1, 1, 8, 8]),
        ("outputs", "probabilities", [-1, 10]),
    ):
        (tensor,) = found[what]
        assert (tensor["name"], tensor["datatype"]) == (name, "FP32")
        assert [int(size) for size in tensor["shape"]] == shape


@pytest.mark.parametrize("kind", CLIENTS)
def test_requests_of_any_batch_are_answered_together(kind: str, served: SimpleNamespace) -> None:
    rows, counts = images()[:80], [1, 2, 3, 4] * 8
    ends = np.cumsum(counts)
    batches: list[int] = []

    def one(number: int) -> np.ndarray:
        client = CLIENTS[kind].InferenceServerClient(served.where[kind])
        own = rows[ends[number] - counts[number] : ends[number]]
        answer = ask(kind, client, own, request_id=str(number))
        response = answer.get_response(**({"as_json": True} if kind == "grpc" else {}))
        said = response["parameters"]["batch_rows"]
        batches.append(int(said if kind == "http" else said["int64_param"]))
        found: np.ndarray = answer.as_numpy("probabilities")
        return found

    with ThreadPoolExecutor(16) as pool:
        found = np.concatenate(list(pool.map(one, range(len(counts)))))
    np.testing.assert_allclose(found, wanted(served.path)[:80], 1e-5, 1e-6)
    assert max(batches) > 4  # rows that ran together


@pytest.mark.parametrize("kind", CLIENTS)
def test_wrong_requests_get_the_protocol_s_error_and_spoil_no_other(
    kind: str, served: SimpleNamespace
) -> None:
    good = images()[:1]
    wrong: list[tuple[np.ndarray, str, str]] = [
        (good[:, :, :7], "image", r"input 'image' is FP32\[-1, 1, 8, 8\]"),
        (good.astype(np.float64), "image", "got FP64"),
        (good, "picture", "the model's inputs are image; got picture"),
    ]

    def one(number: int) -> Any:
        client = CLIENTS[kind].InferenceServerClient(served.where[kind])
        if number % 2:
            return ask(kind, client, good).as_numpy("probabilities")
        rows, name, said = wrong[number // 2 % len(wrong)]
        with pytest.raises(utils.InferenceServerException, match=said) as caught:
            ask(kind, client, rows, name)
        return caught.value.status()

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(one, range(24)))
    for answer in found[1::2]:
        np.testing.assert_allclose(answer, wanted(served.path)[:1], 1e-5, 1e-6)
    assert set(found[::2]) == {"400" if kind == "http" else "StatusCode.INVALID_ARGUMENT"}


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_model_that_is_not_there_is_not_found(kind: str, served: SimpleNamespace) -> None:
    client = CLIENTS[kind].InferenceServerClient(served.where[kind])
    with pytest.raises(utils.InferenceServerException, match="not found"):
        client.get_model_metadata("numbers")


def test_data_that_do_not_fill_their_shape_are_refused(served: SimpleNamespace) -> None:
    for data in ([1.0] * 63, ["a"] * 64, [[1.0], [2.0, 3.0]]):
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": data}
        body = json.dumps({"inputs": [tensor]}).encode()
        url = f"http://{served.where['http']}/v2/models/digits/infer"
        head = {"Content-Type": "application/json"}
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url, body, head))
        assert caught.value.code in (400, 422)
        assert "error" in caught.value.read().decode()


def test_batches_beside_single_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints requests a second; the machine has other work, so that none are asserted."""
    path, row = artifact(tmp_path, wide()), np.ones((1, 512), np.float32)
    found: dict[str, float] = {}
    with ExitStack() as stack, ThreadPoolExecutor(32) as pool:
        where = {batch: _serve(stack, tmp_path, path, batch) for batch in (32, 0)}
        for batch in (32, 0) * 2:
            client = client_grpc.InferenceServerClient(where[batch]["grpc"])
            rate = servers.rate(lambda _, c=client: ask("grpc", c, row), 200, pool)
            name = "in batches" if batch else "one by one"
            found[name] = max(rate, found.get(name, 0.0))
    with capsys.disabled():
        print("\nMLServer, requests a second:", {n: round(r) for n, r in found.items()})
