// Between two tiles of a body: the next one writes to LDS where the last one still reads.
  llvm.fence syncscope("workgroup") release
  $wait
  rocdl.s.barrier
  llvm.fence syncscope("workgroup") acquire
