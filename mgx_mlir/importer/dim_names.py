"""The names of dimensions in a model's file: symbols, formulas of these, and words for 'unknown'.

Exporters write names, and nothing checks them: a name is a claim that sizes are equal, no proof.
"""

from __future__ import annotations

from collections.abc import Iterable

from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, evaluate, least, symbols
from mgx_mlir.sizes.parser import parse

_UNKNOWN = frozenset("* ... ? any dyn dynamic n/a nan none null undefined unk unknown".split())
# No name is as long; formulas of it would be longer than a file may hold.
_LONGEST = 256


def says_nothing(name: str) -> bool:
    """Whether a name means no more than an unknown size: '?', 'None', '-1', any number."""
    word = name.strip().lower()
    if not word or word in _UNKNOWN or len(name) > _LONGEST:
        return True
    return isinstance(_parsed(name), int)


def meanings(names: Iterable[str]) -> dict[str, Number]:
    """The size that each name is: a formula where names are all its symbols, else a symbol.

    'past + seq' is a formula where there are 'past' and 'seq'. A size that may be negative is none.
    """
    listed = list(dict.fromkeys(names))
    plain = {name: Symbol(name.replace("`", "'")) for name in listed}
    known = {symbol.name for symbol in plain.values()}
    found: dict[str, Number] = {}
    for name in listed:
        size = _parsed(name)
        is_formula = size is not None and {symbol.name for symbol in symbols(size)} <= known
        own = Size.of(plain[name])
        found[name] = size if is_formula and size is not None and least(size) >= 0 else own
    return found


def is_formula(name: str, size: Number) -> bool:
    """Whether the meaning of a name is another size than a symbol of its own."""
    return size != Size.of(Symbol(name.replace("`", "'")))


def contradicted(dims: Iterable[tuple[str, int]]) -> set[str]:
    """The names that sizes contradict: two sizes of one name, another than that of a formula."""
    sizes: dict[str, set[int]] = {}
    for name, size in dims:
        if not says_nothing(name):
            sizes.setdefault(name, set()).add(size)
    found = {name for name, several in sizes.items() if len(several) > 1}
    known = {n.replace("`", "'"): min(several) for n, several in sizes.items() if n not in found}
    for name, meaning in meanings(sizes).items():
        needed = {symbol.name for symbol in symbols(meaning)}
        if name in found or not is_formula(name, meaning) or not needed <= known.keys():
            continue
        try:
            if {evaluate(meaning, known)} != sizes[name]:
                found.add(name)
        except ZeroDivisionError:
            found.add(name)
    return found


def _parsed(name: str) -> Number | None:
    try:
        return parse(name)
    except (ValueError, ZeroDivisionError):
        return None
