// RUN: %mgx-opt %s --split-input-file --mgx-simplify-gathers | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x8x4xf32>
// CHECK:         %[[S:.*]] = mgx.slice %[[X]] axes = [1] starts = [7] ends = [8]
// CHECK:         mgx.reshape %[[S]] : tensor<2x1x4xf32> -> tensor<2x4xf32>
func.func @main(%x: tensor<2x8x4xf32>) -> tensor<2x4xf32> {
  %i = mgx.constant dense<-1> : tensor<i64>
  %y = mgx.gather %x[%i] axis = 1 : tensor<2x8x4xf32>, tensor<i64> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Every third, backwards; and one place again and again.
// CHECK-LABEL: func.func @main
// CHECK:         %[[S:.*]] = mgx.slice %{{.*}} axes = [0] starts = [1] ends = [8]
// CHECK:         %[[T:.*]] = mgx.step %[[S]] axes = [0] steps = [3]
// CHECK:         mgx.reverse %[[T]] axes = [0]
// CHECK:         mgx.multibroadcast %{{.*}} : tensor<1x4xf32> -> tensor<3x4xf32>
func.func @main(%x: tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %i = mgx.constant dense<[7, 4, 1]> : tensor<3xi64>
  %j = mgx.constant dense<2> : tensor<3xi64>
  %y = mgx.gather %x[%i] axis = 0 : tensor<8x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %z = mgx.gather %x[%j] axis = 0 : tensor<8x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  return %y, %z : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// Uneven places.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.gather
func.func @main(%x: tensor<8x4xf32>) -> tensor<3x4xf32> {
  %i = mgx.constant dense<[0, 1, 3]> : tensor<3xi64>
  %y = mgx.gather %x[%i] axis = 0 : tensor<8x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Each element twice, and pairs that are exchanged; what no strides give stays.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.multibroadcast %{{.*}} : tensor<12x1xf32> -> tensor<12x2xf32>
// CHECK:         mgx.transpose
// CHECK:         mgx.gather
func.func @main(%x: tensor<3x4xf32>) -> (tensor<3x8xf32>, tensor<3x2x2xf32>, tensor<3x3xf32>) {
  %i = mgx.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi64>
  %a = mgx.gather %x[%i] axis = 1 : tensor<3x4xf32>, tensor<8xi64> -> tensor<3x8xf32>
  %j = mgx.constant dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>
  %b = mgx.gather %x[%j] axis = 1 : tensor<3x4xf32>, tensor<2x2xi64> -> tensor<3x2x2xf32>
  %k = mgx.constant dense<[0, 1, 3]> : tensor<3xi64>
  %c = mgx.gather %x[%k] axis = 1 : tensor<3x4xf32>, tensor<3xi64> -> tensor<3x3xf32>
  return %a, %b, %c : tensor<3x8xf32>, tensor<3x2x2xf32>, tensor<3x3xf32>
}
