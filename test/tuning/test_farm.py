"""Tuning by Dask's workers: two emulated devices of different chips, one of which is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgx_mlir.errors import UserError
from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.search import Effort
from mgx_mlir.tuning.tune import tune_artifact
from mgx_mlir.tuning.work import Work
from test.tuning.cluster import Cluster
from test.tuning.models import program, settings

CHIPS = ("gfx942", "gfx1100")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.close()


def test_two_devices_tune_one_program(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()
    devices = {chip: cluster.worker("--resources", f"{chip}=1") for chip in CHIPS}
    scheduler, artifact = cluster.address(3), program()
    told: list[tuple[str, str]] = []

    def lose_one(work: Work, record: Record, known: bool) -> None:
        told.append((record.key.chip, record.description))
        if record.key.chip == CHIPS[0] and len(told) == 1:
            devices[CHIPS[0]].kill()
            threading.Timer(1.0, cluster.worker, ("--resources", f"{CHIPS[0]}=1")).start()

    for chip in CHIPS:
        tune_artifact(
            artifact,
            chip,
            Effort(tried=2),
            settings=settings(tmp_path / "kernels"),
            scheduler=scheduler,
            told=lose_one,
        )
    assert sorted(told) == sorted(set(told)) and len(told) == 6
    with Database(tmp_path / "kernels") as database:
        records = list(database.records())
    assert sorted((one.key.chip, one.description) for one in records) == sorted(told)
    assert all(any(c.result in ("timed", "slower") for c in one.candidates[1:]) for one in records)


@pytest.mark.slow
def test_a_worker_that_is_killed_twenty_times_loses_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A round is a tuning of all problems; one of two workers is lost at any moment of it."""
    chance, artifact, words = random.Random(0), program(), ("--resources", f"{CHIPS[0]}=1")
    workers = [cluster.worker(*words) for _ in range(2)]
    for number in range(20):
        scheduler = cluster.address(2)
        folder, told = tmp_path / str(number), []

        def lose_one() -> None:
            workers.pop(0).kill()
            workers.append(cluster.worker(*words))

        timer = threading.Timer(chance.uniform(0, 4), lose_one)
        timer.start()
        tune_artifact(
            artifact,
            CHIPS[0],
            Effort(tried=2),
            settings=settings(folder),
            scheduler=scheduler,
            told=lambda work, record, known, told=told: told.append(record),
        )
        timer.join()
        with Database(folder) as database:
            records = list(database.records())
        assert sorted(told, key=lambda one: one.key) == records and len(records) == 3
        assert not any(one.result in ("crashed", "hung") for r in records for one in r.candidates)


def test_a_farm_without_the_chip_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()
    mine = settings(tmp_path / "kernels")
    with pytest.raises(UserError, match="has a gfx942"):
        tune_artifact(program(), "gfx942", settings=mine, scheduler=cluster.address(1))
    with pytest.raises(UserError, match="no scheduler"):
        tune_artifact(program(), "gfx942", settings=mine, scheduler="tcp://127.0.0.1:1")
