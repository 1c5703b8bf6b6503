"""The functions of a code object for the CPU, loaded into the process."""

from __future__ import annotations

import ctypes

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.library import Handle, call
from mgx_mlir.errors import ArtifactError


def check_trusted(code: CodeObject) -> None:
    """Raises ArtifactError for code of a file that nothing vouches for."""
    if not code.trusted:
        raise ArtifactError(
            f"nothing vouches for a code object for {code.arch}, which comes from a file; "
            "mgx_mlir.compile of the artifact makes it again, or takes it with trust_code=True"
        )


class CodeLibrary:
    """A shared object loaded from its bytes; unloaded when nothing refers to it."""

    def __init__(self, code: CodeObject) -> None:
        """Raises ArtifactError for code that nothing vouches for, or that does not load."""
        check_trusted(code)
        self._handle = Handle("mgx_code_load", "mgx_code_release", code.data, len(code.data))

    def address(self, function: str) -> int:
        """The address of the function. Raises ArtifactError when there is none of that name."""
        found = ctypes.c_void_p()
        call("mgx_code_function", self._handle.value, function.encode(), ctypes.byref(found))
        return found.value or 0
