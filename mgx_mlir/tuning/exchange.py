"""Records of a database as lines of JSON, and from one database into another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.record import Record

# The most characters of a line: no record of a problem comes near it.
MAX_LINE = 1 << 24


@dataclass
class Merged:
    """How many records were added, and how many the database had already, as good or better."""

    added: int = 0
    known: int = 0


def lines_of(records: Iterable[Record]) -> Iterator[str]:
    """A line of JSON for each record; equal records give equal lines."""
    for record in records:
        yield json.dumps(record.to_json(), sort_keys=True) + "\n"


def records_of(lines: Iterable[str]) -> Iterator[Record]:
    """The records of such lines. Raises ValueError naming the line that is none."""
    for number, line in enumerate(lines, 1):
        try:
            if len(line) > MAX_LINE:
                raise ValueError("it is too long")
            yield Record.from_json(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error


def merge(database: Database, records: Iterable[Record]) -> Merged:
    """Puts records into a database. Of two with one key the exhaustive one stays, or the newer."""
    found = Merged()
    for record in records:
        there = database.get(record.key)
        if there is not None and _merit(there) >= _merit(record):
            found.known += 1
            continue
        database.put(record)
        found.added += 1
    return found


def _merit(record: Record) -> tuple[bool, str]:
    return record.exhaustive, record.date
