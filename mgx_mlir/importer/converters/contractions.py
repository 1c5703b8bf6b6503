"""Matrix products: MatMul, Gemm, Einsum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, emit, equations, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number


@operator("MatMul", (1, 13), "dot")
def matmul(node: Node) -> ir.Value:
    return emit.dot(node.tensor(0), node.tensor(1))


@operator("Gemm", (6, 13), "dot mul add")
def gemm(node: Node) -> ir.Value:
    node.attribute("broadcast", 0)  # of version 6; the shapes say it themselves
    a, b = node.tensor(0), node.tensor(1)
    for x, name in ((a, "A"), (b, "B")):
        tensors.require(x, [None, None], name)
    a = emit.transpose(a, [1, 0]) if node.attribute("transA", 0) else a
    b = emit.transpose(b, [1, 0]) if node.attribute("transB", 0) else b
    tensors.require_same(tensors.dims(a)[-1], tensors.dims(b)[0])
    y = _scaled(mgx.dot(a, b), node.attribute("alpha", 1.0))
    beta = node.attribute("beta", 1.0)
    c = node.optional(2)
    if c is None or beta == 0:
        return y
    return mgx.add(y, emit.broadcast(_scaled(c, beta), tensors.dims(y)))


def _scaled(x: ir.Value, factor: float) -> ir.Value:
    return x if factor == 1 else emit.mul(x, factor)


@operator("Einsum", (12, 28), "dot transpose reshape reduce_sum mul")
def einsum(node: Node) -> ir.Value:
    """Operands are multiplied from left to right, two at a time, each as one dot."""
    ranks = [len(v.dims) for v in node.inputs if v is not None]
    inputs, output = equations.parse(node.required("equation"), ranks)
    operands = [_Operand(node, x, labels) for x, labels in zip(node.tensors(), inputs, strict=True)]
    for place in range(len(operands)):
        later = set(output).union(*(inputs[:place] + inputs[place + 1 :]))
        operands[place] = operands[place].without_repeats().summed_over(later)
    result = operands[0]
    for place in range(1, len(operands)):
        later = set(output).union(*inputs[place + 1 :])
        result = _product(result, operands[place], later)
    result = result.summed_over(set(output))
    return result.in_order(output)


class _Operand:
    """A tensor and a label for each of its dimensions."""

    def __init__(self, node: Node, x: ir.Value, labels: Sequence[str]) -> None:
        self.node = node
        self.x = x
        self.labels = list(labels)
        self.sizes: dict[str, Number] = {}
        for axis, label in enumerate(labels):
            size = tensors.size(tensors.dims(x)[axis])
            if size is None:
                size = tensors.size_of(x, axis, "a size of its input")  # says that it has to be
            self.sizes[label] = size

    def without_repeats(self) -> _Operand:
        """The diagonal of a repeated label: elements off it become zero, then a sum."""
        for place, label in enumerate(self.labels):
            if label not in self.labels[:place]:
                continue
            first = self.labels.index(label)
            sizes = tensors.static_dims(self.x)
            if sizes[first] != sizes[place]:
                raise ModelError(f"label {label} has the sizes {sizes[first]} and {sizes[place]}")
            shape = [n if i in (first, place) else 1 for i, n in enumerate(sizes)]
            budget.check_made(sizes[first], sizes[place])
            mask = self.node.make(np.eye(sizes[first], sizes[place], dtype=bool).reshape(shape))
            x = mgx.reduce_sum(emit.where(mask, self.x, 0), [place])
            labels = self.labels[:place] + self.labels[place + 1 :]
            return _Operand(self.node, emit.squeeze(x, [place]), labels).without_repeats()
        return self

    def summed_over(self, kept: set[str]) -> _Operand:
        axes = [i for i, label in enumerate(self.labels) if label not in kept]
        if not axes:
            return self
        labels = [label for label in self.labels if label in kept]
        return _Operand(self.node, emit.squeeze(mgx.reduce_sum(self.x, axes), axes), labels)

    def in_order(self, labels: Sequence[str]) -> ir.Value:
        return emit.transpose(self.x, [self.labels.index(label) for label in labels])

    def grouped(self, *groups: Sequence[str]) -> ir.Value:
        """Each group of labels as one dimension."""
        order = [label for group in groups for label in group]
        sizes: list[Number] = []
        for group in groups:
            sizes.append(reduce(mul, (self.sizes[label] for label in group), 1))
        return emit.reshape(self.in_order(order), tensors.named(sizes))


def _product(a: _Operand, b: _Operand, later: set[str]) -> _Operand:
    """The product of two operands, summed over labels that nothing needs later."""
    shared = [label for label in a.labels if label in b.labels]
    for label in shared:
        one, other = a.sizes[label], b.sizes[label]
        if 1 in (one, other) or one == other:
            continue
        if isinstance(one, int) and isinstance(other, int):
            raise ModelError(f"label {label} has the sizes {one} and {other}")
        tensors.require_equal(tensors.named([one]), tensors.named([other]))
    if any(a.sizes[label] != b.sizes[label] for label in shared):
        return _broadcast_product(a, b, later)
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    c = mgx.dot(a.grouped(batch, rows, summed), b.grouped(batch, summed, columns))
    labels = batch + rows + columns
    known = a.sizes | b.sizes
    return _Operand(
        a.node, emit.reshape(c, tensors.named([known[label] for label in labels])), labels
    )


def _broadcast_product(a: _Operand, b: _Operand, later: set[str]) -> _Operand:
    """The product where a size of 1 meets a larger one: multiplied, then summed."""
    labels = a.labels + [label for label in b.labels if label not in a.labels]
    wide = []
    for operand in (a, b):
        own = [label for label in labels if label in operand.labels]
        missing = [i for i, label in enumerate(labels) if label not in operand.labels]
        wide.append(emit.unsqueeze(operand.in_order(own), missing))
    return _Operand(a.node, emit.mul(wide[0], wide[1]), labels).summed_over(later)
