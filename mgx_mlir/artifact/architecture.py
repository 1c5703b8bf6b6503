"""Architectures of AMD GPUs: the facts that all chips of a generation share, as one table.

Generators and cost models read the facts here and in `target`; none asks for a chip's name or
guesses from the size of a wave. Sources, unless a field names another: AMD's white papers of
CDNA 1 to 4 and RDNA 2 to 4, their ISA documents, and LLVM's AMDGPUUsage. Clocks and rates that
are estimates say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Architecture:
    """The facts of one generation.

    name: 'cdna3'; the matrix instructions of `contraction.specs` are listed by it. matrix: their
    kind, 'mfma' or 'wmma'; '' for none. wave_size: lanes of a wave. max_vgprs: vector registers,
    of 32 bits a lane, that a wave can address.
    """

    name: str
    matrix: str
    wave_size: int
    max_vgprs: int
    # SIMDs of a compute unit.
    simds: int
    # Clocks in which a SIMD issues one vector instruction of a wave.
    issue_clocks: int
    # Vector registers that a SIMD has for a lane of all its waves together, by the estimates.
    lane_vgprs: int
    # Vector registers of a wave that generators count on; their estimates leave some uses out.
    usable_vgprs: int
    # Bytes a clock that a compute unit gets of the L2 cache, which all share: 2 KiB for 38 units
    # (CDNA 3), about 2.3 KiB for 96 (RDNA 3).
    l2_bytes_a_clock: int
    # Estimated clocks of a SIMD for one number of each lane of a softmax: an exponential, and
    # about three operations.
    softmax_clocks: int
    # Whether an instruction exchanges values between rows of 16 lanes (v_permlanex16).
    exchanges_rows: bool
    # Whether an instruction adds the products of two f16 to an f32 (v_dot2_f32_f16).
    dots_halves: bool = True
    # Whether MLIR has instructions for a barrier of LDS alone; else it writes inline assembly.
    lds_barriers: bool = True
    # Whether a wave begins with the first arguments in scalar registers (LLVM's KernargPreload).
    preloads_arguments: bool = False
    # The operand of s_waitcnt that waits for LDS alone; None where s_wait_dscnt does.
    lds_done: int | None = 0xC07F
    # Bits of a buffer's store that make it reach memory which all dies see, past the L2 of its own
    # (AMDGPUUsage, "Memory Model gfx942": sc1); 0 where one L2 serves all compute units.
    past_l2: int = 0
    # LLVM features that all code is compiled with.
    llvm_features: str = ""


def _cdna(generation: int) -> Architecture:
    return Architecture(
        f"cdna{generation}", "mfma", 64, 512,
        simds=4, issue_clocks=4, lane_vgprs=512, usable_vgprs=400,
        l2_bytes_a_clock=54, softmax_clocks=26, exchanges_rows=False, lds_barriers=generation > 1,
        preloads_arguments=generation > 1, past_l2=16 if generation > 2 else 0,
    )  # fmt: skip


def _rdna(generation: int, matrix: str, llvm_features: str = "") -> Architecture:
    lds_done = {2: 0xC07F, 3: 0xFC07}.get(generation)
    return Architecture(
        f"rdna{generation}", matrix, 32, 256,
        simds=2, issue_clocks=1, lane_vgprs=1536, usable_vgprs=236,
        l2_bytes_a_clock=24, softmax_clocks=10, exchanges_rows=True, lds_done=lds_done,
        llvm_features=llvm_features,
    )  # fmt: skip


ARCHITECTURES: Mapping[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        *(_cdna(generation) for generation in (1, 2, 3, 4)),
        _rdna(2, ""),
        # LLVM's use of 16-bit halves of registers as registers of their own costs moves.
        _rdna(3, "wmma", "-real-true16"),
        _rdna(4, "wmma"),
        # As LLVM 22 describes it, in waves of 32. Rates and clocks are estimates, those of RDNA 4.
        replace(
            _rdna(4, "wmma"),
            name="gfx1250",
            max_vgprs=1024,
            dots_halves=False,
            preloads_arguments=True,
        ),
    )
}
