// RUN: %python -m mgx_mlir.codegen %s --arch gfx942 | FileCheck %s

// Rows are sorted in LDS as keys.
// CHECK-LABEL: // topk: mgx.topk: {{.*}} elements sorted at a time
// CHECK: gpu.func @{{.*}} workgroup(
// CHECK: arith.cmpi
// CHECK: arith.select
mgx.kernel @topk(%x: tensor<16x1024xf32>) -> (tensor<16x8xf32>, tensor<16x8xi64>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y:2 = mgx.topk %x k = 8 axis = 1 : tensor<16x1024xf32> -> tensor<16x8xf32>, tensor<16x8xi64>
  mgx.return %y#0, %y#1 : tensor<16x8xf32>, tensor<16x8xi64>
}

// Updates of one slot in the order of the model.
// CHECK-LABEL: // scatter: mgx.scatter_none: {{.*}} slots
// CHECK: gpu.func
// CHECK: {{memref[.]atomic_rmw|llvm[.]atomicrmw}}
mgx.kernel @scatter(%x: tensor<64x32xf32>, %i: tensor<16x32xi64>, %u: tensor<16x32xf32>) -> (tensor<64x32xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.scatter_none %x[%i], %u axis = 0 : tensor<64x32xf32>, tensor<16x32xi64>, tensor<16x32xf32> -> tensor<64x32xf32>
  mgx.return %y : tensor<64x32xf32>
}

// Boxes in order of score beside those that are kept.
// CHECK-LABEL: // suppress: mgx.suppress: {{.*}} boxes at a time
// CHECK: gpu.func
// CHECK: {{arith[.]divf|arith[.]mulf}}
// CHECK: arith.cmpf
mgx.kernel @suppress(%b: tensor<2x128x4xf32>, %c: tensor<2x128xi1>) -> (tensor<2x128xi1>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.suppress %b, %c threshold = 0.5 most = 9 : tensor<2x128x4xf32>, tensor<2x128xi1>
  mgx.return %y : tensor<2x128xi1>
}
