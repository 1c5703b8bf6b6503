// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-deconvolution | FileCheck %s

// A step of 1: one convolution with the filter turned around, its channels exchanged.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<1x8x5xf32>, %[[W:.*]]: tensor<8x4x3xf32>
// CHECK:         %[[G:.*]] = mgx.reshape %[[W]] : tensor<8x4x3xf32> -> tensor<1x8x4x3x1xf32>
// CHECK:         %[[T:.*]] = mgx.transpose %[[G]] permutation = [0, 2, 4, 1, 3]
// CHECK:         %[[V:.*]] = mgx.reshape %[[T]] : tensor<1x4x1x8x3xf32> -> tensor<4x8x3xf32>
// CHECK:         %[[R:.*]] = mgx.reverse %[[V]] axes = [2] : tensor<4x8x3xf32>
// CHECK:         mgx.convolution %[[X]], %[[R]] pads = [3, 5] strides = [1] dilations = [2]
// CHECK-NOT:     mgx.convolution_backwards
func.func @main(%x: tensor<1x8x5xf32>, %w: tensor<8x4x3xf32>) -> tensor<1x4x9xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [1, 0] strides = [1] dilations = [2] {output_pads = array<i64: 1>} : tensor<1x8x5xf32>, tensor<8x4x3xf32> -> tensor<1x4x9xf32>
  return %y : tensor<1x4x9xf32>
}

// -----

// As many taps as steps: each phase has one, and nothing is cut off.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.convolution %{{.*}}, %{{.*}} pads = [0, 0, 0, 0] {{.*}} tensor<16x8x1x1xf32> -> tensor<1x16x5x6xf32>
// CHECK:         %[[P:.*]] = mgx.reshape %[[C]] : tensor<1x16x5x6xf32> -> tensor<1x4x2x2x5x6xf32>
// CHECK:         %[[T:.*]] = mgx.transpose %[[P]] permutation = [0, 1, 4, 2, 5, 3]
// CHECK:         %[[Y:.*]] = mgx.reshape %[[T]] : tensor<1x4x5x2x6x2xf32> -> tensor<1x4x10x12xf32>
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<1x8x5x6xf32>, %w: tensor<8x4x2x2xf32>) -> tensor<1x4x10x12xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] {output_pads = array<i64: 0, 0>} : tensor<1x8x5x6xf32>, tensor<8x4x2x2xf32> -> tensor<1x4x10x12xf32>
  return %y : tensor<1x4x10x12xf32>
}

// -----

// Three taps, steps of two: a zero before the filter costs no tap, and the result starts with
// the first step.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pad %{{.*}} low = [0, 0, 1] high = [0, 0, 0]
// CHECK:         mgx.convolution %{{.*}}, %{{.*}} pads = [0, 1] {{.*}} tensor<8x8x2xf32> -> tensor<1x8x5xf32>
// CHECK-NOT:     mgx.slice
func.func @main(%x: tensor<1x8x5xf32>, %w: tensor<8x4x3xf32>) -> tensor<1x4x10xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [1, 1] strides = [2] dilations = [1] {output_pads = array<i64: 1>} : tensor<1x8x5xf32>, tensor<8x4x3xf32> -> tensor<1x4x10xf32>
  return %y : tensor<1x4x10xf32>
}

// -----

// Four taps, steps of two: it would cost one, and the result is a slice.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution %{{.*}}, %{{.*}} pads = [1, 1] {{.*}} tensor<8x8x2xf32> -> tensor<1x8x6xf32>
// CHECK:         mgx.slice %{{.*}} axes = [2] starts = [1] ends = [11] : tensor<1x4x12xf32> -> tensor<1x4x10xf32>
func.func @main(%x: tensor<1x8x5xf32>, %w: tensor<8x4x4xf32>) -> tensor<1x4x10xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [1, 1] strides = [2] dilations = [1] {output_pads = array<i64: 0>} : tensor<1x8x5xf32>, tensor<8x4x4xf32> -> tensor<1x4x10xf32>
  return %y : tensor<1x4x10xf32>
}

// -----

// Groups keep their channels together.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution {{.*}} {group = 4 : i64} : tensor<1x4x5xf32>, tensor<8x1x2xf32> -> tensor<1x8x6xf32>
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x1x4xf32>) -> tensor<1x4x12xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [0, 0] strides = [2] dilations = [1] {group = 4 : i64, output_pads = array<i64: 0>} : tensor<1x4x5xf32>, tensor<4x1x4xf32> -> tensor<1x4x12xf32>
  return %y : tensor<1x4x12xf32>
}

// -----

// More padding than the filter reaches cuts the input.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.slice %{{.*}} axes = [2] starts = [1] ends = [4] : tensor<1x2x5xf32> -> tensor<1x2x3xf32>
// CHECK:         mgx.convolution {{.*}} pads = [0, 0]
func.func @main(%x: tensor<1x2x5xf32>, %w: tensor<2x2x2xf32>) -> tensor<1x2x2xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [2, 2] strides = [1] dilations = [1] {output_pads = array<i64: 0>} : tensor<1x2x5xf32>, tensor<2x2x2xf32> -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

// Sizes that are not known.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution_backwards
func.func @main(%x: tensor<?x2x5xf32>, %w: tensor<2x2x2xf32>) -> tensor<?x2x6xf32> {
  %y = mgx.convolution_backwards %x, %w pads = [0, 0] strides = [1] dilations = [1] {output_pads = array<i64: 0>} : tensor<?x2x5xf32>, tensor<2x2x2xf32> -> tensor<?x2x6xf32>
  return %y : tensor<?x2x6xf32>
}

// -----

// Sizes that have names: three taps, steps of two. The convolution has a place more than the image,
// and the last element of its phases is cut.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution %{{.*}}, %{{.*}} pads = [1, 1] {{.*}} -> tensor<?x8x?xf32, #mgx.dims<[n : 1 ... ?, _, "w+1" : 2 ... ?]>>
// CHECK:         mgx.slice %{{.*}} axes = [2] starts = [0] {{.*}} -> tensor<?x4x?xf32, #mgx.dims<[n : 1 ... ?, _, "2*w+1" : 3 ... ?]>>
// CHECK-NOT:     mgx.convolution_backwards
func.func @main(%x: tensor<?x2x?xf32, #mgx.dims<[n : 1 ... ?, _, w : 1 ... ?]>>, %w: tensor<2x4x3xf32>) -> tensor<?x4x?xf32, #mgx.dims<[n : 1 ... ?, _, "2*w+1" : 3 ... ?]>> {
  %y = mgx.convolution_backwards %x, %w pads = [0, 0] strides = [2] dilations = [1] {output_pads = array<i64: 0>} : tensor<?x2x?xf32, #mgx.dims<[n : 1 ... ?, _, w : 1 ... ?]>>, tensor<2x4x3xf32> -> tensor<?x4x?xf32, #mgx.dims<[n : 1 ... ?, _, "2*w+1" : 3 ... ?]>>
  return %y : tensor<?x4x?xf32, #mgx.dims<[n : 1 ... ?, _, "2*w+1" : 3 ... ?]>>
}

// -----

// Padding cuts an image of any width: whether an element is left is not known.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution_backwards
func.func @main(%x: tensor<1x2x?xf32, #mgx.dims<[_, _, w : 1 ... ?]>>, %w: tensor<2x2x2xf32>) -> tensor<1x2x?xf32, #mgx.dims<[_, _, "w-3" : 0 ... ?]>> {
  %y = mgx.convolution_backwards %x, %w pads = [2, 2] strides = [1] dilations = [1] {output_pads = array<i64: 0>} : tensor<1x2x?xf32, #mgx.dims<[_, _, w : 1 ... ?]>>, tensor<2x2x2xf32> -> tensor<1x2x?xf32, #mgx.dims<[_, _, "w-3" : 0 ... ?]>>
  return %y : tensor<1x2x?xf32, #mgx.dims<[_, _, "w-3" : 0 ... ?]>>
}
