// RUN: %mgx-opt %s --split-input-file --mgx-fold-scales | FileCheck %s

// An image that the model normalises: the weights are scaled, what the shift adds is a constant.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<1x2x5x5xf32>
// CHECK:         %[[W:.*]] = mgx.mul %{{.*}}, %{{.*}} : tensor<3x2x3x3xf32>
// CHECK:         %[[C:.*]] = mgx.convolution %[[X]], %[[W]]
// CHECK:         %[[S:.*]] = mgx.reduce_sum %{{.*}} axes = [1, 2, 3]
// CHECK:         mgx.add %[[C]], %{{.*}}
func.func @main(%x: tensor<1x2x5x5xf32>) -> tensor<1x3x3x3xf32> {
  %w = mgx.literal "w" : tensor<3x2x3x3xf32>
  %s = mgx.literal "s" : tensor<2x1x1xf32>
  %a = mgx.literal "a" : tensor<2x1x1xf32>
  %0 = mgx.multibroadcast %a : tensor<2x1x1xf32> -> tensor<1x2x5x5xf32>
  %1 = mgx.add %x, %0 : tensor<1x2x5x5xf32>, tensor<1x2x5x5xf32> -> tensor<1x2x5x5xf32>
  %2 = mgx.multibroadcast %s : tensor<2x1x1xf32> -> tensor<1x2x5x5xf32>
  %3 = mgx.mul %1, %2 : tensor<1x2x5x5xf32>, tensor<1x2x5x5xf32> -> tensor<1x2x5x5xf32>
  %4 = mgx.convolution %3, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x3x3xf32>
  return %4 : tensor<1x3x3x3xf32>
}

// -----

// With padding, what a shift adds differs by place; groups see their own channels.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<1x4x5x5xf32>
// CHECK:         %[[C:.*]] = mgx.convolution %[[X]], %{{.*}} {group = 2 : i64}
// CHECK:         %[[B:.*]] = mgx.convolution %{{.*}} pads = [1, 1, 1, 1] {{.*}} {group = 2 : i64}
// CHECK:         mgx.add %[[C]], %[[B]]
func.func @main(%x: tensor<1x4x5x5xf32>) -> tensor<1x6x5x5xf32> {
  %w = mgx.literal "w" : tensor<6x2x3x3xf32>
  %s = mgx.literal "s" : tensor<4x1x1xf32>
  %a = mgx.constant dense<0.5> : tensor<1x4x5x5xf32>
  %0 = mgx.multibroadcast %s : tensor<4x1x1xf32> -> tensor<1x4x5x5xf32>
  %1 = mgx.mul %x, %0 : tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32> -> tensor<1x4x5x5xf32>
  %2 = mgx.add %1, %a : tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32> -> tensor<1x4x5x5xf32>
  %3 = mgx.convolution %2, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 2 : i64} : tensor<1x4x5x5xf32>, tensor<6x2x3x3xf32> -> tensor<1x6x5x5xf32>
  return %3 : tensor<1x6x5x5xf32>
}

// -----

// Columns of a product's left operand are rows of its right one, for each that reads them.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<2x4xf32>
// CHECK-DAG:     mgx.dot %[[X]], %{{.*}} : tensor<2x4xf32>, tensor<4x3xf32>
// CHECK-DAG:     mgx.dot %[[X]], %{{.*}} : tensor<2x4xf32>, tensor<4x5xf32>
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x5xf32>) {
  %v = mgx.literal "v" : tensor<4x3xf32>
  %w = mgx.literal "w" : tensor<4x5xf32>
  %s = mgx.literal "s" : tensor<4xf32>
  %a = mgx.constant dense<0.5> : tensor<2x4xf32>
  %0 = mgx.multibroadcast %s : tensor<4xf32> -> tensor<2x4xf32>
  %1 = mgx.mul %x, %0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %2 = mgx.add %1, %a : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %3 = mgx.dot %2, %v : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %4 = mgx.dot %2, %w : tensor<2x4xf32>, tensor<4x5xf32> -> tensor<2x5xf32>
  return %3, %4 : tensor<2x3xf32>, tensor<2x5xf32>
}

// -----

// A kernel makes it and can scale it; something else reads it; it differs by row.
// CHECK-LABEL: func.func @main
// CHECK:         %[[E:.*]] = mgx.exp
// CHECK:         %[[M:.*]] = mgx.mul %[[E]]
// CHECK:         mgx.dot %[[M]]
// CHECK:         %[[N:.*]] = mgx.mul %
// CHECK:         mgx.dot %[[N]]
// CHECK:         %[[O:.*]] = mgx.mul %
// CHECK:         mgx.dot %[[O]]
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x3xf32>) {
  %v = mgx.literal "v" : tensor<4x3xf32>
  %s = mgx.constant dense<0.5> : tensor<2x4xf32>
  %r = mgx.literal "r" : tensor<2x1xf32>
  %e = mgx.exp %x : tensor<2x4xf32>
  %0 = mgx.mul %e, %s : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = mgx.dot %0, %v : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %2 = mgx.mul %x, %s : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %3 = mgx.dot %2, %v : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %4 = mgx.multibroadcast %r : tensor<2x1xf32> -> tensor<2x4xf32>
  %5 = mgx.mul %x, %4 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %6 = mgx.dot %5, %v : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  return %1, %3, %2, %6 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x3xf32>
}
// -----

// An image that is converted first is an input still.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2x4xf32>)
// CHECK-NOT:     mgx.mul %{{.*}} : tensor<2x4xf16>
// CHECK:         %[[C:.*]] = mgx.convert %[[X]]
// CHECK:         mgx.dot %[[C]]
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf16> {
  %v = mgx.literal "v" : tensor<4x3xf16>
  %s = mgx.constant dense<0.0625> : tensor<2x4xf16>
  %0 = mgx.convert %x : tensor<2x4xf32> -> tensor<2x4xf16>
  %1 = mgx.mul %0, %s : tensor<2x4xf16>, tensor<2x4xf16> -> tensor<2x4xf16>
  %2 = mgx.dot %1, %v : tensor<2x4xf16>, tensor<4x3xf16> -> tensor<2x3xf16>
  return %2 : tensor<2x3xf16>
}
