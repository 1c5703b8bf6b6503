// RUN: %mgx-opt %s --mgx-split-conversions | FileCheck %s

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
