"""Recurrent networks of all forms agree with onnxruntime."""

from __future__ import annotations

import pytest

from test.fuzz.command import fuzz
from test.fuzz.recurrent import GATES, Case, case, check


def forms(seeds: range) -> list[Case]:
    return [case(seed) for seed in seeds]


def test_networks_of_a_few_seeds() -> None:
    assert {str(one): found for one in forms(range(8)) if (found := check(one))} == {}


def test_cases_have_all_forms() -> None:
    cases = forms(range(400))
    assert {one.operator for one in cases} == set(GATES)
    assert {one.layout for one in cases} == {0, 1}
    assert {one.attributes["direction"] for one in cases} >= {"forward", "reverse", "bidirectional"}
    for operator, count in (("RNN", 6), ("GRU", 6), ("LSTM", 8)):
        inputs = [one.inputs for one in cases if one.operator == operator]
        for optional in range(3, count):
            assert {found[optional] is None for found in inputs} == {True, False}
    stated = [set(one.attributes) for one in cases]
    for name in ("activations", "clip", "input_forget", "linear_before_reset"):
        assert any(name in names for names in stated)


@pytest.mark.slow
def test_three_hundred_networks() -> None:
    fuzz("recurrent", "--seed", "1000")
