// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @convolution(
// CHECK: mgx.convolution %{{.+}}, %{{.+}} pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x8x8xf32>
func.func @convolution(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %r = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x8x8xf32>
  return %r : tensor<1x4x8x8xf32>
}

// CHECK-LABEL: func.func @convolution_group(
// CHECK: mgx.convolution %{{.+}}, %{{.+}} pads = [0, 0] strides = [2] dilations = [2] {group = 2 : i64} : tensor<1x4x8xf32>, tensor<6x2x3xf32> -> tensor<1x6x2xf32>
func.func @convolution_group(%x: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>) -> tensor<1x6x2xf32> {
  %r = mgx.convolution %x, %w pads = [0, 0] strides = [2] dilations = [2] {group = 2 : i64}
      : tensor<1x4x8xf32>, tensor<6x2x3xf32> -> tensor<1x6x2xf32>
  return %r : tensor<1x6x2xf32>
}

// CHECK-LABEL: func.func @convolution_channels_last(
// CHECK: mgx.convolution %{{.+}}, %{{.+}} pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] {channels_last, group = 2 : i64} : tensor<1x8x9x4xf32>, tensor<6x3x3x2xf32> -> tensor<1x4x5x6xf32>
func.func @convolution_channels_last(%x: tensor<1x8x9x4xf32>, %w: tensor<6x3x3x2xf32>) -> tensor<1x4x5x6xf32> {
  %r = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] {channels_last, group = 2 : i64}
      : tensor<1x8x9x4xf32>, tensor<6x3x3x2xf32> -> tensor<1x4x5x6xf32>
  return %r : tensor<1x4x5x6xf32>
}

// CHECK-LABEL: func.func @convolution_backwards(
// CHECK: mgx.convolution_backwards %{{.+}}, %{{.+}} pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] {output_pads = array<i64: 0, 0>} : tensor<1x3x4x4xf32>, tensor<3x4x2x2xf32> -> tensor<1x4x8x8xf32>
func.func @convolution_backwards(%x: tensor<1x3x4x4xf32>, %w: tensor<3x4x2x2xf32>) -> tensor<1x4x8x8xf32> {
  %r = mgx.convolution_backwards %x, %w pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] {output_pads = array<i64: 0, 0>}
      : tensor<1x3x4x4xf32>, tensor<3x4x2x2xf32> -> tensor<1x4x8x8xf32>
  return %r : tensor<1x4x8x8xf32>
}

// CHECK-LABEL: func.func @quant_convolution(
// CHECK: mgx.quant_convolution %{{.+}}, %{{.+}} pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xi8>, tensor<4x3x3x3xi8> -> tensor<1x4x6x6xi32>
func.func @quant_convolution(%x: tensor<1x3x8x8xi8>, %w: tensor<4x3x3x3xi8>) -> tensor<1x4x6x6xi32> {
  %r = mgx.quant_convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xi8>, tensor<4x3x3x3xi8> -> tensor<1x4x6x6xi32>
  return %r : tensor<1x4x6x6xi32>
}

// CHECK-LABEL: func.func @quant_convolution_channels_last(
// CHECK: mgx.quant_convolution %{{.+}}, %{{.+}} pads = [0, 0] strides = [1] dilations = [1] {channels_last} : tensor<1x8x3xi8>, tensor<4x3x3xi8> -> tensor<1x6x4xi32>
func.func @quant_convolution_channels_last(%x: tensor<1x8x3xi8>, %w: tensor<4x3x3xi8>) -> tensor<1x6x4xi32> {
  %r = mgx.quant_convolution %x, %w pads = [0, 0] strides = [1] dilations = [1] {channels_last}
      : tensor<1x8x3xi8>, tensor<4x3x3xi8> -> tensor<1x6x4xi32>
  return %r : tensor<1x6x4xi32>
}

// CHECK-LABEL: func.func @pooling_average(
// CHECK: mgx.pooling average %{{.+}} lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
func.func @pooling_average(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %r = mgx.pooling average %x lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
  return %r : tensor<1x3x4x4xf32>
}

// CHECK-LABEL: func.func @pooling_max(
// CHECK: mgx.pooling max %{{.+}} lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
func.func @pooling_max(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %r = mgx.pooling max %x lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
  return %r : tensor<1x3x4x4xf32>
}

// CHECK-LABEL: func.func @pooling_lpnorm(
// CHECK: mgx.pooling lpnorm %{{.+}} lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
func.func @pooling_lpnorm(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %r = mgx.pooling lpnorm %x lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
  return %r : tensor<1x3x4x4xf32>
}

// CHECK-LABEL: func.func @pooling_ceil_of_one_window(
// CHECK: mgx.pooling max %{{.+}} lengths = [3, 3] {{.+}} : tensor<1x3x3x2xf32> -> tensor<1x3x1x0xf32>
func.func @pooling_ceil_of_one_window(%x: tensor<1x3x3x2xf32>) -> tensor<1x3x1x0xf32> {
  %r = mgx.pooling max %x lengths = [3, 3] pads = [0, 0, 0, 0] strides = [3, 3] dilations = [2, 2] {ceil_mode = true}
      : tensor<1x3x3x2xf32> -> tensor<1x3x1x0xf32>
  return %r : tensor<1x3x1x0xf32>
}

// CHECK-LABEL: func.func @pooling_ceil(
// CHECK: mgx.pooling max %{{.+}} lengths = [3, 3] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] {ceil_mode = true} : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
func.func @pooling_ceil(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %r = mgx.pooling max %x lengths = [3, 3] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] {ceil_mode = true}
      : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
  return %r : tensor<1x3x4x4xf32>
}

// CHECK-LABEL: func.func @lrn(
// CHECK: mgx.lrn %{{.+}} size = 5 {bias = 2.000000e+00 : f32} : tensor<1x3x8x8xf32>
func.func @lrn(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %r = mgx.lrn %x size = 5 {bias = 2.000000e+00 : f32} : tensor<1x3x8x8xf32>
  return %r : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: func.func @dot(
// CHECK: mgx.dot %{{.+}}, %{{.+}} : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
func.func @dot(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %r = mgx.dot %a, %b : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @quant_dot(
// CHECK: mgx.quant_dot %{{.+}}, %{{.+}} : tensor<3x4xi8>, tensor<4x5xi8> -> tensor<3x5xi32>
func.func @quant_dot(%a: tensor<3x4xi8>, %b: tensor<4x5xi8>) -> tensor<3x5xi32> {
  %r = mgx.quant_dot %a, %b : tensor<3x4xi8>, tensor<4x5xi8> -> tensor<3x5xi32>
  return %r : tensor<3x5xi32>
}

// CHECK-LABEL: func.func @quant_dot_of_two_kinds(
// CHECK: mgx.quant_dot %{{.+}}, %{{.+}} : tensor<3x4xf8E4M3FN>, tensor<4x5xf8E5M2> -> tensor<3x5xf32>
func.func @quant_dot_of_two_kinds(%a: tensor<3x4xf8E4M3FN>, %b: tensor<4x5xf8E5M2>) -> tensor<3x5xf32> {
  %r = mgx.quant_dot %a, %b : tensor<3x4xf8E4M3FN>, tensor<4x5xf8E5M2> -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// CHECK-LABEL: func.func @quant_dot_with_and_without_sign(
// CHECK: mgx.quant_dot %{{.+}}, %{{.+}} : tensor<3x4xui8>, tensor<4x5xi8> -> tensor<3x5xi32>
func.func @quant_dot_with_and_without_sign(%a: tensor<3x4xui8>, %b: tensor<4x5xi8>) -> tensor<3x5xi32> {
  %r = mgx.quant_dot %a, %b : tensor<3x4xui8>, tensor<4x5xi8> -> tensor<3x5xi32>
  return %r : tensor<3x5xi32>
}

// CHECK-LABEL: func.func @quant_convolution_with_and_without_sign(
// CHECK: mgx.quant_convolution %{{.+}} : tensor<1x3x8x8xui8>, tensor<4x3x3x3xi8> -> tensor<1x4x6x6xi32>
func.func @quant_convolution_with_and_without_sign(%x: tensor<1x3x8x8xui8>, %w: tensor<4x3x3x3xi8>) -> tensor<1x4x6x6xi32> {
  %r = mgx.quant_convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xui8>, tensor<4x3x3x3xi8> -> tensor<1x4x6x6xi32>
  return %r : tensor<1x4x6x6xi32>
}

// CHECK-LABEL: func.func @quant_dot_fp8(
// CHECK: mgx.quant_dot %{{.+}}, %{{.+}} : tensor<3x4xf8E4M3FN>, tensor<4x5xf8E4M3FN> -> tensor<3x5xf32>
func.func @quant_dot_fp8(%a: tensor<3x4xf8E4M3FN>, %b: tensor<4x5xf8E4M3FN>) -> tensor<3x5xf32> {
  %r = mgx.quant_dot %a, %b : tensor<3x4xf8E4M3FN>, tensor<4x5xf8E4M3FN> -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}
