"""What of a model compiles, what the host runs, and what neither does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgx_mlir import host
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import Unsupported, check_model
from mgx_mlir.staged import Model


@dataclass(frozen=True)
class Check:
    """Nodes that the host runs, and those that nothing runs, with a reason for each."""

    name: str
    nodes: int
    host: tuple[Unsupported, ...]
    unsupported: tuple[Unsupported, ...]

    def __str__(self) -> str:
        parts = []
        if self.unsupported:
            count = f"{len(self.unsupported)} of {self.nodes} nodes"
            parts.append(f"{count} are not supported:{_lines(self.unsupported)}")
        else:
            parts.append(f"all {self.nodes} nodes are supported")
        if self.host:
            parts.append(f"{len(self.host)} run on the host, between compiled parts:")
            parts[-1] += _lines(self.host)
        return "\n".join([f"{self.name}: {parts[0]}", *parts[1:]])


def check(model: Any, options: CompileOptions | None = None) -> Check:
    """Looks at every node without compiling. Raises ModelError where the model is malformed."""
    options = options or CompileOptions()
    report = check_model(
        model,
        input_dims=options.input_dims,
        dim_params=options.dim_params,
        default_dim=options.default_dim,
        input_values=options.input_values,
    )
    if report.supported:
        return Check(report.name, report.nodes, (), ())
    try:
        staged = Model(model, options=options).staged()
    except UnsupportedError:
        rows = [(entry, _row(entry)) for entry in report.unsupported]
        moved = [Unsupported(e.node, e.operator, row.kind.value) for e, row in rows if row]
        lacking = [entry for entry, row in rows if row is None]
    else:
        lacking = staged.survey()
        moved = staged.host_nodes
    return Check(report.name, report.nodes, tuple(moved), tuple(lacking))


def _row(entry: Unsupported) -> host.HostOperator | None:
    domain, _, name = entry.operator.rpartition(".")
    return host.find(domain, name)


def _lines(entries: tuple[Unsupported, ...]) -> str:
    return "".join(f"\n  {entry}" for entry in entries)
