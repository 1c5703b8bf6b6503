"""Products of sizes that vectors divide, and of usual sizes, from those of any sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import cast

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.pointers import Move, value_of
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Contraction,
    Edge,
    Matrix,
    Windows,
    in_memory,
)
from mgx_mlir.sizes.arithmetic import Number, Symbol, common_factor, is_more


class Multiples:
    """Sizes as multiples of `lanes`, which vectors divide: those of runs where `holds` is 1."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.odd: dict[Number, Number] = {}

    def __call__(self, size: int, part: int = 0) -> int:
        """A size that counts as a multiple of `lanes`, or of `part`."""
        lanes = part or self.lanes
        if common_factor(size) % lanes == 0 or size == 1:
            return size
        whole = size // lanes * lanes
        self.odd[size] = size - whole
        return whole

    @property
    def never(self) -> bool:
        """Whether no run has such sizes."""
        return any(isinstance(size, int) for size in self.odd)

    @property
    def holds(self) -> Number:
        """1 in runs whose sizes are multiples, and else 0."""
        return 1 - is_more(sum(self.odd.values(), start=0), 0)


def variants(
    product: Product, moves: Sequence[Move]
) -> Iterator[tuple[Product, Sequence[Move], Number]]:
    """The product, and where that is another one, that of sizes which vectors divide: each
    with its tensors and its launches, 1 or 0."""
    aligned = Multiples(most_lanes(product))

    def axis(x: Axis) -> Axis:
        last = len(x.factors) - 1
        inner = bool(x.factors) and x.factors[-1][1] == 1
        return Axis(
            tuple(
                (aligned(n) if inner and i == last else n, aligned(s))
                for i, (n, s) in enumerate(x.factors)
            )
        )

    def matrix(x: Matrix) -> Matrix:
        batch = Axis(tuple((n, math.lcm(s, aligned.lanes)) for n, s in x.batch.factors))
        return replace(x, batch=batch, row=axis(x.row), column=axis(x.column))

    def term(x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)
        N, K = aligned(x.N), aligned(x.K)
        return replace(x, N=N, K=K, a=x.a.mapped(matrix), b=x.b.mapped(matrix))

    if any(isinstance(x, Windows) for x in matrices(product)):
        yield product, moves, 1
        return
    found = Product(product.match.mapped(term, matrix), matrix(product.result), {})
    apart = []
    for move in moves:
        aligned(cast(int, move.offset))
        factors = tuple((n, aligned(stride)) for n, stride in move.parts.factors)
        apart.append(replace(move, parts=Axis(factors)))
    if not aligned.odd or aligned.never:
        yield product, moves, 1
        return
    yield product, moves, 1 - aligned.holds
    yield found, apart, aligned.holds


def usual_product(product: Product, known: Mapping[str, Symbol], usual: int) -> Product:
    """The product of the sizes that a schedule is chosen for."""

    def at(size: Number) -> int:
        return value_of(size, known, usual)

    def axis(x: Axis) -> Axis:
        return Axis(tuple((max(1, at(n)), at(s)) for n, s in x.factors))

    def static(x: Matrix) -> Matrix:
        found = replace(x, offset=at(x.offset), row=axis(x.row), column=axis(x.column))
        if isinstance(found, Windows):
            edges = tuple(
                Edge(*(at(getattr(edge, f.name)) for f in fields(Edge))) for edge in found.edges
            )
            return replace(found, edges=edges)
        return found

    def term(x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)
        M, N, K = (max(1, at(size)) for size in (x.M, x.N, x.K))
        return replace(x, M=M, N=N, K=K, a=x.a.mapped(static), b=x.b.mapped(static))

    return Product(product.match.mapped(term, static), static(product.result), {})


def most_lanes(product: Product) -> int:
    """Elements of a vector of 16 bytes, of the operand that has most."""
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    return CHUNK_BYTES // min(emit.element_bytes(x.element) for x in operands)


def matrices(product: Product) -> list[Matrix]:
    """The matrices that are read and written."""
    match = product.match
    read = [y for term in match.terms for x in (term.a, term.b) for y in in_memory(x)]
    operands = [x for x in read if isinstance(x, Matrix)]
    return [*operands, *match.reads, product.result]
