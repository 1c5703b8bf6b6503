// RUN: %mgx-opt %s --split-input-file --mgx-sink-views | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4x6xf32>, %[[B:.*]]: tensor<6xf32>
// CHECK:         %[[D:.*]] = mgx.dot %[[X]], %[[W]]
// CHECK:         %[[C:.*]] = mgx.multibroadcast %{{.*}} -> tensor<8x6xf32>
// CHECK:         %[[A:.*]] = mgx.add %[[D]], %[[C]]
// CHECK:         %[[R:.*]] = mgx.relu %[[A]] : tensor<8x6xf32>
// CHECK:         mgx.reshape %[[R]] : tensor<8x6xf32> -> tensor<1x8x6xf32>
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<1x8x6xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<1x8x6xf32>
  %c = mgx.multibroadcast %b : tensor<6xf32> -> tensor<1x8x6xf32>
  %a = mgx.add %r, %c : tensor<1x8x6xf32>, tensor<1x8x6xf32> -> tensor<1x8x6xf32>
  %y = mgx.relu %a : tensor<1x8x6xf32>
  return %y : tensor<1x8x6xf32>
}

// -----

// The bias repeats along a dimension that the product does not have.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.*]] = mgx.reshape
// CHECK:         mgx.add %[[R]]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<2x1xf32>) -> tensor<8x2x3xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %c = mgx.multibroadcast %b : tensor<2x1xf32> -> tensor<8x2x3xf32>
  %a = mgx.add %r, %c : tensor<8x2x3xf32>, tensor<8x2x3xf32> -> tensor<8x2x3xf32>
  return %a : tensor<8x2x3xf32>
}

// -----

// Others read the reshape: it stays.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.*]] = mgx.reshape
// CHECK:         mgx.relu %[[R]]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> (tensor<48xf32>, tensor<48xf32>) {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<48xf32>
  %y = mgx.relu %r : tensor<48xf32>
  return %r, %y : tensor<48xf32>, tensor<48xf32>
}

// -----

// Several pointwise ops read the reshape: all of them move.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot
// CHECK:         %[[E:.*]] = mgx.erf %[[D]] : tensor<8x6xf32>
// CHECK:         %[[M:.*]] = mgx.mul %[[D]], %[[E]]
// CHECK:         mgx.reshape %[[M]] : tensor<8x6xf32> -> tensor<48xf32>
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<48xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<48xf32>
  %e = mgx.erf %r : tensor<48xf32>
  %y = mgx.mul %r, %e : tensor<48xf32>, tensor<48xf32> -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// -----

// A transpose sinks too; constants are read in the product's order, and so is what is the
// same view of another value.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4x6xf32>, %[[O:.*]]: tensor<8x6xf32>
// CHECK:         %[[D:.*]] = mgx.dot %[[X]], %[[W]]
// CHECK:         %[[A:.*]] = mgx.add %[[D]], %[[O]]
// CHECK:         %[[C:.*]] = mgx.multibroadcast %{{.*}} -> tensor<8x6xf32>
// CHECK:         %[[M:.*]] = mgx.mul %[[A]], %[[C]]
// CHECK:         mgx.transpose %[[M]] permutation = [1, 0]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %o: tensor<8x6xf32>) -> tensor<6x8xf32> {
  %b = mgx.literal "b" : tensor<6x1xf32>
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %t = mgx.transpose %d permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %u = mgx.transpose %o permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %a = mgx.add %t, %u : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %c = mgx.multibroadcast %b : tensor<6x1xf32> -> tensor<6x8xf32>
  %m = mgx.mul %a, %c : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return %m : tensor<6x8xf32>
}

// -----

// The other operand would have to be transposed instead.
// CHECK-LABEL: func.func @main
// CHECK:         %[[T:.*]] = mgx.transpose
// CHECK:         mgx.add %[[T]]
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %o: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %t = mgx.transpose %d permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %a = mgx.add %t, %o : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return %a : tensor<6x8xf32>
}

// -----

// A reduction over transposed dimensions.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4x6xf32>
// CHECK:         %[[D:.*]] = mgx.dot %[[X]], %[[W]]
// CHECK:         %[[P:.*]] = mgx.reshape %[[D]] : tensor<8x6xf32> -> tensor<8x2x3xf32>
// CHECK:         mgx.reduce_max %[[P]] axes = [0, 2] : tensor<8x2x3xf32> -> tensor<1x2x1xf32>
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) -> tensor<1x1x2xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %t = mgx.transpose %r permutation = [2, 0, 1] : tensor<8x2x3xf32> -> tensor<3x8x2xf32>
  %m = mgx.reduce_max %t axes = [0, 1] : tensor<3x8x2xf32> -> tensor<1x1x2xf32>
  return %m : tensor<1x1x2xf32>
}

// -----

// A reduction of a reshape that nothing else reads is one of the residual sum's own rows.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.add
// CHECK:         %[[Q:.*]] = mgx.mul %[[A]], %[[A]]
// CHECK:         %[[M:.*]] = mgx.reduce_mean %[[Q]] axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
// CHECK:         mgx.rsqrt %[[M]] : tensor<8x1xf32>
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %s: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %d = mgx.dot %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %r = mgx.reshape %d : tensor<8x6xf32> -> tensor<2x4x6xf32>
  %a = mgx.add %r, %s : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %q = mgx.mul %a, %a : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %m = mgx.reduce_mean %q axes = [2] : tensor<2x4x6xf32> -> tensor<2x4x1xf32>
  %i = mgx.rsqrt %m : tensor<2x4x1xf32>
  %b = mgx.multibroadcast %i : tensor<2x4x1xf32> -> tensor<2x4x6xf32>
  %y = mgx.mul %a, %b : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// -----

// Rows of named size: the bias is added to the product's own rows.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot
// CHECK:         mgx.add %[[D]], %{{.*}} : tensor<?x6xf32, #mgx.dims<["batch*seq" : 1 ... ?, _]>>
// CHECK:         mgx.reshape
#f = #mgx.dims<["batch*seq" : 1 ... ?, _]>
#x = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>
func.func @main(%x: tensor<?x?x4xf32, #x>, %w: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<?x?x6xf32, #x> {
  %a = mgx.reshape %x : tensor<?x?x4xf32, #x> -> tensor<?x4xf32, #f>
  %d = mgx.dot %a, %w : tensor<?x4xf32, #f>, tensor<4x6xf32> -> tensor<?x6xf32, #f>
  %r = mgx.reshape %d : tensor<?x6xf32, #f> -> tensor<?x?x6xf32, #x>
  %c = mgx.multibroadcast %b : tensor<6xf32> -> tensor<?x?x6xf32, #x>
  %y = mgx.add %r, %c : tensor<?x?x6xf32, #x>, tensor<?x?x6xf32, #x> -> tensor<?x?x6xf32, #x>
  return %y : tensor<?x?x6xf32, #x>
}
