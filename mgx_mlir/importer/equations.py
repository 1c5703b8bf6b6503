"""Einsum's equations: their grammar, and the labels that they give to dimensions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mgx_mlir.errors import ModelError

_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def check(equation: str) -> str:
    """The equation without spaces. Raises ModelError where it is none.

    Its result has labels of its inputs, each once, and '...' where an input has it.
    """
    text = equation.replace(" ", "")
    if not _EQUATION.fullmatch(text):
        raise ModelError(f"equation '{equation}' is not terms of letters and one '...' each")
    left, arrow, right = text.partition("->")
    if not arrow:
        return text
    labels = right.replace(".", "")
    if len(set(labels)) < len(labels):
        raise ModelError(f"equation '{equation}' gives its result a label twice")
    missing = sorted(set(labels) - set(left))
    if missing or ("..." in right and "..." not in left):
        shown = ", ".join(missing) or "..."
        raise ModelError(f"equation '{equation}' gives its result {shown}, which no input has")
    return text


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; an ellipsis is labels '0', '1', ..."""
    left, arrow, right = check(equation).partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(f"equation '{equation}' for {len(ranks)} inputs")
    inputs = []
    widest = 0
    for term, rank in zip(terms, ranks, strict=True):
        hidden = rank - len(term.replace("...", ""))
        if hidden < 0 or ("..." not in term and hidden):
            raise ModelError(f"'{term}' of equation '{equation}' for {rank} dimensions")
        widest = max(widest, hidden)
        inputs.append(_labels(term, hidden))
    if arrow:
        if widest and "..." not in right:
            raise ModelError(f"equation '{equation}' leaves '...' out of its result")
        return inputs, _labels(right, widest)
    flat = [label for labels in inputs for label in labels]
    letters = sorted(label for label in set(flat) if label.isalpha() and flat.count(label) == 1)
    return inputs, _hidden(widest) + letters


def _hidden(count: int) -> list[str]:
    # Numbered from the end, because an ellipsis broadcasts as shapes do.
    return [str(i) for i in reversed(range(count))]


def _labels(term: str, hidden: int) -> list[str]:
    before, dots, after = term.partition("...")
    return list(before) + (_hidden(hidden) if dots else []) + list(after)
