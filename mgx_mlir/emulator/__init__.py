"""The emulated AMD GPUs: a libamdhip64 whose devices are software.

    import mgx_mlir.emulator
    mgx_mlir.emulator.enable(["gfx942"])    # before the first HIP call of this process
    from hip import hip                     # hip-python, unmodified

The library stands alone: any HIP program runs on it that finds it in place of ROCm's, see
`python -m mgx_mlir.emulator`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgx_mlir.emulator import build
from mgx_mlir.errors import UsageError
from mgx_mlir.settings import cache_folder

LIBRARY_NAME = "libamdhip64.so"
# Names that linked programs ask for: those of ROCm 5, 6 and 7.
LINKED_NAMES = (LIBRARY_NAME, "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7")

# The chips that are emulated.
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201")

# Where a build of the project, or of the emulator alone, leaves the library.
BUILD_PATTERNS = (f"emulator*/{LIBRARY_NAME}", f"*/emulator/{LIBRARY_NAME}")


@dataclass(frozen=True)
class EmulatedDevice:
    """One emulated GPU: figures a HIP program reads on the real part.

    Sizes are in bytes, clocks in kHz.
    """

    ordinal: int
    chip: str
    target_id: str
    product: str
    wave_size: int
    compute_units: int
    multiprocessors: int
    simds_per_cu: int
    max_waves_per_simd: int
    lds_bytes: int
    max_vgprs: int
    max_sgprs: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    memory_bytes: int
    used_bytes: int
    l2_bytes: int
    max_threads_per_multiprocessor: int
    elf_mach: int


def library_path() -> Path:
    """The library: the packaged one, or that of a checkout, which is built where it is missing.

    MGX_EMULATOR_LIBRARY names another. Raises UsageError where there is none, or none can be built.
    """
    found = find_library()
    if found is None and build.can_build():
        build.build_for_use()
        found = find_library()
    if found is None:
        raise UsageError(
            "this installation has no emulated GPUs; a GPU needs AMD's driver (/dev/kfd) and ROCm, "
            "or MGX_EMULATOR_LIBRARY the emulated library of another one"
        )
    return found


def find_library() -> Path | None:
    """The library where there is one; in a checkout the newest of its build folders.

    Raises UsageError where MGX_EMULATOR_LIBRARY names no file.
    """
    named = os.environ.get("MGX_EMULATOR_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise UsageError(f"MGX_EMULATOR_LIBRARY is '{named}', which is no file")
        return Path(named).resolve()
    here = Path(__file__).resolve().parent
    packaged = here / "lib" / LIBRARY_NAME
    if packaged.is_file():
        return packaged
    folder = build.CHECKOUT / "build"
    built = [path for pattern in BUILD_PATTERNS for path in folder.glob(pattern)]
    return max(built, key=lambda path: path.stat().st_mtime_ns, default=None)


def rocm_path() -> Path:
    """A folder that serves as ROCM_PATH: its lib/ holds the library under every linked name."""
    library = library_path()
    key = hashlib.sha256(str(library).encode()).hexdigest()[:12]
    for root in (cache_folder(), Path(tempfile.gettempdir())):
        folder = root / f"emulator-{key}"
        try:
            (folder / "lib").mkdir(parents=True, exist_ok=True)
            for name in LINKED_NAMES:
                _link(folder / "lib" / name, library)
        except OSError:
            continue
        return folder
    raise UsageError("neither the cache folder nor the temporary folder can be written")


def enable(devices: Sequence[str] | None = None) -> Path:
    """Makes hip-python load the emulated library in this process; returns the library's path.

    devices: chips by name, in the order of their ordinals; None keeps MGX_EMULATED_DEVICES.

    To be called before the first HIP call: hip-python opens one library a process and keeps
    it. Raises UsageError where another one is open already or would be found first.
    """
    library = library_path()
    other = _other_library(library)
    if other is not None:
        raise UsageError(
            f"this process has opened {other} already; enable the emulator before that"
        )
    if devices is not None:
        os.environ["MGX_EMULATED_DEVICES"] = ",".join(devices)
    os.environ["ROCM_PATH"] = str(rocm_path())
    try:
        _library()
    except OSError as error:
        raise UsageError(f"the emulated HIP library cannot be opened: {error}") from error
    if importlib.util.find_spec("hip") is None:
        return library
    from hip import hip

    # Opens the library, so that a wrong one is noticed here and not in a kernel's results.
    if not hip.has_symbol("mgxEmulatorLastFault"):
        raise UsageError(
            "hip-python opened another HIP library; it looks into site-packages/rocm and asks "
            "rocm_sdk before ROCM_PATH"
        )
    return library


def model_times(budget: int = 0, sample: bool = False) -> None:
    """Makes the library of this process model times, if it is called before `enable`.

    budget: instructions of a wave after which it counts as hung; 0 for the library's own. sample:
    whether it executes the work-groups of one compute unit alone. Variables that are set stay, but
    for a sample. A library of ROCm does not read them.
    """
    if sample:
        os.environ["MGX_EMULATOR_PROFILE"] = "sample"
    os.environ.setdefault("MGX_EMULATOR_PROFILE", "1")
    if budget:
        os.environ.setdefault("MGX_EMULATOR_BUDGET", str(budget))


def enabled() -> bool:
    """True where this process has opened the emulated library."""
    try:
        library = find_library()
    except UsageError:
        return False
    return library is not None and any(_same(path, library) for path in _open_libraries())


def devices() -> tuple[EmulatedDevice, ...]:
    """The emulated devices of this process."""
    records = json.loads(_text(_library().mgxEmulatorDevicesJson()))
    return tuple(EmulatedDevice(**record) for record in records)


def add_device(chip: str) -> int:
    """Adds a device of a chip to those of this process; returns its ordinal.

    hipGetDeviceCount grows by one; other devices, and their streams, stay as they are. Raises
    UsageError for a chip that is not emulated, and where the library adds no devices.
    """
    library = _library()
    if chip not in CHIPS:
        raise UsageError(f"{chip} is not emulated; these chips are: {', '.join(CHIPS)}")
    if not hasattr(library, "mgxEmulatorAddDevice"):
        raise UsageError(f"{library_path()} adds no devices; build it again")
    ordinal = ctypes.c_int(-1)
    code = library.mgxEmulatorAddDevice(chip.encode(), ctypes.byref(ordinal))
    _check(code, f"the emulated library has no room for another device, a {chip}")
    return ordinal.value


def last_fault() -> str:
    """The last fault of a kernel: where it was, and what it did; "" if there was none."""
    return _text(_library().mgxEmulatorLastFault())


def profile(device: int = 0) -> dict[str, Any]:
    """The counts of a device's kernels since its last reset, with MGX_EMULATOR_PROFILE=1.

    "kernels" is a list: name, launches, total_modelled_ms, and the counts of the last launch.
    """
    text = _library().mgxEmulatorProfileJson(device)
    if text is None:
        raise UsageError(f"there is no emulated device {device}")
    record: dict[str, Any] = json.loads(_text(text))
    return record


def models_times() -> bool:
    """Whether events of the opened library give modelled times, and not its own."""
    library = _library()
    # An older build has no such function; events of all of them are modelled where it is asked to.
    return not hasattr(library, "mgxEmulatorModelsTimes") or bool(library.mgxEmulatorModelsTimes())


def reset_profile(device: int = 0) -> None:
    """Forgets the counts of a device."""
    _check(_library().mgxEmulatorProfileReset(device), f"there is no emulated device {device}")


def reset_device(device: int = 0) -> None:
    """Frees everything of a device and clears its fault, as hipDeviceReset does."""
    _check(_library().mgxEmulatorResetDevice(device), f"there is no emulated device {device}")


def set_failures(spec: str) -> None:
    """Makes HIP calls fail: "hipMalloc:3", "any:17", "hipFree:1:719"; "" stops it.

    Calls are counted from here on. A failure without a code is hipErrorOutOfMemory of
    functions that allocate and hipErrorUnknown of others.
    """
    _check(_library().mgxEmulatorSetFailures(spec.encode()), f"'{spec}' is not name:call[:code]")


def call_count(function: str = "any") -> int:
    """HIP calls since the last `set_failures`; of one function only while failures are set."""
    return int(_library().mgxEmulatorCallCount(function.encode()))


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    # Replaced in one step: another process may be opening it.
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    os.replace(fresh, link)


def _open_libraries() -> tuple[Path, ...]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return ()
    found = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines() if "/" in line}
    return tuple(Path(name) for name in sorted(found) if "/libamdhip64.so" in name)


def _other_library(library: Path) -> Path | None:
    return next((path for path in _open_libraries() if not _same(path, library)), None)


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    for name in ("mgxEmulatorLastFault", "mgxEmulatorDevicesJson", "mgxEmulatorProfileJson"):
        getattr(library, name).restype = ctypes.c_char_p
    library.mgxEmulatorProfileJson.argtypes = [ctypes.c_int]
    library.mgxEmulatorProfileReset.argtypes = [ctypes.c_int]
    library.mgxEmulatorResetDevice.argtypes = [ctypes.c_int]
    if hasattr(library, "mgxEmulatorAddDevice"):  # another build may be older
        library.mgxEmulatorAddDevice.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)]
    library.mgxEmulatorSetFailures.argtypes = [ctypes.c_char_p]
    library.mgxEmulatorCallCount.argtypes = [ctypes.c_char_p]
    library.mgxEmulatorCallCount.restype = ctypes.c_uint64
    return library


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _check(code: int, message: str) -> None:
    if code != 0:
        raise UsageError(message)
