// RUN: %python -m mgx_mlir.codegen.generic.lowering %s | FileCheck %s

// Without padding every read is an operand of the linalg.generic.
// CHECK-LABEL: func.func @unpadded(
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
// CHECK-NOT: tensor.extract
// CHECK: return
mgx.kernel @unpadded(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  mgx.return %y : tensor<1x4x6x6xf32>
}

// With padding the index is clamped and the element selected: no padded copy, no branch.
// CHECK-LABEL: func.func @padded(
// CHECK-NOT: tensor.pad
// CHECK: linalg.generic
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tensor.extract
// CHECK: arith.select
// CHECK: return
mgx.kernel @padded(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x8x8xf32>
  mgx.return %y : tensor<1x4x8x8xf32>
}

// Pooling is one parallel nest with its window as loops in the body.
// CHECK-LABEL: func.func @pooled(
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
// CHECK: return
mgx.kernel @pooled(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.pooling max %x lengths = [2, 2] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
  mgx.return %y : tensor<1x3x4x4xf32>
}
