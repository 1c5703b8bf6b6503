"""Operators that the host runs: no tensor holds their values, or only running shows the sizes.

Values are numpy arrays (strings: of dtype object), lists for sequences, dicts for maps, and
None for an empty optional; an optional that holds something is that value.
"""

from mgx_mlir.models.host.table import HostOperator, Kind, find

__all__ = ["HostOperator", "Kind", "find"]
