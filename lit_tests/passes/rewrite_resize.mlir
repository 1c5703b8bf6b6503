// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-resize | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<1x2x3x4xf32>
// CHECK:         %[[R:.*]] = mgx.reshape %[[X]]
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[R]]
// CHECK:         %[[Y:.*]] = mgx.reshape %[[B]] : {{.*}} -> tensor<1x2x6x12xf32>
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x6x12xf32> {
  %y = mgx.resize %x scales = [1.0, 1.0, 2.0, 3.0] : tensor<1x2x3x4xf32> -> tensor<1x2x6x12xf32>
  return %y : tensor<1x2x6x12xf32>
}

// -----

// Every second element.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.resize
// CHECK:         mgx.slice
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %y = mgx.resize %x scales = [1.0, 0.5] {coordinate_mode = #mgx<coordinate_mode asymmetric>, nearest_mode = #mgx<nearest_mode floor>} : tensor<2x8xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Elements that are repeated once and twice, and weighted ones.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: mgx.resize
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x8xf32>) {
  %a = mgx.resize %x scales = [1.0, 1.5] : tensor<2x4xf32> -> tensor<2x6xf32>
  %b = mgx.resize %x scales = [1.0, 2.0] {mode = #mgx<resize_mode linear>} : tensor<2x4xf32> -> tensor<2x8xf32>
  return %a, %b : tensor<2x6xf32>, tensor<2x8xf32>
}
