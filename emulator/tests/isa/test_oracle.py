"""Every instruction on the engine, against AMD's pseudocode.

The default tier takes a share of the instructions, another one for each chip; `-m slow` takes all.
"""

from __future__ import annotations

import pytest
from assembler import CHIPS, wave_sizes
from cases import FAMILIES, Case, cases
from compare import differences
from inputs import state_for
from oracle import expect
from pcode_state import UnsupportedError
from snippet import SnippetError, find_library, run
from variants import dpp_variants, half_variants, operand_variants

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")

SHARE = 10
# Pseudocode that is prose or a table: test_lanes.py has these.
ELSEWHERE = {"DS_SWIZZLE_B32", "DS_CONSUME", "DS_APPEND"}


def check(case: Case, seed: int) -> str | None:
    """A sentence about what is wrong, or None."""
    state = state_for(case, seed)
    permuted = state
    if "quad_perm" in case.extra:  # the oracle is given the moved source, the engine moves it
        state.exec = (1 << case.wave) - 1
        permuted = state.copy()
        lanes = [lane // 4 * 4 + case.extra["quad_perm"][lane % 4] for lane in range(64)]
        permuted.vgpr[case.sources[0].index] = state.vgpr[case.sources[0].index][lanes]
    try:
        expected = expect(case, permuted)
    except UnsupportedError as error:
        return (
            None
            if case.name in ELSEWHERE
            else f"{case.text}: the pseudocode cannot be evaluated: {error}"
        )
    if permuted is not state:
        expected.state.vgpr[case.sources[0].index] = state.vgpr[case.sources[0].index]
    original = state.copy()
    try:
        run(case.chip, case.code, state)
    except SnippetError as fault:
        return f"{case.text}: {fault}"
    problems = differences(case, original, state, expected)
    return f"{case.text}: {len(problems)} differences, such as {problems[0]}" if problems else None


def report(selected: list[Case], seeds: tuple[int, ...]) -> None:
    problems = [
        problem
        for case in selected
        for problem in [next(filter(None, (check(case, seed) for seed in seeds)), None)]
        if problem
    ]
    assert not problems, f"{len(problems)} of {len(selected)} instructions differ:\n" + "\n".join(
        problems[:40]
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_a_share_of_the_instructions(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    everything = cases(chip, wave)
    report(list(everything[CHIPS.index(chip) % SHARE :: SHARE]), (1,))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip in CHIPS for wave in wave_sizes(chip)]
)
def test_all_instructions(chip: str, wave: int, family: str) -> None:
    report([case for case in cases(chip, wave) if case.family == family], (0, 1, 2))


@pytest.mark.parametrize("chip", CHIPS)
def test_scalar_and_constant_operands(chip: str) -> None:
    wave = wave_sizes(chip)[-1]
    everything = operand_variants(chip, wave)
    report(list(everything[CHIPS.index(chip) % (3 * SHARE) :: 3 * SHARE]), (1,))


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_all_scalar_and_constant_operands(chip: str) -> None:
    report(list(operand_variants(chip, wave_sizes(chip)[0])), (0,))


@pytest.mark.parametrize("chip", CHIPS)
def test_upper_halves_of_registers(chip: str) -> None:
    everything = half_variants(chip, wave_sizes(chip)[0])
    assert len(everything) > 20
    report(list(everything[:: 1 if len(everything) < 60 else 8]), (1,))


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_all_upper_halves_of_registers(chip: str) -> None:
    report(list(half_variants(chip, wave_sizes(chip)[0])), (0,))


@pytest.mark.parametrize("chip", CHIPS)
def test_sources_from_other_lanes(chip: str) -> None:
    everything = dpp_variants(chip, wave_sizes(chip)[0])
    assert len(everything) > 50
    report(list(everything[CHIPS.index(chip) % SHARE :: SHARE]), (0,))


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_all_sources_from_other_lanes(chip: str) -> None:
    report(list(dpp_variants(chip, wave_sizes(chip)[-1])), (0,))
