"""Does the state the engine left agree with the oracle's?"""

from __future__ import annotations

import re

import numpy as np
from cases import Case, Operand
from oracle import Expectation
from snippet import State

# Units in the last place by which a result may differ. The hardware's own tables are good to one.
TOLERANCE = (
    (re.compile(r"V_(S_)?(EXP|LOG|SIN|COS|RSQ|RCP|SQRT)"), 1),
    (re.compile(r"DOT\d.*_B?F16_B?F16$|DOT2_B?F16"), 16),
    (re.compile(r"DOT\d"), 4),
)


def float_kind(case: Case) -> str | None:
    """The format of a result's components, None for bits."""
    if case.chip == "gfx942" and re.search("FP8|BF8", case.name.split("_F32")[0]):
        return None  # one NaN only
    text = case.pcode
    found = re.findall(
        r"(?:D0|tmp\w*|RETURN_DATA|VDATA|MEM|dst|VGPR)(?:\[[^\]]*\])*"
        r"\.(f64|f32|f16|bf16) (?:=|\+=)",
        text,
    )
    for kind in ("f64", "f32", "bf16", "f16"):
        if kind in found:
            return kind
    narrow = re.search(r"CVT_.*?(FP8|BF8)_(F32|F16|BF16)$", re.sub(r"_E(32|64)$", "", case.name))
    if narrow:
        return narrow[1].lower()
    wide = re.search(r"CVT_SCALEF32_(?:PK_|PK32_)?(F32|F16|BF16)_", case.name)
    if wide:
        return wide[1].lower()
    if re.search(r"tmp\s*\+?= .*\.f32", text):
        return "f32"
    if re.search(r"tmp\.f16|_F16(_E\d\d)?$", text + case.name):
        return "f16"
    return None


def split(bits: int, width: int, total: int) -> list[int]:
    return [bits >> at & (1 << width) - 1 for at in range(0, total, width)]


def is_nan(code: int, kind: str) -> bool:
    sign, infinity = {
        "f64": (63, 0x7FF << 52),
        "f32": (31, 0x7F800000),
        "f16": (15, 0x7C00),
        "bf16": (15, 0x7F80),
        "bf8": (7, 0x7C),
        "fp8": (7, 0x7E),
    }[kind]
    return code & (1 << sign) - 1 > infinity


def distance(a: int, b: int, width: int) -> int:
    order = lambda x: -(x & (1 << width - 1) - 1) if x >> width - 1 else x  # noqa: E731
    return abs(order(a) - order(b))


def same(got: int, want: int, kind: str | None, ulps: int, total: int) -> bool:
    if got == want:
        return True
    if kind is None:
        return False
    width = int(kind.lstrip("bfp"))
    if total < width:
        return False
    return all(
        (is_nan(g, kind) and is_nan(w, kind))
        or (distance(g, w, width) <= ulps and not is_nan(g, kind) and not is_nan(w, kind))
        for g, w in zip(split(got, width, total), split(want, width, total), strict=False)
    )


def lane_bits(state: State, operand: Operand, lane: int) -> int:
    return sum(int(state.vgpr[operand.index + w, lane]) << 32 * w for w in range(operand.words))


def differences(case: Case, original: State, got: State, expected: Expectation) -> list[str]:
    want = expected.state
    kind = float_kind(case)
    ulps = next((n for pattern, n in TOLERANCE if pattern.search(case.name)), 0)
    problems: list[str] = []

    def sources(lane: int) -> str:
        words = []
        for source in case.sources:
            if source.kind == "v":
                words.append(f"{source}={lane_bits(original, source, lane):0{8 * source.words}x}")
            elif source.kind == "s":
                words.append(f"{source}={int(original.sgpr[source.index]):08x}")
        return ", ".join(words)

    lanes = original.wave
    dst = case.dst
    if dst and dst.kind == "v":
        for lane in range(lanes):
            defined = sum(
                expected.defined.get((dst.index + w, lane), 0) << 32 * w for w in range(dst.words)
            )
            before, g, w = (lane_bits(s, dst, lane) for s in (original, got, want))
            g, w = g & defined, w & defined
            total = max(defined.bit_length(), 1)
            # The order of roundings of a 16-bit dot product decides what overflows.
            loose = (
                "DOT2_" in case.name
                and kind in ("f16", "bf16")
                and (w & 0x7F80 == 0x7F80 or (w & 0x7C00 == 0x7C00 and kind == "f16"))
            )
            if not loose and not same(g, w, kind, ulps, total):
                problems.append(
                    f"lane {lane}: {dst} = {g:#x}, expected {w:#x}; "
                    f"{sources(lane)}, before {before:#x}"
                )
    untouched = np.ones((256, 64), bool)
    for register, lane in expected.defined:
        untouched[register, lane] = False
    wrong = np.argwhere((got.vgpr[:256] != want.vgpr[:256]) & untouched)
    wrong = [w for w in wrong if w[1] < lanes]
    problems += [
        f"v{r} lane {lane} = {int(got.vgpr[r, lane]):#x}, should be {int(want.vgpr[r, lane]):#x}"
        for r, lane in wrong[:3]
    ]
    if dst and dst.kind == "s":
        value = lambda s: sum(int(s.sgpr[dst.index + w]) << 32 * w for w in range(dst.words))  # noqa: E731
        if not same(value(got), value(want), kind, ulps, 32 * dst.words):
            problems.append(f"{dst} = {value(got):#x}, expected {value(want):#x}; {sources(0)}")
    for n in range(104):
        if got.sgpr[n] != want.sgpr[n] and not (
            dst and dst.kind == "s" and dst.index <= n < dst.index + dst.words
        ):
            problems.append(f"s{n} = {int(got.sgpr[n]):#x}, expected {int(want.sgpr[n]):#x}")
    limit = (1 << lanes) - 1
    for name, low in (("scc", 1), ("vcc", limit), ("exec", limit)):
        g, w = getattr(got, name) & low, getattr(want, name) & low
        if g != w:
            which = (g ^ w) & -(g ^ w)
            lane = which.bit_length() - 1
            problems.append(
                f"{name} = {g:#x}, expected {w:#x}; lane {lane}: {sources(min(lane, 63))}"
            )
    for name in ("memory", "lds"):
        a, b = getattr(got, name), getattr(want, name)
        step = {"f64": 8, "f32": 4}.get(kind or "", 2 if kind else 4)
        for at in np.unique(np.flatnonzero(a != b) // step):
            g = int.from_bytes(a[at * step : at * step + step].tobytes(), "little")
            w = int.from_bytes(b[at * step : at * step + step].tobytes(), "little")
            if not same(g, w, kind, ulps, 8 * step):
                problems.append(f"{name}+{at * step:#x} = {g:#x}, expected {w:#x}")
                break
    return problems
