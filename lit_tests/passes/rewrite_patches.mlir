// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-patches | FileCheck %s

// Patches are rows of a matrix, filters columns.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2x3x32x48xf16>, %[[W:.*]]: tensor<20x3x16x16xf16>)
// CHECK:         %[[P:.*]] = mgx.reshape %[[X]] : tensor<2x3x32x48xf16> -> tensor<2x3x2x16x3x16xf16>
// CHECK:         %[[T:.*]] = mgx.transpose %[[P]] permutation = [0, 2, 4, 1, 3, 5]
// CHECK:         %[[A:.*]] = mgx.reshape %[[T]] : {{.*}} -> tensor<12x768xf16>
// CHECK:         %[[V:.*]] = mgx.reshape %[[W]] : {{.*}} -> tensor<20x768xf16>
// CHECK:         %[[B:.*]] = mgx.transpose %[[V]] permutation = [1, 0]
// CHECK:         %[[D:.*]] = mgx.dot %[[A]], %[[B]]
// CHECK:         %[[R:.*]] = mgx.reshape %[[D]] : {{.*}} -> tensor<2x2x3x20xf16>
// CHECK:         mgx.transpose %[[R]] permutation = [0, 3, 1, 2]
func.func @main(%x: tensor<2x3x32x48xf16>, %w: tensor<20x3x16x16xf16>) -> tensor<2x20x2x3xf16> {
  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [16, 16] dilations = [1, 1] : tensor<2x3x32x48xf16>, tensor<20x3x16x16xf16> -> tensor<2x20x2x3xf16>
  return %y : tensor<2x20x2x3xf16>
}

// -----

// Not windows that overlap, small ones, many channels, or pixels that no patch has.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.dot
func.func @main(%x: tensor<1x3x32x32xf16>, %z: tensor<1x8x32x32xf16>, %o: tensor<1x3x33x32xf16>, %w: tensor<4x3x16x16xf16>, %s: tensor<4x3x4x4xf16>, %v: tensor<4x8x16x16xf16>) -> (tensor<1x4x3x3xf16>, tensor<1x4x8x8xf16>, tensor<1x4x2x2xf16>, tensor<1x4x2x2xf16>) {
  %a = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [8, 8] dilations = [1, 1] : tensor<1x3x32x32xf16>, tensor<4x3x16x16xf16> -> tensor<1x4x3x3xf16>
  %b = mgx.convolution %x, %s pads = [0, 0, 0, 0] strides = [4, 4] dilations = [1, 1] : tensor<1x3x32x32xf16>, tensor<4x3x4x4xf16> -> tensor<1x4x8x8xf16>
  %c = mgx.convolution %z, %v pads = [0, 0, 0, 0] strides = [16, 16] dilations = [1, 1] : tensor<1x8x32x32xf16>, tensor<4x8x16x16xf16> -> tensor<1x4x2x2xf16>
  %d = mgx.convolution %o, %w pads = [0, 0, 0, 0] strides = [16, 16] dilations = [1, 1] : tensor<1x3x33x32xf16>, tensor<4x3x16x16xf16> -> tensor<1x4x2x2xf16>
  return %a, %b, %c, %d : tensor<1x4x3x3xf16>, tensor<1x4x8x8xf16>, tensor<1x4x2x2xf16>, tensor<1x4x2x2xf16>
}
