// The blocks of a body of a resident kernel (resident.py): its arguments, and its tiles.
^body_$n:
$arguments
  %tiles_$n = llvm.mlir.constant($tiles : i32) : i32
  %last_$n = llvm.mlir.constant($last : i32) : i32
  %x_$n = llvm.mlir.constant($x : i32) : i32
  %y_$n = llvm.mlir.constant($y : i32) : i32
  %size_$n = llvm.mlir.constant($size : i64) : i64
  llvm.br ^tile_$n(%begin : i32)
^tile_$n(%t_$n: i32):
  %goes_$n = llvm.icmp "ult" %t_$n, %tiles_$n : i32
  llvm.cond_br %goes_$n, ^do_$n, ^done_$n
^do_$n:
$share
^call_$n:
  %b_$n = llvm.intr.umin($own, %last_$n) : (i32, i32) -> i32
  %x_${n}_id = llvm.urem %b_$n, %x_$n : i32
  %row_$n = llvm.udiv %b_$n, %x_$n : i32
  %y_${n}_id = llvm.urem %row_$n, %y_$n : i32
  %z_${n}_id = llvm.udiv %row_$n, %y_$n : i32
  llvm.call @body_$n(${names}%x_${n}_id, %y_${n}_id, %z_${n}_id, $thread, $lds, %joined) : ($types) -> ()
$called
  %next_$n = llvm.add %t_$n, %groups : i32
  llvm.br ^tile_$n(%next_$n : i32)
^done_$n:
  llvm.br ^next(%size_$n, %tiles_$n : i64, i32)
