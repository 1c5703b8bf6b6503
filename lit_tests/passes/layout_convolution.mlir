// RUN: %mgx-opt %s --split-input-file --mgx-layout-convolution | FileCheck %s

// Inside, nothing is transposed; the result of the last one is written as it is returned.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x3x8x8xf32>
// CHECK-DAG:     %[[V:.*]] = mgx.constant dense<5.000000e-01> : tensor<16x3x3x3xf32>
// CHECK-DAG:     %[[T:.*]] = mgx.transpose %[[X]] permutation = [0, 2, 3, 1]
// CHECK:         %[[A:.*]] = mgx.convolution %[[T]], %[[V]] {{.*}}channels_last{{.*}} -> tensor<1x8x8x16xf32>
// CHECK-NEXT:    %[[B:.*]] = mgx.relu %[[A]] : tensor<1x8x8x16xf32>
// CHECK-NEXT:    %[[U:.*]] = mgx.transpose %[[B]] permutation = [0, 3, 1, 2]
// CHECK-NEXT:    mgx.convolution %[[U]], %{{.*}} pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x16x8x8xf32>, tensor<4x16x3x3xf32> -> tensor<1x4x8x8xf32>
func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<4x16x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %v = mgx.constant dense<0.5> : tensor<16x3x3x3xf32>
  %a = mgx.convolution %x, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32> -> tensor<1x16x8x8xf32>
  %b = mgx.relu %a : tensor<1x16x8x8xf32>
  %y = mgx.convolution %b, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x16x8x8xf32>, tensor<4x16x3x3xf32> -> tensor<1x4x8x8xf32>
  return %y : tensor<1x4x8x8xf32>
}

// -----

// Pooling, broadcasts, reductions and what is added have the same layout.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.convolution {{.*}}channels_last{{.*}} -> tensor<2x8x8x8xf32>
// CHECK:         %[[I:.*]] = mgx.reshape %[[A]] : tensor<2x8x8x8xf32> -> tensor<2x1x8x8x8xf32>
// CHECK:         %[[P:.*]] = mgx.pooling max %[[I]] lengths = [3, 3, 1] pads = [1, 1, 0, 1, 1, 0] strides = [2, 2, 1] dilations = [1, 1, 1] : tensor<2x1x8x8x8xf32> -> tensor<2x1x4x4x8xf32>
// CHECK:         %[[M:.*]] = mgx.reduce_mean %{{.*}} axes = [1, 2] : tensor<2x4x4x8xf32> -> tensor<2x1x1x8xf32>
// CHECK:         %[[S:.*]] = mgx.multibroadcast %[[M]] : tensor<2x1x1x8xf32> -> tensor<2x4x4x8xf32>
// CHECK:         mgx.mul %{{.*}}, %[[S]] : tensor<2x4x4x8xf32>
// CHECK:         mgx.convolution {{.*}}channels_last{{.*}} -> tensor<2x4x4x8xf32>
func.func @main(%x: tensor<2x8x8x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<2x8xf32> {
  %a = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<2x8x8x8xf32>, tensor<8x8x3x3xf32> -> tensor<2x8x8x8xf32>
  %p = mgx.pooling max %a lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<2x8x8x8xf32> -> tensor<2x8x4x4xf32>
  %m = mgx.reduce_mean %p axes = [2, 3] : tensor<2x8x4x4xf32> -> tensor<2x8x1x1xf32>
  %s = mgx.multibroadcast %m : tensor<2x8x1x1xf32> -> tensor<2x8x4x4xf32>
  %c = mgx.mul %p, %s : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32> -> tensor<2x8x4x4xf32>
  %d = mgx.convolution %c, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<2x8x4x4xf32>, tensor<8x8x3x3xf32> -> tensor<2x8x4x4xf32>
  %r = mgx.reduce_sum %d axes = [2, 3] : tensor<2x8x4x4xf32> -> tensor<2x8x1x1xf32>
  %y = mgx.reshape %r : tensor<2x8x1x1xf32> -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// Channels of one image that are put together are pieces of memory as they are.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution {{.*}}channels_last{{.*}} -> tensor<1x4x4x8xf32>
// CHECK:         mgx.relu %{{.*}} : tensor<1x4x4x8xf32>
// CHECK:         %[[C:.*]] = mgx.convolution {{.*}} -> tensor<1x8x4x4xf32>
// CHECK:         mgx.concat %[[C]], %[[C]] axis = 1
func.func @main(%x: tensor<1x8x4x4xf32>) -> tensor<1x16x4x4xf32> {
  %w = mgx.literal "w" : tensor<8x8x3x3xf32>
  %a = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32> -> tensor<1x8x4x4xf32>
  %b = mgx.relu %a : tensor<1x8x4x4xf32>
  %c = mgx.convolution %b, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32> -> tensor<1x8x4x4xf32>
  %y = mgx.concat %c, %c axis = 1 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32> -> tensor<1x16x4x4xf32>
  return %y : tensor<1x16x4x4xf32>
}

// -----

// A result that is returned is made as the caller has it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.convolution {{.*}} : tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32> -> tensor<1x8x4x4xf32>
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x8x4x4xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x4x4xf32> {
  %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32> -> tensor<1x8x4x4xf32>
  return %y : tensor<1x8x4x4xf32>
}

// -----

// Filters of one channel each, too.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution {{.*}}channels_last{{.*}} -> tensor<1x8x8x16xf32>
// CHECK:         %[[D:.*]] = mgx.convolution {{.*}}channels_last, group = 16 : i64{{.*}} -> tensor<1x8x8x16xf32>
// CHECK:         mgx.reduce_sum %[[D]] axes = [1, 2]
func.func @main(%x: tensor<1x8x8x8xf32>) -> tensor<1x16xf32> {
  %v = mgx.constant dense<0.5> : tensor<16x8x1x1xf32>
  %w = mgx.constant dense<0.25> : tensor<16x1x3x3xf32>
  %a = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32> -> tensor<1x16x8x8xf32>
  %d = mgx.convolution %a, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 16 : i64} : tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32> -> tensor<1x16x8x8xf32>
  %r = mgx.reduce_sum %d axes = [2, 3] : tensor<1x16x8x8xf32> -> tensor<1x16x1x1xf32>
  %y = mgx.reshape %r : tensor<1x16x1x1xf32> -> tensor<1x16xf32>
  return %y : tensor<1x16xf32>
}

// -----

// Work on a transposed image has its channels last already, and stays as it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.convolution {{.*}}channels_last{{.*}} -> tensor<1x8x8x16xf32>
// CHECK-NEXT:    %[[R:.*]] = mgx.relu %[[D]] : tensor<1x8x8x16xf32>
// CHECK-NEXT:    return %[[R]]
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<16x1x3x3xf32>) -> tensor<1x8x8x16xf32> {
  %d = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 16 : i64} : tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32> -> tensor<1x16x8x8xf32>
  %t = mgx.transpose %d permutation = [0, 2, 3, 1] : tensor<1x16x8x8xf32> -> tensor<1x8x8x16xf32>
  %r = mgx.relu %t : tensor<1x8x8x16xf32>
  return %r : tensor<1x8x8x16xf32>
}

// -----

// The norm of groups of channels has rows of another shape: the image before it has the layout of
// the one after it.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convolution {{.*}}channels_last{{.*}} -> tensor<1x8x8x16xf32>
// CHECK:         mgx.sub {{.*}} : tensor<1x4x256xf32>
// CHECK:         mgx.relu {{.*}} : tensor<1x8x8x16xf32>
// CHECK:         mgx.convolution {{.*}}channels_last{{.*}} -> tensor<1x8x8x4xf32>
func.func @main(%x: tensor<1x8x8x8xf32>, %v: tensor<16x8x1x1xf32>, %w: tensor<4x16x3x3xf32>) -> tensor<1x4xf32> {
  %a = mgx.convolution %x, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32> -> tensor<1x16x8x8xf32>
  %g = mgx.reshape %a : tensor<1x16x8x8xf32> -> tensor<1x4x256xf32>
  %m = mgx.reduce_max %g axes = [2] : tensor<1x4x256xf32> -> tensor<1x4x1xf32>
  %b = mgx.multibroadcast %m : tensor<1x4x1xf32> -> tensor<1x4x256xf32>
  %s = mgx.sub %g, %b : tensor<1x4x256xf32>, tensor<1x4x256xf32> -> tensor<1x4x256xf32>
  %i = mgx.reshape %s : tensor<1x4x256xf32> -> tensor<1x16x8x8xf32>
  %r = mgx.relu %i : tensor<1x16x8x8xf32>
  %d = mgx.convolution %r, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x16x8x8xf32>, tensor<4x16x3x3xf32> -> tensor<1x4x8x8xf32>
  %p = mgx.reduce_max %d axes = [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x1x1xf32>
  %y = mgx.reshape %p : tensor<1x4x1x1xf32> -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}
