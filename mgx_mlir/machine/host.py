"""The processor that this process runs on, as a target."""

from __future__ import annotations

from functools import cache

from mgx_mlir.artifact.target import CPU_FEATURES, Target, executable_levels
from mgx_mlir.errors import TargetError
from mgx_mlir.machine import llvm_x86 as llvm

_AVX512 = frozenset(("avx512f", "avx512vl", "avx512bw", "avx512dq"))
# What generators know of, and LLVM's features that give it.
_KNOWN = {
    "x86_64": {"fma": "fma", "f16-convert": "f16c", "bf16-round": "avx512bf16"},
    "aarch64": {"fma": "neon", "f16-convert": "neon", "bf16-round": "bf16"},
}


@cache
def host_target() -> Target:
    """The host as a target: kind 'cpu', `cpu_features` LLVM's name and features.

    The name is 'x86-64' or 'aarch64'. `cpu_features` reads 'znver4+avx2+avx512f+...', sorted,
    so that equal machines give equal text. Raises TargetError on another architecture.
    """
    triple = llvm.host_triple()
    machine = triple.partition("-")[0]
    if machine not in _KNOWN:
        raise TargetError(f"the cpu target needs x86-64 or aarch64; this machine is {triple}")
    features = llvm.host_cpu_features()
    known = [name for name, feature in _KNOWN[machine].items() if feature in features]
    return Target(
        machine.replace("_", "-"),
        "cpu",
        features=frozenset((*CPU_FEATURES.split(), *known)),
        cpu_features="+".join([llvm.host_cpu_name(), *sorted(features)]),
        vector_bytes=_vector_bytes(features),
        generic=tuple(target.identity for target in executable_levels()),
    )


def _vector_bytes(features: frozenset[str]) -> int:
    if features >= _AVX512:
        return 64
    return 32 if features >= {"avx2", "fma", "f16c"} else 16


def processor(target: Target) -> tuple[str, str, str]:
    """LLVM's triple, processor name and feature list of a cpu target."""
    machine = "aarch64" if target.name.startswith("aarch64") else "x86_64"
    name, *features = (target.cpu_features or target.name).split("+")
    return f"{machine}-unknown-linux-gnu", name, ",".join(f"+{feature}" for feature in features)
