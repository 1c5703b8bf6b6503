"""Weights on devices: each goes there once, and equal ones are the same memory."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from mgx_mlir.artifact.weights import Weight, is_splat, splat_element
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.library import call, hip_python
from mgx_mlir.runtime.hip.memory import DeviceMemory

# Fills of HIP by the bytes of an element.
_FILLS = {1: "hipMemsetD8", 2: "hipMemsetD16", 4: "hipMemsetD32"}

_shared: weakref.WeakValueDictionary[tuple[int, str, int], DeviceMemory]
_shared = weakref.WeakValueDictionary()
_lock = threading.Lock()


def device_weight(ordinal: int, weight: Weight) -> DeviceMemory:
    """The weight's bytes on the device, shared by everything there that has equal bytes.

    The memory lasts as long as somebody refers to it. Raises DeviceError, or ModelError
    where the weight's file is truncated.
    """
    key = (ordinal, weight.sha256, weight.nbytes)
    with _lock:
        memory = _shared.get(key)
        if memory is None:
            memory = _upload(ordinal, weight)
            _shared[key] = memory
        return memory


def _upload(ordinal: int, weight: Weight) -> DeviceMemory:
    memory = DeviceMemory(ordinal, weight.nbytes, f"weight '{weight.key}'")
    with Current(ordinal):
        if not _fill(memory, weight):
            _copy(memory, weight)
        # Programs run on streams of their own, which do not wait for the default stream.
        call("hipStreamSynchronize", None, purpose=f"weight '{weight.key}'")
    return memory


def _fill(memory: DeviceMemory, weight: Weight) -> bool:
    """Fills memory with a splat's element, which needs no copy; False where HIP cannot."""
    array = weight.array()
    fill = _FILLS.get(array.itemsize)
    if not is_splat(array) or fill is None:
        return False
    # hipMemsetD32 takes an int, the others bytes and halves without a sign.
    sign = "i" if array.itemsize == 4 else "u"
    element = splat_element(array).view(f"{sign}{array.itemsize}")[0]
    call(fill, memory.address, int(element), array.size, purpose=f"weight '{weight.key}'")
    return True


def _copy(memory: DeviceMemory, weight: Weight) -> None:
    hip = hip_python()
    kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
    offset = 0
    for chunk in weight.chunks():
        piece = np.frombuffer(chunk, np.uint8)
        source = piece.ctypes.data
        where = memory.address + offset
        call("hipMemcpy", where, source, piece.size, kind, purpose=f"weight '{weight.key}'")
        offset += piece.size
