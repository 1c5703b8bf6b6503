// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>, %[[Y:.*]]: tensor<2x3xf32>
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK:      %[[R:.*]] = mgx.pointwise(%[[X]], %[[Y]]) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
  // CHECK-NEXT:   %[[S:.*]] = mgx.add %[[A]], %[[B]] : f32, f32 -> f32
  // CHECK-NEXT:   %[[T:.*]] = mgx.relu %[[S]] : f32
  // CHECK-NEXT:   mgx.yield %[[T]] : f32
  // CHECK:      return %[[R]]
  %0 = mgx.add %x, %y : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = mgx.relu %0 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// A constant whose elements are equal stands in the body, a broadcast of it too.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: mgx.pointwise(%{{[^,)]*}}) :
  // CHECK:   %[[C:.*]] = mgx.constant 2.000000e+00 : f32
  // CHECK:   mgx.mul %{{.*}}, %[[C]] : f32, f32 -> f32
  %c = mgx.constant dense<2.0> : tensor<f32>
  %b = mgx.multibroadcast %c : tensor<f32> -> tensor<2x3xf32>
  %0 = mgx.mul %x, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A value that something else uses is computed once, by itself.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[E:.*]] = mgx.pointwise
  // CHECK:   mgx.exp
  // CHECK: %[[N:.*]] = mgx.pointwise(%[[E]])
  // CHECK:   mgx.neg
  // CHECK: return %[[E]], %[[N]]
  %0 = mgx.exp %x : tensor<4xf32>
  %1 = mgx.neg %0 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Shapes differ: the broadcast stays between.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[E:.*]] = mgx.pointwise({{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: %[[B:.*]] = mgx.multibroadcast %[[E]]
  // CHECK: mgx.pointwise({{.*}}, %[[B]]) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = mgx.exp %x : tensor<3xf32>
  %b = mgx.multibroadcast %0 : tensor<3xf32> -> tensor<2x3xf32>
  %1 = mgx.add %y, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// What a product reads as codes and the scales of their blocks stays apart from what quantizes.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pointwise({{.*}} -> tensor<2x64xf8E4M3FN>
// CHECK:         mgx.quantizelinear
// CHECK:         mgx.pointwise({{.*}} -> tensor<2x64xf32>
// CHECK:         mgx.dequantizelinear
// CHECK:         mgx.dot
func.func @main(%x: tensor<2x64xf32>, %s: tensor<2x64xf32>, %e: tensor<2x64xf8E8M0FNU>, %w: tensor<64x3xf32>) -> tensor<2x3xf32> {
  %q = mgx.quantizelinear %x scale %s : tensor<2x64xf32>, tensor<2x64xf32> -> tensor<2x64xf8E4M3FN>
  %d = mgx.dequantizelinear %q scale %e : tensor<2x64xf8E4M3FN>, tensor<2x64xf8E8M0FNU> -> tensor<2x64xf32>
  %y = mgx.dot %d, %w : tensor<2x64xf32>, tensor<64x3xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Named sizes: a producer of another, which is broadcast, is a kernel of its own.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.pointwise(%arg0)
// CHECK:         mgx.pointwise(%{{.*}}, %arg1)
// CHECK:           mgx.add
// CHECK:           mgx.relu
#a = #mgx.dims<[a : 1 ... ?]>
#b = #mgx.dims<[a : 1 ... ?, b : 1 ... ?]>
func.func @main(%x: tensor<?xf32, #a>, %y: tensor<?x?xf32, #b>) -> tensor<?x?xf32, #b> {
  %e = mgx.exp %x : tensor<?xf32, #a>
  %c = mgx.reshape %e : tensor<?xf32, #a> -> tensor<?x1xf32, #mgx.dims<[a : 1 ... ?, _]>>
  %d = mgx.multibroadcast %c : tensor<?x1xf32, #mgx.dims<[a : 1 ... ?, _]>> -> tensor<?x?xf32, #b>
  %s = mgx.add %d, %y : tensor<?x?xf32, #b>, tensor<?x?xf32, #b> -> tensor<?x?xf32, #b>
  %r = mgx.relu %s : tensor<?x?xf32, #b>
  return %r : tensor<?x?xf32, #b>
}
