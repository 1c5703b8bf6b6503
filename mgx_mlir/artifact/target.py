"""Targets: the facts about chips that the finalizer needs, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mgx_mlir.artifact.architecture import ARCHITECTURES, Architecture
from mgx_mlir.errors import TargetError, UsageError
from mgx_mlir.machine.host import llvm_features, machine_flags
from mgx_mlir.settings import Settings
from mgx_mlir.suggest import instead

KINDS = ("cpu", "gpu", "spirv")


@dataclass(frozen=True)
class Target:
    """One chip, or the common part of several.

    Sizes are in bytes; `memory_bytes_a_clock` is the rate of a GPU's memory, `cache_bytes` and
    `cache_bytes_a_clock` the size and the rate of its last cache, which all compute units share
    and where one function finds what the function before it wrote. `features` are names
    that kernels can ask for; `architecture` the facts that a GPU shares with its generation, None
    for other targets. `generic` holds the identities of the targets whose code this one runs too,
    best first; `like` the chip that a generic target is generated as, for code that knows chips
    only. `register_share` is the share of the vector registers that generators may count on: below
    1 where LLVM needs more than they estimate.

    For a CPU, `cpu_features` are LLVM's name of the processor and features beyond it
    ('x86-64-v3+aes+...'; the target's own name where empty), `flags` Linux's names of the
    features that a machine needs to run the code.
    """

    name: str
    kind: str  # one of KINDS
    wave_size: int = 1
    lds_bytes: int = 0
    compute_units: int = 0
    memory_bytes_a_clock: int = 0
    cache_bytes: int = 0
    cache_bytes_a_clock: int = 0
    architecture: Architecture | None = None
    features: frozenset[str] = frozenset()
    cpu_features: str = ""
    vector_bytes: int = 0
    flags: frozenset[str] = frozenset()
    generic: tuple[str, ...] = ()
    like: str = ""
    register_share: float = 1.0

    @property
    def chip(self) -> str:
        """The name of a chip for generated code: the target's own, or that of `like`."""
        return self.like or self.name

    @property
    def gpu(self) -> Architecture:
        """The facts of a GPU's generation. Raises TargetError for a target that has none."""
        if self.architecture is None:
            raise TargetError(f"target {self.name} is of no known GPU architecture")
        return self.architecture

    @property
    def matrix(self) -> str:
        """The kind of matrix instructions, 'mfma' or 'wmma'; '' for none."""
        return self.architecture.matrix if self.architecture else ""

    @property
    def max_vgprs(self) -> int:
        """Vector registers that a wave of a GPU can address; 0 for other targets."""
        return self.architecture.max_vgprs if self.architecture else 0

    @property
    def identity(self) -> str:
        """Everything that a code object depends on, as text: part of its cache key."""
        return ":".join(filter(None, (self.name, self.cpu_features)))

    @property
    def word(self) -> str:
        """The name that `get` takes: 'cpu' for the machine's own target."""
        return self.name if self.name in _TARGETS else "cpu"

    @staticmethod
    def get(name: str) -> Target:
        """The target of that name: 'cpu', a level of CPUs such as 'x86-64-v3', or an AMD GPU
        such as 'gfx942'.

        Raises TargetError with the known names.
        """
        if not isinstance(name, str):
            raise TypeError(f"a target is named by a str such as 'cpu', not by {name!r}")
        if name == "cpu":
            return Target.host_cpu()
        if name not in _TARGETS:
            hint = instead(name, Target.names(), f"known: {', '.join(Target.names())}", 0.75)
            raise TargetError(f"unknown target '{name}'; {hint}")
        return _TARGETS[name]

    @staticmethod
    def names() -> list[str]:
        """All target names, 'cpu' first."""
        return ["cpu", *sorted(_TARGETS)]

    @staticmethod
    def host_cpu() -> Target:
        """The CPU that this process runs on, by its level and features.

        With MGX_CPU it is the level that the variable names. Raises UsageError for no level, and
        TargetError for one that this machine does not run.
        """
        name = Settings.from_environment().cpu
        if name:
            levels = {target.name: target for target in _CPUS}
            if name not in levels:
                raise UsageError(f"MGX_CPU is '{name}'; use one of {', '.join(levels)}")
            check_executable(levels[name])
            return levels[name]
        return host_target()

    @staticmethod
    def cpu_levels() -> list[Target]:
        """The levels of CPUs, those of x86-64 and then those of aarch64, lesser ones first."""
        return list(_CPUS)


def kind_of(target: str | Target) -> str:
    """The kind of a target, which may be named, or given by its kind. Raises TargetError."""
    if isinstance(target, Target):
        return target.kind
    return target if target in KINDS else Target.get(target).kind


def _gpu(
    name: str,
    architecture: str,
    compute_units: int,
    memory_bytes_a_clock: int,
    cache: tuple[int, int],
    features: str,
    lds_kib: int = 64,
    generic: str = "",
    like: str = "",
) -> Target:
    facts = ARCHITECTURES[architecture]
    cache_mib, cache_bytes_a_clock = cache
    return Target(
        name,
        "gpu",
        facts.wave_size,
        lds_bytes=lds_kib << 10,
        compute_units=compute_units,
        memory_bytes_a_clock=memory_bytes_a_clock,
        cache_bytes=cache_mib << 20,
        cache_bytes_a_clock=cache_bytes_a_clock,
        architecture=facts,
        features=frozenset(features.split()),
        generic=(generic,) if generic else (),
        like=like,
    )


# Features that kernels ask for and every CPU has.
CPU_FEATURES = "f64 bf16 fp8-ocp fp8-fnuz"


def _cpu(name: str, vector_bytes: int, features: str, flags: str, cpu_features: str) -> Target:
    return Target(
        name,
        "cpu",
        features=frozenset(f"{CPU_FEATURES} {features}".split()),
        cpu_features=cpu_features,
        vector_bytes=vector_bytes,
        flags=frozenset(flags.split()),
    )


_V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3 = f"{_V2} abm avx avx2 bmi1 bmi2 f16c fma movbe"
_V4 = f"{_V3} avx512bw avx512cd avx512dq avx512f avx512vl"
_AMX = "avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16"

# Facts: the System V ABI's x86-64 supplement, chapter 3.1.1 (levels); LLVM's X86.td and
# AArch64Features.td. Features that generators know: multiply-add in one instruction,
# conversions of f16, rounding to bf16, and sums of four products of 8-bit integers.
_CPUS = (
    _cpu("x86-64-v2", 16, "", _V2, ""),
    _cpu("x86-64-v3", 32, "fma f16-convert", _V3, ""),
    _cpu("x86-64-v4", 64, "fma f16-convert", _V4, ""),
    _cpu(
        "x86-64-v4-vnni", 64, "fma f16-convert int8-dot", f"{_V4} avx512_vnni",
        "x86-64-v4+avx512vnni",
    ),
    _cpu(
        "x86-64-v4-amx", 64, "fma f16-convert bf16-round int8-dot", f"{_V4} {_AMX}",
        "x86-64-v4+avx512vnni+avx512bf16+amx-tile+amx-int8+amx-bf16",
    ),
    _cpu("aarch64", 16, "fma f16-convert", "asimd", "generic"),
    _cpu("aarch64-sve", 16, "fma f16-convert", "asimd sve", "generic+sve"),
)  # fmt: skip


_RDNA3, _RDNA4 = "gfx11-generic", "gfx12-generic"

# Facts: LLVM's AMDGPUUsage (processors, features, generic processors) and AMD's ISA documents.
# Compute units are those of the chip's largest product: MI210/MI250X die 110 of 104 enabled,
# MI300X 304, MI355X 256, RX 6900 XT 80, RX 7900 XTX 96, RX 7600 32, 8060S 40, RX 9060 XT 32,
# RX 9070 XT 64; those of a generic target are its smallest chip's.
# Bytes of memory a clock: the product's data sheet, bandwidth by the highest clock.
# The last cache, MiB and bytes a clock: the Infinity Cache, by AMD's figures (MI300X 17.2 TB/s,
# RX 6900 XT 1.99 TB/s, RX 7900 XTX 5.3 TB/s), for chips without such figures by the channels of
# their memory; else L2, at its units' rates.
_TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        *_CPUS,
        Target("amdgcnspirv", "spirv", wave_size=0, features=frozenset(("f64",))),
        _gpu("gfx10-3-generic", "rdna2", 2, 38, (1, 48), "f64", like="gfx1030"),
        _gpu("gfx1030", "rdna2", 80, 228, (128, 883), "f64", generic="gfx10-3-generic"),
        _gpu("gfx11-generic", "rdna3", 8, 43, (2, 192), "f64 bf16", like="gfx1100"),
        _gpu("gfx1100", "rdna3", 96, 384, (96, 2120), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1101", "rdna3", 60, 257, (64, 1450), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1102", "rdna3", 32, 108, (32, 440), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1103", "rdna3", 12, 44, (2, 288), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1150", "rdna3", 16, 41, (2, 384), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1151", "rdna3", 40, 88, (32, 345), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1152", "rdna3", 8, 43, (1, 192), "f64 bf16", generic=_RDNA3),
        _gpu("gfx1153", "rdna3", 8, 43, (1, 192), "f64 bf16", generic=_RDNA3),
        _gpu("gfx12-generic", "rdna4", 32, 103, (32, 400), "f64 bf16 fp8-ocp", like="gfx1200"),
        _gpu("gfx1200", "rdna4", 32, 103, (32, 400), "f64 bf16 fp8-ocp", generic=_RDNA4),
        _gpu("gfx1201", "rdna4", 64, 217, (64, 860), "f64 bf16 fp8-ocp", generic=_RDNA4),
        # No product is known: the compute units and caches are MI355X's.
        _gpu("gfx1250", "gfx1250", 256, 3413, (256, 7168), "f64 bf16 fp8-ocp", lds_kib=320),
        _gpu(
            "gfx9-4-generic", "cdna3", 256, 2536, (256, 8192), "f64 bf16 packed-f32",
            like="gfx942",
        ),
        _gpu("gfx908", "cdna1", 120, 818, (8, 4096), "f64 bf16"),
        _gpu("gfx90a", "cdna2", 104, 964, (8, 4096), "f64 bf16 packed-f32"),
        _gpu(
            "gfx942", "cdna3", 304, 2536, (256, 8192), "f64 bf16 packed-f32 fp8-fnuz",
            generic="gfx9-4-generic",
        ),
        _gpu(
            "gfx950", "cdna4", 256, 3413, (256, 7168), "f64 bf16 packed-f32 fp8-ocp mx bf16-round",
            lds_kib=160, generic="gfx9-4-generic",
        ),
    )
}  # fmt: skip


# The features of CPUs that generators know, and the LLVM feature that gives each.
_GIVEN_BY = {
    "x86_64": {
        "fma": "fma", "f16-convert": "f16c", "bf16-round": "avx512bf16", "int8-dot": "avx512vnni",
    },
    "aarch64": {"fma": "neon", "f16-convert": "neon", "bf16-round": "bf16"},
}  # fmt: skip
_AVX512 = frozenset(("avx512f", "avx512vl", "avx512bw", "avx512dq"))


@cache
def host_target() -> Target:
    """The host as a target: kind 'cpu', `cpu_features` its level and LLVM's names of its features.

    The name is 'x86-64' or 'aarch64'. `cpu_features` reads 'x86-64-v4+adx+avx2+...', sorted,
    so that equal machines give equal text. Raises TargetError on another architecture.
    """
    flags = machine_flags()
    machine = next((name for name in _GIVEN_BY if name in flags), "")
    if not machine:
        raise TargetError("the cpu target needs x86-64 or aarch64; this machine is neither")
    features = llvm_features(flags)
    known = [name for name, by in _GIVEN_BY[machine].items() if by in features]
    return Target(
        machine.replace("_", "-"),
        "cpu",
        features=frozenset((*CPU_FEATURES.split(), *known)),
        cpu_features="+".join([_processor(machine), *sorted(features)]),
        vector_bytes=_vector_bytes(features),
        generic=tuple(target.identity for target in executable_levels()),
    )


def _processor(machine: str) -> str:
    """LLVM's name of the processor that has the features of this machine's level, and no more."""
    if machine == "aarch64":
        return "generic"
    levels = (level.name for level in executable_levels() if not level.cpu_features)
    return next(levels, "x86-64")


def _vector_bytes(features: frozenset[str]) -> int:
    if features >= _AVX512:
        return 64
    return 32 if features >= {"avx2", "fma", "f16c"} else 16


def executable_levels() -> list[Target]:
    """The levels of CPUs that this machine runs, the best first."""
    return [target for target in reversed(_CPUS) if not _missing(target)]


def check_executable(target: Target) -> None:
    """Raises TargetError where this machine cannot run code of a cpu target."""
    missing = _missing(target)
    if missing:
        there = ", ".join(t.name for t in executable_levels()) or "no level"
        raise TargetError(
            f"this machine cannot run code for {target.name}: its processor lacks "
            f"{', '.join(missing)}; it runs cpu, {there}"
        )


def _missing(target: Target) -> list[str]:
    machine = "aarch64" if target.name.startswith("aarch64") else "x86_64"
    if machine not in machine_flags():
        return [f"the architecture {machine}"]
    return sorted(target.flags - machine_flags())
