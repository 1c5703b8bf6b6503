// RUN: %mgx-opt %s --split-input-file --mgx-simplify-concats | FileCheck %s

// Neighbouring slices, put together in their order, are one slice.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<4x3xf32>
// CHECK-NEXT:    return %[[X]]
func.func @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %a = mgx.slice %x axes = [0] starts = [0] ends = [1] : tensor<4x3xf32> -> tensor<1x3xf32>
  %b = mgx.slice %x axes = [0] starts = [1] ends = [3] : tensor<4x3xf32> -> tensor<2x3xf32>
  %d = mgx.slice %x axes = [0] starts = [3] ends = [4] : tensor<4x3xf32> -> tensor<1x3xf32>
  %c = mgx.concat %a, %b, %d axis = 0 : tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x3xf32> -> tensor<4x3xf32>
  return %c : tensor<4x3xf32>
}

// -----

// In another order they stay.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.concat
func.func @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %a = mgx.slice %x axes = [0] starts = [0] ends = [2] : tensor<4x3xf32> -> tensor<2x3xf32>
  %b = mgx.slice %x axes = [0] starts = [2] ends = [4] : tensor<4x3xf32> -> tensor<2x3xf32>
  %c = mgx.concat %b, %a axis = 0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  return %c : tensor<4x3xf32>
}

// -----

// Copies of one row.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.multibroadcast %{{.*}} : tensor<1x3xf32> -> tensor<3x3xf32>
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<1x3xf32>) -> tensor<3x3xf32> {
  %c = mgx.concat %x, %x, %x axis = 0 : tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32> -> tensor<3x3xf32>
  return %c : tensor<3x3xf32>
}

// -----

// Slices of one part, and of some of the parts.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>, %[[Y:.*]]: tensor<4x3xf32>
// CHECK-DAG:     %[[S:.*]] = mgx.slice %[[Y]] axes = [0] starts = [1] ends = [3]
// CHECK-DAG:     %[[T:.*]] = mgx.slice %[[Y]] axes = [0] starts = [0] ends = [3]
// CHECK:         mgx.concat %[[X]], %[[T]] axis = 0
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<5x3xf32>) {
  %c = mgx.concat %x, %y, %x axis = 0 : tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x3xf32> -> tensor<8x3xf32>
  %s = mgx.slice %c axes = [0] starts = [3] ends = [5] : tensor<8x3xf32> -> tensor<2x3xf32>
  %d = mgx.concat %x, %y, %x, %x axis = 0 : tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<10x3xf32>
  %t = mgx.slice %d axes = [0] starts = [0] ends = [5] : tensor<10x3xf32> -> tensor<5x3xf32>
  return %s, %t : tensor<2x3xf32>, tensor<5x3xf32>
}
