// RUN: %mgx-opt %s --split-input-file --mgx-relax-convolutions | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution {{.*}}channels_last, relaxed
func.func @main(%x: tensor<1x8x8x16xf32>, %w: tensor<4x3x3x16xf32>) -> tensor<1x8x8x4xf32> {
  %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {channels_last} : tensor<1x8x8x16xf32>, tensor<4x3x3x16xf32> -> tensor<1x8x8x4xf32>
  return %y : tensor<1x8x8x4xf32>
}

// -----

// Steps, other windows and other types stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     relaxed
func.func @main(%x: tensor<1x8x8x16xf32>, %h: tensor<1x8x8x16xf16>, %w: tensor<4x3x3x16xf32>, %v: tensor<4x1x3x16xf32>, %u: tensor<4x3x3x16xf16>) -> (tensor<1x4x4x4xf32>, tensor<1x8x6x4xf32>, tensor<1x6x6x4xf16>) {
  %a = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] {channels_last} : tensor<1x8x8x16xf32>, tensor<4x3x3x16xf32> -> tensor<1x4x4x4xf32>
  %b = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {channels_last} : tensor<1x8x8x16xf32>, tensor<4x1x3x16xf32> -> tensor<1x8x6x4xf32>
  %c = mgx.convolution %h, %u pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {channels_last} : tensor<1x8x8x16xf16>, tensor<4x3x3x16xf16> -> tensor<1x6x6x4xf16>
  return %a, %b, %c : tensor<1x4x4x4xf32>, tensor<1x8x6x4xf32>, tensor<1x6x6x4xf16>
}
