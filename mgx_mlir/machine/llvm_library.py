"""The libLLVM of the process: one copy, which MLIR's bindings load.

Debian's package has it by its own name, a wheel with libraries inside by another.
"""

from __future__ import annotations

from pathlib import Path

from mgx_mlir.errors import CompilerError


def loaded_library() -> str:
    """The path of the libLLVM that MLIR's bindings have loaded into this process."""
    import mlir.ir  # noqa: F401  (loads it)

    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path.rpartition("/")[2].startswith("libLLVM"):
            return "/" + path
    raise CompilerError("MLIR's bindings are there, but the libLLVM that they use is not loaded")
