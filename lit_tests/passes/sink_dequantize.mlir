// RUN: %mgx-opt %s --split-input-file --mgx-sink-dequantize | FileCheck %s

// Views of numbers that are quantized again, as they were.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[X:.*]]: tensor<2x3xui8>
// CHECK:         %[[T:.*]] = mgx.transpose %[[X]] permutation = [1, 0] : tensor<2x3xui8> -> tensor<3x2xui8>
// CHECK:         return %[[T]]
func.func @main(%x: tensor<2x3xui8>) -> tensor<3x2xui8> {
  %s = mgx.constant dense<0.5> : tensor<2x3xf32>
  %z = mgx.constant dense<3> : tensor<2x3xui8>
  %s2 = mgx.constant dense<0.5> : tensor<3x2xf32>
  %z2 = mgx.constant dense<3> : tensor<3x2xui8>
  %f = mgx.dequantizelinear %x scale %s zero_point %z : tensor<2x3xui8>, tensor<2x3xf32>, tensor<2x3xui8> -> tensor<2x3xf32>
  %t = mgx.transpose %f permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %q = mgx.quantizelinear %t scale %s2 zero_point %z2 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xui8> -> tensor<3x2xui8>
  return %q : tensor<3x2xui8>
}

// -----

// Another scale or zero point, and numbers that a narrow float does not hold.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: mgx.quantizelinear
func.func @main(%x: tensor<4xi8>, %y: tensor<4xi16>) -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi16>) {
  %s = mgx.constant dense<0.5> : tensor<4xf32>
  %r = mgx.constant dense<0.25> : tensor<4xf32>
  %h = mgx.constant dense<0.5> : tensor<4xf16>
  %z = mgx.constant dense<3> : tensor<4xi8>
  %w = mgx.constant dense<0> : tensor<4xi16>
  %f = mgx.dequantizelinear %x scale %s zero_point %z : tensor<4xi8>, tensor<4xf32>, tensor<4xi8> -> tensor<4xf32>
  %a = mgx.quantizelinear %f scale %r zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xi8> -> tensor<4xi8>
  %g = mgx.dequantizelinear %x scale %s : tensor<4xi8>, tensor<4xf32> -> tensor<4xf32>
  %b = mgx.quantizelinear %g scale %s zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xi8> -> tensor<4xi8>
  %k = mgx.dequantizelinear %y scale %h : tensor<4xi16>, tensor<4xf16> -> tensor<4xf16>
  %c = mgx.quantizelinear %k scale %h zero_point %w : tensor<4xf16>, tensor<4xf16>, tensor<4xi16> -> tensor<4xi16>
  return %a, %b, %c : tensor<4xi8>, tensor<4xi8>, tensor<4xi16>
}

// -----

// What is put together has one scale; the maxima of windows are of integers.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.concat %{{.*}}, %{{.*}} axis = 1 : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8> -> tensor<1x4x4x4xi8>
// CHECK:         %[[P:.*]] = mgx.pooling max %[[C]] {{.*}} : tensor<1x4x4x4xi8> -> tensor<1x4x2x2xi8>
// CHECK:         mgx.dequantizelinear %[[P]] scale %{{.*}} : tensor<1x4x2x2xi8>, tensor<1x4x2x2xf32> -> tensor<1x4x2x2xf32>
// CHECK:         mgx.concat %{{.*}}, %{{.*}} axis = 1 : tensor<1x2x4x4xf32>
func.func @main(%x: tensor<1x2x4x4xi8>, %y: tensor<1x2x4x4xi8>) -> (tensor<1x4x2x2xf32>, tensor<1x4x4x4xf32>) {
  %s = mgx.constant dense<0.5> : tensor<1x2x4x4xf32>
  %r = mgx.constant dense<0.25> : tensor<1x2x4x4xf32>
  %a = mgx.dequantizelinear %x scale %s : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %b = mgx.dequantizelinear %y scale %s : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32> -> tensor<1x4x4x4xf32>
  %p = mgx.pooling max %c lengths = [2, 2] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] : tensor<1x4x4x4xf32> -> tensor<1x4x2x2xf32>
  %d = mgx.dequantizelinear %y scale %r : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %e = mgx.concat %a, %d axis = 1 : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32> -> tensor<1x4x4x4xf32>
  return %p, %e : tensor<1x4x2x2xf32>, tensor<1x4x4x4xf32>
}

// -----

// Unsigned numbers that are only dequantized are signed ones; a result of the program is not.
// CHECK-LABEL: func.func @main
// CHECK:         %[[Q:.*]] = mgx.quantizelinear {{.*}} -> tensor<4xi8>
// CHECK:         %[[F:.*]] = mgx.dequantizelinear %[[Q]] {{.*}} tensor<4xi8>, tensor<4xf32>, tensor<4xi8> -> tensor<4xf32>
// CHECK:         %[[R:.*]] = mgx.quantizelinear {{.*}} -> tensor<4xui8>
// CHECK:         return %[[F]], %[[R]]
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xui8>) {
  %s = mgx.constant dense<0.5> : tensor<4xf32>
  %r = mgx.constant dense<0.25> : tensor<4xf32>
  %z = mgx.constant dense<3> : tensor<4xui8>
  %q = mgx.quantizelinear %x scale %s zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xui8> -> tensor<4xui8>
  %f = mgx.dequantizelinear %q scale %r zero_point %z : tensor<4xui8>, tensor<4xf32>, tensor<4xui8> -> tensor<4xf32>
  %u = mgx.quantizelinear %x scale %r zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xui8> -> tensor<4xui8>
  return %f, %u : tensor<4xf32>, tensor<4xui8>
}

// -----

// Integers less their zero point are widened after a view of them; others are wide before it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<1x2x3xui8>, %[[Y:.*]]: tensor<1x2x3xi32>
// CHECK:         %[[V:.*]] = mgx.reshape %[[X]] : tensor<1x2x3xui8> -> tensor<2x3xui8>
// CHECK:         %[[I:.*]] = mgx.convert %[[V]] : tensor<2x3xui8> -> tensor<2x3xi32>
// CHECK:         mgx.sub %[[I]], %{{.*}} : tensor<2x3xi32>
// CHECK:         %[[D:.*]] = mgx.sub %[[Y]], %{{.*}} : tensor<1x2x3xi32>
// CHECK:         mgx.reshape %[[D]]
func.func @main(%x: tensor<1x2x3xui8>, %y: tensor<1x2x3xi32>) -> (tensor<2x3xi32>, tensor<2x3xi32>) {
  %z = mgx.constant dense<3> : tensor<1x2x3xi32>
  %i = mgx.convert %x : tensor<1x2x3xui8> -> tensor<1x2x3xi32>
  %d = mgx.sub %i, %z : tensor<1x2x3xi32>, tensor<1x2x3xi32> -> tensor<1x2x3xi32>
  %a = mgx.reshape %d : tensor<1x2x3xi32> -> tensor<2x3xi32>
  %e = mgx.sub %y, %z : tensor<1x2x3xi32>, tensor<1x2x3xi32> -> tensor<1x2x3xi32>
  %b = mgx.reshape %e : tensor<1x2x3xi32> -> tensor<2x3xi32>
  return %a, %b : tensor<2x3xi32>, tensor<2x3xi32>
}

// -----

// No relu before numbers whose lowest stands for 0; where another does, or the relu is read, it stays.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>
// CHECK:         mgx.quantizelinear %[[X]] scale
// CHECK:         %[[R:.*]] = mgx.relu %[[X]]
// CHECK:         mgx.quantizelinear %[[R]] scale
// CHECK:         %[[S:.*]] = mgx.relu %[[Y]]
// CHECK:         mgx.quantizelinear %[[S]] scale
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xf32>) {
  %s = mgx.constant dense<0.5> : tensor<4xf32>
  %z = mgx.constant dense<-128> : tensor<4xi8>
  %w = mgx.constant dense<-127> : tensor<4xi8>
  %a = mgx.relu %x : tensor<4xf32>
  %q = mgx.quantizelinear %a scale %s zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xi8> -> tensor<4xi8>
  %b = mgx.relu %x : tensor<4xf32>
  %r = mgx.quantizelinear %b scale %s zero_point %w : tensor<4xf32>, tensor<4xf32>, tensor<4xi8> -> tensor<4xi8>
  %c = mgx.relu %y : tensor<4xf32>
  %t = mgx.quantizelinear %c scale %s zero_point %z : tensor<4xf32>, tensor<4xf32>, tensor<4xi8> -> tensor<4xi8>
  return %q, %r, %t, %c : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xf32>
}
