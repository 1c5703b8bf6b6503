"""Command-line options about tuned schedules."""

from __future__ import annotations

import argparse


def add_tuning_options(parser: argparse.ArgumentParser) -> None:
    """Tuned schedules: made before, taken from databases, or left out."""
    add = parser.add_argument
    add(
        "--tune",
        choices=["some", "exhaustive"],
        help="time schedules first (mgx tune); --tune=exhaustive tries every one",
    )
    add_no_tuning_db(parser)


def add_no_tuning_db(parser: argparse.ArgumentParser) -> None:
    """Choices by estimate alone."""
    parser.add_argument(
        "--no-tuning-db",
        action="store_true",
        help="do not look up tuned schedules in the databases (docs/tuning.md)",
    )


def tune_of(arguments: argparse.Namespace) -> bool | str:
    """The value of `compile(tune=...)` that the command line gives."""
    asked = getattr(arguments, "tune", None)
    return "exhaustive" if asked == "exhaustive" else asked is not None
