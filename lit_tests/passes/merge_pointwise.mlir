// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-merge-pointwise | FileCheck %s

// What one makes the other reads, and so does the program.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.*]]:2 = mgx.pointwise(%{{.*}}) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK:           %[[A:.*]] = mgx.relu
// CHECK:           %[[B:.*]] = mgx.tanh %[[A]]
// CHECK:           mgx.yield %[[A]], %[[B]]
// CHECK:         return %[[R]]#0, %[[R]]#1
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = mgx.relu %x : tensor<4xf32>
  %b = mgx.tanh %a : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// Both read one value.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pointwise({{.*}}) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-NOT:     mgx.pointwise
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = mgx.relu %x : tensor<4xf32>
  %b = mgx.tanh %x : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// Something that is not pointwise stands between.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pointwise
// CHECK:         mgx.reverse
// CHECK:         mgx.pointwise
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %a = mgx.relu %x : tensor<1x1x4x4xf32>
  %p = mgx.reverse %a axes = [3] : tensor<1x1x4x4xf32> -> tensor<1x1x4x4xf32>
  %b = mgx.add %a, %p : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32> -> tensor<1x1x4x4xf32>
  return %b : tensor<1x1x4x4xf32>
}

// -----

// Two epilogues stay two.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot
// CHECK:         mgx.pointwise
// CHECK:         mgx.dot
// CHECK:         mgx.pointwise
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = mgx.dot %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %a = mgx.add %c, %y : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d = mgx.dot %y, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = mgx.add %d, %y : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// What gives a product codes times the scales of their blocks is no part of another op.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.pointwise
// CHECK:         mgx.dot
func.func @main(%x: tensor<2x64xf32>, %e: tensor<2x64xf8E8M0FNU>, %w: tensor<64x3xf32>) -> tensor<2x3xf32> {
  %q = mgx.pointwise(%x) : (tensor<2x64xf32>) -> tensor<2x64xf8E4M3FN> {
  ^bb0(%a: f32):
    %c = mgx.convert %a : f32 -> f8E4M3FN
    mgx.yield %c : f8E4M3FN
  }
  %d = mgx.pointwise(%q, %e) : (tensor<2x64xf8E4M3FN>, tensor<2x64xf8E8M0FNU>) -> tensor<2x64xf32> {
  ^bb0(%a: f8E4M3FN, %b: f8E8M0FNU):
    %c = mgx.dequantizelinear %a scale %b : f8E4M3FN, f8E8M0FNU -> f32
    mgx.yield %c : f32
  }
  %y = mgx.dot %d, %w : tensor<2x64xf32>, tensor<64x3xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Work on the slices of one tensor; slices of another shape are left alone.
// CHECK-LABEL: func.func @main
// CHECK:         %{{.*}}:2 = mgx.pointwise(%{{.*}}, %{{.*}}) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK:         mgx.pointwise(%{{.*}}) : (tensor<4x2xf32>) -> tensor<4x2xf32>
func.func @main(%x: tensor<4x10xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x2xf32>) {
  %a = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<4x10xf32> -> tensor<4x4xf32>
  %b = mgx.slice %x axes = [1] starts = [4] ends = [8] : tensor<4x10xf32> -> tensor<4x4xf32>
  %c = mgx.slice %x axes = [1] starts = [8] ends = [10] : tensor<4x10xf32> -> tensor<4x2xf32>
  %p = mgx.pointwise(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%s: f32):
    %t = mgx.sigmoid %s : f32
    mgx.yield %t : f32
  }
  %q = mgx.pointwise(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%s: f32):
    %t = mgx.tanh %s : f32
    mgx.yield %t : f32
  }
  %r = mgx.pointwise(%c) : (tensor<4x2xf32>) -> tensor<4x2xf32> {
  ^bb0(%s: f32):
    %t = mgx.relu %s : f32
    mgx.yield %t : f32
  }
  return %p, %q, %r : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x2xf32>
}
