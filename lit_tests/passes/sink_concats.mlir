// RUN: %mgx-opt %s --split-input-file --mgx-sink-concats | FileCheck %s

// Each concat's readers get their own work on the parts; constants are cut.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x2x4xf32>, %[[Y:.*]]: tensor<1x3x4xf32>, %[[Z:.*]]: tensor<1x3x4xf32>
// CHECK-DAG:     %[[A:.*]] = mgx.neg %[[X]]
// CHECK-DAG:     %[[B:.*]] = mgx.abs %[[Y]]
// CHECK-DAG:     %[[C:.*]] = mgx.exp %[[Z]]
// CHECK-DAG:     %[[P:.*]] = mgx.relu %[[A]]
// CHECK-DAG:     %[[Q:.*]] = mgx.relu %[[B]]
// CHECK:         mgx.concat %[[P]], %[[Q]] axis = 1
// CHECK:         mgx.slice %{{.*}} axes = [1] starts = [2] ends = [5] : tensor<1x8x1xf32> -> tensor<1x3x1xf32>
// CHECK:         mgx.concat %{{.*}}, %{{.*}}, %{{.*}} axis = 1
func.func @main(%x: tensor<1x2x4xf32>, %y: tensor<1x3x4xf32>, %z: tensor<1x3x4xf32>) -> (tensor<1x5x1xf32>, tensor<1x8x4xf32>) {
  %s = mgx.literal "s" : tensor<8x1xf32>
  %a = mgx.neg %x : tensor<1x2x4xf32>
  %b = mgx.abs %y : tensor<1x3x4xf32>
  %c = mgx.exp %z : tensor<1x3x4xf32>
  %ab = mgx.concat %a, %b axis = 1 : tensor<1x2x4xf32>, tensor<1x3x4xf32> -> tensor<1x5x4xf32>
  %r = mgx.relu %ab : tensor<1x5x4xf32>
  %m = mgx.reduce_sum %r axes = [2] : tensor<1x5x4xf32> -> tensor<1x5x1xf32>
  %abc = mgx.concat %ab, %c axis = 1 : tensor<1x5x4xf32>, tensor<1x3x4xf32> -> tensor<1x8x4xf32>
  %t = mgx.multibroadcast %s : tensor<8x1xf32> -> tensor<1x8x4xf32>
  %y2 = mgx.mul %abc, %t : tensor<1x8x4xf32>, tensor<1x8x4xf32> -> tensor<1x8x4xf32>
  return %m, %y2 : tensor<1x5x1xf32>, tensor<1x8x4xf32>
}

// -----

// The concat is returned as well: it stays.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.concat
// CHECK:         mgx.relu %[[C]]
func.func @main(%x: tensor<1x2x4xf32>) -> (tensor<1x4x4xf32>, tensor<1x4x4xf32>) {
  %a = mgx.neg %x : tensor<1x2x4xf32>
  %b = mgx.abs %x : tensor<1x2x4xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x2x4xf32>, tensor<1x2x4xf32> -> tensor<1x4x4xf32>
  %r = mgx.relu %c : tensor<1x4x4xf32>
  return %c, %r : tensor<1x4x4xf32>, tensor<1x4x4xf32>
}

// -----

// Neither part is made by a kernel that could do the work.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.concat
// CHECK:         mgx.relu %[[C]]
func.func @main(%x: tensor<1x2x4xf32>, %y: tensor<1x2x4xf32>) -> tensor<1x4x4xf32> {
  %c = mgx.concat %x, %y axis = 1 : tensor<1x2x4xf32>, tensor<1x2x4xf32> -> tensor<1x4x4xf32>
  %r = mgx.relu %c : tensor<1x4x4xf32>
  return %r : tensor<1x4x4xf32>
}

// -----

// A convolution's kernel does the work on the whole, as it reads it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.concat
// CHECK:         %[[R:.*]] = mgx.relu %[[C]]
// CHECK:         mgx.convolution %[[R]]
func.func @main(%x: tensor<1x8x4x4xf32>, %w: tensor<4x16x1x1xf32>) -> tensor<1x4x4x4xf32> {
  %a = mgx.neg %x : tensor<1x8x4x4xf32>
  %b = mgx.abs %x : tensor<1x8x4x4xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32> -> tensor<1x16x4x4xf32>
  %r = mgx.relu %c : tensor<1x16x4x4xf32>
  %y = mgx.convolution %r, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x16x4x4xf32>, tensor<4x16x1x1xf32> -> tensor<1x4x4x4xf32>
  return %y : tensor<1x4x4x4xf32>
}
