// RUN: %mgx-opt %s --split-input-file --mgx-eliminate-pads | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x3x8x8xf32>
// CHECK-NOT:     mgx.pad
// CHECK:         mgx.convolution %[[X]], %{{.*}} pads = [1, 2, 1, 3]
func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x8x10xf32> {
  %p = mgx.pad %x low = [0, 0, 0, 1] high = [0, 0, 1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x9x10xf32>
  %q = mgx.pad %p low = [0, 0, 1, 0] high = [0, 0, 0, 0] : tensor<1x3x9x10xf32> -> tensor<1x3x10x10xf32>
  %y = mgx.convolution %q, %w pads = [0, 1, 0, 2] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32>, tensor<2x3x3x3xf32> -> tensor<1x2x8x11xf32>
  %s = mgx.slice %y axes = [3] starts = [0] ends = [10] : tensor<1x2x8x11xf32> -> tensor<1x2x8x10xf32>
  return %s : tensor<1x2x8x10xf32>
}

// -----

// Ones are no padding of a convolution, and channels have none.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.pad
func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<2x3x3x3xf32>, %v: tensor<2x4x3x3xf32>) -> (tensor<1x2x8x8xf32>, tensor<1x2x6x6xf32>) {
  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] {value = 1.0 : f64} : tensor<1x3x8x8xf32> -> tensor<1x3x10x10xf32>
  %y = mgx.convolution %p, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32>, tensor<2x3x3x3xf32> -> tensor<1x2x8x8xf32>
  %q = mgx.pad %x low = [0, 1, 0, 0] high = [0, 0, 0, 0] : tensor<1x3x8x8xf32> -> tensor<1x4x8x8xf32>
  %z = mgx.convolution %q, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x4x8x8xf32>, tensor<2x4x3x3xf32> -> tensor<1x2x6x6xf32>
  return %y, %z : tensor<1x2x8x8xf32>, tensor<1x2x6x6xf32>
}

// -----

// Zeros around what is not negative do not change a maximum; an average counts them.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.pad
// CHECK:         mgx.pooling max %{{.*}} lengths = [3, 3] pads = [1, 1, 1, 1]
// CHECK:         mgx.pooling average %{{.*}} lengths = [3, 3] pads = [1, 1, 1, 1] {{.*}}count_include_pad = true
func.func @main(%x: tensor<1x3x8x8xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) {
  %r = mgx.relu %x : tensor<1x3x8x8xf32>
  %p = mgx.pad %r low = [0, 0, 1, 1] high = [0, 0, 1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x10x10xf32>
  %y = mgx.pooling max %p lengths = [3, 3] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32> -> tensor<1x3x8x8xf32>
  %z = mgx.pooling average %p lengths = [3, 3] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32> -> tensor<1x3x8x8xf32>
  return %y, %z : tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>
}

// -----

// A maximum of numbers that may be negative keeps its zeros.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pad
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x10x10xf32>
  %y = mgx.pooling max %p lengths = [3, 3] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32> -> tensor<1x3x8x8xf32>
  return %y : tensor<1x3x8x8xf32>
}

// -----

// An average that leaves out its own padding counts the padding before it.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pad
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x10x10xf32> {
  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x10x10xf32>
  %y = mgx.pooling average %p lengths = [3, 3] pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xf32> -> tensor<1x3x10x10xf32>
  return %y : tensor<1x3x10x10xf32>
}
