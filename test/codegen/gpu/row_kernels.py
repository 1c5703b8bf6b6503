"""Kernels of rows for the GPU tests: mgx kernels as text, and numpy's word on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_text import DTYPES, ROUNDING, SMALLEST, Type, first_wrong, kernel_text, parsed, tensor
from mlir import ir

from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule, split

Array = np.ndarray[Any, Any]

EXACT = ("max", "mean", "min", "prod", "sum", "transposed")


@dataclass(frozen=True)
class RowKernel:
    """A kernel over `shape` that reduces `axes`.

    `body` gives the text and numpy's meaning for inputs in f64 (integers as they are).
    """

    what: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    element: str = "f32"
    schedule: RowSchedule | None = None
    special: bool = False  # infinities and NaN among the inputs

    @property
    def name(self) -> str:
        axes = "".join(map(str, self.axes))
        return f"{self.what}-{'x'.join(map(str, self.shape))}-{axes}-{self.element}"

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(1 if d in self.axes else n for d, n in enumerate(self.shape))

    def text(self) -> str:
        inputs, results, body = BODIES[self.what](self)
        return kernel_text(inputs, results, body)

    def kernel(self) -> tuple[ir.Module, ir.OpView]:
        return parsed(self.text())

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(5)
        made = []
        for shape, element in BODIES[self.what](self)[0]:
            dtype = DTYPES[element]
            if element == "i1":
                array = rng.integers(0, 2, shape).astype(bool)
            elif element in ROUNDING:
                array = rng.normal(0.3, 2, shape).astype(dtype)
                if self.special and array.size > 8:
                    flat = array.reshape(-1)
                    flat[rng.integers(0, flat.size, 3)] = np.nan
                    flat[rng.integers(0, flat.size, 3)] = np.inf
                    flat[rng.integers(0, flat.size, 3)] = -np.inf
            else:
                low = 0 if element.startswith("u") else -3
                array = rng.integers(low, 4, shape).astype(dtype)
            made.append(array)
        return made

    def meaning(self, *inputs: Array) -> list[Array]:
        """The results in f64, or as integers."""
        wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in inputs]
        with np.errstate(all="ignore"):
            return MEANINGS[self.what](self, *wide)

    def problem(self, want: Array, have: Array, inputs: Sequence[Array]) -> str:
        """The difference of a result from the wanted one; '' where there is none."""
        if have.dtype.kind not in "fV":
            wrong = have != want
        else:
            found = have.astype(np.float64)
            unit = ROUNDING[self.element] * (2 if self.what in EXACT else 8)
            size = np.abs(want)
            if self.what in ("mean", "sum", "transposed"):
                size = np.abs(self.meaning(*[np.abs(x.astype(np.float64)) for x in inputs])[0])
            elif self.what == "layernorm":
                size = size + 2
            with np.errstate(invalid="ignore"):
                close = np.abs(found - want) <= unit * size + SMALLEST.get(self.element, 1e-37)
            wrong = ~(close | (found == want) | (np.isnan(found) & np.isnan(want)))
        return first_wrong(wrong, want, have)


Inputs = list[Type]


def _reduce(name: str) -> Callable[[RowKernel], tuple[Inputs, Inputs, str]]:
    def build(k: RowKernel) -> tuple[Inputs, Inputs, str]:
        types = f"{tensor(k.shape, k.element)} -> {tensor(k.reduced, k.element)}"
        text = f"%y = mgx.{name} %x0 axes = {list(k.axes)} : {types}"
        return [(k.shape, k.element)], [(k.reduced, k.element)], text

    return build


def _arg(name: str, last: bool) -> Callable[[RowKernel], tuple[Inputs, Inputs, str]]:
    def build(k: RowKernel) -> tuple[Inputs, Inputs, str]:
        flag = " {select_last_index = true}" if last else ""
        types = f"{tensor(k.shape, k.element)} -> {tensor(k.reduced, 'i64')}"
        text = f"%y = mgx.{name} %x0 axis = {k.axes[0]}{flag} : {types}"
        return [(k.shape, k.element)], [(k.reduced, "i64")], text

    return build


def _fused(
    k: RowKernel, inputs: Inputs, results: Inputs, views: str, names: str, body: str
) -> tuple[Inputs, Inputs, str]:
    """A mgx.fused_reduce of arguments %a, %b, ...: `names` are what goes in, with their types."""
    operands = [part.strip() for part in names.split(",")]
    values = ", ".join(part.split(":")[0].strip() for part in operands)
    types = [part.split(":")[1].strip() for part in operands]
    block = ", ".join(f"%{chr(97 + n)}: {t}" for n, t in enumerate(types))
    made = ", ".join(tensor(*r) for r in results)
    given = "%y" if len(results) == 1 else f"%y:{len(results)}"
    text = (
        f"{views}{given} = mgx.fused_reduce({values}) axes = {list(k.axes)} : "
        f"({', '.join(types)}) -> ({made}) {{\n^bb0({block}):\n{body}\n}}"
    )
    return inputs, results, text


def _softmax(k: RowKernel) -> tuple[Inputs, Inputs, str]:
    t, w, r = (tensor(k.shape, k.element), tensor(k.shape, "f32"), tensor(k.reduced, "f32"))
    a = list(k.axes)
    narrow = k.element in ("f16", "bf16")
    wide = f"%w = mgx.convert %a : {t} -> {w}\n" if narrow else ""
    x = "%w" if narrow else "%a"
    if k.element == "f64":
        w, r = tensor(k.shape, "f64"), tensor(k.reduced, "f64")
    body = (
        f"{wide}%m = mgx.reduce_max {x} axes = {a} : {w} -> {r}\n"
        f"%n = mgx.multibroadcast %m : {r} -> {w}\n%d = mgx.sub {x}, %n : {w}, {w} -> {w}\n"
        f"%e = mgx.exp %d : {w}\n%s = mgx.reduce_sum %e axes = {a} : {w} -> {r}\n"
        f"%i = mgx.recip %s : {r}\n%j = mgx.multibroadcast %i : {r} -> {w}\n"
        f"%q = mgx.mul %e, %j : {w}, {w} -> {w}\n"
    )
    body += (
        f"%o = mgx.convert %q : {w} -> {t}\nmgx.yield %o : {t}"
        if narrow
        else (f"mgx.yield %q : {t}")
    )
    one = [(k.shape, k.element)]
    return _fused(k, one, one, "", f"%x0: {t}", body)


def _layernorm(k: RowKernel) -> tuple[Inputs, Inputs, str]:
    """With scale and bias along the last dimension, and the mean as a second result."""
    e, a = k.element, list(k.axes)
    t, r, v = tensor(k.shape, e), tensor(k.reduced, e), tensor(k.shape[-1:], e)
    views = "".join(f"%v{n} = mgx.multibroadcast %x{n} : {v} -> {t}\n" for n in (1, 2))
    body = (
        f"%m = mgx.reduce_mean %a axes = {a} : {t} -> {r}\n"
        f"%n = mgx.multibroadcast %m : {r} -> {t}\n%d = mgx.sub %a, %n : {t}, {t} -> {t}\n"
        f"%s = mgx.mul %d, %d : {t}, {t} -> {t}\n%u = mgx.reduce_mean %s axes = {a} : {t} -> {r}\n"
        f"%z = mgx.constant dense<1.0e-5> : {r}\n%p = mgx.add %u, %z : {r}, {r} -> {r}\n"
        f"%q = mgx.rsqrt %p : {r}\n%f = mgx.multibroadcast %q : {r} -> {t}\n"
        f"%g = mgx.mul %d, %f : {t}, {t} -> {t}\n%h = mgx.mul %g, %b : {t}, {t} -> {t}\n"
        f"%o = mgx.add %h, %c : {t}, {t} -> {t}\nmgx.yield %o, %m : {t}, {r}"
    )
    inputs = [(k.shape, e), (k.shape[-1:], e), (k.shape[-1:], e)]
    results = [(k.shape, e), (k.reduced, e)]
    return _fused(k, inputs, results, views, f"%x0: {t}, %v1: {t}, %v2: {t}", body)


def _transposed(k: RowKernel) -> tuple[Inputs, Inputs, str]:
    """The sum of what is read through a transposed view."""
    rank = len(k.shape)
    stored = tuple(reversed(k.shape))
    text = (
        f"%v = mgx.transpose %x0 permutation = {list(reversed(range(rank)))} : "
        f"{tensor(stored, k.element)} -> {tensor(k.shape, k.element)}\n"
        f"%y = mgx.reduce_sum %v axes = {list(k.axes)} : "
        f"{tensor(k.shape, k.element)} -> {tensor(k.reduced, k.element)}"
    )
    return [(stored, k.element)], [(k.reduced, k.element)], text


BODIES: dict[str, Callable[[RowKernel], tuple[Inputs, Inputs, str]]] = {
    **{
        name: _reduce(f"reduce_{name}")
        for name in ("all", "any", "max", "mean", "min", "prod", "sum")
    },
    "argmax": _arg("argmax", False),
    "argmin": _arg("argmin", True),
    "layernorm": _layernorm,
    "softmax": _softmax,
    "transposed": _transposed,
}


def _numpy(function: Any) -> Callable[..., list[Array]]:
    def meaning(k: RowKernel, x: Array) -> list[Array]:
        return [np.asarray(function(x, axis=k.axes, keepdims=True)).astype(x.dtype)]

    return meaning


def _argmax(k: RowKernel, x: Array) -> list[Array]:
    return [np.argmax(x, axis=k.axes[0], keepdims=True)]


def _argmin(k: RowKernel, x: Array) -> list[Array]:
    """The last of equal ones."""
    (axis,) = k.axes
    return [x.shape[axis] - 1 - np.argmin(np.flip(x, axis), axis=axis, keepdims=True)]


def _softmax_of(k: RowKernel, x: Array) -> list[Array]:
    e = np.exp(x - x.max(k.axes, keepdims=True))
    return [e / e.sum(k.axes, keepdims=True)]


def _layernorm_of(k: RowKernel, x: Array, scale: Array, bias: Array) -> list[Array]:
    mean = x.mean(k.axes, keepdims=True)
    # The body keeps its values in the type of the inputs.
    d = x - mean
    return [d / np.sqrt((d * d).mean(k.axes, keepdims=True) + 1e-5) * scale + bias, mean]


MEANINGS: dict[str, Callable[..., list[Array]]] = {
    "all": _numpy(np.all),
    "any": _numpy(np.any),
    "argmax": _argmax,
    "argmin": _argmin,
    "layernorm": _layernorm_of,
    "max": _numpy(np.max),
    "mean": _numpy(np.mean),
    "min": _numpy(np.min),
    "prod": _numpy(np.prod),
    "softmax": _softmax_of,
    "sum": _numpy(np.sum),
    "transposed": lambda k, x: [x.T.sum(k.axes, keepdims=True)],
}


def emulated() -> list[RowKernel]:
    """The cases that the emulated device computes in the gate: few sizes that meet many cases."""
    return [
        RowKernel("sum", (5, 7), (1,)),
        RowKernel("softmax", (3, 33), (1,)),
        RowKernel("softmax", (4, 1000), (1,), "f16"),
        RowKernel("softmax", (3, 197), (1,)),
        RowKernel("softmax", (2, 5000), (1,)),
        RowKernel("softmax", (2, 40, 24), (1,)),
        RowKernel("softmax", (70, 8), (1,), "bf16"),
        RowKernel("softmax", (2, 100), (1,), "f64"),
        RowKernel("layernorm", (9, 384), (1,)),
        RowKernel("layernorm", (3, 100), (1,), "f16"),
        RowKernel("layernorm", (2, 9, 31), (2,), "f32"),
        RowKernel("max", (6, 300), (1,), "f16", special=True),
        RowKernel("max", (6, 300), (1,), "i8"),
        RowKernel("min", (3, 70, 5), (1,), "f32", special=True),
        RowKernel("mean", (2, 16, 3, 50), (2, 3), "f16"),
        RowKernel("mean", (4, 6, 10), (0, 2), "i32"),
        RowKernel("prod", (3, 11), (1,), "i64"),
        RowKernel("all", (6, 40), (1,), "i1"),
        RowKernel("any", (40, 6), (0,), "i1"),
        RowKernel("sum", (1, 20001), (1,)),
        RowKernel("sum", (257, 12), (0,)),
        RowKernel("argmax", (5, 513), (1,), "f32", special=True),
        RowKernel("argmin", (70, 12), (0,), "i8"),
        RowKernel("argmax", (3, 2000), (1,), "ui8"),
        RowKernel("transposed", (20, 30), (0,)),
        RowKernel("transposed", (20, 30), (1,)),
        RowKernel("sum", (6, 1), (1,)),
        RowKernel("sum", (5000, 12), (0,), schedule=split(5000, 4, 3, 2)),
        RowKernel("softmax", (2, 700, 20), (1,), "f16", schedule=split(700, 4, 2, 8)),
        RowKernel("argmax", (600, 24), (0,), "i8", schedule=split(600, 8, 5, 2)),
    ]


def schedules() -> list[RowKernel]:
    """Rows in schedules that the cost model does not choose for such small ones."""
    found = []
    for threads in (1, 4, 16, 32, 64, 128, 1024):
        for resident in (True, False):
            chunks = -(-1000 // (threads * 4))
            if resident and chunks > 8:
                continue
            block = max(threads, 64)
            schedule = RowSchedule(threads, block // threads, 4, chunks, False, resident)
            found.append(RowKernel("softmax", (5, 1000), (1,), schedule=schedule))
    for what, shape, element, lanes, parts in (
        ("softmax", (2, 10000), "f32", 4, 3),
        ("softmax", (1, 9001), "f16", 1, 2),
        ("sum", (3, 8192), "f32", 4, 8),
        ("argmax", (2, 3000), "f32", 4, 2),
        ("layernorm", (2, 70000), "f32", 4, 5),
        ("any", (1, 5000), "i1", 8, 2),
        ("max", (1, 300000), "f16", 8, 300),
    ):
        found.append(RowKernel(what, shape, (1,), element, split(shape[1], lanes, parts)))
    for threads in (1, 4, 16, 32):
        for resident in (True, False):
            schedule = RowSchedule(threads, 64 // threads, 4, -(-30 // threads), True, resident)
            if not resident or schedule.chunks <= 8:
                found.append(RowKernel("softmax", (2, 30, 20), (1,), schedule=schedule))
    return found


def large() -> list[RowKernel]:
    """Long rows, primes, and types that the gate leaves out."""
    return [
        RowKernel("softmax", (2, 50257), (1,)),
        RowKernel("softmax", (1, 30000), (1,), "f16"),
        RowKernel("softmax", (3, 4099), (1,), "bf16"),
        RowKernel("layernorm", (2, 12288), (1,), "f16"),
        RowKernel("sum", (1, 1000003), (1,)),
        RowKernel("mean", (1 << 20,), (0,)),
        RowKernel("max", (4, 250000), (1,), "f16", special=True),
        RowKernel("argmax", (1, 100003), (1,)),
        RowKernel("sum", (50000, 3), (0,)),
        RowKernel("mean", (60000, 32), (0,), "f16"),
        RowKernel("softmax", (40000, 64), (0,)),
        RowKernel("mean", (8, 32, 28, 28), (0, 2, 3)),
        RowKernel("softmax", (2, 1001, 64), (1,), "f16"),
        RowKernel("sum", (100001, 2), (1,), "f64"),
        RowKernel("prod", (7, 13), (0, 1), "i32"),
        RowKernel("min", (129, 1025), (1,), "f64", special=True),
    ]
