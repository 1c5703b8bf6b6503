"""Plans for few rows of a product, of which there may be more."""

from __future__ import annotations

from dataclasses import dataclass, field

from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import as_skinny
from mgx_mlir.codegen.refusal import Refusal


@dataclass(frozen=True)
class Few:
    """A plan for up to so many rows."""

    rows: int
    plan: OneFunction = field(compare=False)

    def describe(self) -> str:
        rows = f"up to {self.rows} rows" if self.rows > 1 else "one row"
        return f"for {rows} {self.plan.describe()}"


def few_rows(request: Request) -> OneFunction | None:
    """The best plan for few rows."""
    plans = [as_skinny(request), as_broad(request)]
    fits = [plan for plan in plans if not isinstance(plan, Refusal)]
    return min(fits, key=lambda plan: plan.clocks, default=None)
