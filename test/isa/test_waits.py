"""LLVM drops a wait in a loop, and the check of waits sees it."""

from __future__ import annotations

import pytest

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object
from test.isa.waits import STORE, TO_MEMORY, missing_waits

# A store to LDS at a loop's end, and a barrier for LDS at its top: before the loop no access is
# under way.
LOOP = """
target triple = "amdgcn-amd-amdhsa"
@lds = internal addrspace(3) global [256 x i32] poison, align 16
declare void @llvm.amdgcn.s.waitcnt(i32)
declare void @llvm.amdgcn.s.wait.dscnt(i16)
define amdgpu_kernel void @kernel(ptr addrspace(1) %out, i32 %n) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %other = xor i32 %t, 255
  %mine = getelementptr i32, ptr addrspace(3) @lds, i32 %t
  %theirs = getelementptr i32, ptr addrspace(3) @lds, i32 %other
  br label %top
top:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %x = phi i32 [ %t, %entry ], [ %z, %body ]
  BARRIER
  %done = icmp eq i32 %i, %n
  br i1 %done, label %end, label %body
body:
  %y = load i32, ptr addrspace(3) %theirs
  %z = add i32 %y, %x
  BARRIER
  store i32 %z, ptr addrspace(3) %mine
  %next = add i32 %i, 1
  br label %top
end:
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %x, ptr addrspace(1) %to
  COUNT
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
!0 = !{!"amdgpu-synchronize-as", !"local"}
"""
FENCE = 'fence syncscope("workgroup") {}, !mmra !0\n'
MEET = "call void @llvm.amdgcn.s.barrier()\n"
COUNT = (
    'atomicrmw uinc_wrap ptr addrspace(1) %out, i32 7 syncscope("agent") monotonic, '
    "!amdgpu.no.fine.grained.memory !{}, !amdgpu.no.remote.memory !{}"
)
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")


def found(chip: str, wait: str = "", count: str = "") -> list[str]:
    target = Target.get(chip)
    meet = FENCE.format("release") + wait + MEET + FENCE.format("acquire")
    text = LOOP.replace("BARRIER", meet).replace("COUNT", count)
    return missing_waits(disassemble(link(emit_object(text, target.name))))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_dropped_wait_is_found(chip: str) -> None:
    (line,) = found(chip)
    assert f": {STORE} before s_barrier" in line


@pytest.mark.parametrize("chip", CHIPS)
def test_a_wait_of_its_own_stays(chip: str) -> None:
    done = Target.get(chip).gpu.lds_done
    wait = "wait.dscnt(i16 0)" if done is None else f"waitcnt(i32 {done})"
    assert found(chip, f"call void @llvm.amdgcn.s.{wait}\n") == []


@pytest.mark.parametrize("chip", CHIPS)
def test_a_count_before_the_stores_are_done_is_found(chip: str) -> None:
    release = 'fence syncscope("agent") release\n'
    assert any(f": {TO_MEMORY} before global_atomic_inc" in x for x in found(chip, count=COUNT))
    assert not any(TO_MEMORY in x for x in found(chip, count=release + COUNT))
