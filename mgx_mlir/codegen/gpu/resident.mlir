// The entry, the barrier and the end of a resident kernel (resident.py), to which its bodies are added.
// Before its release a wave stores to a buffer of no bytes, which memory does not see: LLVM 22
// leaves out the release's wait for stores in a loop that may be entered without any. Where all
// stores go past the L2 of a die of several (sc1), none is written back: a wave waits for them.
gpu.module @kernels attributes {llvm.data_layout = $layout} {
llvm.mlir.global internal @lds() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<$lds x i8>
$told
$declared
llvm.func @$name($arguments) attributes {
  gpu.kernel, rocdl.kernel, passthrough = ["noimplicitfloat"],
  rocdl.flat_work_group_size = "$threads,$threads",
  rocdl.reqd_work_group_size = array<i32: $threads, 1, 1>
} {
  %k = llvm.call_intrinsic "llvm.amdgcn.kernarg.segment.ptr"() : () -> !llvm.ptr<4>
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c0w = llvm.mlir.constant(0 : i64) : i64
  %c1w = llvm.mlir.constant(1 : i64) : i64
  %header = llvm.mlir.constant($header : i64) : i64
  %threads = llvm.mlir.constant($threads : i32) : i32
  %last_thread = llvm.sub %threads, %c1 : i32
  %barrier = llvm.load %k : !llvm.ptr<4> -> !llvm.ptr<1>
  %phases_at = llvm.getelementptr %k[8] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %phases = llvm.load %phases_at : !llvm.ptr<4> -> i64
  %groups_at = llvm.getelementptr %k[16] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %groups = llvm.load %groups_at : !llvm.ptr<4> -> i32
  %last = llvm.sub %groups, %c1 : i32
  %group = rocdl.workgroup.id.x : i32
  %thread = rocdl.workitem.id.x range <i32, 0, $threads> : i32
  %is_first = llvm.icmp "eq" %thread, %c0 : i32
  %lds = llvm.mlir.addressof @lds : !llvm.ptr<3>
  %joined = llvm.alloca %c1 x i32 : (i32) -> !llvm.ptr<5>
  llvm.store %c0, %joined : i32, !llvm.ptr<5>
  %no_stride = llvm.mlir.constant(0 : i16) : i16
  %flags = llvm.mlir.constant($flags : i32) : i32
  %nowhere = rocdl.make.buffer.rsrc %barrier, %no_stride, %c0w, %flags : <1> to <7>
  %own = llvm.getelementptr %barrier[%group] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  %before = llvm.load %own atomic syncscope("agent") monotonic {alignment = 4 : i64}
      : !llvm.ptr<1> -> i32
$clear
  llvm.br ^phase(%c0w, %header, %before, %c0 : i64, i64, i32, i32)
^phase(%i: i64, %at: i64, %passed: i32, %taken: i32):
  %is_end = llvm.icmp "eq" %i, %phases : i64
  llvm.cond_br %is_end, ^end, ^begin
^begin:
  %here = llvm.getelementptr %k[%at] : (!llvm.ptr<4>, i64) -> !llvm.ptr<4>, i8
  %what = llvm.load %here : !llvm.ptr<4> -> i64
$early
  %waits = llvm.trunc %what : i64 to i1
  llvm.cond_br %waits, ^wait, ^run(%passed, %taken : i32, i32)
^wait:
  %goal = llvm.add %passed, %c1 : i32
$release
  rocdl.s.barrier
  llvm.cond_br %is_first, ^count, ^look(%thread : i32)
^count:
  %old = llvm.atomicrmw add %own, %c1 syncscope("agent") monotonic
      {rocdl.no_fine_grained_memory, rocdl.no_remote_memory} : !llvm.ptr<1>, i32
  llvm.br ^look(%thread : i32)
^look(%other: i32):
  %second = llvm.add %other, %threads : i32
  %one = llvm.intr.umin(%other, %last) : (i32, i32) -> i32
  %two = llvm.intr.umin(%second, %last) : (i32, i32) -> i32
  %one_at = llvm.getelementptr %barrier[%one] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  %two_at = llvm.getelementptr %barrier[%two] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  %one_has = llvm.load %one_at atomic syncscope("agent") monotonic {alignment = 4 : i64}
      : !llvm.ptr<1> -> i32
  %two_has = llvm.load %two_at atomic syncscope("agent") monotonic {alignment = 4 : i64}
      : !llvm.ptr<1> -> i32
  %one_left = llvm.sub %one_has, %goal : i32
  %two_left = llvm.sub %two_has, %goal : i32
  %behind = llvm.intr.smin(%one_left, %two_left) : (i32, i32) -> i32
  %is_here = llvm.icmp "sge" %behind, %c0 : i32
  llvm.cond_br %is_here, ^more, ^again
^again:
  llvm.call_intrinsic "llvm.amdgcn.s.sleep"(%c1) : (i32) -> ()
  llvm.br ^look(%other : i32)
^more:
  %third = llvm.add %second, %threads : i32
  %are_more = llvm.icmp "ult" %third, %groups : i32
  llvm.cond_br %are_more, ^look(%third : i32), ^counted
^counted:
  rocdl.s.barrier
  llvm.fence syncscope("agent") acquire
  llvm.br ^run(%goal, %c0 : i32, i32)
^run(%now: i32, %skipped: i32):
  %shifted = llvm.lshr %what, %c1w : i64
  %body = llvm.trunc %shifted : i64 to i32
  %is_before = llvm.icmp "ult" %group, %skipped : i32
  %lead = llvm.select %is_before, %groups, %c0 : i1, i32
  %moved = llvm.sub %group, %skipped : i32
  %begin = llvm.add %moved, %lead : i32
  // Unknown to the compiler, which else computes what each body makes of it before the first phase,
  // and keeps it in registers.
  %unknown = llvm.inline_asm has_side_effects "", "=v,0" %thread : (i32) -> i32
  %own_thread = llvm.intr.umin(%unknown, %last_thread) : (i32, i32) -> i32
  llvm.switch %body : i32, ^end [$cases]
^next(%size: i64, %tiles: i32):
  %next_at = llvm.add %at, %size : i64
  %next_i = llvm.add %i, %c1w : i64
  %all_taken = llvm.add %skipped, %tiles : i32
  %are_left = llvm.icmp "ult" %all_taken, %groups : i32
  %next_taken = llvm.select %are_left, %all_taken, %c0 : i1, i32
  llvm.br ^phase(%next_i, %next_at, %now, %next_taken : i64, i64, i32, i32)
^end:
  llvm.return
$bodies
}
}
