"""Device memory that is freed when nothing refers to it."""

from __future__ import annotations

import sys

from mgx_mlir.artifact.contents import size_text
from mgx_mlir.errors import DeviceError
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.library import OUT_OF_MEMORY, call, release

ALIGNMENT = 256


class DeviceMemory:
    """`size` bytes of a device from `address`, aligned to 256 bytes as hipMalloc gives them."""

    __slots__ = ("__weakref__", "address", "ordinal", "size")

    def __init__(self, ordinal: int, size: int, purpose: str) -> None:
        """Raises DeviceError; out of memory names the bytes wanted and their purpose."""
        self.ordinal, self.size, self.address = ordinal, size, 0
        with Current(ordinal):
            try:
                # Kernels get an address also of tensors without elements.
                self.address = int(call("hipMalloc", max(size, ALIGNMENT)))
            except DeviceError as error:
                if error.name != OUT_OF_MEMORY:
                    raise
                raise _explained(error, size, purpose) from error

    def free(self) -> None:
        """Frees the memory now; HIP waits for work that uses it."""
        address, self.address = self.address, 0
        if address:
            release("hipFree", address)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.free()


def _explained(error: DeviceError, size: int, purpose: str) -> DeviceError:
    try:
        free, total = call("hipMemGetInfo")
        left = f"; {size_text(free)} of {size_text(total)} are free"
    except DeviceError:
        left = ""
    return DeviceError(
        f"out of device memory: {size_text(size)} wanted for {purpose}{left} ({error})",
        error.name,
        error.call,
    )
