// RUN: %python -m mgx_mlir.codegen %s --arch gfx942 | FileCheck %s

// Squares are transposed in registers; reads and writes are both of neighbours.
// CHECK-LABEL: // moves: a copy: tiles of {{.*}} transposed in a lane's registers
// CHECK: gpu.func
// CHECK: vector.from_elements
// CHECK: vector.store
mgx.kernel @moves(%x: tensor<2x3x64x64xf32>) -> (tensor<2x64x64x3xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.transpose %x permutation = [0, 2, 3, 1] : tensor<2x3x64x64xf32> -> tensor<2x64x64x3xf32>
  mgx.return %y : tensor<2x64x64x3xf32>
}

// Each part is read where it lies.
// CHECK-LABEL: // concat: mgx.concat: {{.*}} elements at a time
// CHECK: gpu.func
// CHECK: scf.if
// CHECK: vector.load
// CHECK: vector.store
mgx.kernel @concat(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>) -> (tensor<64x64xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.concat %a, %b axis = 1 : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x64xf32>
  mgx.return %y : tensor<64x64xf32>
}

// Places come from tables.
// CHECK-LABEL: // resize: mgx.resize: {{.*}} elements at a time
// CHECK: memref.global
// CHECK: gpu.func
// CHECK: memref.get_global
// CHECK: vector.store
mgx.kernel @resize(%x: tensor<1x16x32x32xf32>) -> (tensor<1x16x64x64xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.resize %x scales = [1.0, 1.0, 2.0, 2.0] : tensor<1x16x32x32xf32> -> tensor<1x16x64x64xf32>
  mgx.return %y : tensor<1x16x64x64xf32>
}

// The maximum of a window.
// CHECK-LABEL: // pooling: mgx.pooling: {{.*}} results a thread
// CHECK: gpu.func
// CHECK: vector.load
// CHECK: arith.maximumf
// CHECK: vector.store
mgx.kernel @pooling(%x: tensor<1x64x56x56xf32>) -> (tensor<1x64x28x28xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.pooling max %x lengths = [2, 2] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1]
      : tensor<1x64x56x56xf32> -> tensor<1x64x28x28xf32>
  mgx.return %y : tensor<1x64x28x28xf32>
}

// Sums of squares over neighbouring channels.
// CHECK-LABEL: // lrn: mgx.lrn: {{.*}} pixels at a time
// CHECK: gpu.func
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: math.
// CHECK: vector.store
mgx.kernel @lrn(%x: tensor<1x32x16x16xf32>) -> (tensor<1x32x16x16xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.lrn %x size = 5 : tensor<1x32x16x16xf32>
  mgx.return %y : tensor<1x32x16x16xf32>
}
