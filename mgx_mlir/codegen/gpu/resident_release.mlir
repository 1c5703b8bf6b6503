// A release: see resident.mlir for the store.
  llvm.store %c0, %nowhere {alignment = 4 : i64} : i32, !llvm.ptr<7>
  llvm.fence syncscope("agent") release
