// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-reduce --mgx-fuse-reduce | FileCheck %s

// A softmax with the scale before it is one op.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>, %[[S:.*]]: tensor<2x3xf32>
func.func @main(%x: tensor<2x3xf32>, %s: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK:      %[[R:.*]] = mgx.fused_reduce(%[[X]], %[[S]]) axes = [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK:        mgx.mul
  // CHECK:        mgx.reduce_max
  // CHECK:        mgx.exp
  // CHECK:        mgx.reduce_sum
  // CHECK:        mgx.recip
  // CHECK:        mgx.yield
  // CHECK-NOT:  mgx.fused_reduce
  // CHECK:      return %[[R]]
  %0 = mgx.mul %x, %s : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = mgx.softmax %0 axis = 1 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// The sum of a reduction and of something that depends on it through another op stays outside.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: %[[R:.*]] = mgx.fused_reduce
  // CHECK: %[[B:.*]] = mgx.multibroadcast %[[R]]
  // CHECK: %[[D:.*]] = mgx.dot %[[B]]
  // CHECK: mgx.add %[[B]], %[[D]]
  %0 = mgx.reduce_sum %x axes = [1] : tensor<2x2xf32> -> tensor<2x1xf32>
  %b = mgx.multibroadcast %0 : tensor<2x1xf32> -> tensor<2x2xf32>
  %d = mgx.dot %b, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = mgx.add %b, %d : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// Reductions over other axes are other ops.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<1x3xf32>) {
  // CHECK: mgx.fused_reduce({{.*}}) axes = [1]
  // CHECK: mgx.fused_reduce({{.*}}) axes = [0]
  %0 = mgx.reduce_sum %x axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  %1 = mgx.reduce_sum %x axes = [0] : tensor<2x3xf32> -> tensor<1x3xf32>
  return %0, %1 : tensor<2x1xf32>, tensor<1x3xf32>
}

// -----

// A residual is a second result.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.*]]:2 = mgx.fused_reduce(%arg0, %arg1) axes = [1]
// CHECK-NOT:     mgx.add %arg0
// CHECK:         mgx.tanh
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = mgx.add %x, %y : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %s = mgx.reduce_sum %a axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  %v = mgx.reverse %s axes = [0] : tensor<2x1xf32> -> tensor<2x1xf32>
  %b = mgx.multibroadcast %v : tensor<2x1xf32> -> tensor<2x3xf32>
  %t = mgx.tanh %b : tensor<2x3xf32>
  %z = mgx.add %a, %t : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

// -----

// A contraction's kernel makes the residual.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot
// CHECK:         %[[A:.*]] = mgx.add
// CHECK:         mgx.fused_reduce(%[[A]]) axes = [1]
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>) {
  %d = mgx.dot %x, %y : tensor<2x2xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %a = mgx.add %d, %y : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %s = mgx.reduce_sum %a axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  return %a, %s : tensor<2x3xf32>, tensor<2x1xf32>
}

// -----

// What a convolution's kernel does with its result stays there, also where it is read twice.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.convolution
// CHECK:         %[[A:.*]] = mgx.add %[[C]], %{{.*}}
// CHECK:         %[[S:.*]] = mgx.sigmoid %[[A]]
// CHECK:         %[[M:.*]] = mgx.mul %[[A]], %[[S]]
// CHECK:         %[[R:.*]] = mgx.fused_reduce(%[[M]]) axes = [2, 3]
// CHECK:         return %[[M]], %[[R]]
func.func @main(%x: tensor<1x8x4x4xf32>, %w: tensor<8x8x1x1xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8x1x1xf32>) {
  %c = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x8x4x4xf32>, tensor<8x8x1x1xf32> -> tensor<1x8x4x4xf32>
  %b = mgx.constant dense<1.0> : tensor<1x8x4x4xf32>
  %a = mgx.add %c, %b : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32> -> tensor<1x8x4x4xf32>
  %s = mgx.sigmoid %a : tensor<1x8x4x4xf32>
  %m = mgx.mul %a, %s : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32> -> tensor<1x8x4x4xf32>
  %r = mgx.reduce_mean %m axes = [2, 3] : tensor<1x8x4x4xf32> -> tensor<1x8x1x1xf32>
  return %m, %r : tensor<1x8x4x4xf32>, tensor<1x8x1x1xf32>
}

// -----

// Rows, and their length, of named sizes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.fused_reduce(%arg0) axes = [1]
// CHECK:           mgx.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    return
#x = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?]>
func.func @main(%x: tensor<?x?xf32, #x>) -> tensor<?x?xf32, #x> {
  %y = mgx.softmax %x axis = 1 : tensor<?x?xf32, #x>
  return %y : tensor<?x?xf32, #x>
}

// -----

// What a product reads as codes and the scales of their blocks stays apart from what quantizes.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.fused_reduce{{.*}} -> (tensor<8x1xf8E8M0FNU>, tensor<8x32xf8E4M3FN>)
// CHECK:           mgx.quantizelinear
// CHECK:           mgx.yield
// CHECK:         mgx.dequantizelinear
// CHECK:         mgx.dot
func.func @main(%x: tensor<8x32xf32>, %w: tensor<128x3xf32>) -> tensor<2x3xf32> {
  %m = mgx.reduce_max %x axes = [1] : tensor<8x32xf32> -> tensor<8x1xf32>
  %e = mgx.convert %m : tensor<8x1xf32> -> tensor<8x1xf8E8M0FNU>
  %f = mgx.convert %e : tensor<8x1xf8E8M0FNU> -> tensor<8x1xf32>
  %s = mgx.multibroadcast %f : tensor<8x1xf32> -> tensor<8x32xf32>
  %q = mgx.quantizelinear %x scale %s : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf8E4M3FN>
  %t = mgx.multibroadcast %e : tensor<8x1xf8E8M0FNU> -> tensor<8x32xf8E8M0FNU>
  %d = mgx.dequantizelinear %q scale %t : tensor<8x32xf8E4M3FN>, tensor<8x32xf8E8M0FNU> -> tensor<8x32xf32>
  %r = mgx.reshape %d : tensor<8x32xf32> -> tensor<2x128xf32>
  %y = mgx.dot %r, %w : tensor<2x128xf32>, tensor<128x3xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// A conversion that each reader has for itself is one result.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.fused_reduce{{.*}} -> tensor<4x1xf32>
func.func @main(%x: tensor<4x8xf16>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %m = mgx.reduce_max %x axes = [1] : tensor<4x8xf16> -> tensor<4x1xf16>
  %a = mgx.convert %m : tensor<4x1xf16> -> tensor<4x1xf32>
  %b = mgx.convert %m : tensor<4x1xf16> -> tensor<4x1xf32>
  %y = mgx.reshape %a : tensor<4x1xf32> -> tensor<4xf32>
  %z = mgx.reshape %b : tensor<4x1xf32> -> tensor<2x2xf32>
  return %y, %z : tensor<4xf32>, tensor<2x2xf32>
}

// -----

// Axes may stand in any order, and are sorted in the fused op.
// CHECK-LABEL: func.func @main
// CHECK:      mgx.fused_reduce({{.*}}) axes = [0, 2]
// CHECK:        mgx.reduce_sum {{.*}} axes = [0, 2]
// CHECK:        mgx.reduce_max {{.*}} axes = [0, 2]
func.func @main(%x: tensor<2x3x4xf32>) -> (tensor<1x3x1xf32>, tensor<1x3x1xf32>) {
  %0 = mgx.reduce_sum %x axes = [2, 0] : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  %1 = mgx.reduce_max %x axes = [0, 2] : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  return %0, %1 : tensor<1x3x1xf32>, tensor<1x3x1xf32>
}
