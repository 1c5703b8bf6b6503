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

// One number for all elements does.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[W:.*]] = mgx.literal "w"
// CHECK-DAG:     %[[F:.*]] = mgx.constant dense<5.000000e-01> : tensor<3x2x1x1xf32>
// CHECK:         %[[V:.*]] = mgx.mul %[[W]], %[[F]]
// CHECK:         %[[C:.*]] = mgx.convolution %{{.*}}, %[[V]]
// CHECK:         return %[[C]]
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %w = mgx.literal "w" : tensor<3x2x1x1xf32>
  %s = mgx.constant dense<5.000000e-01> : tensor<1x3x4x4xf32>
  %c = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32> -> tensor<1x3x4x4xf32>
  %m = mgx.mul %c, %s : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
  return %m : tensor<1x3x4x4xf32>
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

// -----

// The constants of a sum of sums are one.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<2x4xf32>, %[[Y:.*]]: tensor<2x4xf32>
// CHECK-DAG:     %[[S:.*]] = mgx.add %[[X]], %[[Y]]
// CHECK-DAG:     %[[C:.*]] = mgx.multibroadcast %{{.*}} : tensor<4xf32> -> tensor<2x4xf32>
// CHECK:         %[[R:.*]] = mgx.add %[[S]], %[[C]]
// CHECK:         return %[[R]]
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = mgx.literal "a" : tensor<4xf32>
  %b = mgx.literal "b" : tensor<4xf32>
  %c = mgx.multibroadcast %a : tensor<4xf32> -> tensor<2x4xf32>
  %d = mgx.multibroadcast %b : tensor<4xf32> -> tensor<2x4xf32>
  %0 = mgx.add %x, %c : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = mgx.add %y, %d : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %2 = mgx.add %0, %1 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// A scale of rows goes into a constant left operand.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<3x4xf32>
// CHECK:         %[[F:.*]] = mgx.multibroadcast %{{.*}} : tensor<2x1xf32> -> tensor<2x3xf32>
// CHECK:         %[[W:.*]] = mgx.mul %{{.*}}, %[[F]]
// CHECK:         mgx.dot %[[W]], %[[X]]
func.func @main(%x: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %w = mgx.literal "w" : tensor<2x3xf32>
  %s = mgx.literal "s" : tensor<2x1xf32>
  %d = mgx.dot %w, %x : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %b = mgx.multibroadcast %s : tensor<2x1xf32> -> tensor<2x4xf32>
  %y = mgx.mul %d, %b : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Zero times an integer is zero, times a float it may be no number; -1 turns the sign.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<4xi32>, %[[Y:.*]]: tensor<4xf32>
// CHECK-DAG:     %[[Z:.*]] = mgx.constant dense<0> : tensor<4xi32>
// CHECK-DAG:     %[[M:.*]] = mgx.mul %[[Y]]
// CHECK-DAG:     %[[N:.*]] = mgx.neg %[[Y]]
// CHECK:         return %[[Z]], %[[M]], %[[N]]
func.func @main(%x: tensor<4xi32>, %y: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = mgx.constant dense<0> : tensor<4xi32>
  %1 = mgx.constant dense<0.0> : tensor<4xf32>
  %2 = mgx.constant dense<-1.0> : tensor<4xf32>
  %a = mgx.mul %x, %0 : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %b = mgx.mul %y, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %c = mgx.mul %y, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %a, %b, %c : tensor<4xi32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK:         mgx.logsoftmax %{{.*}} axis = 1
// CHECK-NOT:     mgx.log %
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = mgx.softmax %x axis = 1 : tensor<2x4xf32>
  %1 = mgx.log %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// GELU by tanh: 0.5 x (1 + tanh(c u)) is x sigmoid(2 c u).
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<4xf32>, %[[U:.*]]: tensor<4xf32>
// CHECK-NOT:     mgx.tanh
// CHECK:         %[[D:.*]] = mgx.mul %[[U]], %{{.*}}
// CHECK:         %[[S:.*]] = mgx.sigmoid %[[D]]
// CHECK:         %[[P:.*]] = mgx.mul %[[X]], %[[S]]
// CHECK-NEXT:    return %[[P]]
func.func @main(%x: tensor<4xf32>, %u: tensor<4xf32>) -> tensor<4xf32> {
  %half = mgx.constant dense<0.5> : tensor<4xf32>
  %one = mgx.constant dense<1.0> : tensor<4xf32>
  %c = mgx.constant dense<0.797884583> : tensor<4xf32>
  %0 = mgx.mul %u, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %1 = mgx.tanh %0 : tensor<4xf32>
  %2 = mgx.add %1, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = mgx.mul %x, %half : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = mgx.mul %3, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// A divisor for each row is inverted once; one for each element is not.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<4x16xf32>, %[[V:.*]]: tensor<4x1xf32>, %[[W:.*]]: tensor<4x16xf32>
// CHECK:         %[[R:.*]] = mgx.rsqrt %[[V]] : tensor<4x1xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[R]]
// CHECK:         %[[Y:.*]] = mgx.mul %[[X]], %[[B]]
// CHECK:         mgx.div %[[Y]], %[[W]]
func.func @main(%x: tensor<4x16xf32>, %v: tensor<4x1xf32>, %w: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = mgx.sqrt %v : tensor<4x1xf32>
  %1 = mgx.multibroadcast %0 : tensor<4x1xf32> -> tensor<4x16xf32>
  %2 = mgx.div %x, %1 : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
  %3 = mgx.div %2, %w : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// -----

// All of a batch are the same product; of another dimension they are not.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot %{{.*}}, %{{.*}} : tensor<1x3x2x4xf32>, tensor<1x3x4x5xf32> -> tensor<1x3x2x5xf32>
// CHECK:         mgx.multibroadcast %[[D]] : tensor<1x3x2x5xf32> -> tensor<6x3x2x5xf32>
func.func @main(%x: tensor<3x2x4xf32>, %y: tensor<4x5xf32>) -> tensor<6x3x2x5xf32> {
  %0 = mgx.multibroadcast %x : tensor<3x2x4xf32> -> tensor<6x3x2x4xf32>
  %1 = mgx.multibroadcast %y : tensor<4x5xf32> -> tensor<6x3x4x5xf32>
  %2 = mgx.dot %0, %1 : tensor<6x3x2x4xf32>, tensor<6x3x4x5xf32> -> tensor<6x3x2x5xf32>
  return %2 : tensor<6x3x2x5xf32>
}

// -----

// A constant of equal elements takes part as one number.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.constant {{.*}} : tensor<1x3x1x1xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[A]] : tensor<1x3x1x1xf32> -> tensor<2x3x4x4xf32>
// CHECK:         mgx.mul %{{.*}}, %[[B]]
func.func @main(%x: tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32> {
  %a = mgx.constant dense<0.5> : tensor<2x3x4x4xf32>
  %b = mgx.constant dense<[[[[1.0]], [[2.0]], [[3.0]]]]> : tensor<1x3x1x1xf32>
  %w = mgx.multibroadcast %b : tensor<1x3x1x1xf32> -> tensor<2x3x4x4xf32>
  %0 = mgx.mul %x, %a : tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32> -> tensor<2x3x4x4xf32>
  %1 = mgx.mul %0, %w : tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32> -> tensor<2x3x4x4xf32>
  return %1 : tensor<2x3x4x4xf32>
}

// -----

// The offset of a product of bytes becomes part of the bias.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = mgx.quant_dot
// CHECK:         %[[F:.*]] = mgx.convert %[[P]] : tensor<2x4xi32> -> tensor<2x4xf32>
// CHECK:         %[[M:.*]] = mgx.mul %[[F]]
// CHECK:         %[[Y:.*]] = mgx.add %[[M]]
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<2x3xi8>) -> tensor<2x4xf32> {
  %w = mgx.literal "w" : tensor<3x4xi8>
  %c = mgx.literal "offset" : tensor<1x4xi32>
  %b = mgx.literal "bias" : tensor<4xf32>
  %s = mgx.constant dense<5.000000e-01> : tensor<2x4xf32>
  %p = mgx.quant_dot %x, %w : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
  %cb = mgx.multibroadcast %c : tensor<1x4xi32> -> tensor<2x4xi32>
  %d = mgx.sub %p, %cb : tensor<2x4xi32>, tensor<2x4xi32> -> tensor<2x4xi32>
  %f = mgx.convert %d : tensor<2x4xi32> -> tensor<2x4xf32>
  %m = mgx.mul %f, %s : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %bb = mgx.multibroadcast %b : tensor<4xf32> -> tensor<2x4xf32>
  %y = mgx.add %m, %bb : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
