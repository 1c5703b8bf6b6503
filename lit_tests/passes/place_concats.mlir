// RUN: %mgx-opt %s --split-input-file --mgx-place-concats | FileCheck %s

// Concats of what the program computes are written in place, a concat of concats too.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.concat {{.*}} axis = 1 {mgx.in_place}
// CHECK:         mgx.concat {{.*}} axis = 1 {mgx.in_place}
func.func @main(%x: tensor<1x4x4x4xf32>) -> tensor<1x12x4x4xf32> {
  %a = mgx.exp %x : tensor<1x4x4x4xf32>
  %b = mgx.neg %x : tensor<1x4x4x4xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<1x8x4x4xf32>
  %d = mgx.abs %x : tensor<1x4x4x4xf32>
  %e = mgx.concat %c, %d axis = 1 : tensor<1x8x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<1x12x4x4xf32>
  %f = mgx.relu %e : tensor<1x12x4x4xf32>
  return %f : tensor<1x12x4x4xf32>
}

// -----

// An input, a weight, a value in two concats, an inner axis, a returned result: a copy.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.in_place
func.func @main(%x: tensor<1x4x4x4xf32>)
    -> (tensor<1x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %a = mgx.exp %x : tensor<1x4x4x4xf32>
  %c = mgx.concat %a, %x axis = 1 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<1x8x4x4xf32>
  %d = mgx.relu %c : tensor<1x8x4x4xf32>
  %e = mgx.concat %a, %a axis = 0 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<2x4x4x4xf32>
  %f = mgx.concat %e, %e axis = 1 : tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32> -> tensor<2x8x4x4xf32>
  %g = mgx.relu %f : tensor<2x8x4x4xf32>
  %h = mgx.neg %x : tensor<1x4x4x4xf32>
  %i = mgx.abs %x : tensor<1x4x4x4xf32>
  %j = mgx.concat %h, %i axis = 1 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<1x8x4x4xf32>
  return %d, %g, %j : tensor<1x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<1x8x4x4xf32>
}

// -----

// The second operand would begin in the middle of 64 bytes.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.in_place
func.func @main(%x: tensor<1x3x3xf32>) -> tensor<1x6x3xf32> {
  %a = mgx.exp %x : tensor<1x3x3xf32>
  %b = mgx.neg %x : tensor<1x3x3xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x3x3xf32>, tensor<1x3x3xf32> -> tensor<1x6x3xf32>
  %f = mgx.relu %c : tensor<1x6x3xf32>
  return %f : tensor<1x6x3xf32>
}
