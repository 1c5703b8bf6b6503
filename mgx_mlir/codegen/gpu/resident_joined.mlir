// The end of a body whose barriers idle waves join: these look after each barrier whether it was the
// last one, of the number that the body's first wave tells. Numbers are of one kernel's run. Even
// and odd ones have a word each: a word that idle waves may still read is written after a barrier
// that they join later.
  %before_$n = llvm.load %joined : !llvm.ptr<5> -> i32
  %end_$n = llvm.add %before_$n, %c1 : i32
  llvm.store %end_$n, %joined : i32, !llvm.ptr<5>
  llvm.cond_br %is_first, ^tell_$n, ^told_$n
^tell_$n:
  %parity_$n = llvm.and %end_$n, %c1 : i32
  %word_of_$n = llvm.getelementptr %told[%parity_$n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %old_$n = llvm.atomicrmw xchg %word_of_$n, %end_$n syncscope("workgroup") monotonic
      : !llvm.ptr<3>, i32
  llvm.br ^told_$n
^told_$n:
  llvm.fence syncscope("workgroup") release
  $wait
  rocdl.s.barrier
  llvm.fence syncscope("workgroup") acquire
  llvm.br ^called_$n
^join_$n:
  %joins_$n = llvm.load %joined : !llvm.ptr<5> -> i32
  %passes_$n = llvm.add %joins_$n, %c1 : i32
  llvm.store %passes_$n, %joined : i32, !llvm.ptr<5>
  rocdl.s.barrier
  %odd_$n = llvm.and %passes_$n, %c1 : i32
  %told_in_$n = llvm.getelementptr %told[%odd_$n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %seen_$n = llvm.cmpxchg %told_in_$n, %passes_$n, %passes_$n syncscope("workgroup") monotonic monotonic
      : !llvm.ptr<3>, i32
  %number_$n = llvm.extractvalue %seen_$n[0] : !llvm.struct<(i32, i1)>
  %says_$n = rocdl.readfirstlane %number_$n : i32
  %ends_$n = llvm.icmp "eq" %says_$n, %passes_$n : i32
  llvm.cond_br %ends_$n, ^called_$n, ^join_$n
