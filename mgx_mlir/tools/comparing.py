"""Compares outputs with those of a reference, whose variants may differ from each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Tolerances by the narrowest float type among the outputs.
NARROW_TOLERANCE = 4e-2
TOLERANCES = dict.fromkeys(("float16", "bfloat16"), (NARROW_TOLERANCE, NARROW_TOLERANCE))
DEFAULT_TOLERANCE = (1e-3, 1e-4)
# The variants of a reference whose numbers are nudged before they are quantized. Each moves other
# elements by a step, so whole tensors are compared: by their rms and by their largest difference.
STEPPED = "roundings before quantizers"
_STEPPED_RMS = 2.0
_STEPPED_WORST = 4.0


@dataclass(frozen=True)
class Verdict:
    """`differs`: some elements do. `excused`: all of these differ between variants too."""

    differs: bool
    excused: bool
    text: str

    @property
    def ok(self) -> bool:
        return not self.differs or self.excused


@dataclass(frozen=True)
class _Distance:
    """The distance of two tensors: the elements beyond tolerance, the worst, relative rms."""

    bad: np.ndarray
    error: np.ndarray
    allowed: np.ndarray
    worst: float
    rms: float

    @property
    def ratio(self) -> str:
        """The ratio of signal to noise (SQNR), as text."""
        return f" ({-20 * np.log10(self.rms):.0f} dB)" if self.rms else ""

    def within(self, rms: float) -> bool:
        """Whether all elements are finite in both or equal, and relative rms is at most this."""
        return self.rms <= rms and bool(np.isfinite(self.error).all())


def compare(
    found: np.ndarray | None,
    variants: Mapping[str, np.ndarray],
    rtol: float | None,
    atol: float | None,
    rms: float | None = None,
) -> Verdict:
    """The verdict on one output against the variants of its reference, the first of which counts.

    `rms`: the output agrees where its relative rms distance from one variant is at most this;
    single elements count beside it only where `rtol` or `atol` is given.

    An element that is beyond tolerance is excused where a variant differs from the first by as
    much, or, for integers, at all. All are where quantizers inside of the model make as large a
    difference of one rounding.
    """
    first, *_ = variants.values()
    if found is None:
        return Verdict(True, False, "missing")
    if first.dtype.kind == "U":
        same = any(np.array_equal(found, one) for one in variants.values())
        return Verdict(not same, False, "ok" if same else "strings differ")
    equal = {name: one for name, one in variants.items() if one.shape == found.shape}
    if not equal:
        return Verdict(True, False, f"shape {found.shape}, expected {first.shape}")
    name, first = next(iter(equal.items()))
    if first.size and not np.isfinite(first.astype(np.float64)).any():
        text = "the reference holds no finite number on these inputs; give some by --input"
        return Verdict(True, False, text)
    tolerances = TOLERANCES.get(found.dtype.name, DEFAULT_TOLERANCE)
    given = tuple(t if g is None else g for t, g in zip(tolerances, (rtol, atol), strict=True))
    own = {n: _distance(one, first, given) for n, one in equal.items() if n != name}
    distances = {n: _distance(found, one, given) for n, one in equal.items()}
    shown = "; ".join(
        f"{f'{n}: ' if n else ''}worst {d.worst:.3g} of the tolerance, "
        f"relative rms {d.rms:.3g}{d.ratio}"
        for n, d in distances.items()
        if n in ("", "unoptimised", "optimised")
    )
    wrong = int(np.isnan(first.astype(np.float64)).sum())
    if wrong:
        shown += f"; {wrong} of {first.size} elements are NaN in the reference"
    if rms is not None and not any(d.within(rms) for d in distances.values()):
        return Verdict(True, False, f"relative rms beyond {rms:g}; {shown}")
    if rms is not None and rtol is None and atol is None:
        return Verdict(False, False, f"ok; {shown}")
    bad = next(iter(distances.values())).bad
    for distance in distances.values():
        bad = bad & distance.bad
    count = int(bad.sum())
    if not count:
        return Verdict(False, False, f"ok; {shown}")
    excused = bad & _excused(found, first, distances[name], own)
    text = f"{count} of {bad.size} elements differ; {shown}"
    if excused.any():
        which = [n for n, d in own.items() if (d.error > 0)[excused].any()]
        text += (
            f"; at {int(excused.sum())} of these the reference differs from itself by as much "
            f"({', '.join(which)})"
        )
    if not (excused == bad).all() and _is_of_steps(distances[name], own):
        text += "; a rounding before its quantizers changes the reference by as much"
        return Verdict(True, True, text)
    return Verdict(True, bool((excused == bad).all()), text)


def _is_of_steps(ours: _Distance, own: Mapping[str, _Distance]) -> bool:
    """Whether steps of quantizers, which roundings before them decide, explain a distance."""
    stepped = [distance for name, distance in own.items() if name.startswith(STEPPED)]
    if not stepped:
        return False
    rms = max(distance.rms for distance in stepped)
    worst = max(float(distance.error.max(initial=0.0)) for distance in stepped)
    within = ours.within(_STEPPED_RMS * rms)
    return within and float(ours.error.max(initial=0.0)) <= _STEPPED_WORST * worst


def _excused(
    found: np.ndarray, first: np.ndarray, ours: _Distance, own: Mapping[str, _Distance]
) -> np.ndarray:
    """The elements at which the variants differ from the first by as much as was found."""
    spread = np.zeros(first.shape)
    for distance in own.values():
        spread = np.maximum(spread, distance.error)
    if found.dtype.kind in "iub":
        return spread > 0
    return ours.error <= ours.allowed + spread


def _distance(a: np.ndarray, b: np.ndarray, tolerance: tuple[float, ...]) -> _Distance:
    a, b = a.astype(np.float64), b.astype(np.float64)
    rtol, atol = tolerance
    with np.errstate(invalid="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.abs(a - b))
        allowed = np.where(np.isfinite(b), atol + rtol * np.abs(b), atol)
        bad = ~(error <= allowed)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(divide="ignore", invalid="ignore"):  # a tolerance may be 0
        shares = np.where(error == 0, 0.0, error / allowed)
    worst = float(shares[finite].max(initial=0.0))
    scale = float(np.sqrt(np.mean(b[finite] ** 2))) if finite.any() else 0.0
    rms = float(np.sqrt(np.mean(error[finite] ** 2))) / (scale or 1.0) if finite.any() else 0.0
    error = np.where(np.isnan(error), np.inf, error)
    return _Distance(bad, error, allowed, worst, rms)
