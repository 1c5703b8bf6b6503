// RUN: %mgx-opt %s --mgx-normalize-ops | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<3xf32>
func.func @main(%x: tensor<3xf32>, %y: tensor<1x2x3xf32>)
    -> (tensor<1x3xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: mgx.reshape %[[X]] : tensor<3xf32> -> tensor<1x3xf32>
  %0 = mgx.unsqueeze %x axes = [0] : tensor<3xf32> -> tensor<1x3xf32>
  // CHECK: %[[R:.*]] = mgx.reshape %[[X]] : tensor<3xf32> -> tensor<3x1xf32>
  // CHECK: mgx.multibroadcast %[[R]] : tensor<3x1xf32> -> tensor<2x3x4xf32>
  %1 = mgx.broadcast %x axis = 1 : tensor<3xf32> -> tensor<2x3x4xf32>
  // CHECK: mgx.reshape {{.*}} : tensor<1x2x3xf32> -> tensor<2x3xf32>
  %2 = mgx.squeeze %y axes = [0] : tensor<1x2x3xf32> -> tensor<2x3xf32>
  // CHECK-NOT: mgx.contiguous
  %3 = mgx.contiguous %2 : tensor<2x3xf32>
  return %0, %1, %2, %3 : tensor<1x3xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
