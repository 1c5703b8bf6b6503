"""The processor that this process runs on, as a target."""

from __future__ import annotations

from functools import cache

from mgx_mlir.codegen.cpu import llvm
from mgx_mlir.errors import TargetError
from mgx_mlir.target import Target


@cache
def host_target() -> Target:
    """The host as a target: kind 'cpu', name 'x86-64', `cpu_features` LLVM's name and features.

    `cpu_features` reads 'znver4+avx2+avx512f+...', sorted, so that equal machines give equal
    text. Raises TargetError on a processor without AVX2 and FMA, or another architecture.
    """
    triple = llvm.host_triple()
    if not triple.startswith("x86_64"):
        raise TargetError(f"the cpu target needs an x86-64 processor; this machine is {triple}")
    features = llvm.host_cpu_features()
    missing = {"avx2", "fma"} - features
    if missing:
        raise TargetError(
            f"the cpu target needs a processor with AVX2 and FMA; {llvm.host_cpu_name()} "
            f"lacks {', '.join(sorted(missing))}"
        )
    names = [llvm.host_cpu_name(), *sorted(features)]
    return Target(
        "x86-64",
        "cpu",
        features=frozenset({"f64", "bf16", "fp8-ocp", "fp8-fnuz"}),
        cpu_features="+".join(names),
        vector_bytes=64 if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features else 32,
    )


def processor(target: Target) -> tuple[str, str]:
    """LLVM's processor name and feature list of a cpu target."""
    name, *features = target.cpu_features.split("+")
    return name, ",".join(f"+{feature}" for feature in features)
