"""The processor that this process runs on: Linux's flags of it, and the features they mean to LLVM.

LLVM itself is not asked, so that a program that is finalized already loads none of it. A machine
is known by its features alone: the model number of a virtual one may be that of another processor.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

# Linux's flags of the features that generated code can use, and LLVM's names where they differ.
# Facts: Linux's arch/x86/include/asm/cpufeatures.h and arch/arm64/kernel/cpuinfo.c; LLVM's X86.td
# and AArch64Features.td.
_SAME = (
    "adx aes avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 cmov "
    "cx16 f16c fma gfni movbe popcnt sse4a ssse3 vaes vpclmulqdq xop"
)
_X86 = {name: name for name in _SAME.split()} | {
    "abm": "lzcnt",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
    "avx512_bf16": "avx512bf16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx_vnni": "avxvnni",
    "bmi1": "bmi",
    "lahf_lm": "sahf",
    "pclmulqdq": "pclmul",
    "pni": "sse3",
    "sha_ni": "sha",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
}
_AARCH64 = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "asimdhp": "fullfp16",
    "asimdrdm": "rdm",
    "atomics": "lse",
    "bf16": "bf16",
    "crc32": "crc",
    "fcma": "complxnum",
    "fp": "fp-armv8",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}


@cache
def machine_flags() -> frozenset[str]:
    """The architecture and features of this machine's processor, as Linux names them."""
    found = {platform.machine()}
    for line in _CPUINFO.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(found | set(value.split()))
    return frozenset(found)


def llvm_features(flags: frozenset[str]) -> frozenset[str]:
    """LLVM's names of the features among Linux's flags that generated code can use."""
    names = _AARCH64 if "aarch64" in flags else _X86
    return frozenset(names[flag] for flag in flags & names.keys())
