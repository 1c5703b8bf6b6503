// RUN: %mgx-opt %s --split-input-file --mgx-simplify-quantized | FileCheck %s

// Unsigned numbers become signed ones; the zero point's share is the sums of the weights.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xui8>
// CHECK-DAG:     %[[W:.*]] = mgx.literal "w" : tensor<3x4xi8>
// CHECK:         %[[I:.*]] = mgx.convert %{{.*}} : tensor<2x3xi32> -> tensor<2x3xi8>
// CHECK:         %[[P:.*]] = mgx.quant_dot %[[I]], %[[W]] : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
// CHECK:         mgx.reduce_sum %{{.*}} axes = [0] : tensor<3x4xi32> -> tensor<1x4xi32>
// CHECK:         %[[T:.*]] = mgx.sub %[[P]]
// CHECK:         %[[F:.*]] = mgx.convert %[[T]] : tensor<2x4xi32> -> tensor<2x4xf32>
// CHECK:         %[[Y:.*]] = mgx.mul %[[F]]
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<2x3xui8>) -> tensor<2x4xf32> {
  %w = mgx.literal "w" : tensor<3x4xi8>
  %s = mgx.constant dense<0.5> : tensor<2x3xf32>
  %z = mgx.constant dense<3> : tensor<2x3xui8>
  %t = mgx.constant dense<[0.1, 0.2, 0.3, 0.4]> : tensor<4xf32>
  %tb = mgx.multibroadcast %t : tensor<4xf32> -> tensor<3x4xf32>
  %a = mgx.dequantizelinear %x scale %s zero_point %z : tensor<2x3xui8>, tensor<2x3xf32>, tensor<2x3xui8> -> tensor<2x3xf32>
  %b = mgx.dequantizelinear %w scale %tb : tensor<3x4xi8>, tensor<3x4xf32> -> tensor<3x4xf32>
  %y = mgx.dot %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Integers less a zero point, not widened first.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.quant_convolution {{.*}} : tensor<1x3x8x8xi8>, tensor<2x3x3x3xi8> -> tensor<1x2x6x6xi32>
// CHECK:         mgx.sub %[[C]]
func.func @main(%x: tensor<1x3x8x8xi8>) -> tensor<1x2x6x6xi32> {
  %w = mgx.literal "w" : tensor<2x3x3x3xi8>
  %z = mgx.constant dense<5> : tensor<1x3x8x8xi32>
  %i = mgx.convert %x : tensor<1x3x8x8xi8> -> tensor<1x3x8x8xi32>
  %d = mgx.sub %i, %z : tensor<1x3x8x8xi32>, tensor<1x3x8x8xi32> -> tensor<1x3x8x8xi32>
  %v = mgx.convert %w : tensor<2x3x3x3xi8> -> tensor<2x3x3x3xi32>
  %y = mgx.quant_convolution %d, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x8x8xi32>, tensor<2x3x3x3xi32> -> tensor<1x2x6x6xi32>
  return %y : tensor<1x2x6x6xi32>
}

// -----

// A scale for each row of the weights' other dimension cannot leave the product.
// CHECK-LABEL: func.func @main
// CHECK:         = mgx.dot
func.func @main(%x: tensor<2x3xi8>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %w = mgx.literal "w" : tensor<3x4xi8>
  %t = mgx.constant dense<[[0.1], [0.2], [0.3]]> : tensor<3x1xf32>
  %sb = mgx.multibroadcast %s : tensor<f32> -> tensor<2x3xf32>
  %tb = mgx.multibroadcast %t : tensor<3x1xf32> -> tensor<3x4xf32>
  %a = mgx.dequantizelinear %x scale %sb : tensor<2x3xi8>, tensor<2x3xf32> -> tensor<2x3xf32>
  %b = mgx.dequantizelinear %w scale %tb : tensor<3x4xi8>, tensor<3x4xf32> -> tensor<3x4xf32>
  %y = mgx.dot %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 8-bit floats are multiplied as they are; scales follow.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf8E4M3FN>, %[[V:.*]]: tensor<3x4xf8E4M3FN>
// CHECK:         %[[P:.*]] = mgx.quant_dot %[[X]], %[[V]] : tensor<2x3xf8E4M3FN>, tensor<3x4xf8E4M3FN> -> tensor<2x4xf32>
// CHECK:         mgx.mul %[[P]]
func.func @main(%x: tensor<2x3xf8E4M3FN>, %v: tensor<3x4xf8E4M3FN>) -> tensor<2x4xf32> {
  %s = mgx.constant dense<0.5> : tensor<2x3xf32>
  %t = mgx.constant dense<0.25> : tensor<3x4xf32>
  %a = mgx.dequantizelinear %x scale %s : tensor<2x3xf8E4M3FN>, tensor<2x3xf32> -> tensor<2x3xf32>
  %b = mgx.dequantizelinear %v scale %t : tensor<3x4xf8E4M3FN>, tensor<3x4xf32> -> tensor<3x4xf32>
  %y = mgx.dot %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A cast alone: no scale.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = mgx.quant_dot %{{.*}}, %{{.*}} : tensor<2x3xf8E4M3FNUZ>, tensor<3x4xf8E4M3FNUZ> -> tensor<2x4xf32>
// CHECK:         mgx.convert %[[P]] : tensor<2x4xf32> -> tensor<2x4xf16>
func.func @main(%x: tensor<2x3xf8E4M3FNUZ>, %v: tensor<3x4xf8E4M3FNUZ>) -> tensor<2x4xf16> {
  %a = mgx.convert %x : tensor<2x3xf8E4M3FNUZ> -> tensor<2x3xf16>
  %b = mgx.convert %v : tensor<3x4xf8E4M3FNUZ> -> tensor<3x4xf16>
  %y = mgx.dot %a, %b : tensor<2x3xf16>, tensor<3x4xf16> -> tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}

// -----

// A scale for each block along the sum stays where it is.
// CHECK-LABEL: func.func @main
// CHECK:         = mgx.dot
func.func @main(%x: tensor<2x4xf8E4M3FN>, %v: tensor<4x4xf8E4M3FN>, %t: tensor<4x1xf32>) -> tensor<2x4xf32> {
  %s = mgx.constant dense<0.5> : tensor<2x4xf32>
  %u = mgx.multibroadcast %t : tensor<4x1xf32> -> tensor<4x4xf32>
  %a = mgx.dequantizelinear %x scale %s : tensor<2x4xf8E4M3FN>, tensor<2x4xf32> -> tensor<2x4xf32>
  %b = mgx.dequantizelinear %v scale %u : tensor<4x4xf8E4M3FN>, tensor<4x4xf32> -> tensor<4x4xf32>
  %y = mgx.dot %a, %b : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Weights with a zero point: the product of the signed numbers, less the zero point times the sums
// of each row.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xi8>, %[[W:.*]]: tensor<3x4xi8>
// CHECK:         %[[P:.*]] = mgx.quant_dot %[[X]], %[[W]] : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
// CHECK:         %[[S:.*]] = mgx.reduce_sum %{{.*}} axes = [1] : tensor<2x3xi32> -> tensor<2x1xi32>
// CHECK:         %[[O:.*]] = mgx.mul %
// CHECK:         mgx.sub %[[P]], %[[O]]
func.func @main(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>) -> tensor<2x4xi32> {
  %z = mgx.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %zb = mgx.multibroadcast %z : tensor<4xi32> -> tensor<3x4xi32>
  %a = mgx.convert %x : tensor<2x3xi8> -> tensor<2x3xi32>
  %i = mgx.convert %w : tensor<3x4xi8> -> tensor<3x4xi32>
  %b = mgx.sub %i, %zb : tensor<3x4xi32>, tensor<3x4xi32> -> tensor<3x4xi32>
  %y = mgx.dot %a, %b : tensor<2x3xi32>, tensor<3x4xi32> -> tensor<2x4xi32>
  return %y : tensor<2x4xi32>
}

// -----

// Any number of images. Padding with a zero point would need a constant of each position, whose
// number is not known: the image is padded first.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<?x3x?x8xi8
// CHECK:         %[[I:.*]] = mgx.pad %[[X]] {{.*}}value = 5.000000e+00
// CHECK:         mgx.quant_convolution %[[I]], {{.*}}pads = [0, 0, 0, 0]{{.*}} -> tensor<?x2x?x8xi32, #mgx.dims<[n : 1 ... ?, _, h : 1 ... ?, _]>>
#x = #mgx.dims<[n : 1 ... ?, _, h : 1 ... ?, _]>
func.func @main(%x: tensor<?x3x?x8xi8, #x>) -> tensor<?x2x?x8xf32, #x> {
  %w = mgx.literal "w" : tensor<2x3x3x3xi8>
  %s1 = mgx.constant dense<0.5> : tensor<1x1x1x1xf32>
  %s = mgx.multibroadcast %s1 : tensor<1x1x1x1xf32> -> tensor<?x3x?x8xf32, #x>
  %z1 = mgx.constant dense<5> : tensor<1x1x1x1xi8>
  %z = mgx.multibroadcast %z1 : tensor<1x1x1x1xi8> -> tensor<?x3x?x8xi8, #x>
  %t = mgx.constant dense<0.25> : tensor<2x3x3x3xf32>
  %a = mgx.dequantizelinear %x scale %s zero_point %z : tensor<?x3x?x8xi8, #x>, tensor<?x3x?x8xf32, #x>, tensor<?x3x?x8xi8, #x> -> tensor<?x3x?x8xf32, #x>
  %b = mgx.dequantizelinear %w scale %t : tensor<2x3x3x3xi8>, tensor<2x3x3x3xf32> -> tensor<2x3x3x3xf32>
  %y = mgx.convolution %a, %b pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<?x3x?x8xf32, #x>, tensor<2x3x3x3xf32> -> tensor<?x2x?x8xf32, #x>
  return %y : tensor<?x2x?x8xf32, #x>
}
