// RUN: %mgx-opt %s --arch x86-64-v3 --split-input-file --mgx-fuse-pointwise --mgx-outline-kernels | FileCheck %s

// Pointwise work gathers the slices that it alone reads, of slices that lie together.
// CHECK-LABEL: mgx.kernel @k0_transpose
// CHECK:       mgx.kernel @k1_pointwise
// CHECK-NEXT:    gathernd
// CHECK-NEXT:    gathernd
// CHECK-NEXT:    pointwise
// CHECK-NOT:   mgx.kernel
func.func @main(%x: tensor<2x3x8xf32>, %i: tensor<2x5x1xi64>, %j: tensor<2x5x1xi64>) -> tensor<2x5x3xf32> {
  %t = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x3x8xf32> -> tensor<2x8x3xf32>
  %a = mgx.gathernd %t[%i] {batch_dims = 1 : i64} : tensor<2x8x3xf32>, tensor<2x5x1xi64> -> tensor<2x5x3xf32>
  %b = mgx.gathernd %t[%j] {batch_dims = 1 : i64} : tensor<2x8x3xf32>, tensor<2x5x1xi64> -> tensor<2x5x3xf32>
  %y = mgx.mul %a, %b : tensor<2x5x3xf32>, tensor<2x5x3xf32> -> tensor<2x5x3xf32>
  return %y : tensor<2x5x3xf32>
}

// -----

// A product's kernel reads its epilogue's operands from memory.
// CHECK-LABEL: mgx.kernel @k0_gathernd
// CHECK:       mgx.kernel @k1_dot
// CHECK-NEXT:    dot
// CHECK-NEXT:    pointwise
func.func @main(%x: tensor<8x4xf32>, %i: tensor<5x1xi64>, %p: tensor<5x6xf32>, %q: tensor<6x4xf32>) -> tensor<5x4xf32> {
  %g = mgx.gathernd %x[%i] : tensor<8x4xf32>, tensor<5x1xi64> -> tensor<5x4xf32>
  %d = mgx.dot %p, %q : tensor<5x6xf32>, tensor<6x4xf32> -> tensor<5x4xf32>
  %y = mgx.add %d, %g : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  return %y : tensor<5x4xf32>
}

// -----

// Others read the gathered slices too.
// CHECK-LABEL: mgx.kernel @k0_gathernd
// CHECK:       mgx.kernel @k1_pointwise
// CHECK-NEXT:    pointwise
func.func @main(%x: tensor<8x4xf32>, %i: tensor<5x1xi64>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
  %g = mgx.gathernd %x[%i] : tensor<8x4xf32>, tensor<5x1xi64> -> tensor<5x4xf32>
  %y = mgx.relu %g : tensor<5x4xf32>
  return %y, %g : tensor<5x4xf32>, tensor<5x4xf32>
}
