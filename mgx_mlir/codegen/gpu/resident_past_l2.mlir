// A release where all stores go past the L2 of a die of several: a wave waits for its accesses.
  llvm.fence syncscope("workgroup") release
  rocdl.s.waitcnt 112
