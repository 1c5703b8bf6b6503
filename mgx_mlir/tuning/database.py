"""A database of tuned problems: one SQLite file, for any number of processes.

A record is written in one transaction when its problem ends. A file of an older version is brought
up to date; a damaged one is set aside, and a new one begun.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sqlite3
import stat
import time
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
# Seconds to wait for another process's transaction, and for the answer to a question.
PATIENCE = 30.0
# The most bytes of a value: no record of a problem comes near it.
LARGEST = 1 << 24
# SQLite's own files beside a database.
_BESIDE = ("-wal", "-shm", "-journal")
# SQLite asks after so many of its instructions whether it shall go on.
_INSTRUCTIONS = 10_000
_HASH = re.compile("[0-9a-f]{64}")

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
    """The tuned problems of a folder; with `write` it is made where it is missing.

    A file that cannot be read to its end is said once, and is empty from then on.
    """

    def __init__(self, folder: Path, write: bool = False, patience: float = PATIENCE) -> None:
        """Raises UserError where another user can write to the folder, for a file of a newer
        version, for what is no file, and where a database to `write` cannot be.

        `patience`: seconds that any question and any change may take.
        """
        self.path = folder / NAME
        self._write = write
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._has_damage = False
        if write:
            check_own_folder(folder)
            try:
                make_own_folder(folder)
            except OSError as error:
                raise UserError(f"{folder} cannot be made: {error.strerror or error}") from error
        if not self._is_there() and not write:
            return
        try:
            self._connection = self._open()
        except (sqlite3.OperationalError, OSError) as error:
            raise UserError(f"{self.path} cannot be opened: {error}") from error
        except sqlite3.Error as error:
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
        return next(self._records(rows), None)

    def records(self) -> Iterator[Record]:
        """All records, in the order of their keys."""
        order = ", ".join(_KEY)
        yield from self._records(
            self._read(f"select {', '.join(_FIELDS)} from problems order by {order}", ())
        )

    def chips(self) -> set[tuple[str, int]]:
        """The chips, with their compute units, that there are records of."""
        rows = self._read("select distinct chip, units from problems", ())
        return {(chip, units) for chip, units in rows if (type(chip), type(units)) == (str, int)}

    def problem(self, sha256: str) -> str | None:
        """The key of the problem of a kernel by the kernel's hash, where it is known."""
        rows = self._read("select problem from kernels where sha256 = ?", (sha256,))
        known = [text for (text,) in rows if isinstance(text, str) and _HASH.fullmatch(text)]
        return known[0] if known else None

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
        connection = self._connect("rwc")
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
        connection = self._connect("ro")
        try:
            connection.execute("select count(*) from sqlite_master")
        except sqlite3.OperationalError:
            connection.close()
            connection = self._connect("ro&immutable=1")
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
        end = time.monotonic() + self._patience
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _INSTRUCTIONS)
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.OperationalError, MemoryError) as error:
            _log.warning("%s cannot be read: %s", self.path, error)
            self.close()
            self._connection = None
        except sqlite3.Error as error:
            self._set_aside(error)
        return []

    def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        for _ in range(2):
            if self._connection is None:
                break
            try:
                with self._connection:
                    self._connection.execute(statement, values)
                return
            except sqlite3.OperationalError as error:
                raise UserError(f"{self.path} cannot be written: {error}") from error
            except sqlite3.Error as error:
                self._set_aside(error)
        raise UserError(f"{self.path} cannot be written: it is damaged, and no new one can be made")

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Renames a damaged file; with `write`, begins a new one."""
        self.close()
        self._connection = None
        if not self._write:
            _log.warning("%s is damaged (%s) and is not used", self.path, error)
            return
        aside = self.path.with_suffix(f".damaged-{os.getpid()}")
        for suffix in _BESIDE:
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()
        with contextlib.suppress(OSError):
            self.path.rename(aside)
        _log.warning("%s is damaged (%s); it is now %s, and a new one is begun",
                     self.path, error, aside)  # fmt: skip
        try:
            self._connection = self._open()
        except (sqlite3.Error, OSError) as again:
            raise UserError(f"{self.path} cannot be made: {again}") from again

    def _is_there(self) -> bool:
        """Whether there is a file. UserError for anything else: SQLite would wait for a pipe."""
        for suffix in ("", *_BESIDE):
            path = self.path.with_name(self.path.name + suffix)
            try:
                mode = path.stat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                if not suffix:
                    return False
            except OSError as error:
                raise UserError(f"{path} cannot be read: {error.strerror}") from error
            else:
                if not stat.S_ISREG(mode):
                    raise UserError(f"{path} is no file; delete it, or use another folder")
        return True

    def _connect(self, mode: str) -> sqlite3.Connection:
        name = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(name, timeout=self._patience, uri=True, isolation_level=None)
        if hasattr(connection, "setlimit"):  # from Python 3.11 on
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
        return connection

    def _records(self, rows: list[tuple[Any, ...]]) -> Iterator[Record]:
        """The records of rows; damaged ones are left out, which is said once."""
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
                if not self._has_damage:
                    _log.warning("%s: a record is damaged and not used: %s", self.path, error)
                self._has_damage = True
