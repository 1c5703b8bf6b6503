"""The types of the ops that type checkers read."""

from scripts import dialect_types


def test_the_stub_is_the_one_that_the_dialect_gives():
    assert dialect_types.FILE.read_text() == dialect_types.formatted(), (
        "run `.venv/bin/python -m scripts.dialect_types`"
    )
