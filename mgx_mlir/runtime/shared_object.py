"""The runtime's own native libraries."""

from __future__ import annotations

import ctypes
from pathlib import Path

from mgx_mlir.errors import CompilerError


def open_native(name: str, interface: int) -> ctypes.CDLL:
    """The library libmgx_<name>.so of the package.

    Raises CompilerError where it is not built, or not with this version of its interface.
    """
    path = Path(__file__).parents[1] / "_native" / f"libmgx_{name}.so"
    if not path.exists():
        raise CompilerError(f"{path} is missing: the native parts are not built; run `make setup`")
    library = ctypes.CDLL(str(path))
    if library[f"mgx_{name}_interface"]() != interface:
        raise CompilerError(f"{path} is of another version; run `make setup`")
    return library
