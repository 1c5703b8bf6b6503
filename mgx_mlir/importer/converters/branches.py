"""If."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.values import UnavailableError, Value
from mgx_mlir.sizes.arithmetic import evaluate, sides
from mgx_mlir.sizes.cases import Case


@operator("If", (1, 25), "if")
def if_(node: Node) -> Sequence[ir.Value | Value]:
    """A condition that is known chooses its branch now."""
    known = node.known(0)
    if known is not None:
        chosen, other = "then_branch", "else_branch"
        if not known.reshape(-1)[0]:
            chosen, other = other, chosen
        node.attribute(other)
        return node.conversion.inline(node, chosen, [])
    condition = emit.reshape(node.tensor(0), [])
    types: list[list[ir.Type]] = []
    equations: dict[str, list[tuple[tensors.Dim, tensors.Dim]]] = {}

    def converted(name: str) -> list[ir.Value]:
        found, node.conversion.equations = node.conversion.equations, []
        try:
            return node.conversion.subgraph(node, name, [])
        except ModelError as error:  # the other one may be the one that runs
            raise OpenError(f"its {name} does not fit: {error}") from error
        finally:
            equations[name] = node.conversion.equations
            node.conversion.equations = found

    def then() -> list[ir.Value]:
        try:
            values = converted("then_branch")
        except (UnsupportedError, UnavailableError):
            with contextlib.suppress(UnsupportedError, UnavailableError):
                converted("else_branch")  # for its equations
            raise
        types.append([v.type for v in values])
        return values

    def otherwise() -> list[ir.Value]:
        values = converted("else_branch")
        types.append([v.type for v in values])
        if types[0] != types[-1]:
            _refuse_branches(*types)
        return values

    before = len(node.conversion.unsupported)
    try:
        results = mgx.if_(condition, then, otherwise)
        return [results] if isinstance(results, ir.Value) else list(results)
    except (UnsupportedError, UnavailableError):
        by_sizes = _chosen_by_sizes(node)
        if by_sizes is None:
            raise
        equations.clear()
        del node.conversion.unsupported[before:]
        node.conversion.forget_sizes()
        return node.conversion.inline(node, by_sizes, [])
    finally:
        # What one branch alone needs does not hold in a run of the other.
        others = equations.get("else_branch", [])
        shared = [pair for pair in equations.get("then_branch", []) if pair in others]
        node.conversion.equations += shared


def _chosen_by_sizes(node: Node) -> str | None:
    """The branch that a comparison of sizes chooses in a run of the sizes that are given.

    A run checks that its sizes choose it. Raises UnequalError where they have to be equal for that.
    """
    found = node.conversion.sizes_in(node.value(0))
    case = None if found is None else found.reshape(-1)[0]
    if not node.conversion.like or not isinstance(case, Case):
        return None
    if not isinstance(case.yes, bool) or not isinstance(case.no, bool):
        return None
    size, is_zero = case.test.size, case.test.is_zero
    try:
        number = evaluate(size, node.conversion.like)
    except KeyError:
        return None
    holds = number == 0 if is_zero else number >= 1
    if holds and is_zero:
        tensors.require_equal(*([dim] for dim in tensors.named(sides(size))))
    elif is_zero:
        node.require(size - 1 if number > 0 else -size - 1)
    else:
        node.require(size - 1 if holds else -size)
    return "then_branch" if (case.yes if holds else case.no) else "else_branch"


def _refuse_branches(first: Sequence[ir.Type], second: Sequence[ir.Type]) -> None:
    for a, b in zip(first, second, strict=False):
        if a != b:
            raise OpenError(f"its branches give tensors of different types: {a} and {b}")
    raise ModelError(f"its branches give {len(first)} and {len(second)} results")
