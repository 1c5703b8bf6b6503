"""mgx-cut-concats: a concat of very many operands becomes concats of fewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, is_static, replace


@dataclass(frozen=True)
class CutConcats(Pass):
    """Makes concats of concats, of which none has more than `most` operands.

    Before:  %y = mgx.concat %a, %b, %c axis = 0 : ... -> tensor<12xf32>
    After:   %p = mgx.concat %a, %b axis = 0 : ... -> tensor<8xf32>
             %y = mgx.concat %p, %c axis = 0 : ... -> tensor<12xf32>

    The time to compile a kernel grows faster than its branches. Equal parts are one kernel.
    """

    most: int = field(default=128, metadata={"least": 2})

    name: ClassVar[str] = "mgx-cut-concats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if isinstance(op, mgx.ConcatOp) and len(op.xs) > self.most and is_static(op):
                    context.note("cut", node_name(op))
                    with ir.InsertionPoint(op), op.location:
                        replace(op, [self._cut(list(op.xs), op.axis.value)])

    def _cut(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        while len(values) > self.most:
            groups = [values[i : i + self.most] for i in range(0, len(values), self.most)]
            values = [g[0] if len(g) == 1 else mgx.concat(list(g), axis) for g in groups]
        return mgx.concat(list(values), axis)
