"""Which libamdhip64 this process uses, and checked calls of its functions.

hip-python opens one library a process, at its first call, and keeps it; so the choice is
made once, before that call, and never again.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgx_mlir import emulator
from mgx_mlir.errors import DeviceError, UsageError
from mgx_mlir.settings import Settings

DRIVER = Path("/dev/kfd")
OUT_OF_MEMORY = "hipErrorOutOfMemory"
_FORKED = "HIP does not survive fork(); start processes with 'spawn'"
# Errors of kernels, which every later call reports again.
_STICKY = ("hipErrorIllegalAddress", "hipErrorLaunchFailure", "hipErrorLaunchTimeOut")

logger = logging.getLogger("mgx_mlir.hip")
_lock = threading.Lock()
_opened: tuple[str, int] | None = None  # kind, and the process that opened it


def open_library(hip: str = "auto", devices: Sequence[str] = ()) -> str:
    """Chooses the library, or says which was chosen before: 'real' or 'emulated'.

    `hip` is real, emulated or auto; auto takes the real one where the kernel driver is
    there. `devices` are the chips of the emulated library, in the order of their ordinals;
    none leaves its own choice. Raises UsageError where the process has opened the other
    library, DeviceError without hip-python or in a child of a process that used HIP.
    """
    global _opened
    with _lock:
        if _opened is None:
            kind = _choose(hip, devices)
            _opened = (kind, os.getpid())
        kind, process = _opened
    if process != os.getpid():
        raise DeviceError(_FORKED)
    if hip not in ("auto", kind):
        raise UsageError(f"MGX_HIP asks for the {hip} HIP library; the process uses the {kind} one")
    return kind


def library_kind() -> str:
    """'real' or 'emulated'; '' before the library is opened."""
    return _opened[0] if _opened else ""


def _choose(hip: str, devices: Sequence[str]) -> str:
    if emulator.enabled():
        logger.info("HIP: the emulated library, which this process has opened already")
        return "emulated"
    driver = DRIVER.exists()
    kind = hip if hip != "auto" else "real" if driver else "emulated"
    why = f"MGX_HIP={hip}" if hip != "auto" else f"{DRIVER} is {'there' if driver else 'missing'}"
    if kind == "emulated":
        path = emulator.enable(devices or None)
        logger.info("HIP: the emulated library %s, because %s", path, why)
    else:
        logger.info("HIP: the real library, because %s", why)
    return kind


def call(function: str, *arguments: Any, kernel: str = "", purpose: str = "") -> Any:
    """Calls a function of hip-python; gives its results without the status.

    None, the only result, or a tuple. `purpose` ends the message of an error. Raises
    DeviceError with HIP's name and text.
    """
    library = hip_python()
    try:
        result = getattr(library, function)(*arguments)
    except RuntimeError as error:
        # hip-python's own, where it finds no library or no such function.
        hint = "; without ROCm, use MGX_HIP=emulated" if library_kind() == "real" else ""
        raise DeviceError(f"{function}: {error}{hint}", call=function, kernel=kernel) from error
    if result[0]:
        raise failure(result[0], function, kernel, purpose)
    return None if len(result) == 1 else result[1] if len(result) == 2 else result[1:]


def failure(status: Any, function: str, kernel: str = "", purpose: str = "") -> DeviceError:
    """The exception for a status other than success; clears the thread's last error."""
    hip = hip_python()
    name = str(status.name)
    text = str(hip.hipGetErrorString(status)[1])
    hip.hipGetLastError()
    message = f"{function} failed: {name} ({text})"
    message += f", kernel {kernel}" if kernel else ""
    message += f"; {purpose}" if purpose else ""
    if name in _STICKY:
        message += "; a kernel failed, and the device stays unusable for this process"
    fault = emulator.last_fault() if library_kind() == "emulated" else ""
    message += f"\n{fault}" if fault else ""
    return DeviceError(message, name, function, kernel)


def release(function: str, handle: Any) -> None:
    """Frees or destroys something; HIP needs no current device for that.

    Failures are logged: the caller can do nothing about them. Does nothing in a forked child,
    where HIP has no state.
    """
    if _opened is None or _opened[1] != os.getpid():
        return
    try:
        call(function, handle)
    except DeviceError as error:
        logger.warning("%s", str(error))


def hip_python() -> Any:
    """hip-python's module of HIP functions, the library being chosen as the settings say.

    Raises what `open_library` raises, and DeviceError where hip-python does not load.
    """
    if _opened is None:
        settings = Settings.from_environment()
        open_library(settings.hip, settings.emulated_devices)
    elif _opened[1] != os.getpid():
        raise DeviceError(_FORKED)
    return _module()


@functools.cache
def _module() -> Any:
    try:
        from hip import hip
    except ImportError as error:
        raise DeviceError(f"hip-python does not load: {error}; pip install hip-python") from error
    return hip


def opened_path() -> str:
    """The file of the libamdhip64 that hip-python has loaded. Raises DeviceError."""
    call("hipRuntimeGetVersion")  # which loads it
    if library_kind() == "emulated":
        return str(emulator.library_path())
    lines = Path("/proc/self/maps").read_text().splitlines()
    files = (line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return next(file for file in files if "libamdhip64" in file)


def current_device() -> int:
    """The thread's current device. Raises DeviceError."""
    hip = hip_python()
    number = ctypes.c_int()
    status = _get_device()(ctypes.byref(number))
    if status:
        raise failure(hip.hipError_t(status), "hipGetDevice")
    return number.value


@functools.cache
def _get_device() -> Any:
    """Without the work that hip-python does for arguments of any kind: many calls ask."""
    return ctypes.CDLL(opened_path()).hipGetDevice
