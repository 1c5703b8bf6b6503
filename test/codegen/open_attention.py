"""Attention whose sizes are arguments, for the tests of the generators, and numpy's word on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
_ERRORS = {"bf16": 2e-2, "f16": 3e-3, "f32": 2e-5}
# Batch, queries and keys.
SIZES = ((1, 1, 1), (2, 7, 7), (1, 1, 67), (3, 17, 5), (1, 131, 130), (1, 1, 1030), (2, 5, 900))


def tensor(dims: str, element: str) -> str:
    """'b,2,s,16' as a type: letters are named dimensions."""
    parts = dims.split(",")
    shape = "x".join("?" if not part.isdigit() else part for part in parts)
    names = ", ".join(f'"{part}" : 1 ... ?' if not part.isdigit() else "_" for part in parts)
    return f"tensor<{shape}x{element}, #mgx.dims<[{names}]>>"


@dataclass(frozen=True)
class Case:
    """Heads of size `d`: of rows of heads (`rows`), or of tensors as caches are, `heads` of them
    and `groups` of keys; with a mask of `mask` dimensions; with a residual (`end`); with results
    as rows of heads (`turned`)."""

    element: str
    d: int
    heads: int = 2
    groups: int = 2
    rows: bool = False
    mask: str = ""
    causal: str = ""
    end: bool = False
    turned: bool = False

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Dimensions and element types."""
        h, g, d = self.heads, self.groups, self.d
        if self.rows:
            found = [(f"b,s,{3 * h * d}", self.element)]
        else:
            found = [(f"b,{h},s,{d}", self.element)] + 2 * [(f"b,{g},t,{d}", self.element)]
        if self.mask:
            found.append((self.mask, "f32"))
        if self.end:
            found.append((f"b,{h},s,{d}", self.element))
        return found

    def text(self) -> str:
        e, h, g, d = self.element, self.heads, self.groups, self.d
        key = "s" if self.rows else "t"
        types = [tensor(*x) for x in self.inputs]
        q, k = tensor(f"b,{h},s,{d}", e), tensor(f"b,{h},{key},{d}", e)
        lines = []
        if self.rows:
            apart, transposed = tensor(f"b,s,3,{h},{d}", e), tensor(f"3,b,{h},s,{d}", e)
            lines.append(f"%r = mgx.reshape %x0 : {types[0]} -> {apart}")
            lines.append(
                f"%t = mgx.transpose %r permutation = [2, 0, 3, 1, 4] : {apart} -> {transposed}"
            )
            one = tensor(f"1,b,{h},s,{d}", e)
            for i, name in enumerate("qkv"):
                lines.append(
                    f"%{name}s = mgx.slice %t axes = [0] starts = [{i}] ends = [{i + 1}] "
                    f": {transposed} -> {one}"
                )
                lines.append(f"%{name} = mgx.reshape %{name}s : {one} -> {q}")
            names = ["%q", "%k", "%v"]
        else:
            names = ["%x0", "%x1", "%x2"]
            if g != h:
                apart = tensor(f"b,{g},1,t,{d}", e)
                wide = tensor(f"b,{g},{h // g},t,{d}", e)
                for name in ("1", "2"):
                    lines.append(f"%a{name} = mgx.reshape %x{name} : {types[1]} -> {apart}")
                    lines.append(f"%b{name} = mgx.multibroadcast %a{name} : {apart} -> {wide}")
                    lines.append(f"%c{name} = mgx.reshape %b{name} : {wide} -> {k}")
                names = ["%x0", "%c1", "%c2"]
        extras, own = "", ""
        if self.mask:
            score = tensor(f"b,{h},s,{key}", "f32")
            place = 1 if self.rows else 3
            lines.append(f"%m = mgx.multibroadcast %x{place} : {types[place]} -> {score}")
            extras, own = score, ", %e: f32"
        causal = f" {{causal = {self.causal}}}" if self.causal else ""
        lines.append(mgx_attention(names, (q, k, k, extras), own, causal))
        last = "%y"
        if self.end:
            last, place = "%z", len(types) - 1
            lines.append(
                f"%z = mgx.pointwise(%y, %x{place}) : ({q}, {q}) -> {q} {{\n"
                f"^bb0(%i: {e}, %j: {e}):\n%n = mgx.add %i, %j : {e}, {e} -> {e}\n"
                f"mgx.yield %n : {e}\n}}"
            )
        result = q
        if self.turned:
            result = tensor(f"b,s,{h},{d}", e)
            lines.append(f"%r = mgx.transpose {last} permutation = [0, 2, 1, 3] : {q} -> {result}")
            last = "%r"
        heads = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
        body = "\n".join(lines)
        return (
            f"mgx.kernel @k({heads}) -> ({result}) attributes "
            f'{{arch = #mgx.arch<"gfxMIGX">}} {{\n{body}\nmgx.return {last} : {result}\n}}'
        )

    def meaning(self, arrays: list[Array]) -> Array:
        wide = [x.astype(np.float64) for x in arrays]
        if self.rows:
            b, s, _ = wide[0].shape
            q, k, v = wide[0].reshape(b, s, 3, self.heads, self.d).transpose(2, 0, 3, 1, 4)
        else:
            q = wide[0]
            k, v = (np.repeat(x, self.heads // self.groups, axis=1) for x in wide[1:3])
        scores = q @ k.swapaxes(-1, -2) * 0.25
        if self.mask:
            scores = scores + wide[1 if self.rows else 3]
        if self.causal:
            m, n = np.indices(scores.shape[-2:])
            scores = np.where(n <= m + int(self.causal), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        y = powers / powers.sum(-1, keepdims=True) @ v
        y = y + wide[-1] if self.end else y
        return y.swapaxes(1, 2) if self.turned else y

    def runs(
        self, sizes: Sequence[tuple[int, int, int]] = SIZES
    ) -> Iterator[tuple[dict[str, int], list[Array]]]:
        """The kernel's sizes by name, with inputs of these sizes."""
        rng = np.random.default_rng(0)
        for b, s, t in sizes:
            known = {"b": b, "s": s, "t": s if self.rows or self.causal else t}
            arrays = []
            for dims, element in self.inputs:
                shape = [known.get(x) or int(x) for x in dims.split(",")]
                arrays.append(rng.normal(size=shape).astype(DTYPES[element]))
            yield {name: n for name, n in known.items() if name in str(self.inputs)}, arrays

    def wrong(self, have: Array, want: Array) -> int:
        """How many results are not those that are wanted."""
        near = np.abs(have.astype(np.float64) - want) <= _ERRORS[self.element] * (1 + abs(want))
        return int((~near).sum())


def mgx_attention(names: list[str], types: tuple[str, ...], own: str, causal: str) -> str:
    """The op, whose body scales scores and adds what else it gets."""
    extras = " extras(%m)" if own else ""
    last = "%w = mgx.add %u, %e : f32, f32 -> f32\n" if own else ""
    return (
        f"%y = mgx.attention({', '.join(names)}){extras}{causal} : "
        f"({', '.join(filter(None, types))}) -> {types[0]} {{\n"
        f"^bb0(%i: f32{own}):\n%f = mgx.constant 0.25 : f32\n"
        f"%u = mgx.mul %i, %f : f32, f32 -> f32\n{last}mgx.yield {'%w' if own else '%u'} : f32\n}}"
    )


CASES = (
    Case("f16", 64, rows=True, mask="b,1,1,s"),
    Case("f16", 40, mask="b,1,s,t"),
    Case("bf16", 32, heads=4, groups=2),
    Case("f32", 16, causal="0"),
    Case("f16", 64, heads=3, groups=3, causal="0", end=True),
    Case("f16", 40, heads=3, groups=1, turned=True),
    Case("f32", 16, heads=2, mask="b,1,s,t", end=True, turned=True),
)
