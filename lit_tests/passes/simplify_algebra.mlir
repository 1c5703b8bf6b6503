// RUN: %mgx-opt %s --split-input-file --mgx-simplify-algebra | FileCheck %s

// Batch normalisation goes into the convolution's weights.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x2x4x4xf32>
// CHECK-DAG:     %[[W:.*]] = mgx.literal "w"
// CHECK-DAG:     %[[S:.*]] = mgx.literal "scale"
// CHECK:         %[[R:.*]] = mgx.reshape %[[S]] : tensor<1x3x1x1xf32> -> tensor<3x1x1x1xf32>
// CHECK:         %[[F:.*]] = mgx.multibroadcast %[[R]]
// CHECK:         %[[V:.*]] = mgx.mul %[[W]], %[[F]]
// CHECK:         %[[C:.*]] = mgx.convolution %[[X]], %[[V]]
// CHECK:         mgx.add %[[C]]
// CHECK-NOT:     mgx.mul
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %w = mgx.literal "w" : tensor<3x2x1x1xf32>
  %s = mgx.literal "scale" : tensor<1x3x1x1xf32>
  %b = mgx.literal "shift" : tensor<1x3x1x1xf32>
  %c = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32> -> tensor<1x3x4x4xf32>
  %sb = mgx.multibroadcast %s : tensor<1x3x1x1xf32> -> tensor<1x3x4x4xf32>
  %bb = mgx.multibroadcast %b : tensor<1x3x1x1xf32> -> tensor<1x3x4x4xf32>
  %m = mgx.mul %c, %sb : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
  %y = mgx.add %m, %bb : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
  return %y : tensor<1x3x4x4xf32>
}

// -----

// A scale that differs from column to column of the picture cannot go into the weights.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution
// CHECK:         mgx.mul
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %w = mgx.literal "w" : tensor<3x2x1x1xf32>
  %s = mgx.literal "scale" : tensor<1x1x1x4xf32>
  %c = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32> -> tensor<1x3x4x4xf32>
  %sb = mgx.multibroadcast %s : tensor<1x1x1x4xf32> -> tensor<1x3x4x4xf32>
  %m = mgx.mul %c, %sb : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
  return %m : tensor<1x3x4x4xf32>
}

// -----

// A product that something else reads keeps its own scale.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot
// CHECK:         mgx.mul %[[D]]
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = mgx.literal "w" : tensor<3x4xf32>
  %c = mgx.constant dense<0.5> : tensor<2x4xf32>
  %d = mgx.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %m = mgx.mul %d, %c : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return %d, %m : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Constants gather, in their least common shape.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>
// CHECK:         %[[S:.*]] = mgx.add %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[S]] : tensor<3xf32> -> tensor<2x3xf32>
// CHECK:         mgx.add %[[X]], %[[B]]
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = mgx.literal "a" : tensor<3xf32>
  %b = mgx.literal "b" : tensor<1xf32>
  %aa = mgx.multibroadcast %a : tensor<3xf32> -> tensor<2x3xf32>
  %bb = mgx.multibroadcast %b : tensor<1xf32> -> tensor<2x3xf32>
  %0 = mgx.add %x, %aa : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = mgx.sub %0, %bb : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Integer division is left alone.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.div
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %a = mgx.constant dense<3> : tensor<2xi32>
  %0 = mgx.div %x, %a : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32>
// CHECK:         %[[S:.*]] = mgx.mul %[[X]], %[[X]]
// CHECK:         %[[C:.*]] = mgx.mul %[[S]], %[[X]]
// CHECK:         return %[[C]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = mgx.constant dense<3.0> : tensor<4xf32>
  %y = mgx.pow %x, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Two scales and two offsets are one of each.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: mgx.mul %arg0
// CHECK:         mgx.add
// CHECK-NOT:     mgx.mul %arg0
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = mgx.literal "a" : tensor<2x4xf32>
  %b = mgx.literal "b" : tensor<2x4xf32>
  %c = mgx.literal "c" : tensor<2x4xf32>
  %m = mgx.mul %x, %a : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %s = mgx.add %m, %b : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %y = mgx.mul %s, %c : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
