// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-yield-products | FileCheck %s

// The product is a second result of what works on it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot
// CHECK:         %[[Y:.*]]:2 = mgx.pointwise(%[[D]])
// CHECK:         ^bb0(%[[X:.*]]: f32):
// CHECK:           %[[R:.*]] = mgx.relu %[[X]]
// CHECK:           mgx.yield %[[R]], %[[X]]
// CHECK:         %[[S:.*]] = mgx.softmax %[[Y]]#1
// CHECK:         return %[[Y]]#0, %[[S]]
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %d = mgx.dot %x, %w : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %s = mgx.softmax %d axis = 1 : tensor<3x5xf32>
  %r = mgx.relu %d : tensor<3x5xf32>
  return %r, %s : tensor<3x5xf32>, tensor<3x5xf32>
}

// -----

// What the pointwise op waits for needs the product.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dot
// CHECK:         %[[S:.*]] = mgx.softmax %[[D]]
// CHECK:         %[[Y:.*]] = mgx.pointwise(%[[D]], %[[S]])
// CHECK-NOT:     :2 = mgx.pointwise
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %d = mgx.dot %x, %w : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %s = mgx.softmax %d axis = 1 : tensor<3x5xf32>
  %r = mgx.add %d, %s : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

// A pointwise op of another contraction stays that one's.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     :2 = mgx.pointwise
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %v: tensor<4x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %d = mgx.dot %x, %w : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %e = mgx.dot %x, %v : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %r = mgx.mul %d, %e : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  return %r, %d : tensor<3x5xf32>, tensor<3x5xf32>
}
