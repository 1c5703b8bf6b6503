"""The order of waves, and of instructions where LLVM's own would cost time or registers."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import amdgpu, arith, llvm, rocdl

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes, memory
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.meaning.element import bit_width

_AGENT = "agent"  # all work-groups of a launch


def fence() -> None:
    """Keeps LLVM's scheduler from moving instructions across this point."""
    rocdl.sched_barrier(0)


def barrier() -> None:
    """Waits for all waves of the work-group; what they wrote to LDS before can be read after it."""
    amdgpu.LDSBarrierOp()


def await_lds(unit: Unit) -> None:
    """Waits once for all reads from LDS so far, on chips whose s_waitcnt counts these."""
    if unit.lds_done is not None:
        rocdl.s_waitcnt(unit.lds_done)


def await_loads(unit: Unit, later: int) -> None:
    """On RDNA 3, waits for all reads from memory but the `later` last ones."""
    if unit.kind == "wmma" and unit.lds_done is not None:
        rocdl.s_waitcnt(min(later, 63) << 10 | 0x3F7)


def release() -> None:
    """Others see what a wave wrote before it, once they have seen what it counts after it."""
    llvm.FenceOp(llvm.AtomicOrdering.release, syncscope=_AGENT)


def acquire() -> None:
    """A wave sees what others released before they counted."""
    llvm.FenceOp(llvm.AtomicOrdering.acquire, syncscope=_AGENT)


def counted_last(counter: ir.Value, count: Index, lane: Index) -> ir.Value:
    """Counts a wave; whether it is the last one of `count`, after which the counter is 0 again.

    counter: a pointer to an i32 that was 0 before.
    """
    i32 = ir.IntegerType.get_signless(32)
    last = arith.index_cast(i32, emit.value(emit.sub(count, 1)))

    def counted() -> list[ir.Value]:
        wraps, order = llvm.AtomicBinOp.uinc_wrap, llvm.AtomicOrdering.monotonic
        return [llvm.AtomicRMWOp(wraps, counter, last, order, syncscope=_AGENT).result]

    is_first = emit.compare("eq", lane, 0)
    (before,) = emit.choose(is_first, counted, lambda: [arith.constant(i32, 0)], [i32])
    return arith.cmpi(arith.CmpIPredicate.eq, lanes.first(before), last)


def last_group(
    counter: tuple[ir.Value, Index], count: int, thread: Index, wave_size: int, flag: ir.Value
) -> ir.Value:
    """Counts a work-group whose results others read; whether it is the last one of `count`.

    counter: a pointer, and which of its counters. flag: LDS whose first element tells other waves;
    they read nothing else there any more.
    """
    i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))
    element = ir.MemRefType(flag.type).element_type
    word = ir.IntegerType.get_signless(bit_width(element))
    release()
    barrier()

    def counted() -> None:
        at = memory.address(counter[0], arith.index_castui(i64, emit.value(counter[1])))
        is_last = counted_last(at, count, emit.rem(thread, wave_size))
        told = arith.extui(word, is_last)
        emit.store(told if word == element else arith.bitcast(element, told), flag, 0)

    wave = lanes.uniform(emit.div(thread, wave_size))
    emit.when(emit.compare("eq", wave, 0), counted)
    barrier()
    told = emit.load(flag, 0)
    told = told if word == element else arith.bitcast(word, told)
    is_last = lanes.first(told if word == i32 else arith.extui(i32, told))
    return arith.cmpi(arith.CmpIPredicate.ne, is_last, arith.constant(i32, 0))
