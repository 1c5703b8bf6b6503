// RUN: %mgx-opt %s --split-input-file --mgx-split-conversions | FileCheck %s

// Each reader widens for itself; conversions to narrower floats, and of integers, stay shared.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2xf16>, %[[I:.*]]: tensor<2xi8>
// CHECK-NEXT:    %[[F:.*]] = mgx.convert %[[X]] : tensor<2xf16> -> tensor<2xf32>
// CHECK-NEXT:    %[[N:.*]] = mgx.convert %[[I]] : tensor<2xi8> -> tensor<2xf32>
// CHECK-NEXT:    %[[A:.*]] = mgx.exp %[[F]]
// CHECK-NEXT:    %[[G:.*]] = mgx.convert %[[X]] : tensor<2xf16> -> tensor<2xf32>
// CHECK-NEXT:    %[[B:.*]] = mgx.mul %[[G]], %[[N]]
// CHECK-NEXT:    %[[C:.*]] = mgx.add %[[B]], %[[N]]
func.func @main(%x: tensor<2xf16>, %i: tensor<2xi8>) -> (tensor<2xf32>, tensor<2xf32>) {
  %f = mgx.convert %x : tensor<2xf16> -> tensor<2xf32>
  %n = mgx.convert %i : tensor<2xi8> -> tensor<2xf32>
  %a = mgx.exp %f : tensor<2xf32>
  %b = mgx.mul %f, %n : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %c = mgx.add %b, %n : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %a, %c : tensor<2xf32>, tensor<2xf32>
}

// -----

// Views are of the narrow tensor, which lies in memory.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf16>
// CHECK-NEXT:    %[[T:.*]] = mgx.transpose %[[X]] permutation = [1, 0] : tensor<2x3xf16> -> tensor<3x2xf16>
// CHECK-NEXT:    %[[R:.*]] = mgx.reshape %[[T]] : tensor<3x2xf16> -> tensor<6xf16>
// CHECK-NEXT:    %[[G:.*]] = mgx.convert %[[R]] : tensor<6xf16> -> tensor<6xf32>
// CHECK-NEXT:    %[[F:.*]] = mgx.convert %[[X]] : tensor<2x3xf16> -> tensor<2x3xf32>
// CHECK-NEXT:    %[[A:.*]] = mgx.exp %[[F]]
// CHECK-NEXT:    return %[[G]], %[[A]]
func.func @main(%x: tensor<2x3xf16>) -> (tensor<6xf32>, tensor<2x3xf32>) {
  %f = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
  %t = mgx.transpose %f permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %r = mgx.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
  %a = mgx.exp %f : tensor<2x3xf32>
  return %r, %a : tensor<6xf32>, tensor<2x3xf32>
}
