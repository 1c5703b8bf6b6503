"""What stands between a machine and its AMD GPUs, with the command that mends each fault.

The checks go from the hardware up: card, driver, device nodes, permissions, HIP, chips, and what
misleads them. Each gives findings; none of them opens a GPU in this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import TargetError
from mgx_mlir.settings import Settings
from mgx_mlir.tools.doctor.surroundings import Surroundings

# The versions of HIP that hip-python's module has all functions of, and those that were tried.
_OLDEST_HIP, _NEWEST_HIP = 6, 7
# Variables that make a GPU look like another one, or like none.
_MISLEADING = {
    "HSA_OVERRIDE_GFX_VERSION": "chips name themselves as others are, and code for these may hang",
    "HIP_VISIBLE_DEVICES": "devices are hidden or renumbered",
    "ROCR_VISIBLE_DEVICES": "devices are hidden or renumbered",
    "CUDA_VISIBLE_DEVICES": "HIP hides and renumbers devices by it too",
    "GPU_DEVICE_ORDINAL": "devices are hidden or renumbered",
    "HIP_LAUNCH_BLOCKING": "each launch waits for its end: times are longer",
    "AMD_SERIALIZE_KERNEL": "kernels wait for each other: times are longer",
    "AMD_SERIALIZE_COPY": "copies wait for each other: times are longer",
    "AMD_LOG_LEVEL": "HIP writes a log of each call: times are longer",
    "HSA_ENABLE_SDMA": "copies go through kernels or engines that are not the default",
    "HSA_XNACK": "page faults of GPUs are on or off against the driver's default",
    "LD_PRELOAD": "a library is loaded before all others, HIP's among them",
}

Level = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """One line: `mend` is the command or the step that mends a fault, '' where none is needed."""

    level: Level
    what: str
    found: str
    mend: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def diagnose(
    machine: Surroundings, hip: Mapping[str, Any], settings: Settings
) -> Iterator[Finding]:
    """The findings, the hardware's first. `hip` is the record of runtime.hip.probe."""
    emulated = hip.get("library") == "emulated"
    if emulated:
        yield _emulated(machine, settings)
    else:
        yield from _driver(machine)
    yield from _library(machine, hip)
    yield from _devices(machine, hip)
    yield from _variables(machine)
    yield from _copies_of_llvm(hip)
    yield _cache(settings)


def _emulated(machine: Surroundings, settings: Settings) -> Finding:
    if settings.hip == "emulated":
        return Finding("note", "GPU", "an emulated one, as MGX_HIP=emulated asks for")
    why = f"{machine.driver} is missing, so that GPU programs run on an emulated GPU"
    if machine.cards():
        return Finding("fault", "GPU", f"AMD's card is there, and {why}", _LOAD)
    return Finding(
        "fault", "GPU", f"none of AMD's; {why}", "install a GPU, or set MGX_HIP=emulated"
    )


_LOAD = "sudo modprobe amdgpu (with ROCm's driver package: sudo amdgpu-install --usecase=rocm)"
_CONTAINER = "in a container: start it with --device=/dev/kfd --device=/dev/dri"


def _driver(machine: Surroundings) -> Iterator[Finding]:
    if not machine.driver.exists():
        cards = machine.cards()
        found = f"{machine.driver} is missing" + (f"; {cards} cards of AMD are there" * bool(cards))
        yield Finding("fault", "driver", found, f"{_LOAD}; {_CONTAINER}")
        return
    version = machine.module / "version"
    named = f", amdgpu {version.read_text().strip()}" if version.is_file() else ""
    yield Finding("ok", "driver", f"{machine.driver}{named}")
    nodes = machine.render_nodes()
    if not nodes:
        yield Finding("fault", "device nodes", f"no {machine.render}/renderD*", _CONTAINER)
    for node in (machine.driver, *nodes):
        if machine.may_open(node):
            yield Finding("ok", "permission", f"{machine.user} may read and write {node}")
            continue
        group = machine.owner(node)
        mend = f"sudo usermod -aG {group} {machine.user}, then log in again"
        if group in machine.groups:
            mend = f"sudo chmod g+rw {node}"
        elif group in ("root", "nogroup", "65534"):
            mend = f"sudo chown :render {node} && sudo chmod 660 {node}; {_CONTAINER}"
        found = f"{machine.user} may not read and write {node} (group {group})"
        yield Finding("fault", "permission", found, f"{mend}; in a container: --group-add {group}")


def _library(machine: Surroundings, hip: Mapping[str, Any]) -> Iterator[Finding]:
    if "hip_python" in hip and not hip["hip_python"]:
        yield Finding("fault", "hip-python", "not installed", "pip install hip-python")
    fault = str(hip.get("fault", ""))
    if fault:
        yield Finding("fault", "HIP", fault.split("\n")[0], _mend_of_hip(hip, machine))
    version = hip.get("runtime")
    if not isinstance(version, int):
        return
    major, minor = version // 10_000_000, version // 100_000 % 100
    found = f"version {major}.{minor} ({hip.get('file') or 'an unknown file'})"
    if major < _OLDEST_HIP:
        mend = f"install ROCm {_OLDEST_HIP} or newer: its HIP has the functions that are called"
        yield Finding("fault", "HIP", found, mend)
    elif major > _NEWEST_HIP:
        text = f"{found}, newer than {_NEWEST_HIP}.x, which was tried"
        yield Finding("note", "HIP", text, "mgx selftest --target gpu tries all kernels")
    else:
        yield Finding("ok", "HIP", found)
    driver = hip.get("driver")
    if isinstance(driver, int) and driver // 10_000_000 < major:
        text = f"its driver part is of version {driver // 10_000_000}"
        yield Finding("fault", "HIP", text, "install the driver and the libraries of one ROCm")


def _mend_of_hip(hip: Mapping[str, Any], machine: Surroundings) -> str:
    if hip.get("name") == "hipErrorNoDevice":
        return "the findings above say why no device is there; rocminfo lists those of the driver"
    if "did not answer" in str(hip["fault"]) or "died" in str(hip["fault"]):
        return "sudo dmesg | grep amdgpu says what happened; a reset: sudo amd-smi reset -g all"
    root = machine.environment.get("ROCM_PATH", "/opt/rocm")
    return f"install ROCm's runtime (package hip-runtime-amd), or set ROCM_PATH, which is {root}"


def _devices(machine: Surroundings, hip: Mapping[str, Any]) -> Iterator[Finding]:
    found = list(hip.get("devices", ()))
    for device in found:
        yield from _device(device)
    listed = machine.chips() if hip.get("library") != "emulated" else []
    if len(listed) > len(found):
        text = f"the driver has {len(listed)} ({', '.join(listed)}), HIP {len(found)}"
        yield Finding("fault", "devices", text, "unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES")
    for device, chip in zip(found, listed, strict=False):
        if len(listed) == len(found) and device["chip"] != chip and chip != "gfx000":
            text = f"device {device['ordinal']} is a {chip}, and HIP takes it for {device['chip']}"
            yield Finding("fault", "chip", text, "unset HSA_OVERRIDE_GFX_VERSION")


def _device(device: Mapping[str, Any]) -> Iterator[Finding]:
    name = f"device {device['ordinal']}"
    text = (
        f"{device['target_id']} ({device['product']}), {device['compute_units']} units, "
        f"{device['memory_bytes'] >> 30} GiB"
    )
    try:
        target = Target.get(str(device["chip"]))
    except TargetError:
        generic = _generic(str(device["chip"]))
        mend = "a row of mgx_mlir/artifact/target.py adds a chip (docs/extending.md)"
        if generic:
            mend = f"code for {generic} may run there: --target {generic}; {mend}"
        yield Finding("fault", name, f"{text}: no known chip", mend)
        return
    yield Finding("ok", name, text)
    if target.wave_size != device["wave_size"]:
        told = f"waves of {device['wave_size']}, where a {target.name} has {target.wave_size}"
        yield Finding("fault", name, told, "report this with mgx doctor --json")
    if device.get("memory"):
        mend = "sudo dmesg | grep amdgpu; other processes may hold its memory: amd-smi process"
        yield Finding("fault", f"memory of {name}", str(device["memory"]).split("\n")[0], mend)


def _generic(chip: str) -> str:
    """The generic target of a chip's family; '' where there is none."""
    family = re.fullmatch(r"gfx(\d+)\w\w", chip)
    names = [n for n in Target.names() if n.endswith("-generic")] if family else []
    return next((n for n in names if family and n.startswith(f"gfx{family[1]}-")), "")


def _variables(machine: Surroundings) -> Iterator[Finding]:
    for name, effect in _MISLEADING.items():
        if machine.environment.get(name):
            value = machine.environment[name]
            level: Level = "fault" if name == "HSA_OVERRIDE_GFX_VERSION" else "note"
            yield Finding(level, name, f"is '{value}': {effect}", f"unset {name}")


def _copies_of_llvm(hip: Mapping[str, Any]) -> Iterator[Finding]:
    """Two libLLVM in one process share names, and each finds functions of the other."""
    copies = [file for file in hip.get("llvm", ()) if "/libLLVM" in file]
    if len(copies) > 1:
        text = f"{len(copies)} in one process: {', '.join(copies)}"
        yield Finding("fault", "LLVM", text, "take one of their folders out of LD_LIBRARY_PATH")
    elif copies:
        yield Finding("ok", "LLVM", copies[0])


def _cache(settings: Settings) -> Finding:
    from mgx_mlir.loader import kernel_cache

    cache = kernel_cache(settings)
    if cache is None:
        return Finding("note", "cache", "MGX_CACHE_DIR is 'none': kernels are compiled each time")
    if cache.problem:
        return Finding("fault", "cache", cache.problem, "set MGX_CACHE_DIR to a folder of yours")
    return Finding("ok", "cache", str(cache.folder))
