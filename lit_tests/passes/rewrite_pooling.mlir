// RUN: %mgx-opt %s --split-input-file --mgx-rewrite-pooling | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK:         mgx.reduce_mean %{{.*}} axes = [2, 3] : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
// CHECK:         mgx.reduce_max %{{.*}} axes = [2, 3] : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
func.func @main(%x: tensor<1x6x7x5xf32>) -> (tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>) {
  %a = mgx.pooling average %x lengths = [7, 5] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
  %b = mgx.pooling max %x lengths = [7, 5] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
  return %a, %b : tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>
}

// -----

// The window is the whole image, of any number of images.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reduce_mean %{{.*}} axes = [2, 3] : tensor<?x6x7x5xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>> -> tensor<?x6x1x1xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>>
func.func @main(%x: tensor<?x6x7x5xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>>) -> tensor<?x6x1x1xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>> {
  %a = mgx.pooling average %x lengths = [7, 5] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<?x6x7x5xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>> -> tensor<?x6x1x1xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>>
  return %a : tensor<?x6x1x1xf32, #mgx.dims<[n : 1 ... 8, _, _, _]>>
}

// -----

// A norm of order 2; one of order 3 stays.
// CHECK-LABEL: func.func @main
// CHECK:         %[[M:.*]] = mgx.mul
// CHECK:         %[[S:.*]] = mgx.reduce_sum %[[M]]
// CHECK:         mgx.sqrt %[[S]]
// CHECK:         mgx.pooling lpnorm
func.func @main(%x: tensor<1x6x7x5xf32>) -> (tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>) {
  %a = mgx.pooling lpnorm %x lengths = [7, 5] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
  %b = mgx.pooling lpnorm %x lengths = [7, 5] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {lp_order = 3 : i64} : tensor<1x6x7x5xf32> -> tensor<1x6x1x1xf32>
  return %a, %b : tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>
}

// -----

// Windows smaller than the image.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.pooling
func.func @main(%x: tensor<1x6x7x5xf32>) -> tensor<1x6x2x1xf32> {
  %a = mgx.pooling average %x lengths = [6, 5] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x6x7x5xf32> -> tensor<1x6x2x1xf32>
  return %a : tensor<1x6x2x1xf32>
}

// -----

// Lines of a large window first; the sum of one would be rounded twice.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.pooling max %{{.*}} lengths = [13, 1] pads = [6, 0, 6, 0] strides = [2, 1] dilations = [1, 1] : tensor<1x6x20x20xf32> -> tensor<1x6x10x20xf32>
// CHECK:         mgx.pooling max %[[A]] lengths = [1, 13] pads = [0, 6, 0, 6] strides = [1, 2] dilations = [1, 1] : tensor<1x6x10x20xf32> -> tensor<1x6x10x10xf32>
// CHECK:         mgx.pooling average %{{.*}} lengths = [13, 13]
func.func @main(%x: tensor<1x6x20x20xf32>) -> (tensor<1x6x10x10xf32>, tensor<1x6x10x10xf32>) {
  %a = mgx.pooling max %x lengths = [13, 13] pads = [6, 6, 6, 6] strides = [2, 2] dilations = [1, 1] : tensor<1x6x20x20xf32> -> tensor<1x6x10x10xf32>
  %b = mgx.pooling average %x lengths = [13, 13] pads = [6, 6, 6, 6] strides = [2, 2] dilations = [1, 1] : tensor<1x6x20x20xf32> -> tensor<1x6x10x10xf32>
  return %a, %b : tensor<1x6x10x10xf32>, tensor<1x6x10x10xf32>
}

// -----

// The last windows go beyond the image.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.pooling max %{{.*}} lengths = [9, 1] pads = [0, 0, 0, 0] strides = [3, 1] dilations = [1, 1] {ceil_mode = true} : tensor<1x2x20x20xf32> -> tensor<1x2x5x20xf32>
// CHECK:         mgx.pooling max %[[A]] lengths = [1, 9] pads = [0, 0, 0, 0] strides = [1, 3] dilations = [1, 1] {ceil_mode = true} : tensor<1x2x5x20xf32> -> tensor<1x2x5x5xf32>
func.func @main(%x: tensor<1x2x20x20xf32>) -> tensor<1x2x5x5xf32> {
  %a = mgx.pooling max %x lengths = [9, 9] pads = [0, 0, 0, 0] strides = [3, 3] dilations = [1, 1] {ceil_mode = true} : tensor<1x2x20x20xf32> -> tensor<1x2x5x5xf32>
  return %a : tensor<1x2x5x5xf32>
}

// -----

// Images of any size too.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = mgx.pooling max %{{.*}} lengths = [17, 1] {{.*}} strides = [2, 1] {{.*}} -> tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, "(h+1)//2" : {{.*}}, w : 0 ... ?]>>
// CHECK:         mgx.pooling max %[[A]] lengths = [1, 17]
func.func @main(%x: tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, h : 0 ... ?, w : 0 ... ?]>>) -> tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, "(h+1)//2" : 0 ... ?, "(w+1)//2" : 0 ... ?]>> {
  %a = mgx.pooling max %x lengths = [17, 17] pads = [8, 8, 8, 8] strides = [2, 2] dilations = [1, 1] : tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, h : 0 ... ?, w : 0 ... ?]>> -> tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, "(h+1)//2" : 0 ... ?, "(w+1)//2" : 0 ... ?]>>
  return %a : tensor<?x8x?x?xf32, #mgx.dims<[n : 0 ... ?, _, "(h+1)//2" : 0 ... ?, "(w+1)//2" : 0 ... ?]>>
}
