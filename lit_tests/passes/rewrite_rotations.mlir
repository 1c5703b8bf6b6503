// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-rotations | FileCheck %s

// A rotary embedding: halves that change places are a view, and signs go to a factor.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3x5x8xf16>, %[[S:.*]]: tensor<5x8xf16>
// CHECK-DAG:     %[[C:.*]] = mgx.constant dense<{{\[\[}}-1.000000e+00, -1.000000e+00, -1.000000e+00, -1.000000e+00, 1.000000e+00
// CHECK-DAG:     %[[H:.*]] = mgx.reshape %[[X]] : tensor<2x3x5x8xf16> -> tensor<2x3x5x2x4xf16>
// CHECK:         %[[V:.*]] = mgx.reverse %[[H]] axes = [3]
// CHECK:         %[[R:.*]] = mgx.reshape %[[V]] : tensor<2x3x5x2x4xf16> -> tensor<2x3x5x8xf16>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[C]]
// CHECK:         %[[M:.*]] = mgx.mul %[[S]], %[[B]] : tensor<5x8xf16>
// CHECK:         %[[F:.*]] = mgx.multibroadcast %[[M]]
// CHECK:         mgx.mul %[[R]], %[[F]]
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<2x3x5x8xf16>, %sin: tensor<5x8xf16>) -> tensor<2x3x5x8xf16> {
  %a = mgx.slice %x axes = [3] starts = [0] ends = [4] : tensor<2x3x5x8xf16> -> tensor<2x3x5x4xf16>
  %b = mgx.slice %x axes = [3] starts = [4] ends = [8] : tensor<2x3x5x8xf16> -> tensor<2x3x5x4xf16>
  %n = mgx.neg %b : tensor<2x3x5x4xf16>
  %r = mgx.concat %n, %a axis = 3 : tensor<2x3x5x4xf16>, tensor<2x3x5x4xf16> -> tensor<2x3x5x8xf16>
  %s = mgx.multibroadcast %sin : tensor<5x8xf16> -> tensor<2x3x5x8xf16>
  %y = mgx.mul %r, %s : tensor<2x3x5x8xf16>, tensor<2x3x5x8xf16> -> tensor<2x3x5x8xf16>
  return %y : tensor<2x3x5x8xf16>
}

// -----

// Without signs, whatever reads it.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reverse %{{.*}} axes = [0]
// CHECK:         mgx.add
func.func @main(%x: tensor<6x5xi32>) -> tensor<6x5xi32> {
  %a = mgx.slice %x axes = [0] starts = [0] ends = [3] : tensor<6x5xi32> -> tensor<3x5xi32>
  %b = mgx.slice %x axes = [0] starts = [3] ends = [6] : tensor<6x5xi32> -> tensor<3x5xi32>
  %r = mgx.concat %b, %a axis = 0 : tensor<3x5xi32>, tensor<3x5xi32> -> tensor<6x5xi32>
  %y = mgx.add %r, %x : tensor<6x5xi32>, tensor<6x5xi32> -> tensor<6x5xi32>
  return %y : tensor<6x5xi32>
}

// -----

// No product takes the signs; the halves are in their places; parts are no halves.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: mgx.concat
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = mgx.slice %x axes = [0] starts = [0] ends = [4] : tensor<8xf32> -> tensor<4xf32>
  %b = mgx.slice %x axes = [0] starts = [4] ends = [8] : tensor<8xf32> -> tensor<4xf32>
  %n = mgx.neg %b : tensor<4xf32>
  %r = mgx.concat %n, %a axis = 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %p = mgx.add %r, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %m = mgx.neg %a : tensor<4xf32>
  %s = mgx.concat %m, %b axis = 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %c = mgx.slice %x axes = [0] starts = [0] ends = [3] : tensor<8xf32> -> tensor<3xf32>
  %d = mgx.slice %x axes = [0] starts = [3] ends = [8] : tensor<8xf32> -> tensor<5xf32>
  %t = mgx.concat %d, %c axis = 0 : tensor<5xf32>, tensor<3xf32> -> tensor<8xf32>
  return %p, %s, %t : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Halves that are rotated one by one and joined, as ONNX's RotaryEmbedding writes it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<3x8xf32>, %[[C:.*]]: tensor<3x4xf32>, %[[S:.*]]: tensor<3x4xf32>
// CHECK:         %[[H:.*]] = mgx.reshape %[[X]] : tensor<3x8xf32> -> tensor<3x2x4xf32>
// CHECK:         %[[D:.*]] = mgx.reshape %[[C]] : tensor<3x4xf32> -> tensor<3x1x4xf32>
// CHECK:         %[[COS:.*]] = mgx.multibroadcast %[[D]]
// CHECK:         %[[V:.*]] = mgx.reverse %[[H]] axes = [1]
// CHECK:         mgx.mul %[[V]]
// CHECK:         mgx.mul %[[H]], %[[COS]]
// CHECK-NOT:     mgx.concat
func.func @main(%x: tensor<3x8xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<3x8xf32> -> tensor<3x4xf32>
  %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : tensor<3x8xf32> -> tensor<3x4xf32>
  %ac = mgx.mul %c, %a : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %bs = mgx.mul %s, %b : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %p = mgx.sub %ac, %bs : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %as = mgx.mul %s, %a : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %bc = mgx.mul %c, %b : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %q = mgx.add %bc, %as : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %y = mgx.concat %p, %q axis = 1 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// -----

// Tables that are not crossed are no rotation.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.concat
func.func @main(%x: tensor<3x8xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<3x8xf32> -> tensor<3x4xf32>
  %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : tensor<3x8xf32> -> tensor<3x4xf32>
  %ac = mgx.mul %c, %a : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %bs = mgx.mul %s, %b : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %p = mgx.sub %ac, %bs : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %q = mgx.add %bs, %ac : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  %y = mgx.concat %p, %q axis = 1 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// -----

// Rows of named size.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.concat
// CHECK:         mgx.reverse %{{.*}} axes = [1]
#n = #mgx.dims<[rows : 1 ... ?, _]>
func.func @main(%x: tensor<?x8xf32, #n>) -> tensor<?x8xf32, #n> {
  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<?x8xf32, #n> -> tensor<?x4xf32, #n>
  %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : tensor<?x8xf32, #n> -> tensor<?x4xf32, #n>
  %r = mgx.concat %b, %a axis = 1 : tensor<?x4xf32, #n>, tensor<?x4xf32, #n> -> tensor<?x8xf32, #n>
  return %r : tensor<?x8xf32, #n>
}
