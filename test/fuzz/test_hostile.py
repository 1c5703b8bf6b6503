"""Models that were made to harm: refused with words that help, or run, within limits."""

from __future__ import annotations

import random

import onnx
import pytest

from test.fuzz.command import fuzz
from test.fuzz.hostile.attempt import Attempts
from test.fuzz.hostile.rows import rows
from test.fuzz.mutants import mutant

HANG = 300.0  # Seconds, on however busy a machine.
# Some of each table; all are tried where slow tests run.
SAMPLE = rows()[::12]


def test_models_of_all_tables_are_there() -> None:
    names = [row.name for row in rows()]
    assert len(names) >= 300
    assert len(set(names)) == len(names)


def test_some_hostile_models() -> None:
    with Attempts(HANG) as attempts:
        found = {row.name: attempts.of(row) for row in SAMPLE}
    assert {name: result.finding for name, result in found.items() if result.finding} == {}


@pytest.mark.slow
def test_every_hostile_model() -> None:
    fuzz("hostile", timeout=3600)


def test_some_mutants() -> None:
    made = [row.make() for row in rows()[::3]]
    models = [model for model in made if isinstance(model, onnx.ModelProto)]
    findings = {}
    with Attempts(HANG) as attempts:
        for number in range(40):
            model, done = mutant(models, random.Random(number))
            ways = ["import"] if number % 10 else ["compile", "run"]
            result = attempts.on(model.SerializeToString(), *ways)
            if result.finding:
                findings[f"{number} {model.graph.name}: {done}"] = result.finding
    assert findings == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_two_thousand_mutants(seed: int) -> None:
    fuzz("mutants", "--seed", str(seed), "--count", "2000")
