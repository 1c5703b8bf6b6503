"""Sizes as formulas: canonical texts, proofs that hold for all sizes, the way back from text."""

from __future__ import annotations

import pickle

import pytest

from mgx_mlir.errors import OpenError
from mgx_mlir.sizes.arithmetic import (
    Size,
    Symbol,
    bounds,
    ceil_div,
    evaluate,
    exact,
    is_more,
    maximum,
    minimum,
    root,
    substitute,
)
from mgx_mlir.sizes.parser import parse

BATCH, SEQ = Size.of(Symbol("batch")), Size.of(Symbol("seq", 1, 512))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (BATCH * SEQ, "batch*seq"),
        (2 * SEQ + 1 - SEQ, "seq+1"),
        ((4 * BATCH + 3) // 4, "batch"),
        (ceil_div(SEQ, 2), "(seq+1)//2"),
        ((SEQ - 1) // 2 + 1, "(seq+1)//2"),
        ((((SEQ - 10) // 5 - 2) // 2 - 2) // 3 + 1, "(seq+20)//30-1"),
        (ceil_div(ceil_div(BATCH, 4), 2), "(batch+7)//8"),
        (SEQ // ceil_div(BATCH, 4), "(seq)//((batch+3)//4)"),
        ((SEQ + 5) // 3, "(seq+2)//3+1"),
        (-8 * ((-SEQ) // 8), "8*((seq+7)//8)"),
        (256 * ceil_div(SEQ, 2) + 1, "256*((seq+1)//2)+1"),
        (BATCH * ceil_div(SEQ, 2), "((seq+1)//2)*batch"),
        (12 * BATCH * SEQ // SEQ, "12*batch"),
        (SEQ - 1 - BATCH, "-batch+seq-1"),
        (minimum(SEQ, 64), "-max(seq-64, 0)+seq"),
        (64 - minimum(64, SEQ), "max(seq-64, 0)-seq+64"),
        (maximum(BATCH, SEQ), "max(batch-seq, 0)+seq"),
        (maximum(BATCH // 2 - 3, 0), "max((batch)//2-3, 0)"),
        (Size.of(Symbol("a b")) + 1, "`a b`+1"),
    ],
)
def test_equal_sizes_have_one_text(size: Size, text: str) -> None:
    assert str(size) == text
    symbols = {"seq": Symbol("seq", 1, 512)}
    assert parse(text, symbols) == size


def test_a_size_takes_no_hash_to_another_process() -> None:
    size = BATCH * SEQ
    assert hash(size) == hash(SEQ * BATCH)
    stored = pickle.dumps(size)
    assert str(hash(size)).encode() not in pickle.dumps(size, 0)
    assert pickle.loads(stored) == size
    assert hash(pickle.loads(stored)) == hash(size)


def test_the_smaller_of_two_has_bounds() -> None:
    least = minimum(BATCH, 64)
    assert 1 <= least <= 64
    assert least <= BATCH
    assert not least <= 63
    assert maximum(BATCH, SEQ) >= BATCH
    assert maximum(BATCH, SEQ) >= SEQ
    assert 64 - minimum(64, SEQ) >= 0
    assert minimum(SEQ, 512) == SEQ
    assert maximum(SEQ, 1) == SEQ
    assert minimum(4 * ceil_div(BATCH, 4), BATCH) == BATCH
    assert maximum(4 * (BATCH // 4), BATCH) == BATCH
    for batch in (1, 64, 70):
        assert evaluate(maximum(BATCH, 64), {"batch": batch}) == max(batch, 64)
        assert substitute(minimum(BATCH, 64), {"batch": batch}) == min(batch, 64)


def test_numbers_are_more_than_others() -> None:
    for batch in (1, 8, 9, 100):
        for size in (BATCH, BATCH // 4 - 1):
            known = {"batch": batch}
            assert evaluate(is_more(size, 8), known) == (evaluate(size, known) > 8)


def test_what_is_known_is_an_int() -> None:
    assert SEQ - SEQ == 0
    assert SEQ % SEQ == 0
    assert Size.of(Symbol("n", 3, 3)) == 3
    assert substitute(BATCH * SEQ, {"batch": 2, "seq": 5}) == 10
    assert evaluate(ceil_div(BATCH * SEQ, 4), {"batch": 3, "seq": 3}) == 3


def test_comparisons_are_proofs() -> None:
    assert SEQ > 0 and SEQ <= 512 and BATCH * SEQ >= SEQ and BATCH * SEQ - 1 >= SEQ - 1
    half = SEQ // 2  # what is missing to a multiple of 6 is from 1 to 6
    assert 1 <= 6 * (SEQ // 12) - half + 6 <= 6
    assert not 6 * (SEQ // 12) - half + 5 >= 1 and not 6 * (SEQ // 12) - half + 6 <= 5
    # Neither is known.
    assert not BATCH < SEQ and not SEQ < BATCH
    assert not BATCH * SEQ > SEQ


def test_division_is_exact_or_not_known() -> None:
    assert exact(12 * BATCH * SEQ, 3 * SEQ) == 4 * BATCH
    assert exact(SEQ + 1, 2) is None
    assert exact(8 * BATCH * (SEQ + 1), SEQ + 1) == 8 * BATCH
    assert exact(8 * SEQ + 4, SEQ + 1) is None
    assert exact(BATCH, SEQ) is None
    image = (BATCH - 2) * (SEQ - 2)
    assert exact(image, SEQ - 2) == BATCH - 2
    assert exact(image * (BATCH + SEQ), image) == BATCH + SEQ
    assert exact(image + 1, SEQ - 2) is None


def test_roots_are_those_of_squares() -> None:
    assert root(4 * (BATCH + 1) * (BATCH + 1) * SEQ * SEQ) == 2 * (BATCH + 1) * SEQ
    assert root((SEQ // 2) * (SEQ // 2)) == SEQ // 2
    assert root(49) == 7
    assert [root(n) for n in (-4, 8, BATCH * SEQ, SEQ * SEQ + 1, 2 * SEQ * SEQ)] == [None] * 5
    assert root((BATCH - 2) * (BATCH - 2)) is None  # it is 2 - batch, or batch - 2


def test_a_number_below_zero_is_rounded_down() -> None:
    for number in (-9, -5, -1):
        quotient = number // BATCH
        assert bounds(quotient)[1] <= -1
        assert [evaluate(quotient, {"batch": n}) for n in (1, 4, 9)] == [
            number // n for n in (1, 4, 9)
        ]


@pytest.mark.parametrize("text", ["", "a+", "(a", "a)", "a//0", "a//(b-b)", "1.5", "a" * 5000, "`"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a+" * 3000 + "a", "a formula of 6001 characters, .* give the model some of the sizes"),
        ("(a+b+c+d)*" * 40 + "a", "too many terms or factors"),
        ("(a//b)*" * 80 + "a", "too many terms or factors"),
        ("(a+b)//c*" * 40 + "a", "too many terms or factors"),
        ("max(b-" * 30 + "c" + ",a)" * 30, "too many terms or factors"),
    ],
)
def test_sizes_too_long_to_write_out_are_refused(text: str, said: str) -> None:
    """A few hundred characters of a hostile file must not take hours."""
    with pytest.raises(OpenError, match=said):
        parse(text)


@pytest.mark.parametrize("each", [1, 3, 4])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_what_is_more_is_one_or_nothing(most: int, each: int) -> None:
    """A number may be 0 where proofs take its symbol for 1 or more, as in a plan's text."""
    rows = Size.of(Symbol("rows")) * each
    text = str(is_more(rows, most))
    for n in range(8):
        found = evaluate(parse(text), {"rows": n})
        assert found == (each * n > most) or (n == 0 and found == 1)


def test_a_symbol_that_is_not_known_may_be_0() -> None:
    for text in ("max(n-1, 0)", "2+max(1-n, 0)", "max(max(n-2, 0)-n+1, 0)", "3*max(2*n*m-1, 0)"):
        size = parse(text)
        assert parse(str(size)) == size
        assert str(size) == str(parse(text, {s: Symbol(s, 0) for s in "nm"}))
        for n in range(4):
            # Texts of sizes are expressions of Python.
            assert evaluate(size, {"n": n, "m": 2}) == eval(text, {"n": n, "m": 2})
    assert parse("max(n-1, 0)", {"n": Symbol("n")}) == parse("n-1")
