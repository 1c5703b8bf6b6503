"""Scoring a data set with Dask's workers, one of which may die."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from test.serving.digits import SERVING, artifact, images, wanted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_row_is_scored_once(workers: int, tmp_path: Path) -> None:
    path = artifact(tmp_path)
    np.save(tmp_path / "rows.npy", images())
    command = [sys.executable, SERVING / "score.py", path, tmp_path / "rows.npy"]
    command += [tmp_path / "scores.npy", "--workers", str(workers), "--chunk", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "359 rows\n"
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), wanted(path), 1e-5, 1e-6)


def test_a_worker_that_dies_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SERVING))  # which workers get too
    score = importlib.import_module("score")
    path, rows = artifact(tmp_path), np.concatenate([images()] * 40)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())

        def kill() -> None:
            while not any(client.processing().values()):
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        found = score.score(client, path, rows, 16, "cpu")
        thread.join()
        with pytest.raises(ProcessLookupError):
            os.kill(pids[0], 0)
    np.testing.assert_allclose(found, np.concatenate([wanted(path)] * 40), 1e-5, 1e-6)
