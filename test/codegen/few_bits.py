"""Products with weights of few bits, as mgx kernels in text, for the tests of all targets."""

from __future__ import annotations

# Codes that share a byte with others.
BITS = {"ui4": 4, "i4": 4, "f4E2M1FN": 4, "ui2": 2, "i2": 2}


def tensor(*parts: int | str) -> str:
    return f"tensor<{'x'.join(map(str, parts))}>"


def weights(
    rows: int,
    columns: int,
    depth: int,
    block: int,
    code: str,
    element: str,
    transposed: bool = True,
) -> tuple[list[str], list[str], str]:
    """x W, W = (codes - zero points) * scales: types of the inputs, lines, type of the result.

    `code`: the codes' type, packed where they have less than 8 bits. Blocks lie along k.
    `transposed`: W is stored as [columns, depth], else as [depth, columns].
    """
    bits = BITS.get(code, 8)
    shape = (columns, depth) if transposed else (depth, columns)
    parts = (columns, depth // block, 1) if transposed else (depth // block, 1, columns)
    spread = (columns, depth // block, block) if transposed else (depth // block, block, columns)
    x, y = tensor(rows, depth, element), tensor(rows, columns, element)
    stored = tensor(shape[0], shape[1] * bits // 8, "ui8") if bits < 8 else tensor(*shape, code)
    codes, whole = tensor(*shape, code), tensor(*shape, element)
    lines, name = [], "%x1"
    if bits < 8:
        lines.append(f"%u = mgx.unpack %x1 : {stored} -> {codes}")
        name = "%u"
    for number, value in (("2", "s"), ("3", "z")):
        few, wide = tensor(*parts, element), tensor(*spread, element)
        lines.append(f"%{value}w = mgx.multibroadcast %x{number} : {few} -> {wide}")
        lines.append(f"%{value} = mgx.reshape %{value}w : {wide} -> {whole}")
    e = element
    lines.append(
        f"%d = mgx.pointwise({name}, %s, %z) : ({codes}, {whole}, {whole}) -> {whole} {{\n"
        f"^bb0(%c: {code}, %p: {e}, %q: {e}):\n%f = mgx.convert %c : {code} -> {e}\n"
        f"%g = mgx.sub %f, %q : {e}, {e} -> {e}\n%h = mgx.mul %g, %p : {e}, {e} -> {e}\n"
        f"mgx.yield %h : {e}\n}}"
    )
    right = "%d"
    if transposed:
        right = "%t"
        lines.append(
            f"%t = mgx.transpose %d permutation = [1, 0] : {whole} -> {tensor(depth, columns, e)}"
        )
    lines.append(f"%y = mgx.dot %x0, {right} : {x}, {tensor(depth, columns, e)} -> {y}")
    return [x, stored, tensor(*parts, e), tensor(*parts, e)], lines, y
