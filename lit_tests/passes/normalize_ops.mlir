// RUN: %mgx-opt %s --split-input-file --mgx-normalize-ops | FileCheck %s

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

// -----

// One matrix for a batch of named size: a product with more rows.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reshape %{{.*}} -> tensor<?x4xf32, #mgx.dims<["batch*seq" : 1 ... ?, _]>>
// CHECK:         mgx.dot %{{.*}}, %{{.*}} : {{.*}}, tensor<4x6xf32> -> tensor<?x6xf32, #mgx.dims<["batch*seq" : 1 ... ?, _]>>
#x = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>
#w = #mgx.dims<[batch : 1 ... ?, _, _]>
func.func @main(%x: tensor<?x?x4xf32, #x>, %w: tensor<4x6xf32>) -> tensor<?x?x6xf32, #x> {
  %b = mgx.multibroadcast %w : tensor<4x6xf32> -> tensor<?x4x6xf32, #w>
  %y = mgx.dot %x, %b : tensor<?x?x4xf32, #x>, tensor<?x4x6xf32, #w> -> tensor<?x?x6xf32, #x>
  return %y : tensor<?x?x6xf32, #x>
}
