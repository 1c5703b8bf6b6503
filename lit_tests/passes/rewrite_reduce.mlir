// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-reduce | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>
// CHECK:         %[[M:.*]] = mgx.reduce_max %[[X]] axes = [1]
// CHECK:         %[[B:.*]] = mgx.multibroadcast %[[M]]
// CHECK:         %[[D:.*]] = mgx.sub %[[X]], %[[B]]
// CHECK:         %[[E:.*]] = mgx.exp %[[D]]
// CHECK:         %[[S:.*]] = mgx.reduce_sum %[[E]] axes = [1]
// CHECK:         mgx.recip %[[S]]
// CHECK:         mgx.mul %[[E]]
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = mgx.softmax %x axis = 1 : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// 16-bit values are summed in f32.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convert %{{.*}} : tensor<2x3xf16> -> tensor<2x3xf32>
// CHECK:         mgx.reduce_sum {{.*}} : tensor<2x3xf32> -> tensor<2x1xf32>
// CHECK:         mgx.log
// CHECK:         mgx.convert %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf16>
func.func @main(%x: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %y = mgx.logsoftmax %x axis = 1 : tensor<2x3xf16>
  return %y : tensor<2x3xf16>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK:         mgx.reduce_max %arg0 axes = [1] : {{.*}} -> tensor<?x1xf32, #mgx.dims<[batch : 1 ... ?, _]>>
// CHECK:         mgx.reduce_sum
#x = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?]>
func.func @main(%x: tensor<?x?xf32, #x>) -> tensor<?x?xf32, #x> {
  %y = mgx.softmax %x axis = 1 : tensor<?x?xf32, #x>
  return %y : tensor<?x?xf32, #x>
}
