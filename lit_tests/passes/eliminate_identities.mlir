// RUN: %mgx-opt %s --split-input-file --mgx-eliminate-identities | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT:    %[[R:.*]] = mgx.relu %[[X]]
// CHECK-NEXT:    return %[[R]], %[[X]]
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %one = mgx.constant dense<1.0> : tensor<1xf32>
  %ones = mgx.multibroadcast %one : tensor<1xf32> -> tensor<2xf32>
  %0 = mgx.mul %x, %ones : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.relu %0 : tensor<2xf32>
  %2 = mgx.relu %1 : tensor<2xf32>
  %3 = mgx.neg %x : tensor<2xf32>
  %4 = mgx.neg %3 : tensor<2xf32>
  return %2, %4 : tensor<2xf32>, tensor<2xf32>
}

// -----

// 0 - x, 1 / x and x + 1 are no identities.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.sub
// CHECK:         mgx.div
// CHECK:         mgx.add
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zeros = mgx.constant dense<0.0> : tensor<2xf32>
  %ones = mgx.constant dense<1.0> : tensor<2xf32>
  %0 = mgx.sub %zeros, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.div %ones, %0 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %2 = mgx.add %1, %ones : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// To a wider type and back; a narrower one in between rounds.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2xf16>, %[[Y:.*]]: tensor<2xf32>
// CHECK:         %[[N:.*]] = mgx.convert %[[Y]] : tensor<2xf32> -> tensor<2xf16>
// CHECK:         %[[W:.*]] = mgx.convert %[[N]]
// CHECK:         return %[[X]], %[[W]]
func.func @main(%x: tensor<2xf16>, %y: tensor<2xf32>) -> (tensor<2xf16>, tensor<2xf32>) {
  %0 = mgx.convert %x : tensor<2xf16> -> tensor<2xf32>
  %1 = mgx.convert %0 : tensor<2xf32> -> tensor<2xf16>
  %2 = mgx.convert %y : tensor<2xf32> -> tensor<2xf16>
  %3 = mgx.convert %2 : tensor<2xf16> -> tensor<2xf32>
  return %1, %3 : tensor<2xf16>, tensor<2xf32>
}

// -----

// A conversion on the way that loses nothing; the second one's does.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<4xf16>, %[[Y:.*]]: tensor<4xf32>
// CHECK:         mgx.convert %[[X]] : tensor<4xf16> -> tensor<4xf64>
// CHECK:         %[[N:.*]] = mgx.convert %[[Y]] : tensor<4xf32> -> tensor<4xf16>
// CHECK:         mgx.convert %[[N]] : tensor<4xf16> -> tensor<4xf64>
func.func @main(%x: tensor<4xf16>, %y: tensor<4xf32>) -> (tensor<4xf64>, tensor<4xf64>) {
  %0 = mgx.convert %x : tensor<4xf16> -> tensor<4xf32>
  %1 = mgx.convert %0 : tensor<4xf32> -> tensor<4xf64>
  %2 = mgx.convert %y : tensor<4xf32> -> tensor<4xf16>
  %3 = mgx.convert %2 : tensor<4xf16> -> tensor<4xf64>
  return %1, %3 : tensor<4xf64>, tensor<4xf64>
}

// -----

// An f32 holds each number of 4 bits; an f16 does not hold each i16, and a float saturates as it
// becomes an integer.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<4xui4>, %[[Y:.*]]: tensor<4xi16>
// CHECK:         mgx.convert %[[X]] : tensor<4xui4> -> tensor<4xf16>
// CHECK:         %[[H:.*]] = mgx.convert %[[Y]] : tensor<4xi16> -> tensor<4xf16>
// CHECK:         mgx.convert %[[H]] : tensor<4xf16> -> tensor<4xf32>
// CHECK:         %[[F:.*]] = mgx.convert %[[Y]] : tensor<4xi16> -> tensor<4xf32>
// CHECK:         mgx.convert %[[F]] : tensor<4xf32> -> tensor<4xi8>
func.func @main(%x: tensor<4xui4>, %y: tensor<4xi16>)
    -> (tensor<4xf16>, tensor<4xf32>, tensor<4xi8>) {
  %0 = mgx.convert %x : tensor<4xui4> -> tensor<4xf32>
  %1 = mgx.convert %0 : tensor<4xf32> -> tensor<4xf16>
  %2 = mgx.convert %y : tensor<4xi16> -> tensor<4xf16>
  %3 = mgx.convert %2 : tensor<4xf16> -> tensor<4xf32>
  %4 = mgx.convert %y : tensor<4xi16> -> tensor<4xf32>
  %5 = mgx.convert %4 : tensor<4xf32> -> tensor<4xi8>
  return %1, %3, %5 : tensor<4xf16>, tensor<4xf32>, tensor<4xi8>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK:         mgx.dequantizelinear %{{.*}} scale %{{.*}} : tensor<4xi8>, tensor<4xf32> -> tensor<4xf32>
func.func @main(%x: tensor<4xi8>, %s: tensor<4xf32>) -> tensor<4xf32> {
  %z = mgx.constant dense<0> : tensor<4xi8>
  %y = mgx.dequantizelinear %x scale %s zero_point %z : tensor<4xi8>, tensor<4xf32>, tensor<4xi8> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// With --exact x + 0 stays, as test/test_compiler.py has it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT:    return %[[X]]
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = mgx.constant dense<0.0> : tensor<2xf32>
  %negative = mgx.constant dense<-0.0> : tensor<2xf32>
  %0 = mgx.add %x, %zero : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.sub %0, %negative : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
