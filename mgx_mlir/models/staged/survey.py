"""The survey of a graph before it runs: which nodes are the host's, and which nothing runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from mgx_mlir.errors import Unsupported


@dataclass
class Survey:
    """The facts about a graph before it runs.

    `host`: nodes that the host runs. `late`: nodes that compile, or run on the host, once a run
    shows sizes or values, by their number. `lacking`: nodes that nothing runs.
    """

    host: list[Unsupported] = field(default_factory=list)
    late: dict[int, Unsupported] = field(default_factory=dict)
    lacking: list[Unsupported] = field(default_factory=list)

    def add(self, body: Survey) -> None:
        """Adds the nodes of a node's body that nothing runs."""
        self.lacking += [entry for entry in body.lacking if entry not in self.lacking]
