// RUN: %mgx-opt %s --split-input-file --mgx-pair-products | FileCheck %s

// A gate and what it lets through: the weights' columns alternate.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x4xf32>
// CHECK:         %[[W:.*]] = mgx.literal "{{.*}}" : tensor<4x32xf32>
// CHECK:         %[[P:.*]] = mgx.dot %[[X]], %[[W]] : tensor<2x4xf32>, tensor<4x32xf32> -> tensor<2x32xf32>
// CHECK:         %[[S:.*]] = mgx.slice %[[P]] axes = [1] starts = [1] ends = [32]
// CHECK:         %[[G:.*]] = mgx.step %[[P]] axes = [1] steps = [2] : tensor<2x32xf32> -> tensor<2x16xf32>
// CHECK:         %[[U:.*]] = mgx.step %[[S]] axes = [1] steps = [2] : tensor<2x31xf32> -> tensor<2x16xf32>
// CHECK:         mgx.pointwise(%[[G]], %[[U]])
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x16xf32> {
  %v = mgx.constant dense<0.5> : tensor<4x16xf32>
  %w = mgx.constant dense<0.25> : tensor<4x16xf32>
  %g = mgx.dot %x, %v : tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
  %u = mgx.dot %x, %w : tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
  %y = mgx.pointwise(%g, %u) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = mgx.sigmoid %a : f32
    %t = mgx.mul %s, %b : f32, f32 -> f32
    mgx.yield %t : f32
  }
  return %y : tensor<2x16xf32>
}

// -----

// Of any number of rows, weights whose columns lie one after another: the literal has rows in turn.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = mgx.transpose %{{.*}} permutation = [1, 0] : tensor<32x4xf32> -> tensor<4x32xf32>
// CHECK:         mgx.dot %{{.*}}, %[[W]] : {{.*}} -> tensor<?x32xf32, #mgx.dims<[rows : 1 ... ?, _]>>
#x = #mgx.dims<[rows : 1 ... ?, _]>
func.func @main(%x: tensor<?x4xf32, #x>) -> tensor<?x16xf32, #x> {
  %v0 = mgx.constant dense<0.5> : tensor<16x4xf32>
  %w0 = mgx.constant dense<0.25> : tensor<16x4xf32>
  %v = mgx.transpose %v0 permutation = [1, 0] : tensor<16x4xf32> -> tensor<4x16xf32>
  %w = mgx.transpose %w0 permutation = [1, 0] : tensor<16x4xf32> -> tensor<4x16xf32>
  %g = mgx.dot %x, %v : tensor<?x4xf32, #x>, tensor<4x16xf32> -> tensor<?x16xf32, #x>
  %u = mgx.dot %x, %w : tensor<?x4xf32, #x>, tensor<4x16xf32> -> tensor<?x16xf32, #x>
  %y = mgx.pointwise(%g, %u) : (tensor<?x16xf32, #x>, tensor<?x16xf32, #x>) -> tensor<?x16xf32, #x> {
  ^bb0(%a: f32, %b: f32):
    %t = mgx.mul %a, %b : f32, f32 -> f32
    mgx.yield %t : f32
  }
  return %y : tensor<?x16xf32, #x>
}

// -----

// Others read the gate: both products stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.step
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>) {
  %v = mgx.constant dense<0.5> : tensor<4x16xf32>
  %w = mgx.constant dense<0.25> : tensor<4x16xf32>
  %g = mgx.dot %x, %v : tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
  %u = mgx.dot %x, %w : tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
  %y = mgx.pointwise(%g, %u) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%a: f32, %b: f32):
    %t = mgx.mul %a, %b : f32, f32 -> f32
    mgx.yield %t : f32
  }
  return %y, %g : tensor<2x16xf32>, tensor<2x16xf32>
}
