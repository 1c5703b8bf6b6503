"""The database of tuned problems: kept, shared, damaged, old, new, read-only."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mgx_mlir.errors import UserError
from mgx_mlir.tuning.database import NAME, VERSION, Database
from mgx_mlir.tuning.record import Record
from test.tuning.records import key, record


def test_a_record_is_kept_under_its_key(tmp_path: Path) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record(1))
        database.put(record(2, words=None))
        database.put_problem("f" * 64, "0" * 64)
    assert (tmp_path / NAME).stat().st_mode & 0o77 == 0
    with Database(tmp_path) as database:
        assert database.get(key(1)) == record(1)
        assert database.get(key(2)) == record(2, words=None)
        for other in ({"chip": "gfx1100"}, {"units": 38}, {"generator": "x"}, {"modelled": False}):
            assert database.get(replace(key(1), **other)) is None
        assert list(database.records()) == [record(1), record(2, words=None)]
        assert database.chips() == {("gfx942", 304)}
        assert database.problem("f" * 64) == "0" * 64
        assert database.problem("e" * 64) is None


def test_a_newer_record_replaces_the_older_one(tmp_path: Path) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record())
        database.put(replace(record(), best=80.0))
        assert [one.best for one in database.records()] == [80.0]
        database.forget(key())
        assert not list(database.records())


def test_json_has_all_of_a_record() -> None:
    assert Record.from_json(record().to_json()) == record()


@pytest.mark.parametrize(
    "change",
    [
        {"problem": "../x"},
        {"units": "304"},
        {"best": float("nan")},
        {"best": -1.0},
        {"schedule": ["tiles"]},
        {"schedule": "x"},
        {"candidates": [[]]},
        {"candidates": None},
        {"device": "x" * 3000},
        {"modelled": 1},
    ],
)
def test_a_record_of_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Record.from_json(record().to_json() | change)


def test_a_missing_database_is_empty(tmp_path: Path) -> None:
    with Database(tmp_path / "none") as database:
        assert database.get(key()) is None
        assert not list(database.records()) and not database.chips()
    assert not (tmp_path / "none").exists()


def test_a_damaged_file_is_set_aside_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / NAME).write_bytes(b"no database" * 1000)
    tmp_path.chmod(0o700)
    with Database(tmp_path) as database:
        assert database.get(key()) is None
    assert "is damaged" in caplog.text and (tmp_path / NAME).exists()
    with Database(tmp_path, write=True) as database:
        database.put(record())
        assert database.get(key()) == record()
    assert "a new one is begun" in caplog.text
    (aside,) = tmp_path.glob("*.damaged-*")
    assert aside.read_bytes().startswith(b"no database")


def test_a_file_that_is_damaged_meanwhile_is_set_aside(tmp_path: Path) -> None:
    with Database(tmp_path, write=True) as database:
        for number in range(300):
            database.put(record(number))
    data = bytearray((tmp_path / NAME).read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    (tmp_path / NAME).write_bytes(data)
    with Database(tmp_path, write=True) as database:
        list(database.records())
        database.put(record())
        assert list(database.records()) == [record()]


def test_a_damaged_record_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record(1))
        database.put(record(2))
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("update problems set schedule = '[1' where problem like '%1'")
    with Database(tmp_path) as database:
        assert list(database.records()) == [record(2)]
    assert "damaged and not used" in caplog.text


def test_values_of_other_types_are_no_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Database(tmp_path, write=True) as database:
        for number in range(3):
            database.put(record(number))
            database.put_problem(f"{number}" * 64, "0" * 64)
    with sqlite3.connect(tmp_path / NAME) as connection:
        columns = [row[1] for row in connection.execute("pragma table_info(problems)")]
        taken = ", ".join(f"{c} = x'00ff'" for c in columns if c not in ("problem", "schedule"))
        connection.execute(f"update problems set {taken}")
        connection.execute("update kernels set problem = 'x' || problem")
    with Database(tmp_path) as database:
        assert not list(database.records()) and not database.chips()
        assert database.problem("0" * 64) is None
    assert caplog.text.count("damaged and not used") == 1


OTHER_SCHEMAS = {
    "no tables": "drop table problems; drop table kernels",
    "no columns": "alter table problems rename column candidates to c",
    "a view without an end": "drop table problems; create view problems as with recursive n(i) as "
    "(select 1 union all select i + 1 from n) select i as problem, i as chip, i as units from n",
}


@pytest.mark.parametrize("change", OTHER_SCHEMAS.values(), ids=OTHER_SCHEMAS)
def test_a_file_of_another_schema_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record())
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.executescript(change)
    with Database(tmp_path, patience=0.1) as database:
        for number in range(3):
            assert database.get(key(number)) is None
        assert not database.chips() and database.problem("0" * 64) is None
    assert caplog.text.count("cannot be read") == 1


def test_a_value_without_measure_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record())
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("update problems set candidates = zeroblob(33554432)")
    with Database(tmp_path) as database:
        assert database.get(key()) is None
    assert "not used" in caplog.text


def _fifo(path: Path) -> None:
    os.mkfifo(path)


KINDS = {"pipe": _fifo, "folder": Path.mkdir, "device": lambda p: p.symlink_to("/dev/zero")}


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_nothing_but_files_is_opened(
    tmp_path: Path, make: Callable[[Path], None], suffix: str
) -> None:
    if suffix:
        Database(tmp_path, write=True).close()
    make(tmp_path / f"{NAME}{suffix}")
    for write in (False, True):
        with pytest.raises(UserError, match=f"{NAME}{suffix} is no file"):
            Database(tmp_path, write=write)


def test_what_cannot_be_set_aside_is_an_error(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / NAME).write_bytes(b"no database" * 1000)

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match="cannot be made"):
        Database(tmp_path, write=True)


@pytest.mark.parametrize("write", [False, True])
def test_a_file_of_an_older_version_keeps_its_records(tmp_path: Path, write: bool) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record())
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("alter table problems drop column driver")
        connection.execute("drop table kernels")
        connection.execute("pragma user_version = 0")
    with Database(tmp_path, write=write) as database:
        assert database.get(key()) == replace(record(), driver="")
        assert database.problem("f" * 64) is None
    with sqlite3.connect(tmp_path / NAME) as connection:
        (version,) = connection.execute("pragma user_version").fetchone()
    assert version == (VERSION if write else 0)


@pytest.mark.parametrize("write", [False, True])
def test_a_file_of_a_newer_version_is_refused(tmp_path: Path, write: bool) -> None:
    with Database(tmp_path, write=True) as database:
        database.put(record())
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute(f"pragma user_version = {VERSION + 1}")
    with pytest.raises(UserError, match=f"version {VERSION + 1}"):
        Database(tmp_path, write=write)
    assert not list(tmp_path.glob("*.damaged-*"))


def test_a_read_only_database_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with Database(folder, write=True) as database:
        database.put(record())
    (folder / NAME).chmod(0o400)
    folder.chmod(0o500)
    try:
        with Database(folder) as database:
            assert database.get(key()) == record()
        if os.geteuid():
            with pytest.raises(UserError, match="cannot be"):
                Database(folder, write=True).put(record())
    finally:
        folder.chmod(0o700)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="others may write"):
        Database(tmp_path, write=True)


WRITER = """
import sys
from pathlib import Path
from mgx_mlir.tuning.database import Database
from test.tuning.records import record
with Database(Path(sys.argv[1]), write=True) as database:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        database.put(record(number))
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(first), str(first + 40)])
        for first in (0, 20, 40)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with Database(tmp_path) as database:
        assert list(database.records()) == [record(number) for number in range(80)]
