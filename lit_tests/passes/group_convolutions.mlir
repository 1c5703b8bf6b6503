// RUN: %mgx-opt %s --split-input-file --mgx-group-convolutions | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<1x4x5x5xf32>
// CHECK:         %[[W:.*]] = mgx.concat %{{.*}}, %{{.*}} axis = 0 : {{.*}} -> tensor<6x2x3x3xf32>
// CHECK:         %[[C:.*]] = mgx.convolution %[[X]], %[[W]] {{.*}} {group = 2 : i64} {{.*}} -> tensor<1x6x3x3xf32>
// CHECK:         mgx.add %[[C]]
// CHECK-NOT:     mgx.slice
func.func @main(%x: tensor<1x4x5x5xf32>) -> tensor<1x6x3x3xf32> {
  %v = mgx.literal "v" : tensor<3x2x3x3xf32>
  %w = mgx.literal "w" : tensor<3x2x3x3xf32>
  %c = mgx.literal "c" : tensor<3x1x1xf32>
  %d = mgx.constant dense<2.0> : tensor<1x3x3x3xf32>
  %a = mgx.slice %x axes = [1] starts = [0] ends = [2] : tensor<1x4x5x5xf32> -> tensor<1x2x5x5xf32>
  %b = mgx.slice %x axes = [1] starts = [2] ends = [4] : tensor<1x4x5x5xf32> -> tensor<1x2x5x5xf32>
  %p = mgx.convolution %a, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  %q = mgx.convolution %b, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  %e = mgx.multibroadcast %c : tensor<3x1x1xf32> -> tensor<1x3x3x3xf32>
  %r = mgx.add %p, %e : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x3x3x3xf32>
  %s = mgx.add %q, %d : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x3x3x3xf32>
  %y = mgx.concat %r, %s axis = 1 : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x6x3x3xf32>
  return %y : tensor<1x6x3x3xf32>
}

// -----

// Slices in another order, and other windows.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: mgx.convolution
func.func @main(%x: tensor<1x4x5x5xf32>) -> (tensor<1x6x3x3xf32>, tensor<1x6x3x3xf32>) {
  %v = mgx.literal "v" : tensor<3x2x3x3xf32>
  %w = mgx.literal "w" : tensor<3x2x3x3xf32>
  %u = mgx.literal "u" : tensor<3x2x5x5xf32>
  %a = mgx.slice %x axes = [1] starts = [0] ends = [2] : tensor<1x4x5x5xf32> -> tensor<1x2x5x5xf32>
  %b = mgx.slice %x axes = [1] starts = [2] ends = [4] : tensor<1x4x5x5xf32> -> tensor<1x2x5x5xf32>
  %p = mgx.convolution %b, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  %q = mgx.convolution %a, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  %y = mgx.concat %p, %q axis = 1 : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x6x3x3xf32>
  %r = mgx.convolution %a, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  %s = mgx.convolution %b, %u pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x5x5xf32> -> tensor<1x3x3x3xf32>
  %z = mgx.concat %r, %s axis = 1 : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x6x3x3xf32>
  return %y, %z : tensor<1x6x3x3xf32>, tensor<1x6x3x3xf32>
}
