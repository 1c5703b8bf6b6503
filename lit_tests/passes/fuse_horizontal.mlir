// RUN: %mgx-opt %s --split-input-file --mgx-fuse-horizontal | FileCheck %s

// Biases and activations are done once, before the slices.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x4xf32>
// CHECK:         %[[W:.*]] = mgx.concat %{{.*}}, %{{.*}} axis = 1 : tensor<4x6xf32>, tensor<4x2xf32> -> tensor<4x8xf32>
// CHECK:         %[[D:.*]] = mgx.dot %[[X]], %[[W]]
// CHECK:         %[[C:.*]] = mgx.concat
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[C]] : tensor<1x8xf32> -> tensor<8x8xf32>
// CHECK:         %[[A:.*]] = mgx.add %[[D]], %[[B]]
// CHECK:         %[[P:.*]] = mgx.slice %[[A]] axes = [1] starts = [0] ends = [6]
// CHECK:         %[[Q:.*]] = mgx.slice %[[A]] axes = [1] starts = [6] ends = [8]
// CHECK:         mgx.reduce_sum %[[P]]
// CHECK:         mgx.reduce_sum %[[Q]]
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x2xf32>
  %b = mgx.literal "b" : tensor<6xf32>
  %c = mgx.literal "c" : tensor<2xf32>
  %bb = mgx.multibroadcast %b : tensor<6xf32> -> tensor<8x6xf32>
  %cc = mgx.multibroadcast %c : tensor<2xf32> -> tensor<8x2xf32>
  %d = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %e = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %p = mgx.add %d, %bb : tensor<8x6xf32>, tensor<8x6xf32> -> tensor<8x6xf32>
  %q = mgx.add %e, %cc : tensor<8x2xf32>, tensor<8x2xf32> -> tensor<8x2xf32>
  %s = mgx.reduce_sum %p axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  %t = mgx.reduce_sum %q axes = [1] : tensor<8x2xf32> -> tensor<8x1xf32>
  return %s, %t : tensor<8x1xf32>, tensor<8x1xf32>
}

// -----

// Convolutions: output channels are the first dimension of the weights.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.concat %{{.*}}, %{{.*}} axis = 0 : tensor<5x3x1x1xf32>, tensor<2x3x1x1xf32> -> tensor<7x3x1x1xf32>
// CHECK:         %[[D:.*]] = mgx.convolution {{.*}} -> tensor<1x7x8x8xf32>
// CHECK:         %[[R:.*]] = mgx.relu %[[D]]
// CHECK:         mgx.slice %[[R]] axes = [1] starts = [0] ends = [5]
// CHECK:         mgx.slice %[[R]] axes = [1] starts = [5] ends = [7]
func.func @main(%x: tensor<1x3x8x8xf32>) -> (tensor<1x5x1x1xf32>, tensor<1x2x1x1xf32>) {
  %v = mgx.literal "v" : tensor<5x3x1x1xf32>
  %w = mgx.literal "w" : tensor<2x3x1x1xf32>
  %d = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<5x3x1x1xf32> -> tensor<1x5x8x8xf32>
  %e = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<2x3x1x1xf32> -> tensor<1x2x8x8xf32>
  %p = mgx.relu %d : tensor<1x5x8x8xf32>
  %q = mgx.relu %e : tensor<1x2x8x8xf32>
  %s = mgx.reduce_sum %p axes = [2, 3] : tensor<1x5x8x8xf32> -> tensor<1x5x1x1xf32>
  %t = mgx.reduce_sum %q axes = [2, 3] : tensor<1x2x8x8xf32> -> tensor<1x2x1x1xf32>
  return %s, %t : tensor<1x5x1x1xf32>, tensor<1x2x1x1xf32>
}

// -----

// One is returned: its slice would be a copy.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x6xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x6xf32>
  %d = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %e = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %t = mgx.reduce_sum %e axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  return %d, %t : tensor<8x6xf32>, tensor<8x1xf32>
}

// -----

// Different activations follow.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x6xf32>
  %d = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %e = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %p = mgx.relu %d : tensor<8x6xf32>
  %q = mgx.tanh %e : tensor<8x6xf32>
  %s = mgx.reduce_sum %p axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  %t = mgx.reduce_sum %q axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  return %s, %t : tensor<8x1xf32>, tensor<8x1xf32>
}

// -----

// What takes one apart takes it apart as it is: its kernels stay equal to those of the other.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<8x4xf32>) -> (tensor<1x6xf32>, tensor<1x6xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x6xf32>
  %d = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %e = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %f = mgx.slice %d axes = [0] starts = [3] ends = [4] : tensor<8x6xf32> -> tensor<1x6xf32>
  %g = mgx.slice %e axes = [0] starts = [3] ends = [4] : tensor<8x6xf32> -> tensor<1x6xf32>
  %p = mgx.relu %f : tensor<1x6xf32>
  %q = mgx.relu %g : tensor<1x6xf32>
  return %p, %q : tensor<1x6xf32>, tensor<1x6xf32>
}

// -----

// One of two ends in a relu, and what the other's result is added to brings a contraction of
// its own: a lower bound for each channel does for both.
// CHECK-LABEL: func.func @main
// CHECK:         %[[L:.*]] = mgx.constant dense<{{.*0.000000e\+00.*0xFF800000.*}}> : tensor<1x10x1x1xf32>
// CHECK:         %[[D:.*]] = mgx.convolution {{.*}} -> tensor<1x10x8x8xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[L]]
// CHECK:         %[[M:.*]] = mgx.max %[[D]], %[[B]]
// CHECK:         %[[P:.*]] = mgx.slice %[[M]] axes = [1] starts = [0] ends = [4]
// CHECK:         %[[Q:.*]] = mgx.slice %[[M]] axes = [1] starts = [4] ends = [10]
// CHECK:         %[[C:.*]] = mgx.convolution %[[P]]
// CHECK:         mgx.add %[[C]], %[[Q]]
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x6x8x8xf32> {
  %v = mgx.literal "v" : tensor<4x3x1x1xf32>
  %w = mgx.literal "w" : tensor<6x3x1x1xf32>
  %u = mgx.literal "u" : tensor<6x4x1x1xf32>
  %d = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32> -> tensor<1x4x8x8xf32>
  %e = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<6x3x1x1xf32> -> tensor<1x6x8x8xf32>
  %p = mgx.relu %d : tensor<1x4x8x8xf32>
  %c = mgx.convolution %p, %u pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x4x8x8xf32>, tensor<6x4x1x1xf32> -> tensor<1x6x8x8xf32>
  %s = mgx.add %c, %e : tensor<1x6x8x8xf32>, tensor<1x6x8x8xf32> -> tensor<1x6x8x8xf32>
  return %s : tensor<1x6x8x8xf32>
}

// -----

// One is only added to another product, whose kernel sums up both.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x12xf32> {
  %v = mgx.literal "v" : tensor<16x12xf32>
  %w = mgx.literal "w" : tensor<16x12xf32>
  %u = mgx.literal "u" : tensor<12x12xf32>
  %d = mgx.dot %x, %v : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %e = mgx.dot %x, %w : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %f = mgx.dot %e, %u : tensor<8x12xf32>, tensor<12x12xf32> -> tensor<8x12xf32>
  %s = mgx.add %f, %d : tensor<8x12xf32>, tensor<8x12xf32> -> tensor<8x12xf32>
  return %s : tensor<8x12xf32>
}

// -----

// A part of one that a contraction reads is read by strides.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot %{{.*}} -> tensor<8x10xf32>
func.func @main(%x: tensor<8x4xf32>, %z: tensor<6x3xf32>, %k: tensor<4x5xf32>) -> (tensor<1x3xf32>, tensor<8x5xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x4xf32>
  %p = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %q = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %s = mgx.slice %p axes = [0] starts = [0] ends = [1] : tensor<8x6xf32> -> tensor<1x6xf32>
  %a = mgx.dot %s, %z : tensor<1x6xf32>, tensor<6x3xf32> -> tensor<1x3xf32>
  %b = mgx.dot %q, %k : tensor<8x4xf32>, tensor<4x5xf32> -> tensor<8x5xf32>
  return %a, %b : tensor<1x3xf32>, tensor<8x5xf32>
}

// -----

// Rows of named size.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot %arg0, %{{.*}} -> tensor<?x10xf32, #mgx.dims<[rows : 1 ... ?, _]>>
// CHECK:         mgx.slice %{{.*}} axes = [1] starts = [0] ends = [6]
#r = #mgx.dims<[rows : 1 ... ?, _]>
func.func @main(%x: tensor<?x4xf32, #r>, %z: tensor<6x3xf32>, %k: tensor<4x5xf32>) -> (tensor<?x3xf32, #r>, tensor<?x5xf32, #r>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x4xf32>
  %p = mgx.dot %x, %v : tensor<?x4xf32, #r>, tensor<4x6xf32> -> tensor<?x6xf32, #r>
  %q = mgx.dot %x, %w : tensor<?x4xf32, #r>, tensor<4x4xf32> -> tensor<?x4xf32, #r>
  %a = mgx.dot %p, %z : tensor<?x6xf32, #r>, tensor<6x3xf32> -> tensor<?x3xf32, #r>
  %b = mgx.dot %q, %k : tensor<?x4xf32, #r>, tensor<4x5xf32> -> tensor<?x5xf32, #r>
  return %a, %b : tensor<?x3xf32, #r>, tensor<?x5xf32, #r>
}

// -----

// Right operands of named size are no weights that could lie side by side.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.dot %arg0
#x = #mgx.dims<[batch : 1 ... ?, _, _]>
func.func @main(%x: tensor<?x8x4xf32, #x>) -> (tensor<?x8x6xf32, #x>, tensor<?x8x6xf32, #x>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x6xf32>
  %a = mgx.multibroadcast %v : tensor<4x6xf32> -> tensor<?x4x6xf32, #x>
  %b = mgx.multibroadcast %w : tensor<4x6xf32> -> tensor<?x4x6xf32, #x>
  %p = mgx.dot %x, %a : tensor<?x8x4xf32, #x>, tensor<?x4x6xf32, #x> -> tensor<?x8x6xf32, #x>
  %q = mgx.dot %x, %b : tensor<?x8x4xf32, #x>, tensor<?x4x6xf32, #x> -> tensor<?x8x6xf32, #x>
  return %p, %q : tensor<?x8x6xf32, #x>, tensor<?x8x6xf32, #x>
}

// -----

// A concat along an inner dimension copies, and reads slices.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot %{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<16x18xf32> -> tensor<8x18xf32>
// CHECK-NOT:     mgx.dot
func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x4xf32>) -> (tensor<8x16xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<16x12xf32>
  %w = mgx.literal "w" : tensor<16x6xf32>
  %d = mgx.dot %x, %v : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %e = mgx.dot %x, %w : tensor<8x16xf32>, tensor<16x6xf32> -> tensor<8x6xf32>
  %c = mgx.concat %y, %d axis = 1 : tensor<8x4xf32>, tensor<8x12xf32> -> tensor<8x16xf32>
  %r = mgx.reduce_sum %e axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  return %c, %r : tensor<8x16xf32>, tensor<8x1xf32>
}

// -----

// The pieces of a concat along the outermost dimension are written where they belong.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.concat %{{.*}}, %{{.*}} axis = 0 : tensor<4x12xf32>, tensor<8x12xf32>
func.func @main(%x: tensor<8x16xf32>, %y: tensor<4x12xf32>) -> (tensor<12x12xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<16x12xf32>
  %w = mgx.literal "w" : tensor<16x6xf32>
  %d = mgx.dot %x, %v : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %e = mgx.dot %x, %w : tensor<8x16xf32>, tensor<16x6xf32> -> tensor<8x6xf32>
  %c = mgx.concat %y, %d axis = 0 : tensor<4x12xf32>, tensor<8x12xf32> -> tensor<12x12xf32>
  %r = mgx.reduce_sum %e axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  return %c, %r : tensor<12x12xf32>, tensor<8x1xf32>
}

// -----

// A part that is returned, and that a concat's kernel copies, costs no launch of its own.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot %{{.*}} -> tensor<8x12xf32>
// CHECK-NOT:     mgx.dot
func.func @main(%x: tensor<8x4xf32>, %past: tensor<8x3xf32>) -> (tensor<8x6xf32>, tensor<8x9xf32>, tensor<8x1xf32>) {
  %v = mgx.literal "v" : tensor<4x6xf32>
  %w = mgx.literal "w" : tensor<4x6xf32>
  %p = mgx.dot %x, %v : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %q = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %c = mgx.concat %past, %p axis = 1 : tensor<8x3xf32>, tensor<8x6xf32> -> tensor<8x9xf32>
  %s = mgx.reduce_sum %q axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
  return %p, %c, %s : tensor<8x6xf32>, tensor<8x9xf32>, tensor<8x1xf32>
}
