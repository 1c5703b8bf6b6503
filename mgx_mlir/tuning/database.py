"""A database of tuned problems: one SQLite file, for any number of processes.

A record is written in one transaction when its problem ends. A file of an older version is brought
up to date; a damaged one is set aside, and a new one begun.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from mgx_mlir.errors import UserError
from mgx_mlir.trust import check_own_folder, make_own_folder
from mgx_mlir.tuning.record import Key, Record

_log = logging.getLogger(__name__)

NAME = "tuning.sqlite"
VERSION = 1
# Seconds to wait for another process's transaction.
PATIENCE = 30.0

# Columns are only ever added, with a default: that is how older files are brought up to date.
_TABLES = {
    "problems": """
        problem text not null, chip text not null, units integer not null,
        generator text not null, compiler text not null, modelled integer not null,
        family text not null default '', description text not null default '',
        schedule text, baseline real not null default 0, best real not null default 0,
        spread real not null default 0, exhaustive integer not null default 0,
        device text not null default '', driver text not null default '',
        date text not null default '', candidates text not null default '[]',
        primary key (problem, chip, units, generator, compiler, modelled)""",
    "kernels": "sha256 text primary key, problem text not null",
}
_KEY = tuple(field.name for field in fields(Key))
_FIELDS = (
    *_KEY,
    *("family", "description", "schedule", "baseline", "best", "spread", "exhaustive"),
    *("device", "driver", "date", "candidates"),
)


class Database:
    """The tuned problems of a folder; with `write` it is made where it is missing."""

    def __init__(self, folder: Path, write: bool = False) -> None:
        """Raises UserError where another user can write to the folder, for a file of a newer
        version, and where a database to `write` cannot be."""
        self.path = folder / NAME
        self._write = write
        self._connection: sqlite3.Connection | None = None
        if write:
            check_own_folder(folder)
            try:
                make_own_folder(folder)
            except OSError as error:
                raise UserError(f"{folder} cannot be made: {error.strerror or error}") from error
        elif not self.path.exists():
            return
        try:
            self._connection = self._open()
        except sqlite3.OperationalError as error:
            raise UserError(f"{self.path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._set_aside(error)

    def close(self) -> None:
        """Closes the file."""
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get(self, key: Key) -> Record | None:
        """The record of a key; None where there is none, or it is damaged."""
        where = " and ".join(f"{name} = ?" for name in _KEY)
        rows = self._read(f"select {', '.join(_FIELDS)} from problems where {where}", astuple(key))
        return next(iter(_records(rows)), None)

    def records(self) -> Iterator[Record]:
        """All records, in the order of their keys."""
        order = ", ".join(_KEY)
        yield from _records(
            self._read(f"select {', '.join(_FIELDS)} from problems order by {order}", ())
        )

    def chips(self) -> set[tuple[str, int]]:
        """The chips, with their compute units, that there are records of."""
        return set(self._read("select distinct chip, units from problems", ()))

    def problem(self, sha256: str) -> str | None:
        """The key of the problem of a kernel by the kernel's hash, where it is known."""
        rows = self._read("select problem from kernels where sha256 = ?", (sha256,))
        return str(rows[0][0]) if rows else None

    def put(self, record: Record) -> None:
        """Keeps a record in place of an older one of its key. Raises UserError."""
        values = (
            *astuple(record.key),
            *(record.family, record.description),
            None if record.schedule is None else json.dumps(record.schedule.to_json()),
            *(record.baseline, record.best, record.spread, record.exhaustive),
            *(record.device, record.driver, record.date),
            json.dumps([one.to_json() for one in record.candidates]),
        )
        marks = ", ".join("?" * len(values))
        self._change(
            f"insert or replace into problems ({', '.join(_FIELDS)}) values ({marks})", values
        )

    def put_problem(self, sha256: str, problem: str) -> None:
        """Keeps the key of the problem of a kernel. Raises UserError."""
        self._change("insert or replace into kernels values (?, ?)", (sha256, problem))

    def forget(self, key: Key) -> None:
        """Deletes the record of a key. Raises UserError."""
        where = " and ".join(f"{name} = ?" for name in _KEY)
        self._change(f"delete from problems where {where}", astuple(key))

    def _open(self) -> sqlite3.Connection:
        if not self._write:
            return self._open_to_read()
        connection = _connect(self.path, "rwc")
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            with connection:
                connection.execute("begin immediate")
                self._bring_up_to_date(connection)
            os.chmod(self.path, 0o600)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_to_read(self) -> sqlite3.Connection:
        """The file; without its lock where that cannot be had, as in a read-only folder.

        One of an older version is brought up to date in memory.
        """
        connection = _connect(self.path, "ro")
        try:
            connection.execute("select count(*) from sqlite_master")
        except sqlite3.OperationalError:
            connection.close()
            connection = _connect(self.path, "ro&immutable=1")
        try:
            (version,) = connection.execute("pragma user_version").fetchone()
            self._check_version(version)
            if version < VERSION:
                copy = sqlite3.connect(":memory:", isolation_level=None)
                connection.backup(copy)
                connection.close()
                connection = copy
                self._bring_up_to_date(copy)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, version: int) -> None:
        if version > VERSION:
            raise UserError(
                f"{self.path} is of version {version}, and this mgx-mlir reads up to {VERSION}; "
                "use the newer one, or another MGX_CACHE_DIR"
            )

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("pragma user_version").fetchone()
        self._check_version(version)
        if version == VERSION:
            return
        for name, columns in _TABLES.items():
            old = [row[1] for row in connection.execute(f"pragma table_info({name})")]
            if old:
                connection.execute(f"alter table {name} rename to old_{name}")
            connection.execute(f"create table {name} ({columns}) without rowid")
            if old:
                new = [row[1] for row in connection.execute(f"pragma table_info({name})")]
                kept = ", ".join(column for column in new if column in old)
                connection.execute(f"insert into {name} ({kept}) select {kept} from old_{name}")
                connection.execute(f"drop table old_{name}")
        connection.execute(f"pragma user_version = {VERSION}")

    def _read(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            _log.warning("%s cannot be read: %s", self.path, error)
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
        return []

    def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        for _ in range(2):
            try:
                assert self._connection is not None and self._write
                with self._connection:
                    self._connection.execute(statement, values)
                return
            except sqlite3.OperationalError as error:
                raise UserError(f"{self.path} cannot be written: {error}") from error
            except sqlite3.DatabaseError as error:
                self._set_aside(error)

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Renames a damaged file; with `write`, begins a new one."""
        self.close()
        self._connection = None
        if not self._write:
            _log.warning("%s is damaged (%s) and is not used", self.path, error)
            return
        aside = self.path.with_suffix(f".damaged-{os.getpid()}")
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()
        with contextlib.suppress(OSError):
            self.path.rename(aside)
        _log.warning("%s is damaged (%s); it is now %s, and a new one is begun",
                     self.path, error, aside)  # fmt: skip
        self._connection = self._open()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    name = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(name, timeout=PATIENCE, uri=True, isolation_level=None)


def _records(rows: list[tuple[Any, ...]]) -> Iterator[Record]:
    """The records of rows; damaged ones are said and left out."""
    for row in rows:
        value = dict(zip(_FIELDS, row, strict=True))
        try:
            value["modelled"], value["exhaustive"] = map(
                bool, (value["modelled"], value["exhaustive"])
            )
            value["candidates"] = json.loads(value["candidates"])
            value["schedule"] = value["schedule"] and json.loads(value["schedule"])
            yield Record.from_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            _log.warning("a record of the tuning database is damaged and not used: %s", error)
