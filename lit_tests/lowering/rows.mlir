// RUN: %python -m mgx_mlir.codegen.generic.lowering %s | FileCheck %s

// Rows are independent: parallel outside, one loop inside.
// CHECK-LABEL: func.func @prefix_sum(
// CHECK: scf.forall ({{.*}}) in (2, 3) shared_outs
// CHECK: scf.for
// CHECK: tensor.insert
// CHECK: tensor.parallel_insert_slice
mgx.kernel @prefix_sum(%x: tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.prefix_scan_sum %x axis = 1 : tensor<2x5x3xf32>
  mgx.return %y : tensor<2x5x3xf32>
}

// Softmax: a maximum, the powers, their sum, the quotient.
// CHECK-LABEL: func.func @softmax(
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK-NOT: linalg.generic
// CHECK: return
mgx.kernel @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.softmax %x axis = 1 : tensor<4x8xf32>
  mgx.return %y : tensor<4x8xf32>
}

// One load an element: a branch chooses the operand, the same for a whole row.
// CHECK-LABEL: func.func @concat(
// CHECK: linalg.generic
// CHECK: scf.if
// CHECK: tensor.extract
// CHECK: else
// CHECK: tensor.extract
// CHECK-NOT: linalg.generic
// CHECK: return
mgx.kernel @concat(%a: tensor<1x3xf32>, %b: tensor<2x3xf32>) -> tensor<3x3xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.concat %a, %b axis = 0 : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
  mgx.return %y : tensor<3x3xf32>
}
