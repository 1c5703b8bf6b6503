"""Settings from the environment. No other file reads it.

Everything below the command line takes what it needs as arguments; these values are
the defaults that tools and the top-level API pass down.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mgx_mlir.errors import UsageError
from mgx_mlir.suggest import instead

_log = logging.getLogger(__name__)

PREFIX = "MGX_"

# Name, what it does. The command line's help prints this table.
VARIABLES: dict[str, str] = {
    "MGX_CACHE_DIR": "where finalized kernels are kept; 'none' keeps nothing",
    "MGX_CACHE_SHARED": "a second folder of finalized kernels, which is only read",
    "MGX_CACHE_SIZE": "size bound of the cache in megabytes (default 4096)",
    "MGX_CPU": "the level that the target cpu means, such as x86-64-v3 (default: this machine)",
    "MGX_GPU_CODE": "vouched (default) or any: whether GPU code of a file needs a voucher, as CPU "
    "code does",
    "MGX_HIP": "real, emulated or auto: which libamdhip64 runs GPU programs",
    "MGX_JOBS": "worker processes that finalize kernels (default: all cores)",
    "MGX_LLVM_SOURCE": "an LLVM 22.1.8 source tree or archive for building the bindings",
    "MGX_QUIET": "1: tools say nothing but results and errors, as with --quiet",
    "MGX_THREADS": "threads that run a program on the CPU (default: all cores)",
    "MGX_TRUST": "whose machine code in files runs: none (default), all, or public keys (a:b)",
    "MGX_TUNING": "any (default) or none: whether finalizing looks up tuned schedules in databases",
}

# Variables of the emulated device, which reads them itself at its first call.
EMULATOR_VARIABLES: dict[str, str] = {
    "MGX_EMULATED_DEVICES": "chips by name, one a device, comma-separated (default gfx942)",
    "MGX_EMULATOR_ASYNC": "1: a worker thread for each stream; otherwise calls run their work",
    "MGX_EMULATOR_BUDGET": "instructions a wave may execute before it counts as hung",
    "MGX_EMULATOR_FAIL": "failures on request: hipMalloc:3 or any:17, with :code, comma-separated",
    "MGX_EMULATOR_LIBRARY": "the library file to open in place of the built one",
    "MGX_EMULATOR_ORDER": "forward (default), reversed, random or random:SEED: the order of "
    "work-groups and of the waves of one; results must not depend on it",
    "MGX_EMULATOR_PROFILE": "1: count instructions; events give modelled time. sample: of those "
    "work-groups alone that one compute unit holds; kernels leave their results half done",
    "MGX_EMULATOR_STRICT": "1: report missing waits, uninitialised reads and races",
    "MGX_EMULATOR_THREADS": "threads that execute a kernel (default: one for each processor)",
}


HIP = ("real", "emulated", "auto")


@dataclass(frozen=True)
class Settings:
    """The values of the variables above, checked. Folders may be given as text."""

    cache_dir: Path | None = None
    cache_bytes: int = 4096 << 20
    cache_shared: Path | None = None
    cpu: str = ""
    hip: str = "auto"
    emulated_devices: tuple[str, ...] = ()
    jobs: int = field(default_factory=lambda: available_cores())
    threads: int = field(default_factory=lambda: available_cores())
    trust_code: bool = False
    trusted_keys: tuple[Path, ...] = ()
    vouched_gpu_code: bool = True
    tuning: bool = True

    def __post_init__(self) -> None:
        for name in ("cache_dir", "cache_shared"):
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, _path(given))
        if isinstance(self.emulated_devices, str):
            object.__setattr__(self, "emulated_devices", _names(self.emulated_devices))
        if self.hip not in HIP:
            raise UsageError(f"hip is '{self.hip}'; use {', '.join(HIP[:-1])} or {HIP[-1]}")
        for name in ("jobs", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it is at least 1")

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
        """Reads and checks every variable. Raises UsageError on a value that is not allowed."""
        warn_unknown(environment)
        cache = environment.get("MGX_CACHE_DIR", "")
        if not cache:
            cache_dir: Path | None = cache_folder(environment) / "kernels"
        elif cache == "none":
            cache_dir = None
        else:
            cache_dir = _path(cache)
        shared = environment.get("MGX_CACHE_SHARED", "")
        if shared and cache_dir is None:
            raise UsageError("MGX_CACHE_SHARED needs a folder of one's own in MGX_CACHE_DIR")
        hip = environment.get("MGX_HIP", "auto")
        if hip not in HIP:
            raise UsageError(f"MGX_HIP is '{hip}'; use real, emulated or auto")
        gpu_code = environment.get("MGX_GPU_CODE", "vouched")
        if gpu_code not in ("any", "vouched"):
            raise UsageError(f"MGX_GPU_CODE is '{gpu_code}'; use any or vouched")
        trust = environment.get("MGX_TRUST", "none")
        tuning = environment.get("MGX_TUNING", "any")
        if tuning not in ("any", "none"):
            raise UsageError(f"MGX_TUNING is '{tuning}'; use any or none")
        return Settings(
            cache_dir=cache_dir,
            cache_bytes=_positive(environment, "MGX_CACHE_SIZE", 4096) << 20,
            cache_shared=_path(shared) if shared else None,
            cpu=environment.get("MGX_CPU", ""),
            hip=hip,
            emulated_devices=_names(environment.get("MGX_EMULATED_DEVICES", "")),
            jobs=_positive(environment, "MGX_JOBS", available_cores()),
            threads=_positive(environment, "MGX_THREADS", available_cores()),
            trust_code=trust == "all",
            trusted_keys=() if trust in ("none", "all") else _paths("MGX_TRUST", trust),
            vouched_gpu_code=gpu_code == "vouched",
            tuning=tuning == "any",
        )


def is_quiet(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether tools say nothing but results and errors."""
    return environment.get("MGX_QUIET", "") not in ("", "0")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The project's folder among the user's caches (the XDG Base Directory Specification)."""
    home = os.path.expanduser("~")  # "~" for a user without an entry, as in many containers
    base = environment.get("XDG_CACHE_HOME") or Path("/" if home == "~" else home) / ".cache"
    return Path(base) / "mgx-mlir"


def set_variables(prefix: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The variables with a prefix that are set: those of another program."""
    return sorted(name for name in environment if name.startswith(prefix))


def all_variables() -> dict[str, str]:
    """The environment as it is, those of other programs too."""
    return dict(os.environ)


def warn_unknown(environment: Mapping[str, str] = os.environ) -> None:
    """Warns, once, of variables with the prefix that nothing reads."""
    for name in environment:
        if name.startswith(PREFIX) and name not in VARIABLES and name not in EMULATOR_VARIABLES:
            _warn(name)


@cache
def _warn(name: str) -> None:
    hint = instead(name, [*VARIABLES, *EMULATOR_VARIABLES], "mgx --help lists those that are")
    _log.warning("%s is set, and no such variable is read; %s", name, hint)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _names(listed: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _path(text: str) -> Path:
    """A file or folder, which may begin with ~. Raises UsageError where that is nobody's home."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: {error} Name the whole path") from error


def _paths(name: str, text: str) -> tuple[Path, ...]:
    """The files and folders that a variable lists, all there."""
    paths = tuple(_path(part) for part in text.split(os.pathsep) if part)
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{name} names {path}, which is not there; use none, all, or files and folders of "
                "public keys"
            )
    return paths


def _positive(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name} is '{text}'; it takes a whole number of at least 1")
    return int(text)
