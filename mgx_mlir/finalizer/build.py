"""The identity of this compiler as one hash: the part of a cache key that its own code is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# Everything that the bytes of a code object depend on, below the package.
_PARTS = (
    *("_native", "artifact", "capabilities.py", "codegen", "dialects", "elements.py"),
    *("finalizer", "machine", "rewriting", "scan.py", "scopes.py", "sizes"),
)
_SUFFIXES = frozenset((".mlir", ".py", ".so"))


@cache
def build_id() -> str:
    """A SHA-256 over the compiler's own files and LLVM's version, in hexadecimal.

    It changes with every change of the code generators, so that a cache never gives a code
    object that an older compiler made.
    """
    return _hash_of(_PARTS, llvm_version())


@cache
def generator_id() -> str:
    """A SHA-256 over the code generators and the facts of chips, in hexadecimal: with every change
    of them, schedules may take other times."""
    return _hash_of(("artifact/architecture.py", "artifact/target.py", "codegen"), "")


@cache
def package_id() -> str:
    """A SHA-256 over the whole package, in hexadecimal: what artifacts depend on."""
    # Folders that may be links, which "." would not enter.
    return _hash_of((".", "dialects", "passes"), llvm_version())


def _hash_of(parts: Sequence[str], first: str) -> str:
    root = Path(__file__).parents[1]
    files = [
        file
        for part in parts
        for file in sorted((root / part).rglob("*") if (root / part).is_dir() else [root / part])
        if file.suffix in _SUFFIXES
    ]
    digest = hashlib.sha256(first.encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


@cache
def llvm_version() -> str:
    """The version of LLVM that generates code, such as '22.1.8'."""
    import ctypes

    from mgx_mlir.machine.llvm_library import loaded_library

    major, minor, patch = (ctypes.c_uint() for _ in range(3))
    library = ctypes.CDLL(loaded_library())
    library.LLVMGetVersion(*(ctypes.byref(part) for part in (major, minor, patch)))
    return f"{major.value}.{minor.value}.{patch.value}"
