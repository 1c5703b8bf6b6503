// RUN: %mgx-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @views_that_do_nothing
// CHECK-SAME:    %[[X:.+]]: tensor<2x3xf32>
func.func @views_that_do_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mgx.identity %x : tensor<2x3xf32>
  %1 = mgx.reshape %0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = mgx.transpose %1 permutation = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = mgx.multibroadcast %2 : tensor<2x3xf32> -> tensor<2x3xf32>
  %4 = mgx.broadcast %3 axis = 0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %5 = mgx.squeeze %4 axes = [] : tensor<2x3xf32> -> tensor<2x3xf32>
  %6 = mgx.flatten %5 axis = 1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %7 = mgx.slice %6 axes = [1] starts = [0] ends = [3] : tensor<2x3xf32> -> tensor<2x3xf32>
  %8 = mgx.step %7 axes = [1] steps = [1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %9 = mgx.reverse %8 axes = [] : tensor<2x3xf32> -> tensor<2x3xf32>
  %10 = mgx.pad %9 low = [0, 0] high = [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  %11 = mgx.concat %10 axis = 0 : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: return %[[X]]
  return %11 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @views_that_do_something
func.func @views_that_do_something(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: mgx.transpose
  // CHECK: mgx.reverse
  // CHECK: mgx.pad
  %0 = mgx.transpose %x permutation = [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = mgx.reverse %0 axes = [1] : tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = mgx.pad %1 low = [1, 0] high = [-1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-SAME:    %[[X:.+]]: tensor<2x3x4xf32>
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  // CHECK-NEXT: %[[T:.+]] = mgx.transpose %[[X]] permutation = [2, 0, 1]
  %0 = mgx.transpose %x permutation = [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = mgx.transpose %0 permutation = [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  %2 = mgx.transpose %1 permutation = [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[T]], %[[X]]
  return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @reshape_of_reshape
// CHECK-SAME:    %[[X:.+]]: tensor<2x6xf32>
func.func @reshape_of_reshape(%x: tensor<2x6xf32>) -> (tensor<4x3xf32>, tensor<2x6xf32>) {
  // CHECK-NEXT: %[[R:.+]] = mgx.reshape %[[X]] : tensor<2x6xf32> -> tensor<4x3xf32>
  %0 = mgx.unsqueeze %x axes = [0] : tensor<2x6xf32> -> tensor<1x2x6xf32>
  %1 = mgx.reshape %0 : tensor<1x2x6xf32> -> tensor<4x3xf32>
  %2 = mgx.squeeze %0 axes = [0] : tensor<1x2x6xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: return %[[R]], %[[X]]
  return %1, %2 : tensor<4x3xf32>, tensor<2x6xf32>
}

// CHECK-LABEL: func.func @broadcast_of_broadcast
// CHECK-SAME:    %[[X:.+]]: tensor<3x1xf32>
func.func @broadcast_of_broadcast(%x: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: mgx.multibroadcast %[[X]] : tensor<3x1xf32> -> tensor<2x3x4xf32>
  %0 = mgx.multibroadcast %x : tensor<3x1xf32> -> tensor<3x4xf32>
  %1 = mgx.multibroadcast %0 : tensor<3x4xf32> -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @reverse_of_reverse
// CHECK-SAME:    %[[X:.+]]: tensor<3xf32>
func.func @reverse_of_reverse(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = mgx.reverse %x axes = [0] : tensor<3xf32> -> tensor<3xf32>
  %1 = mgx.reverse %0 axes = [0] : tensor<3xf32> -> tensor<3xf32>
  // CHECK-NEXT: return %[[X]]
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @views_of_constants
func.func @views_of_constants() -> (tensor<3x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>, tensor<6xi32>) {
  %0 = mgx.constant dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi32>
  // CHECK-DAG: mgx.constant dense<{{\[}}[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi32>
  %1 = mgx.transpose %0 permutation = [1, 0] : tensor<2x3xi32> -> tensor<3x2xi32>
  // CHECK-DAG: mgx.constant dense<{{\[}}[1, 2], [4, 5]]> : tensor<2x2xi32>
  %2 = mgx.slice %0 axes = [1] starts = [1] ends = [3] : tensor<2x3xi32> -> tensor<2x2xi32>
  // CHECK-DAG: mgx.constant dense<{{\[}}[0, 2], [3, 5]]> : tensor<2x2xi32>
  %3 = mgx.step %0 axes = [1] steps = [2] : tensor<2x3xi32> -> tensor<2x2xi32>
  // CHECK-DAG: mgx.constant dense<[5, 4, 3, 2, 1, 0]> : tensor<6xi32>
  %4 = mgx.reshape %0 : tensor<2x3xi32> -> tensor<6xi32>
  %5 = mgx.reverse %4 axes = [0] : tensor<6xi32> -> tensor<6xi32>
  return %1, %2, %3, %5 : tensor<3x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>, tensor<6xi32>
}

// CHECK-LABEL: func.func @splats_stay_splats
func.func @splats_stay_splats() -> tensor<64x3000xf32> {
  // CHECK: mgx.constant dense<2.000000e+00> : tensor<64x3000xf32>
  %0 = mgx.constant dense<2.0> : tensor<3000x1xf32>
  %1 = mgx.multibroadcast %0 : tensor<3000x1xf32> -> tensor<3000x64xf32>
  %2 = mgx.transpose %1 permutation = [1, 0] : tensor<3000x64xf32> -> tensor<64x3000xf32>
  return %2 : tensor<64x3000xf32>
}

// CHECK-LABEL: func.func @keeps_a_broadcast_of_different_elements
func.func @keeps_a_broadcast_of_different_elements() -> tensor<2x2xf32> {
  // CHECK: mgx.multibroadcast
  %0 = mgx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = mgx.multibroadcast %0 : tensor<2xf32> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @sizes
func.func @sizes(%x: tensor<?x3x4xf32>) -> (tensor<2xi64>, tensor<2xi64>) {
  // CHECK-DAG: mgx.constant dense<[3, 4]> : tensor<2xi64>
  %0 = mgx.dimensions_of %x start = 1 end = 3 : tensor<?x3x4xf32> -> tensor<2xi64>
  // CHECK-DAG: mgx.dimensions_of %{{.+}} start = 0 end = 2
  %1 = mgx.dimensions_of %x start = 0 end = 2 : tensor<?x3x4xf32> -> tensor<2xi64>
  return %0, %1 : tensor<2xi64>, tensor<2xi64>
}

// CHECK-LABEL: func.func @concat
// CHECK-SAME:    %[[A:.+]]: tensor<2xf32>, %[[N:.+]]: tensor<0xf32>, %[[B:.+]]: tensor<3xf32>
func.func @concat(%a: tensor<2xf32>, %n: tensor<0xf32>, %b: tensor<3xf32>)
    -> (tensor<5xf32>, tensor<2x3xi32>) {
  // CHECK-DAG: mgx.concat %[[A]], %[[B]] axis = 0 : tensor<2xf32>, tensor<3xf32> -> tensor<5xf32>
  %0 = mgx.concat %a, %n, %b axis = 0 : tensor<2xf32>, tensor<0xf32>, tensor<3xf32> -> tensor<5xf32>
  // CHECK-DAG: mgx.constant dense<{{\[}}[1, 3, 4], [2, 5, 6]]> : tensor<2x3xi32>
  %1 = mgx.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %2 = mgx.constant dense<[[3, 4], [5, 6]]> : tensor<2x2xi32>
  %3 = mgx.concat %1, %2 axis = 1 : tensor<2x1xi32>, tensor<2x2xi32> -> tensor<2x3xi32>
  return %0, %3 : tensor<5xf32>, tensor<2x3xi32>
}

// CHECK-LABEL: func.func @reductions
// CHECK-SAME:    %[[X:.+]]: tensor<2x1xf32>
func.func @reductions(%x: tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>) {
  %0 = mgx.reduce_sum %x axes = [1] : tensor<2x1xf32> -> tensor<2x1xf32>
  // CHECK: %[[M:.+]] = mgx.constant dense<3.000000e+00> : tensor<1x1xf32>
  %1 = mgx.constant dense<3.0> : tensor<4x4xf32>
  %2 = mgx.reduce_mean %1 axes = [0, 1] : tensor<4x4xf32> -> tensor<1x1xf32>
  // CHECK: %[[S:.+]] = mgx.reduce_sum %[[X]] axes = [0]
  %3 = mgx.reduce_sum %x axes = [0] : tensor<2x1xf32> -> tensor<1x1xf32>
  // CHECK: return %[[X]], %[[M]], %[[S]]
  return %0, %2, %3 : tensor<2x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
}
