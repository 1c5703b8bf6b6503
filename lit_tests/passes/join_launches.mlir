// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-outline-kernels --mgx-join-launches | FileCheck %s

// Two works on one value are one launch; a concat takes what it copies with it.
// CHECK:       mgx.kernel @joined0(%[[X:.*]]: tensor<1x6xf32>, %[[P:.*]]: tensor<1x7x2xf32>) -> (tensor<1x4xf32>, tensor<1x8x2xf32>)
// CHECK:         %[[A:.*]] = pointwise
// CHECK:         %[[B:.*]] = pointwise
// CHECK:         %[[R:.*]] = reshape %[[B]] : tensor<1x2xf32> -> tensor<1x1x2xf32>
// CHECK:         %[[C:.*]] = concat %[[P]], %[[R]] axis = 1
// CHECK:         return %[[A]], %[[C]]
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.launch @joined0
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x6xf32>, %past: tensor<1x7x2xf32>) -> (tensor<1x4xf32>, tensor<1x8x2xf32>) {
  %s = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<1x6xf32> -> tensor<1x4xf32>
  %t = mgx.slice %x axes = [1] starts = [4] ends = [6] : tensor<1x6xf32> -> tensor<1x2xf32>
  %a = mgx.exp %s : tensor<1x4xf32>
  %b = mgx.neg %t : tensor<1x2xf32>
  %r = mgx.reshape %b : tensor<1x2xf32> -> tensor<1x1x2xf32>
  %c = mgx.concat %past, %r axis = 1 : tensor<1x7x2xf32>, tensor<1x1x2xf32> -> tensor<1x8x2xf32>
  return %a, %c : tensor<1x4xf32>, tensor<1x8x2xf32>
}

// -----

// Work that reads the other's result in another way waits for it.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.launch
// CHECK:         return
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x1xf32>) {
  %a = mgx.exp %x : tensor<4x4xf32>
  %t = mgx.slice %a axes = [1] starts = [0] ends = [1] : tensor<4x4xf32> -> tensor<4x1xf32>
  %b = mgx.neg %t : tensor<4x1xf32>
  return %a, %b : tensor<4x4xf32>, tensor<4x1xf32>
}

// -----

// No path leads out of a launch and back: the product stands between the two works.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.launch @k0_pointwise
// CHECK:         mgx.launch @k1_dot
// CHECK:         mgx.launch @k2_concat
// CHECK:         return
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x8xf32>) {
  %a = mgx.exp %x : tensor<4x4xf32>
  %d = mgx.dot %a, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %c = mgx.concat %x, %d axis = 1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x8xf32>
  return %a, %c : tensor<4x4xf32>, tensor<4x8xf32>
}

// -----

// Launches that read inputs alone are one, also where they share none; one that waits stays apart.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.launch @joined0(%arg0, %arg1)
// CHECK-NEXT:    mgx.launch @k1_dot
// CHECK-NEXT:    mgx.launch
// CHECK-NEXT:    return
func.func @main(%x: tensor<4x4xf32>, %y: tensor<2x8xf32>) -> (tensor<4x4xf32>, tensor<2x8xf32>) {
  %a = mgx.exp %x : tensor<4x4xf32>
  %d = mgx.dot %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %t = mgx.transpose %d permutation = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = mgx.exp %t : tensor<4x4xf32>
  %b = mgx.neg %y : tensor<2x8xf32>
  return %c, %b : tensor<4x4xf32>, tensor<2x8xf32>
}

// -----

// Of symbolic sizes, gathers are; pointwise work of as many elements as a run has stays apart.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.launch @joined0(%{{.*}}, %arg0, %{{.*}}, %arg1)
// CHECK-NEXT:    mgx.launch @k{{[0-9]}}_pointwise(%arg2)
// CHECK-NEXT:    return
#i = #mgx.dims<[rows : 1 ... ?]>
#r = #mgx.dims<[rows : 1 ... ?, _]>
func.func @main(%x: tensor<?xi64, #i>, %y: tensor<?xi64, #i>, %z: tensor<?x4xf32, #r>, %s: tensor<9x4xf32>, %t: tensor<7x2xf32>) -> (tensor<?x4xf32, #r>, tensor<?x2xf32, #r>, tensor<?x4xf32, #r>) {
  %a = mgx.gather %s[%x] axis = 0 : tensor<9x4xf32>, tensor<?xi64, #i> -> tensor<?x4xf32, #r>
  %b = mgx.gather %t[%y] axis = 0 : tensor<7x2xf32>, tensor<?xi64, #i> -> tensor<?x2xf32, #r>
  %c = mgx.neg %z : tensor<?x4xf32, #r>
  return %a, %b, %c : tensor<?x4xf32, #r>, tensor<?x2xf32, #r>, tensor<?x4xf32, #r>
}
