"""The processor that this process runs on, as LLVM names it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mgx_mlir.machine import llvm_cpu as llvm


@dataclass(frozen=True)
class Processor:
    """A processor: the first word of its triple ('x86_64'), LLVM's name, its LLVM features."""

    machine: str
    name: str
    features: frozenset[str]


@cache
def host_processor() -> Processor:
    """The processor of this machine. Loads LLVM."""
    machine = llvm.host_triple().partition("-")[0]
    return Processor(machine, llvm.host_cpu_name(), llvm.host_cpu_features())
