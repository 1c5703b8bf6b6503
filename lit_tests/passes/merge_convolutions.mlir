// RUN: %mgx-opt %s --split-input-file --mgx-merge-convolutions | FileCheck %s

// The constants are computed here; elements stand for themselves.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x2x8x8xf32>
// CHECK:         mgx.convolution %[[X]], %{{.*}} pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<1x2x8x8xf32>, tensor<1x2x3x3xf32> -> tensor<1x1x4x4xf32>
// CHECK-NEXT:    mgx.add
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x2x8x8xf32>) -> tensor<1x1x4x4xf32> {
  %v = mgx.constant dense<0.5> : tensor<4x2x3x3xf32>
  %w = mgx.constant dense<2.0> : tensor<1x4x1x1xf32>
  %b = mgx.constant dense<[[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]> : tensor<1x4x1x1xf32>
  %a = mgx.convolution %x, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x8x8xf32>
  %bb = mgx.multibroadcast %b : tensor<1x4x1x1xf32> -> tensor<1x4x8x8xf32>
  %c = mgx.add %a, %bb : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
  %y = mgx.convolution %c, %w pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] : tensor<1x4x8x8xf32>, tensor<1x4x1x1xf32> -> tensor<1x1x4x4xf32>
  return %y : tensor<1x1x4x4xf32>
}

// -----

// Depthwise and 1x1: one convolution would multiply nine times as often.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.convolution
func.func @main(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %v = mgx.constant dense<0.5> : tensor<16x1x3x3xf32>
  %w = mgx.constant dense<2.0> : tensor<16x16x1x1xf32>
  %a = mgx.convolution %x, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 16 : i64} : tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32> -> tensor<1x16x8x8xf32>
  %y = mgx.convolution %a, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32> -> tensor<1x16x8x8xf32>
  return %y : tensor<1x16x8x8xf32>
}

// -----

// 1x1 first: padding sees zeros before and after it, unless there is a bias.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution %{{.*}}, %{{.*}} pads = [1, 1, 1, 1] {{.*}} : tensor<1x2x8x8xf32>, tensor<3x2x3x3xf32>
// CHECK:         mgx.convolution %{{.*}} -> tensor<1x4x8x8xf32>
// CHECK:         mgx.add
// CHECK:         mgx.convolution %{{.*}} -> tensor<1x3x8x8xf32>
func.func @main(%x: tensor<1x2x8x8xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) {
  %v = mgx.constant dense<0.5> : tensor<4x2x1x1xf32>
  %w = mgx.constant dense<2.0> : tensor<3x4x3x3xf32>
  %b = mgx.constant dense<1.0> : tensor<1x4x8x8xf32>
  %a = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x8x8xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x8x8xf32>
  %y = mgx.convolution %a, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x4x8x8xf32>, tensor<3x4x3x3xf32> -> tensor<1x3x8x8xf32>
  %c = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x8x8xf32>, tensor<4x2x1x1xf32> -> tensor<1x4x8x8xf32>
  %d = mgx.add %c, %b : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
  %z = mgx.convolution %d, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x4x8x8xf32>, tensor<3x4x3x3xf32> -> tensor<1x3x8x8xf32>
  return %y, %z : tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>
}

// -----

// Both of two groups.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution %{{.*}} {group = 2 : i64} : tensor<1x4x8x8xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x8x8xf32>
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x4x8x8xf32>) -> tensor<1x2x8x8xf32> {
  %v = mgx.constant dense<0.5> : tensor<8x2x3x3xf32>
  %w = mgx.constant dense<2.0> : tensor<2x4x1x1xf32>
  %a = mgx.convolution %x, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 2 : i64} : tensor<1x4x8x8xf32>, tensor<8x2x3x3xf32> -> tensor<1x8x8x8xf32>
  %y = mgx.convolution %a, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {group = 2 : i64} : tensor<1x8x8x8xf32>, tensor<2x4x1x1xf32> -> tensor<1x2x8x8xf32>
  return %y : tensor<1x2x8x8xf32>
}
