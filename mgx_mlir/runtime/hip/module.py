"""Code objects loaded on a device; equal ones are loaded once."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.errors import ArtifactError, DeviceError
from mgx_mlir.runtime.code_library import check_trusted
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.library import call, release


class Module:
    """One code object on one device; unloaded when nothing refers to it."""

    def __init__(self, ordinal: int, code: CodeObject) -> None:
        """Raises ArtifactError for code without a voucher, DeviceError where HIP refuses it."""
        check_trusted(code)
        self._ordinal = ordinal
        # Some HIP versions read the image again when a function is first asked for.
        self._image = code.data
        self._functions: dict[str, Any] = {}
        self._handle: Any = None
        with Current(ordinal):
            self._handle = call(
                "hipModuleLoadData", self._image, purpose=f"a code object for {code.arch}"
            )

    def function(self, name: str) -> Any:
        """The function's handle. Raises ArtifactError when there is none of that name."""
        if name not in self._functions:
            with Current(self._ordinal):
                try:
                    found = call("hipModuleGetFunction", self._handle, name.encode())
                except DeviceError as error:
                    if error.name != "hipErrorNotFound":
                        raise
                    raise ArtifactError(f"a code object has no function '{name}'") from error
            self._functions[name] = found
        return self._functions[name]

    def __del__(self) -> None:
        if self._handle is not None and not sys.is_finalizing():
            release("hipModuleUnload", self._handle)


_shared: weakref.WeakValueDictionary[tuple[int, str], Module] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def load_module(ordinal: int, code: CodeObject) -> Module:
    """The code object on the device; the same module for equal bytes."""
    key = (ordinal, code.sha256)
    with _lock:
        module = _shared.get(key)
        if module is None:
            module = _shared[key] = Module(ordinal, code)
        return module
