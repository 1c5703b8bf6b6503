// RUN: %mgx-opt %s --split-input-file --mgx-simplify-reshapes | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>
// CHECK-NEXT:    %[[R:.*]] = mgx.reshape %[[X]] : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:    return %[[R]], %[[X]]
func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = mgx.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %1 = mgx.reshape %0 : tensor<6xf32> -> tensor<3x2xf32>
  %2 = mgx.reshape %0 : tensor<6xf32> -> tensor<2x3xf32>
  return %1, %2 : tensor<3x2xf32>, tensor<2x3xf32>
}

// -----

// Two transposes are one; one that moves only dimensions of size 1 is a reshape.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3x4xf32>, %[[Y:.*]]: tensor<1x8x1x4xf32>
// CHECK:         mgx.transpose %[[X]] permutation = [2, 0, 1]
// CHECK:         mgx.reshape %[[Y]] : tensor<1x8x1x4xf32> -> tensor<8x4x1x1xf32>
func.func @main(%x: tensor<2x3x4xf32>, %y: tensor<1x8x1x4xf32>)
    -> (tensor<4x2x3xf32>, tensor<8x4x1x1xf32>) {
  %0 = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %1 = mgx.transpose %0 permutation = [1, 0, 2] : tensor<2x4x3xf32> -> tensor<4x2x3xf32>
  %2 = mgx.transpose %y permutation = [1, 3, 0, 2] : tensor<1x8x1x4xf32> -> tensor<8x4x1x1xf32>
  return %1, %2 : tensor<4x2x3xf32>, tensor<8x4x1x1xf32>
}

// -----

// A transpose that moves elements stays, and so does a reshape of it.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.transpose
// CHECK:         mgx.reshape
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = mgx.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %1 = mgx.reshape %0 : tensor<3x2xf32> -> tensor<6xf32>
  return %1 : tensor<6xf32>
}

// -----

// Leading dimensions of size 1 are part of the broadcast.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<3xf32>
// CHECK-NEXT:    mgx.multibroadcast %[[X]] : tensor<3xf32> -> tensor<2x4x3xf32>
func.func @main(%x: tensor<3xf32>) -> tensor<2x4x3xf32> {
  %0 = mgx.reshape %x : tensor<3xf32> -> tensor<1x3xf32>
  %1 = mgx.multibroadcast %0 : tensor<1x3xf32> -> tensor<4x3xf32>
  %2 = mgx.multibroadcast %1 : tensor<4x3xf32> -> tensor<2x4x3xf32>
  return %2 : tensor<2x4x3xf32>
}

// -----

// A transpose undone through reshapes: nothing moves.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x12x5xf32>
// CHECK-NEXT:    %[[R:.*]] = mgx.reshape %[[X]] : tensor<2x12x5xf32> -> tensor<2x60xf32>
// CHECK-NEXT:    return %[[R]]
func.func @main(%x: tensor<2x12x5xf32>) -> tensor<2x60xf32> {
  %0 = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x12x5xf32> -> tensor<2x5x12xf32>
  %1 = mgx.reshape %0 : tensor<2x5x12xf32> -> tensor<2x5x3x4xf32>
  %2 = mgx.transpose %1 permutation = [0, 2, 3, 1] : tensor<2x5x3x4xf32> -> tensor<2x3x4x5xf32>
  %3 = mgx.reshape %2 : tensor<2x3x4x5xf32> -> tensor<2x60xf32>
  return %3 : tensor<2x60xf32>
}

// -----

// A slice of a slice is one, also through a transpose and a reshape.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x6xf32>
// CHECK-NEXT:    %[[S:.*]] = mgx.slice %[[X]] axes = [0, 1] starts = [3, 2] ends = [5, 6]
// CHECK-NEXT:    %[[T:.*]] = mgx.transpose %[[S]] permutation = [1, 0]
// CHECK-NEXT:    return %[[T]]
func.func @main(%x: tensor<8x6xf32>) -> tensor<4x2xf32> {
  %0 = mgx.slice %x axes = [0] starts = [2] ends = [7] : tensor<8x6xf32> -> tensor<5x6xf32>
  %1 = mgx.transpose %0 permutation = [1, 0] : tensor<5x6xf32> -> tensor<6x5xf32>
  %2 = mgx.slice %1 axes = [0, 1] starts = [2, 1] ends = [6, 3] : tensor<6x5xf32> -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// -----

// Heads of a row of named sizes: there and back is nothing, and a slice of one stays a slice.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.reshape %arg0 : {{.*}} -> tensor<?x?x2x4xf32
// CHECK-NEXT:    mgx.slice %{{.*}} axes = [2] starts = [1] ends = [2]
// CHECK-NEXT:    return %arg0
#x = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>
#h = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _, _]>
#t = #mgx.dims<[batch : 1 ... ?, _, seq : 1 ... ?, _]>
#f = #mgx.dims<["batch*seq" : 1 ... ?, _]>
func.func @main(%x: tensor<?x?x8xf32, #x>) -> (tensor<?x?x8xf32, #x>, tensor<?x?x1x4xf32, #h>) {
  %f = mgx.reshape %x : tensor<?x?x8xf32, #x> -> tensor<?x8xf32, #f>
  %h = mgx.reshape %f : tensor<?x8xf32, #f> -> tensor<?x?x2x4xf32, #h>
  %t = mgx.transpose %h permutation = [0, 2, 1, 3] : tensor<?x?x2x4xf32, #h> -> tensor<?x2x?x4xf32, #t>
  %u = mgx.transpose %t permutation = [0, 2, 1, 3] : tensor<?x2x?x4xf32, #t> -> tensor<?x?x2x4xf32, #h>
  %y = mgx.reshape %u : tensor<?x?x2x4xf32, #h> -> tensor<?x?x8xf32, #x>
  %s = mgx.slice %u axes = [2] starts = [1] ends = [2] : tensor<?x?x2x4xf32, #h> -> tensor<?x?x1x4xf32, #h>
  return %y, %s : tensor<?x?x8xf32, #x>, tensor<?x?x1x4xf32, #h>
}

// -----

// A size that may be 1, or may not: it is not known what the broadcast repeats.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.multibroadcast
// CHECK:         mgx.transpose
#a = #mgx.dims<[_, a : 1 ... ?]>
#b = #mgx.dims<[_, b : 1 ... ?]>
#c = #mgx.dims<[b : 1 ... ?, _]>
func.func @main(%x: tensor<3x?xf32, #a>) -> tensor<?x3xf32, #c> {
  %b = mgx.multibroadcast %x : tensor<3x?xf32, #a> -> tensor<3x?xf32, #b>
  %y = mgx.transpose %b permutation = [1, 0] : tensor<3x?xf32, #b> -> tensor<?x3xf32, #c>
  return %y : tensor<?x3xf32, #c>
}
