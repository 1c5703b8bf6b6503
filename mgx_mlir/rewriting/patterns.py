"""Local rewrites: functions marked with the ops that they match, and the driver that runs them.

    @rewrites(mgx.MulOp, mgx.DivOp)
    def drop_neutral_operand(op: mgx.MulOp | mgx.DivOp, context: PassContext) -> ir.Value | None:
        number = splat(op.b)
        return op.a if number is not None and number == 1 else None

    class EliminateIdentities(PatternPass):
        patterns = (drop_neutral_operand, ...)

Upstream's greedy driver (`mlir.rewrite`) is not used: it does not see the ops that a function
of Python builds before its next walk over the whole program, so an op that moves up a chain of
n ops takes n walks; and an exception of Python would unwind through C++ built without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    definition,
    has_one_use,
    identity,
    is_dead,
    used_values,
    users,
    walk,
)

# The values that replace an op's results; None where the pattern does not match.
Rewritten: TypeAlias = ir.Value | Sequence[ir.Value] | None

# A program of n ops gets this many rewrites before one that has no end is suspected.
_FEW, _FOR_EACH_OP = 1000, 100


@dataclass(frozen=True)
class Pattern:
    """A rewrite of ops of some classes.

    `rewrite` gets an op and the pass's context. It builds new ops before the op, at its
    location, and returns the values of the op's results; or it builds nothing and returns
    None. It erases no op, and changes none but those that it built.
    """

    name: str
    ops: tuple[type[ir.OpView], ...]
    rewrite: Callable[[Any, PassContext], Rewritten]


def rewrites(*ops: type[ir.OpView]) -> Callable[[Callable[[Any, PassContext], Rewritten]], Pattern]:
    """Makes a function the pattern of these op classes; its name in kebab-case is the pattern's."""

    def mark(rewrite: Callable[[Any, PassContext], Rewritten]) -> Pattern:
        return Pattern(rewrite.__name__.strip("_").replace("_", "-"), ops, rewrite)

    return mark


@dataclass(frozen=True)
class PatternPass(Pass):
    """A pass that is a set of patterns. The first that matches an op is taken."""

    patterns: ClassVar[tuple[Pattern, ...]]

    def apply(self, module: ir.Module, context: PassContext) -> None:
        rewrite_with(self.patterns, main_function(module), context)


def rewrite_with(patterns: Iterable[Pattern], function: ir.OpView, context: PassContext) -> None:
    """Applies patterns to the ops of a function until none matches.

    Operands come before their users, ops of control flow's bodies after those outside; bodies
    of fused ops are not entered. Each rewrite is noted for `--explain`. After a rewrite the new
    ops are tried, and again the users of the results, the ops that define the operands, and
    the user that such an op is left with.
    Raises CompilerError, which names the pattern, where the rewrites have no end.
    """
    _Driver(patterns, function, context).run()


class _Driver:
    def __init__(
        self, patterns: Iterable[Pattern], function: ir.OpView, context: PassContext
    ) -> None:
        self.context = context
        self.patterns: dict[type[ir.OpView], list[Pattern]] = {}
        for pattern in patterns:
            for op_class in pattern.ops:
                self.patterns.setdefault(op_class, []).append(pattern)
        ops = list(_ops(function))
        self.most = self.left = _FEW + _FOR_EACH_OP * len(ops)
        # The ops that patterns may see, and those that wait for them: the last comes first.
        self.known = {identity(op) for op in ops}
        self.waiting: dict[ir.Value | None, ir.OpView] = {}
        self.enqueue(ops)

    def run(self) -> None:
        while self.waiting:
            _, op = self.waiting.popitem()
            if is_dead(op):
                self.erase(op)
                continue
            with ir.InsertionPoint(op), op.location:
                for pattern in self.patterns[type(op)]:
                    made = pattern.rewrite(op, self.context)
                    if made is not None:
                        break
            if made is not None:
                self.replace(op, pattern, [made] if isinstance(made, ir.Value) else list(made))

    def enqueue(self, ops: Sequence[ir.OpView]) -> None:
        """Lets ops be tried next, the first of them first, or when it is their turn anyway."""
        for op in reversed(ops):
            if type(op) in self.patterns and (key := identity(op)) in self.known:
                self.waiting.setdefault(key, op)

    def replace(self, op: ir.OpView, pattern: Pattern, values: list[ir.Value]) -> None:
        self.check(op, pattern, values)
        self.context.note(pattern.name, node_name(op))
        around = [user for result in op.results for user in users(result)]
        for result, value in zip(op.results, values, strict=True):
            result.replace_all_uses_with(value)
        new = self.added(values)
        self.erase(op)
        self.enqueue(around)
        self.enqueue(new)

    def check(self, op: ir.OpView, pattern: Pattern, values: list[ir.Value]) -> None:
        results, self.left = list(op.results), self.left - 1
        if len(values) != len(results) or any(value in results for value in values):
            problem = f"gives {len(values)} values for {len(results)} results, or the op's own"
        elif self.left < 0:
            problem = f"still finds work after {self.most} rewrites: they undo each other"
        else:
            return
        where = f"{op.operation.name} of node '{node_name(op)}'"
        raise CompilerError(f"pattern '{pattern.name}' {problem}, at {where}")

    def added(self, values: Iterable[ir.Value]) -> list[ir.OpView]:
        """The ops behind values that were not known, operands first. They are known now."""
        found: dict[ir.Value | None, ir.OpView] = {}
        waiting = [op for op in map(definition, values) if op is not None]
        while waiting:
            op = waiting.pop()
            if (key := identity(op)) in self.known or key in found:
                continue
            found[key] = op
            waiting += _definers(op)
        ops = [inner for op in reversed(found.values()) for inner in (op, *_ops(op))]
        self.known.update(map(identity, ops))
        return ops

    def erase(self, op: ir.OpView) -> None:
        """Erases an op and the ops that only it used; the others that it used wait."""
        doomed = [op]
        while doomed:
            op = doomed.pop()
            definers = _definers(op)
            for key in map(identity, walk(op)):
                self.known.discard(key)
                self.waiting.pop(key, None)
            op.operation.erase()
            for definer in reversed(definers):
                if is_dead(definer):
                    doomed.append(definer)
                    continue
                alone = [result for result in definer.results if has_one_use(result)]
                self.enqueue([definer, *(user for result in alone for user in users(result))])


def _ops(op: ir.OpView) -> Iterator[ir.OpView]:
    """The ops in the bodies of a function or of control flow, outermost first."""
    for region in op.regions:
        for block in region.blocks:
            ops = list(block.operations)
            yield from ops
            for inner in ops:
                if type(inner) in mgx.CONTROL_FLOW:
                    yield from _ops(inner)


def _definers(op: ir.OpView) -> list[ir.OpView]:
    """The ops outside of an op that define the values it uses, each once."""
    inside = {result for inner in walk(op) for result in inner.results}
    found = [definition(value) for value in used_values(op) if value not in inside]
    return list({identity(d): d for d in found if d is not None}.values())
