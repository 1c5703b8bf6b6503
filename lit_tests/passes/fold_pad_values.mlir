// RUN: %mgx-opt %s --split-input-file --mgx-fold-pad-values | FileCheck %s

// A border of the zero point is padding of that number.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x3x8x8xi8>
// CHECK-NOT:     mgx.pad
// CHECK:         mgx.quant_convolution %[[X]], %{{.*}} pads = [1, 2, 1, 3] {{.*}} {pad_value = -7 : i64}
func.func @main(%x: tensor<1x3x8x8xi8>, %w: tensor<2x3x3x3xi8>) -> tensor<1x2x8x11xi32> {
  %p = mgx.pad %x low = [0, 0, 1, 2] high = [0, 0, 1, 3] {value = -7.0 : f64} : tensor<1x3x8x8xi8> -> tensor<1x3x10x13xi8>
  %y = mgx.quant_convolution %p, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x13xi8>, tensor<2x3x3x3xi8> -> tensor<1x2x8x11xi32>
  return %y : tensor<1x2x8x11xi32>
}

// -----

// Channels have no padding, and a convolution has padding of one number.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.pad
func.func @main(%x: tensor<1x3x8x8xi8>, %w: tensor<2x3x3x3xi8>, %v: tensor<2x4x3x3xi8>) -> (tensor<1x2x10x10xi32>, tensor<1x2x6x6xi32>) {
  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] {value = 3.0 : f64} : tensor<1x3x8x8xi8> -> tensor<1x3x10x10xi8>
  %y = mgx.quant_convolution %p, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x3x10x10xi8>, tensor<2x3x3x3xi8> -> tensor<1x2x10x10xi32>
  %q = mgx.pad %x low = [0, 1, 0, 0] high = [0, 0, 0, 0] {value = 3.0 : f64} : tensor<1x3x8x8xi8> -> tensor<1x4x8x8xi8>
  %z = mgx.quant_convolution %q, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x4x8x8xi8>, tensor<2x4x3x3xi8> -> tensor<1x2x6x6xi32>
  return %y, %z : tensor<1x2x10x10xi32>, tensor<1x2x6x6xi32>
}
