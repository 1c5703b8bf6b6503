  // Work-groups of the launch that are smaller than the kernel's: which one's threads these are.
  %threads_$n = llvm.mlir.constant($threads : i32) : i32
  %together_$n = llvm.mlir.constant($together : i32) : i32
  %all_$n = llvm.mlir.constant($all : i32) : i32
  %lds_bytes_$n = llvm.mlir.constant($lds_bytes : i32) : i32
  %wide_$n = llvm.udiv %own_thread, %threads_$n : i32
  %sub_$n = rocdl.readfirstlane %wide_$n : i32
  %thread_$n = llvm.urem %own_thread, %threads_$n : i32
  %first_$n = llvm.mul %t_$n, %together_$n : i32
  %own_$n = llvm.add %first_$n, %sub_$n : i32
  %skip_$n = llvm.mul %sub_$n, %lds_bytes_$n : i32
  %lds_$n = llvm.getelementptr %lds[%skip_$n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %is_one_$n = llvm.icmp "ult" %own_$n, %all_$n : i32
  %has_one_$n = llvm.icmp "ult" %sub_$n, %together_$n : i32
  %is_$n = llvm.and %is_one_$n, %has_one_$n : i1
  llvm.cond_br %is_$n, ^call_$n, ^${idle}_$n
