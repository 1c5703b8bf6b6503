"""Attention kernels for the tests of the generators: as text, and numpy's word on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import context

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
}
# Bounds of the error of results that are averages of numbers in [-1, 1]: shares and results
# are rounded to the type, sums are f32.
TOLERANCE = {"bf16": 2**-6, "f16": 2**-9, "f32": 2**-17, "f64": 1e-12}
LOWEST = -3.4028234663852886e38


@dataclass(frozen=True)
class AttentionCase:
    """q (heads, M, D), k (heads / group, N, D), v (heads / group, N, E) of an element type.

    mask: '', 'padding' (batch of heads, 1, N: f32 added), 'bias' (heads, M, N: added, of the
    element type), 'where' (M, N: bool, others get the lowest number) or 'safe' and 'empty'
    (M, N: f32 added, -inf for half of the keys and for all of some queries, whose result is 0).
    packed: q, k and v are slices of one input (M, 3 * heads * D), as models have them.
    rising: scores grow along the keys, by hundreds.
    tail: what follows in the kernel: '', 'added' (another tensor is added; a second result is
    tanh of that times a row, in f32), 'quantized' (to i8) or 'gated' (0 for some queries).
    """

    heads: int
    M: int
    N: int
    D: int
    E: int = 0
    element: str = "f16"
    mask: str = ""
    causal: int | None = None
    group: int = 1
    packed: bool = False
    rising: bool = False
    tail: str = ""
    earliest: int | None = None

    @property
    def columns(self) -> int:
        return self.E or self.D

    @property
    def name(self) -> str:
        words = [f"{self.heads}x{self.M}x{self.N}x{self.D}x{self.columns}", self.element, self.mask]
        words += ["" if self.causal is None else f"causal{self.causal}"]
        words += ["" if self.earliest is None else f"from{self.earliest}"]
        words += [f"group{self.group}" if self.group > 1 else "", "packed" if self.packed else ""]
        words += ["rising" if self.rising else "", self.tail]
        return "-".join(filter(None, words))

    def stored(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the kernel's inputs."""
        keys = self.heads // self.group
        found: list[tuple[tuple[int, ...], str]]
        if self.packed:
            found = [((self.M, 3 * self.heads * self.D), self.element)]
        else:
            found = [
                ((self.heads, self.M, self.D), self.element),
                ((keys, self.N, self.D), self.element),
                ((keys, self.N, self.columns), self.element),
            ]
        masks: dict[str, tuple[tuple[int, ...], str]] = {
            "padding": ((1, 1, self.N), "f32"),
            "bias": ((self.heads, self.M, self.N), self.element),
            "where": ((self.M, self.N), "i1"),
            "safe": ((self.M, self.N), "f32"),
            "empty": ((self.M, self.N), "f32"),
        }
        found += [masks[self.mask]] if self.mask else []
        if self.tail == "added":
            found += [((self.heads, self.M, self.columns), self.element), ((self.columns,), "f32")]
        return found + ([((self.M, 1), "i1")] if self.tail == "gated" else [])

    def results(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the kernel's results."""
        sizes = (self.heads, self.M, self.columns)
        first = (sizes, "i8" if self.tail == "quantized" else self.element)
        return [first, (sizes, "f32")] if self.tail == "added" else [first]

    @property
    def _mask_number(self) -> int:
        """The input that is the mask."""
        return 1 if self.packed else 3

    @property
    def wide(self) -> str:
        return "f64" if self.element == "f64" else "f32"

    def text(self) -> str:
        """The mgx.kernel."""
        types = [_tensor(*x) for x in self.stored()]
        lines: list[str] = []
        operands = self._packed(lines) if self.packed else ["%x0", *self._grouped(lines)]
        q = _tensor((self.heads, self.M, self.D), self.element)
        k = _tensor((self.heads, self.N, self.D), self.element)
        v = _tensor((self.heads, self.N, self.columns), self.element)
        y = _tensor((self.heads, self.M, self.columns), self.element)
        w, extra, listed, arguments = self.wide, "", [q, k, v], f"%s: {self.wide}"
        body = [f"%c = mgx.constant 3.000000e-01 : {w}", f"%t = mgx.mul %s, %c : {w}, {w} -> {w}"]
        if self.mask:
            number = self._mask_number
            _, element = self.stored()[number]
            scores = _tensor((self.heads, self.M, self.N), element)
            name = f"%x{number}"
            if types[number] != scores:
                lines.append(f"%m = mgx.multibroadcast {name} : {types[number]} -> {scores}")
                name = "%m"
            extra, arguments = f" extras({name})", f"{arguments}, %e: {element}"
            listed.append(scores)
            body += self._masked(element)
        else:
            body.append(f"mgx.yield %t : {w}")
        attributes = [] if self.causal is None else [f"causal = {self.causal} : i64"]
        attributes += [] if self.earliest is None else [f"earliest = {self.earliest} : i64"]
        attributes += [{"safe": "nan_as_zero", "empty": "empty_as_zero"}.get(self.mask, "")]
        causal = f" {{{', '.join(filter(None, attributes))}}}" if any(attributes) else ""
        lines.append(
            f"%y = mgx.attention({', '.join(operands)}){extra}{causal} : ({', '.join(listed)}) "
            f"-> {y} {{\n^bb0({arguments}):\n" + "\n".join(body) + "\n}"
        )
        if self.tail:
            lines += self._tail(y, types)
        inputs = ", ".join(f"%x{n}: {t}" for n, t in enumerate(types))
        results = ", ".join(_tensor(*x) for x in self.results())
        names = "%y" if not self.tail else "%z#0, %z#1" if self.tail == "added" else "%z"
        return (
            f"mgx.kernel @k({inputs}) -> ({results}) "
            'attributes {arch = #mgx.arch<"gfxMIGX">} {\n'
            + "\n".join(lines)
            + f"\nmgx.return {names} : {results}\n}}"
        )

    def _tail(self, y: str, types: list[str]) -> list[str]:
        e, last = self.element, len(types) - 1
        results = ", ".join(_tensor(*x) for x in self.results())
        if self.tail == "quantized":
            body = [
                f"%k = mgx.constant 1.000000e-02 : {e}",
                f"%q = mgx.quantizelinear %a scale %k : {e}, {e} -> i8",
                "mgx.yield %q : i8",
            ]
            return [f"%z = mgx.pointwise(%y) : ({y}) -> {results} {{\n^bb0(%a: {e}):", *body, "}"]
        if self.tail == "gated":
            gate = y.replace(f"x{e}>", "xi1>")
            body = [
                f"%k = mgx.constant 0.000000e+00 : {e}",
                f"%q = mgx.where %g, %k, %a : i1, {e}, {e} -> {e}",
                f"mgx.yield %q : {e}",
            ]
            return [
                f"%h = mgx.multibroadcast %x{last} : {types[last]} -> {gate}",
                f"%z = mgx.pointwise(%y, %h) : ({y}, {gate}) -> {results} {{",
                f"^bb0(%a: {e}, %g: i1):",
                *body,
                "}",
            ]
        row = y.replace(f"x{e}>", "xf32>")
        wide = "%s" if e == "f32" else "%f"
        body = [
            f"%s = mgx.add %a, %r : {e}, {e} -> {e}",
            *([] if e == "f32" else [f"%f = mgx.convert %s : {e} -> f32"]),
            f"%p = mgx.mul {wide}, %w : f32, f32 -> f32",
            "%q = mgx.tanh %p : f32",
            f"mgx.yield %s, %q : {e}, f32",
        ]
        return [
            f"%h = mgx.multibroadcast %x{last} : {types[last]} -> {row}",
            f"%z:2 = mgx.pointwise(%y, %x{last - 1}, %h) : ({y}, {y}, {row}) -> ({results}) {{",
            f"^bb0(%a: {e}, %r: {e}, %w: f32):",
            *body,
            "}",
        ]

    def _masked(self, element: str) -> list[str]:
        w = self.wide
        if self.mask == "where":
            return [
                f"%l = mgx.constant {LOWEST:e} : {w}".replace("3.402823e", "3.402823466e"),
                f"%u = mgx.where %e, %t, %l : i1, {w}, {w} -> {w}",
                f"mgx.yield %u : {w}",
            ]
        wide = [] if element == w else [f"%f = mgx.convert %e : {element} -> {w}"]
        name = "%f" if wide else "%e"
        return [*wide, f"%u = mgx.add %t, {name} : {w}, {w} -> {w}", f"mgx.yield %u : {w}"]

    def _grouped(self, lines: list[str]) -> list[str]:
        if self.group == 1:
            return ["%x1", "%x2"]
        keys = self.heads // self.group
        for number, columns in ((1, self.D), (2, self.columns)):
            shapes = [
                (keys, self.N, columns),
                (keys, 1, self.N, columns),
                (keys, self.group, self.N, columns),
                (self.heads, self.N, columns),
            ]
            a, b, c, d = (_tensor(shape, self.element) for shape in shapes)
            lines += [
                f"%a{number} = mgx.unsqueeze %x{number} axes = [1] : {a} -> {b}",
                f"%b{number} = mgx.multibroadcast %a{number} : {b} -> {c}",
                f"%c{number} = mgx.reshape %b{number} : {c} -> {d}",
            ]
        return ["%c1", "%c2"]

    def _packed(self, lines: list[str]) -> list[str]:
        width = self.heads * self.D
        whole = _tensor((self.M, 3 * width), self.element)
        part = _tensor((self.M, width), self.element)
        split = _tensor((self.M, self.heads, self.D), self.element)
        transposed = _tensor((self.heads, self.M, self.D), self.element)
        for n in range(3):
            lines += [
                f"%a{n} = mgx.slice %x0 axes = [1] starts = [{n * width}] "
                f"ends = [{(n + 1) * width}] : {whole} -> {part}",
                f"%b{n} = mgx.reshape %a{n} : {part} -> {split}",
                f"%c{n} = mgx.transpose %b{n} permutation = [1, 0, 2] : {split} -> {transposed}",
            ]
        return ["%c0", "%c1", "%c2"]

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(self.text())
            return module, next(iter(module.body.operations))

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(5)
        made = []
        for number, (shape, element) in enumerate(self.stored()):
            x = rng.uniform(-1, 1, shape)
            if self.tail == "gated" and number == len(self.stored()) - 1:
                x = x > 0
            elif self.mask and number == self._mask_number:
                x = x > -0.3 if self.mask == "where" else 3 * x
                if self.mask == "where":
                    x[:, 0] = True
                if self.mask in ("safe", "empty"):
                    x = np.where(rng.uniform(size=shape) > 0.5, -np.inf, x)
                    x[::3] = -np.inf
                if self.mask == "padding":
                    x = np.where(x > 1.5, LOWEST, 0)
            if self.rising and number == 1:
                x *= np.linspace(0, 100, shape[1])[:, None]
            made.append(x.astype(DTYPES[element]))
        return made

    def meaning(self, *inputs: Array) -> list[Array]:
        """The results in f64."""
        wide = [x.astype(np.float64) for x in inputs]
        if self.packed:
            parts = wide[0].reshape(self.M, 3, self.heads, self.D)
            q, k, v = (parts[:, n].swapaxes(0, 1) for n in range(3))
        else:
            q, k, v = wide[:3]
            k, v = (np.repeat(x, self.group, axis=0) for x in (k, v))
        scale = np.float32(0.3) if self.wide == "f32" else 0.3
        scores = q @ k.swapaxes(-1, -2) * float(scale)
        if self.mask == "where":
            scores = np.where(inputs[self._mask_number], scores, LOWEST)
        elif self.mask:
            scores = scores + wide[self._mask_number]
        if self.causal is not None:
            last = np.arange(self.M)[:, None] + self.causal
            scores = np.where(np.arange(self.N) <= last, scores, -np.inf)
        if self.earliest is not None:
            first = np.arange(self.M)[:, None] + self.earliest
            scores = np.where(np.arange(self.N) >= first, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            shares = powers / powers.sum(-1, keepdims=True)
        if self.mask in ("safe", "empty"):
            shares = np.where(np.isnan(shares), 0, shares)
        y = np.asarray(shares @ v)
        if self.tail == "added":
            y = y + wide[-2]
            return [y, np.tanh(y * wide[-1])]
        if self.tail == "gated":
            return [np.where(inputs[-1], 0, y)]
        return [np.clip(y / 0.01, -128, 127) if self.tail == "quantized" else y]

    def wrong(self, have: Sequence[Array], want: Sequence[Array]) -> Array:
        """The places [result, element ..] where results are not those that are wanted."""
        bound = 0.51 + 127 * TOLERANCE[self.element] if self.tail == "quantized" else self.tolerance
        pairs = zip(have, want, strict=True)
        return np.argwhere([~(np.abs(a.astype(np.float64) - b) <= bound) for a, b in pairs])

    @property
    def tolerance(self) -> float:
        # Sums round; with a tail, results are rounded twice.
        return TOLERANCE[self.element] * (3 if self.tail else 1)


def _tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"
