"""What the HIP library of this machine says, found in a process of its own.

    python -m mgx_mlir.runtime.hip.probe      prints one JSON value

A driver that crashes or waits for ever takes that process alone with it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mgx_mlir.errors import DeviceError, MgxError
from mgx_mlir.runtime.hip.device import devices
from mgx_mlir.runtime.hip.library import call, hip_python, library_kind

# Seconds in which a working driver has answered; the first emulated library is built before.
ANSWERS_WITHIN = 60
# Libraries of LLVM, and those that carry a copy of it.
_LLVM = re.compile(r"/(libLLVM[\w.+-]*|libMLIR[\w.+-]*|libamd_comgr[\w.+-]*)$")


def ask(seconds: float = ANSWERS_WITHIN) -> dict[str, Any]:
    """The record of `found`, by another process; `fault` says how that ended where it failed."""
    command = [sys.executable, "-m", __name__]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"fault": f"the HIP library did not answer within {seconds:g} s"}
    if run.returncode < 0:
        return {"fault": f"the process that asked the HIP library died by signal {-run.returncode}"}
    try:
        record = json.loads(run.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = run.stderr.strip().splitlines()
        return {"fault": f"the HIP library cannot be asked: {said[-1] if said else 'no answer'}"}
    return dict(record)


def found() -> dict[str, Any]:
    """The library, its versions and its devices; `fault` where one of these is missing."""
    record: dict[str, Any] = {"library": "", "devices": []}
    try:
        record["hip_python"] = importlib.metadata.version("hip-python")
    except importlib.metadata.PackageNotFoundError:
        record["hip_python"] = ""
    try:
        hip_python()
        record["library"] = library_kind()
        record["runtime"] = int(call("hipRuntimeGetVersion"))
        record["driver"] = int(call("hipDriverGetVersion"))
        for device in devices():
            record["devices"].append({**vars(device), "memory": _tried(device.ordinal)})
    except MgxError as error:
        record["fault"] = str(error)
        record["call"] = error.call if isinstance(error, DeviceError) else ""
        record["name"] = error.name if isinstance(error, DeviceError) else ""
    record |= _loaded()
    return record


def _tried(ordinal: int) -> str:
    """What is wrong with memory of a device; '' where it holds what was copied there."""
    try:
        call("hipSetDevice", ordinal)
        sent, back = bytes(range(256)) * 16, bytearray(4096)
        place = call("hipMalloc", len(sent))
        try:
            call("hipMemcpy", place, sent, len(sent), hip_python().hipMemcpyKind(1))
            call("hipMemcpy", back, place, len(sent), hip_python().hipMemcpyKind(2))
        finally:
            call("hipFree", place)
    except DeviceError as error:
        return str(error)
    return "" if bytes(back) == sent else "it gave other bytes than were copied there"


def _loaded() -> dict[str, Any]:
    """The HIP library's file, and the libraries of LLVM in the process beside it."""
    for name in ("mlir.ir", "mgx_mlir.dialects"):
        try:
            importlib.import_module(name)
        except ImportError:  # the wheel without a compiler
            break
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.is_file() else []
    files = sorted({line.split(maxsplit=5)[5] for line in lines if line.count("/")})
    real = {str(Path(file).resolve()) for file in files if _LLVM.search(file)}
    hip = next((file for file in files if "libamdhip64" in file), "")
    return {"file": hip, "llvm": sorted(real)}


if __name__ == "__main__":
    print(json.dumps(found()))
