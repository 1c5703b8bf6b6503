// RUN: %mgx-opt %s --split-input-file --mgx-cut-concats=most=2 | FileCheck %s

// Parts of two operands, and one of what is left.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = mgx.concat %arg0, %arg1 axis = 0
// CHECK:         %[[Y:.*]] = mgx.concat %[[P]], %arg0 axis = 0
// CHECK:         return %[[Y]]
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<12xf32> {
  %y = mgx.concat %a, %b, %a axis = 0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<12xf32>
  return %y : tensor<12xf32>
}

// -----

// No more operands than that stay as they are.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: mgx.concat
// CHECK-NOT:     mgx.concat
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  %y = mgx.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}
