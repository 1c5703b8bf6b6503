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

// -----

// Work on indices and sizes is done in each op that reads it, also by broadcasts.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[I:.*]] = mgx.iota : tensor<?xi64, #mgx.dims<[keys : 1 ... ?]>>
// CHECK:         mgx.pointwise(%{{[^,)]*}}, %{{[^,)]*}}, %{{[^,)]*}}) :
// CHECK:           mgx.add
// CHECK:           mgx.less
// CHECK:           mgx.where
// CHECK:         mgx.pointwise(%[[I]], %{{[^,)]*}}) :
// CHECK:           mgx.add
// CHECK:           mgx.less
// CHECK:           mgx.convert
// CHECK-NOT:     mgx.pointwise
#q = #mgx.dims<[keys : 1 ... ?]>
#s = #mgx.dims<[heads : 1 ... ?, keys : 1 ... ?]>
func.func @main(%x: tensor<?x?xf32, #s>) -> (tensor<?x?xf32, #s>, tensor<?xi32, #q>) {
  %i = mgx.iota : tensor<?xi64, #q>
  %d = mgx.dimensions_of %i start = 0 end = 1 : tensor<?xi64, #q> -> tensor<1xi64>
  %n = mgx.multibroadcast %d : tensor<1xi64> -> tensor<?xi64, #q>
  %c = mgx.constant dense<7> : tensor<i64>
  %e = mgx.multibroadcast %c : tensor<i64> -> tensor<?xi64, #q>
  %a = mgx.add %i, %e : tensor<?xi64, #q>, tensor<?xi64, #q> -> tensor<?xi64, #q>
  %l = mgx.less %a, %n : tensor<?xi64, #q>, tensor<?xi64, #q> -> tensor<?xi1, #q>
  %b = mgx.multibroadcast %l : tensor<?xi1, #q> -> tensor<?x?xi1, #s>
  %z = mgx.constant dense<0.0> : tensor<f32>
  %w = mgx.multibroadcast %z : tensor<f32> -> tensor<?x?xf32, #s>
  %y = mgx.where %b, %x, %w : tensor<?x?xi1, #s>, tensor<?x?xf32, #s>, tensor<?x?xf32, #s> -> tensor<?x?xf32, #s>
  %k = mgx.convert %l : tensor<?xi1, #q> -> tensor<?xi32, #q>
  return %y, %k : tensor<?x?xf32, #s>, tensor<?xi32, #q>
}

// -----

// Work on one input enters by a broadcast that may repeat nothing; one of given sizes repeats.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pointwise(
// CHECK:           mgx.convert
// CHECK:           mgx.where
// CHECK:         mgx.pointwise(%{{[^,)]*}}) : {{.*}} -> tensor<2x4xi1> {
// CHECK:         mgx.pointwise(
// CHECK-NOT:       mgx.convert
// CHECK:         return
#m = #mgx.dims<[batch : 1 ... ?, _, keys : 1 ... ?]>
#s = #mgx.dims<[batch : 1 ... ?, queries : 1 ... ?, keys : 1 ... ?]>
func.func @main(%m: tensor<?x1x?xi64, #m>, %x: tensor<?x?x?xf32, #s>, %g: tensor<2x4xi64>, %h: tensor<3x2x4xf32>) -> (tensor<?x?x?xf32, #s>, tensor<3x2x4xf32>) {
  %c = mgx.convert %m : tensor<?x1x?xi64, #m> -> tensor<?x1x?xi1, #m>
  %b = mgx.multibroadcast %c : tensor<?x1x?xi1, #m> -> tensor<?x?x?xi1, #s>
  %n = mgx.neg %x : tensor<?x?x?xf32, #s>
  %y = mgx.where %b, %x, %n : tensor<?x?x?xi1, #s>, tensor<?x?x?xf32, #s>, tensor<?x?x?xf32, #s> -> tensor<?x?x?xf32, #s>
  %d = mgx.convert %g : tensor<2x4xi64> -> tensor<2x4xi1>
  %e = mgx.multibroadcast %d : tensor<2x4xi1> -> tensor<3x2x4xi1>
  %o = mgx.neg %h : tensor<3x2x4xf32>
  %z = mgx.where %e, %h, %o : tensor<3x2x4xi1>, tensor<3x2x4xf32>, tensor<3x2x4xf32> -> tensor<3x2x4xf32>
  return %y, %z : tensor<?x?x?xf32, #s>, tensor<3x2x4xf32>
}
