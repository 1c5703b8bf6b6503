"""Variables, registers and their parts, as the pseudocode reads and assigns them."""

from __future__ import annotations

import re
from collections.abc import Callable

from pcode_values import (
    FLOAT_KINDS,
    V,
    bits_of,
    cast,
    is_float,
    make,
    mask,
    round_float,
    suffix,
)

_TYPE = re.compile(r"^(u|i|b|f|bf|fp)(\d+)$")


class UnsupportedError(Exception):
    """The text is prose, or uses something the grammar lacks."""


def type_of_suffix(name: str) -> tuple[str, int] | None:
    match = _TYPE.match(name)
    if not match:
        return None
    kind, width = match[1], int(match[2])
    if kind == "fp" or (kind == "bf" and width != 16):
        return f"{kind}{width}", width
    return kind, width


class Env:
    """State of one evaluation: variables, and functions and memories the caller supplies."""

    def __init__(
        self, variables: dict, functions: dict[str, Callable], memories: dict | None = None
    ):
        self.vars = variables
        self.functions = functions
        self.memories = memories or {}
        self.written: dict[str, int] = {}  # bits of a destination that were assigned

    def child(self) -> Env:
        return Env(dict(self.vars), self.functions, self.memories)


# Variables whose bits, once assigned in part, leave the rest alone.
REGISTERS = {"D0", "D1", "D", "RETURN_DATA", "VDATA", "SDATA", "VCC", "EXEC", "SCC", "S0"}


def walk(env: Env, value, chain: list) -> V:
    for step in chain:
        if step[0] == "suffix":
            if isinstance(value, dict):
                value = value[step[1]]
                continue
            type_ = type_of_suffix(step[1])
            if type_ is None:
                if value.kind == "constant" or step[1] == "u":
                    continue
                raise UnsupportedError(f"suffix {step[1]}")
            value = (
                V("denormal", type_[1], 0) if value.kind == "denormal" else suffix(*type_, value)
            )
        elif step[0] == "index":
            index = step[1](env)
            if isinstance(value, list):
                value = value[index.x]
            else:
                value = V("u", 1, bits_of(value) >> index.x & 1)
        else:
            high, low = step[1](env).x, step[2](env).x
            if step[0] == "part":
                high, low = high + low - 1, high
            if high < low:  # [0 : 31] is the bits in reverse
                width = low - high + 1
                reverse = int(f"{bits_of(value) >> high & mask(width):0{width}b}"[::-1], 2)
                value = V("b", width, reverse)
                continue
            value = V("b", high - low + 1, bits_of(value) >> low & mask(high - low + 1))
    return value


def store(env: Env, name: str, chain: list, value: V) -> None:
    if name in env.memories:
        env.memories[name].write(env, chain, value)
        return
    old = env.vars.get(name)
    if isinstance(old, list):
        index = chain[0][1](env).x
        element = old[index]
        old = list(old)
        old[index] = insert(env, element, chain[1:], value, name)[0]
        env.vars[name] = old
        return
    if isinstance(old, dict):
        return  # TRAPSTS and the like
    if not chain and name not in REGISTERS:
        if (
            isinstance(old, V)
            and old.width
            and old.kind in "uib"
            and not is_float(value)
            and old.kind != "n"
        ):
            value = make(old.kind, max(old.width, value.width or 0), value.x)
        env.vars[name] = value
        return
    if name not in REGISTERS and len(chain) == 1 and chain[0][0] == "suffix":
        env.vars[name] = convert(value, *type_of_suffix(chain[0][1]))
        return
    env.vars[name], written = insert(
        env, old if isinstance(old, V) else V("b", 0, 0), chain, value, name
    )
    env.written[name] = env.written.get(name, 0) | written


def convert(value: V, kind: str, width: int) -> V:
    if kind in FLOAT_KINDS and not is_float(value) and value.kind == "n":
        return round_float(width, float(value.x))
    if kind in FLOAT_KINDS and is_float(value):
        return cast(kind, width, value)
    return suffix(kind, width, value)


def insert(env: Env, old: V, chain: list, value: V, name: str) -> tuple[V, int]:
    """`old` with the part that `chain` names replaced, and the mask of that part."""
    low, width, type_ = 0, old.width or (value.width or 32), None
    for step in chain:
        if step[0] == "suffix":
            type_ = type_of_suffix(step[1])
            if type_ is None:
                raise UnsupportedError(f"suffix {step[1]}")
            width = type_[1]
        elif step[0] == "index":
            low, width, type_ = low + step[1](env).x, 1, None
        else:
            high, bottom = step[1](env).x, step[2](env).x
            if step[0] == "part":
                high, bottom = high + bottom - 1, high
            low, width, type_ = low + bottom, high - bottom + 1, None
    bits = bits_of(convert(value, *type_)) if type_ else bits_of(value) & mask(width)
    if not chain and is_float(value):
        width = value.width or 32
    part = mask(width) << low
    if is_float(old) or (not chain and name not in REGISTERS):
        return convert(value, old.kind, old.width or 32), part
    total = max(old.width or 0, low + width)
    return make(
        old.kind if old.width else "b", total, (old.x & mask(total) & ~part) | bits << low
    ), part
