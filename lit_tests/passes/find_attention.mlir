// RUN: %mgx-opt %s --split-input-file --mgx-find-attention | FileCheck %s

// A scale, a mask: they become the body.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[Q:.*]]: tensor<2x5x4xf32>, %[[K:.*]]: tensor<2x7x4xf32>, %[[V:.*]]: tensor<2x7x3xf32>, %[[M:.*]]: tensor<1x1x7xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[M]]
// CHECK:         %[[Y:.*]] = mgx.attention(%[[Q]], %[[K]], %[[V]]) extras(%[[B]]) :
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %[[E:.*]]: f32):
// CHECK-NEXT:      %[[C:.*]] = mgx.constant 5.000000e-01 : f32
// CHECK-NEXT:      %[[T:.*]] = mgx.mul %[[S]], %[[C]]
// CHECK-NEXT:      %[[U:.*]] = mgx.add %[[T]], %[[E]]
// CHECK-NEXT:      mgx.yield %[[U]]
// CHECK:         return %[[Y]]
func.func @main(%q: tensor<2x5x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<2x7x3xf32>, %m: tensor<1x1x7xf32>) -> tensor<2x5x3xf32> {
  %c = mgx.constant dense<0.5> : tensor<2x5x7xf32>
  %t = mgx.transpose %k permutation = [0, 2, 1] : tensor<2x7x4xf32> -> tensor<2x4x7xf32>
  %s = mgx.dot %q, %t : tensor<2x5x4xf32>, tensor<2x4x7xf32> -> tensor<2x5x7xf32>
  %x = mgx.mul %s, %c : tensor<2x5x7xf32>, tensor<2x5x7xf32> -> tensor<2x5x7xf32>
  %b = mgx.multibroadcast %m : tensor<1x1x7xf32> -> tensor<2x5x7xf32>
  %u = mgx.add %x, %b : tensor<2x5x7xf32>, tensor<2x5x7xf32> -> tensor<2x5x7xf32>
  %p = mgx.softmax %u axis = 2 : tensor<2x5x7xf32>
  %y = mgx.dot %p, %v : tensor<2x5x7xf32>, tensor<2x7x3xf32> -> tensor<2x5x3xf32>
  return %y : tensor<2x5x3xf32>
}

// -----

// Constants that scale q and k; a constant mask of the keys up to the query's own place.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[Q:.*]]: tensor<3x4xf32>, %[[K:.*]]: tensor<4x3xf32>
// CHECK:         %[[T:.*]] = mgx.transpose %[[K]]
// CHECK:         mgx.attention(%[[Q]], %[[T]], %{{.*}}) {causal = 0 : i64} :
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32):
// CHECK-NEXT:      %[[C:.*]] = mgx.constant 5.000000e-01 : f32
// CHECK-NEXT:      %[[R:.*]] = mgx.mul %[[S]], %[[C]]
// CHECK-NEXT:      mgx.yield %[[R]]
func.func @main(%q: tensor<3x4xf32>, %k: tensor<4x3xf32>, %v: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %c = mgx.constant dense<0.25> : tensor<3x4xf32>
  %d = mgx.constant dense<0.5> : tensor<4x3xf32>
  %l = mgx.constant dense<-3.40282347E+38> : tensor<3x3xf32>
  %m = mgx.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %a = mgx.mul %q, %c : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %b = mgx.div %k, %d : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %s = mgx.dot %a, %b : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<3x3xf32>
  %w = mgx.where %m, %s, %l : tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %p = mgx.softmax %w axis = 1 : tensor<3x3xf32>
  %y = mgx.dot %p, %v : tensor<3x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Narrow scores are f32 in the body, and so is what they meet there.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.attention({{.*}}) extras(%[[M:.*]]) :
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %[[E:.*]]: f16):
// CHECK-NEXT:      %[[W:.*]] = mgx.convert %[[E]] : f16 -> f32
// CHECK-NEXT:      %[[U:.*]] = mgx.add %[[S]], %[[W]] : f32, f32 -> f32
// CHECK-NEXT:      mgx.yield %[[U]]
func.func @main(%q: tensor<3x4xf16>, %k: tensor<4x3xf16>, %m: tensor<3x3xf16>) -> tensor<3x4xf16> {
  %s = mgx.dot %q, %k : tensor<3x4xf16>, tensor<4x3xf16> -> tensor<3x3xf16>
  %u = mgx.add %s, %m : tensor<3x3xf16>, tensor<3x3xf16> -> tensor<3x3xf16>
  %w = mgx.convert %u : tensor<3x3xf16> -> tensor<3x3xf32>
  %p = mgx.softmax %w axis = 1 : tensor<3x3xf32>
  %n = mgx.convert %p : tensor<3x3xf32> -> tensor<3x3xf16>
  %y = mgx.dot %n, %q : tensor<3x3xf16>, tensor<3x4xf16> -> tensor<3x4xf16>
  return %y : tensor<3x4xf16>
}

// -----

// Scores that others read stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.attention
// CHECK:         mgx.softmax
func.func @main(%q: tensor<3x4xf32>, %k: tensor<4x3xf32>) -> (tensor<3x4xf32>, tensor<3x3xf32>) {
  %s = mgx.dot %q, %k : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<3x3xf32>
  %p = mgx.softmax %s axis = 1 : tensor<3x3xf32>
  %y = mgx.dot %p, %q : tensor<3x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return %y, %p : tensor<3x4xf32>, tensor<3x3xf32>
}

// -----

// A softmax over queries is no attention.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.attention
func.func @main(%q: tensor<3x4xf32>, %k: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %s = mgx.dot %q, %k : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<3x3xf32>
  %p = mgx.softmax %s axis = 0 : tensor<3x3xf32>
  %y = mgx.dot %p, %q : tensor<3x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Shares that are NaN, of queries that a mask leaves no key, are made 0: an attribute.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.attention({{.*}}) extras(%{{.*}}) {nan_as_zero} :
// CHECK-NOT:     mgx.isnan
func.func @main(%q: tensor<3x4xf32>, %k: tensor<4x3xf32>, %m: tensor<3x3xf32>) -> tensor<3x4xf32> {
  %o = mgx.constant dense<0.0> : tensor<3x3xf32>
  %s = mgx.dot %q, %k : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<3x3xf32>
  %u = mgx.add %s, %m : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %p = mgx.softmax %u axis = 1 : tensor<3x3xf32>
  %n = mgx.isnan %p : tensor<3x3xf32> -> tensor<3x3xi1>
  %w = mgx.where %n, %o, %p : tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %y = mgx.dot %w, %q : tensor<3x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Heads, queries and keys of named sizes.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.attention(%arg0, %arg1, %arg2) extras(%arg3)
#q = #mgx.dims<[heads : 1 ... ?, seq : 1 ... ?, _]>
#k = #mgx.dims<[heads : 1 ... ?, total : 1 ... ?, _]>
#t = #mgx.dims<[heads : 1 ... ?, _, total : 1 ... ?]>
#s = #mgx.dims<[heads : 1 ... ?, seq : 1 ... ?, total : 1 ... ?]>
func.func @main(%q: tensor<?x?x4xf32, #q>, %k: tensor<?x?x4xf32, #k>, %v: tensor<?x?x4xf32, #k>, %m: tensor<?x?x?xf32, #s>) -> tensor<?x?x4xf32, #q> {
  %t = mgx.transpose %k permutation = [0, 2, 1] : tensor<?x?x4xf32, #k> -> tensor<?x4x?xf32, #t>
  %s = mgx.dot %q, %t : tensor<?x?x4xf32, #q>, tensor<?x4x?xf32, #t> -> tensor<?x?x?xf32, #s>
  %u = mgx.add %s, %m : tensor<?x?x?xf32, #s>, tensor<?x?x?xf32, #s> -> tensor<?x?x?xf32, #s>
  %p = mgx.softmax %u axis = 2 : tensor<?x?x?xf32, #s>
  %y = mgx.dot %p, %v : tensor<?x?x?xf32, #s>, tensor<?x?x4xf32, #k> -> tensor<?x?x4xf32, #q>
  return %y : tensor<?x?x4xf32, #q>
}

// -----

// A mask of the keys that are there, and a constant one of a query's neighbours: a window, and a
// select with the scores. What is 0 where no key is left is an attribute.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[Q:.*]]: tensor<2x4x8xf32>, %[[K:.*]]: tensor<2x8x4xf32>, %[[M:.*]]: tensor<2x1x4xi1>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[M]] : tensor<2x1x4xi1> -> tensor<2x4x4xi1>
// CHECK:         mgx.attention({{.*}}) extras(%[[B]]) {causal = 1 : i64, earliest = -1 : i64, empty_as_zero} :
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %[[E:.*]]: i1):
// CHECK:           %[[W:.*]] = mgx.where %[[E]]
// CHECK:           %[[U:.*]] = mgx.add %[[S]], %[[W]]
// CHECK:           mgx.yield %[[U]]
// CHECK-NOT:     mgx.reduce_max
func.func @main(%q: tensor<2x4x8xf32>, %k: tensor<2x8x4xf32>, %m: tensor<2x1x4xi1>) -> tensor<2x4x8xf32> {
  %o = mgx.constant dense<0.0> : tensor<2x4x4xf32>
  %i = mgx.constant dense<0xFF800000> : tensor<2x4x4xf32>
  %l = mgx.constant dense<0xFF800000> : tensor<2x4x1xf32>
  %w = mgx.constant dense<[[0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0xFF800000, 0.0, 0.0, 0.0], [0xFF800000, 0xFF800000, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = mgx.multibroadcast %m : tensor<2x1x4xi1> -> tensor<2x4x4xi1>
  %c = mgx.where %b, %o, %i : tensor<2x4x4xi1>, tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %v = mgx.multibroadcast %w : tensor<4x4xf32> -> tensor<2x4x4xf32>
  %d = mgx.add %c, %v : tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %s = mgx.dot %q, %k : tensor<2x4x8xf32>, tensor<2x8x4xf32> -> tensor<2x4x4xf32>
  %u = mgx.add %s, %d : tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %p = mgx.softmax %u axis = 2 : tensor<2x4x4xf32>
  %r = mgx.reduce_max %d axes = [2] : tensor<2x4x4xf32> -> tensor<2x4x1xf32>
  %e = mgx.equal %r, %l : tensor<2x4x1xf32>, tensor<2x4x1xf32> -> tensor<2x4x1xi1>
  %g = mgx.multibroadcast %e : tensor<2x4x1xi1> -> tensor<2x4x4xi1>
  %n = mgx.where %g, %o, %p : tensor<2x4x4xi1>, tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %y = mgx.dot %n, %q : tensor<2x4x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}
