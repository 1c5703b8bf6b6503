// RUN: %mgx-opt %s --split-input-file --mgx-hoist-slices | FileCheck %s

// One row of a product, through pointwise work.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4x6xf32>
// CHECK:         %[[S:.*]] = mgx.slice %[[X]] axes = [0] starts = [2] ends = [3] : tensor<8x4xf32> -> tensor<1x4xf32>
// CHECK:         %[[D:.*]] = mgx.dot %[[S]], %[[W]]
// CHECK:         %[[R:.*]] = mgx.relu %[[D]] : tensor<1x6xf32>
// CHECK:         return %[[R]]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<1x6xf32> {
  %0 = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %1 = mgx.relu %0 : tensor<8x6xf32>
  %2 = mgx.slice %1 axes = [0] starts = [2] ends = [3] : tensor<8x6xf32> -> tensor<1x6xf32>
  return %2 : tensor<1x6xf32>
}

// -----

// The first of four rows of each of two batches, with a bias, a residual and a mean.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<2x4x3xf32>, %[[W:.*]]: tensor<3x3xf32>
// CHECK:         %[[D:.*]] = mgx.dot %{{.*}}, %[[W]] : tensor<2x3xf32>
// CHECK:         mgx.multibroadcast %{{.*}} : tensor<3xf32> -> tensor<2x1x3xf32>
// CHECK:         %[[M:.*]] = mgx.reduce_mean %{{.*}} axes = [2] : tensor<2x1x3xf32> -> tensor<2x1x1xf32>
// CHECK:         return %[[M]]
func.func @main(%x: tensor<2x4x3xf32>, %w: tensor<3x3xf32>, %b: tensor<3xf32>) -> tensor<2x1x1xf32> {
  %0 = mgx.reshape %x : tensor<2x4x3xf32> -> tensor<8x3xf32>
  %1 = mgx.dot %0, %w : tensor<8x3xf32>, tensor<3x3xf32> -> tensor<8x3xf32>
  %2 = mgx.reshape %1 : tensor<8x3xf32> -> tensor<2x4x3xf32>
  %3 = mgx.multibroadcast %b : tensor<3xf32> -> tensor<2x4x3xf32>
  %4 = mgx.add %2, %3 : tensor<2x4x3xf32>, tensor<2x4x3xf32> -> tensor<2x4x3xf32>
  %5 = mgx.add %4, %x : tensor<2x4x3xf32>, tensor<2x4x3xf32> -> tensor<2x4x3xf32>
  %6 = mgx.reduce_mean %5 axes = [2] : tensor<2x4x3xf32> -> tensor<2x4x1xf32>
  %7 = mgx.slice %6 axes = [1] starts = [0] ends = [1] : tensor<2x4x1xf32> -> tensor<2x1x1xf32>
  return %7 : tensor<2x1x1xf32>
}

// -----

// Output channels of a convolution are rows of its weights; places of its image stay.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = mgx.slice %{{.*}} axes = [0] starts = [1] ends = [3] : tensor<4x2x3x3xf32>
// CHECK:         mgx.convolution %{{.*}}, %[[W]]
// CHECK:         %[[C:.*]] = mgx.convolution {{.*}} -> tensor<1x4x3x3xf32>
// CHECK:         mgx.slice %[[C]] axes = [2]
func.func @main(%x: tensor<1x2x5x5xf32>, %w: tensor<4x2x3x3xf32>, %v: tensor<4x2x3x3xf32>) -> (tensor<1x2x3x3xf32>, tensor<1x4x1x3xf32>) {
  %0 = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x3x3xf32>
  %1 = mgx.slice %0 axes = [1] starts = [1] ends = [3] : tensor<1x4x3x3xf32> -> tensor<1x2x3x3xf32>
  %y = mgx.neg %x : tensor<1x2x5x5xf32>
  %2 = mgx.convolution %y, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x3x3xf32>
  %3 = mgx.slice %2 axes = [2] starts = [0] ends = [1] : tensor<1x4x3x3xf32> -> tensor<1x4x1x3xf32>
  return %1, %3 : tensor<1x2x3x3xf32>, tensor<1x4x1x3xf32>
}

// -----

// Another reader wants all of it; without a contraction nothing is gained; a product stays
// beside the others of its input.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot {{.*}} -> tensor<8x6xf32>
// CHECK:         mgx.slice %[[D]]
// CHECK:         %[[R:.*]] = mgx.relu %{{.*}} : tensor<8x4xf32>
// CHECK:         mgx.slice %[[R]]
// CHECK:         %[[E:.*]] = mgx.dot {{.*}} -> tensor<8x6xf32>
// CHECK:         mgx.slice %[[E]]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<4x6xf32>) -> (tensor<8x6xf32>, tensor<1x6xf32>, tensor<1x4xf32>, tensor<1x6xf32>) {
  %0 = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %1 = mgx.slice %0 axes = [0] starts = [2] ends = [3] : tensor<8x6xf32> -> tensor<1x6xf32>
  %2 = mgx.relu %x : tensor<8x4xf32>
  %3 = mgx.slice %2 axes = [0] starts = [2] ends = [3] : tensor<8x4xf32> -> tensor<1x4xf32>
  %4 = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %5 = mgx.slice %4 axes = [0] starts = [0] ends = [1] : tensor<8x6xf32> -> tensor<1x6xf32>
  return %0, %1, %3, %5 : tensor<8x6xf32>, tensor<1x6xf32>, tensor<1x4xf32>, tensor<1x6xf32>
}
