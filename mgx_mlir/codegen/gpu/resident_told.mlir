// The beginning of a kernel whose idle waves join barriers: no barrier is a body's last one yet.
  %told = llvm.mlir.addressof @told : !llvm.ptr<3>
  llvm.cond_br %is_first, ^clear, ^cleared
^clear:
  %even = llvm.getelementptr %told[0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  %odd = llvm.getelementptr %told[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i32
  llvm.store %c0, %even : i32, !llvm.ptr<3>
  llvm.store %c0, %odd : i32, !llvm.ptr<3>
  llvm.br ^cleared
^cleared:
  llvm.fence syncscope("workgroup") release
  $wait
  rocdl.s.barrier
