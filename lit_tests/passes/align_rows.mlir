// RUN: %mgx-opt %s --split-input-file --mgx-align-rows | FileCheck %s

// Groups of three channels that lie last: no transpose is left.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x64x12xf32>
// CHECK:         %[[R:.*]] = mgx.reshape %[[X]] : tensor<2x64x12xf32> -> tensor<2x64x4x3xf32>
// CHECK:         %[[M:.*]] = mgx.reduce_max %[[R]] axes = [1, 3] : {{.*}} -> tensor<2x1x4x1xf32>
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[M]] : tensor<2x1x4x1xf32> -> tensor<2x64x4x3xf32>
// CHECK:         mgx.sub %[[R]], %[[B]]
func.func @main(%x: tensor<2x64x12xf32>) -> tensor<2x64x12xf32> {
  %t = mgx.transpose %x permutation = [0, 2, 1] : tensor<2x64x12xf32> -> tensor<2x12x64xf32>
  %r = mgx.reshape %t : tensor<2x12x64xf32> -> tensor<2x4x192xf32>
  %m = mgx.reduce_max %r axes = [2] : tensor<2x4x192xf32> -> tensor<2x4x1xf32>
  %b = mgx.multibroadcast %m : tensor<2x4x1xf32> -> tensor<2x4x192xf32>
  %s = mgx.sub %r, %b : tensor<2x4x192xf32>, tensor<2x4x192xf32> -> tensor<2x4x192xf32>
  %c = mgx.reshape %s : tensor<2x4x192xf32> -> tensor<2x12x64xf32>
  %y = mgx.transpose %c permutation = [0, 2, 1] : tensor<2x12x64xf32> -> tensor<2x64x12xf32>
  return %y : tensor<2x64x12xf32>
}

// -----

// A sum of a transposed tensor. What is widened for it stays narrow before it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<8x6xf16>
// CHECK:         %[[W:.*]] = mgx.convert %[[X]] : tensor<8x6xf16> -> tensor<8x6xf32>
// CHECK:         mgx.reduce_sum %[[W]] axes = [1] : tensor<8x6xf32> -> tensor<8x1xf32>
func.func @main(%x: tensor<8x6xf16>) -> tensor<1x8xf32> {
  %w = mgx.convert %x : tensor<8x6xf16> -> tensor<8x6xf32>
  %t = mgx.transpose %w permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %s = mgx.reduce_sum %t axes = [0] : tensor<6x8xf32> -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}

// -----

// The result is read in the order of the rows: a transpose would remain, and they stay.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reduce_max %{{.*}} axes = [1] : tensor<6x8xf32> -> tensor<6x1xf32>
func.func @main(%x: tensor<8x6xf32>) -> tensor<6x8xf32> {
  %t = mgx.transpose %x permutation = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %m = mgx.reduce_max %t axes = [1] : tensor<6x8xf32> -> tensor<6x1xf32>
  %b = mgx.multibroadcast %m : tensor<6x1xf32> -> tensor<6x8xf32>
  %s = mgx.sub %t, %b : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return %s : tensor<6x8xf32>
}
