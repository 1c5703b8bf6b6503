// RUN: %mgx-opt %s --split-input-file --mgx-fold-constants --mgx-layout-weights | FileCheck %s

// What is summed lies together.
// CHECK-LABEL: func.func @main
// CHECK:         %[[V:.*]] = mgx.literal "{{.*}}" : tensor<40x32xi8>
// CHECK:         %[[T:.*]] = mgx.transpose %[[V]] permutation = [1, 0] : tensor<40x32xi8> -> tensor<32x40xi8>
// CHECK:         mgx.quant_dot %{{.*}}, %[[T]]
func.func @main(%x: tensor<2x32xi8>) -> tensor<2x40xi32> {
  %u = mgx.constant dense<3> : tensor<16x40xi8>
  %v = mgx.constant dense<5> : tensor<16x40xi8>
  %w = mgx.concat %u, %v axis = 0 : tensor<16x40xi8>, tensor<16x40xi8> -> tensor<32x40xi8>
  %y = mgx.quant_dot %x, %w : tensor<2x32xi8>, tensor<32x40xi8> -> tensor<2x40xi32>
  return %y : tensor<2x40xi32>
}

// -----

// Matrices of a batch, too.
// CHECK-LABEL: func.func @main
// CHECK:         %[[V:.*]] = mgx.literal "{{.*}}" : tensor<3x40x16xf8E4M3FN>
// CHECK:         mgx.transpose %[[V]] permutation = [0, 2, 1]
func.func @main(%x: tensor<3x2x16xf8E4M3FN>) -> tensor<3x2x40xf32> {
  %u = mgx.constant dense<3.0> : tensor<1x16x40xf8E4M3FN>
  %v = mgx.constant dense<5.0> : tensor<2x16x40xf8E4M3FN>
  %w = mgx.concat %u, %v axis = 0 : tensor<1x16x40xf8E4M3FN>, tensor<2x16x40xf8E4M3FN> -> tensor<3x16x40xf8E4M3FN>
  %y = mgx.quant_dot %x, %w : tensor<3x2x16xf8E4M3FN>, tensor<3x16x40xf8E4M3FN> -> tensor<3x2x40xf32>
  return %y : tensor<3x2x40xf32>
}

// -----

// Columns that no read of 16 bytes divides stay; what is no constant does.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.transpose
func.func @main(%x: tensor<2x20xi8>, %z: tensor<40x32xi8>) -> tensor<2x32xi32> {
  %u = mgx.constant dense<3> : tensor<10x40xi8>
  %v = mgx.constant dense<5> : tensor<10x40xi8>
  %w = mgx.concat %u, %v axis = 0 : tensor<10x40xi8>, tensor<10x40xi8> -> tensor<20x40xi8>
  %y = mgx.quant_dot %x, %w : tensor<2x20xi8>, tensor<20x40xi8> -> tensor<2x40xi32>
  %c = mgx.convert %y : tensor<2x40xi32> -> tensor<2x40xi8>
  %r = mgx.quant_dot %c, %z : tensor<2x40xi8>, tensor<40x32xi8> -> tensor<2x32xi32>
  return %r : tensor<2x32xi32>
}

// -----

// Filters of three channels get a fourth; taps come first.
// CHECK-LABEL: func.func @main
// CHECK:         %[[V:.*]] = mgx.literal "{{.*}}" : tensor<3x5x16x4xf16>
// CHECK:         %[[S:.*]] = mgx.slice %[[V]] axes = [3] starts = [0] ends = [3] : tensor<3x5x16x4xf16> -> tensor<3x5x16x3xf16>
// CHECK:         %[[T:.*]] = mgx.transpose %[[S]] permutation = [2, 3, 0, 1] : tensor<3x5x16x3xf16> -> tensor<16x3x3x5xf16>
// CHECK:         mgx.convolution %{{.*}}, %[[T]]
func.func @main(%x: tensor<1x3x9x9xf16>) -> tensor<1x16x7x5xf16> {
  %u = mgx.constant dense<3.0> : tensor<8x3x3x5xf16>
  %v = mgx.constant dense<5.0> : tensor<8x3x3x5xf16>
  %w = mgx.concat %u, %v axis = 0 : tensor<8x3x3x5xf16>, tensor<8x3x3x5xf16> -> tensor<16x3x3x5xf16>
  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x9x9xf16>, tensor<16x3x3x5xf16> -> tensor<1x16x7x5xf16>
  return %y : tensor<1x16x7x5xf16>
}

// -----

// Not filters of one pixel, of groups, of other types, or that are used twice.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.slice
func.func @main(%x: tensor<1x3x9x9xf32>, %d: tensor<1x6x9x9xf64>) -> (tensor<1x16x9x9xf32>, tensor<1x2x7x7xf64>, tensor<1x2x7x7xf32>, tensor<1x2x7x7xf32>) {
  %u = mgx.constant dense<3.0> : tensor<8x3x1x1xf32>
  %v = mgx.constant dense<5.0> : tensor<8x3x1x1xf32>
  %w = mgx.concat %u, %v axis = 0 : tensor<8x3x1x1xf32>, tensor<8x3x1x1xf32> -> tensor<16x3x1x1xf32>
  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x9x9xf32>, tensor<16x3x1x1xf32> -> tensor<1x16x9x9xf32>
  %a = mgx.constant dense<3.0> : tensor<1x3x3x3xf64>
  %b = mgx.constant dense<5.0> : tensor<1x3x3x3xf64>
  %c = mgx.concat %a, %b axis = 0 : tensor<1x3x3x3xf64>, tensor<1x3x3x3xf64> -> tensor<2x3x3x3xf64>
  %z = mgx.convolution %d, %c pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {group = 2 : i64} : tensor<1x6x9x9xf64>, tensor<2x3x3x3xf64> -> tensor<1x2x7x7xf64>
  %e = mgx.constant dense<3.0> : tensor<1x3x3x3xf32>
  %f = mgx.constant dense<5.0> : tensor<1x3x3x3xf32>
  %g = mgx.concat %e, %f axis = 0 : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32> -> tensor<2x3x3x3xf32>
  %p = mgx.convolution %x, %g pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x9x9xf32>, tensor<2x3x3x3xf32> -> tensor<1x2x7x7xf32>
  %n = mgx.neg %x : tensor<1x3x9x9xf32>
  %q = mgx.convolution %n, %g pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x3x9x9xf32>, tensor<2x3x3x3xf32> -> tensor<1x2x7x7xf32>
  return %y, %z, %p, %q : tensor<1x16x9x9xf32>, tensor<1x2x7x7xf64>, tensor<1x2x7x7xf32>, tensor<1x2x7x7xf32>
}

// -----

// Floats of 16 bits too, but wider ones, and those that are used twice, stay.
// CHECK-LABEL: func.func @main
// CHECK:         %[[V:.*]] = mgx.literal "{{.*}}.10" : tensor<64x32xf16>
// CHECK:         %[[T:.*]] = mgx.transpose %[[V]] permutation = [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
// CHECK:         mgx.dot %{{.*}}, %[[T]]
// CHECK-NOT:     mgx.transpose
// CHECK:         mgx.literal "{{.*}}" : tensor<64x48xf16>
// CHECK-NOT:     mgx.transpose
// CHECK:         mgx.literal "{{.*}}" : tensor<32x64xf32>
// CHECK-NOT:     mgx.transpose
func.func @main(%x: tensor<2x32xf16>, %f: tensor<2x32xf32>) -> (tensor<2x48xf16>, tensor<2x48xf16>, tensor<2x64xf32>) {
  %u = mgx.constant dense<3.0> : tensor<16x64xf16>
  %v = mgx.constant dense<5.0> : tensor<16x64xf16>
  %w = mgx.concat %u, %v axis = 0 : tensor<16x64xf16>, tensor<16x64xf16> -> tensor<32x64xf16>
  %y = mgx.dot %x, %w : tensor<2x32xf16>, tensor<32x64xf16> -> tensor<2x64xf16>
  %a = mgx.constant dense<3.0> : tensor<32x48xf16>
  %b = mgx.constant dense<5.0> : tensor<32x48xf16>
  %c = mgx.concat %a, %b axis = 0 : tensor<32x48xf16>, tensor<32x48xf16> -> tensor<64x48xf16>
  %p = mgx.dot %y, %c : tensor<2x64xf16>, tensor<64x48xf16> -> tensor<2x48xf16>
  %n = mgx.neg %y : tensor<2x64xf16>
  %q = mgx.dot %n, %c : tensor<2x64xf16>, tensor<64x48xf16> -> tensor<2x48xf16>
  %d = mgx.constant dense<3.0> : tensor<16x64xf32>
  %e = mgx.constant dense<5.0> : tensor<16x64xf32>
  %g = mgx.concat %d, %e axis = 0 : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<32x64xf32>
  %r = mgx.dot %f, %g : tensor<2x32xf32>, tensor<32x64xf32> -> tensor<2x64xf32>
  return %p, %q, %r : tensor<2x48xf16>, tensor<2x48xf16>, tensor<2x64xf32>
}

// -----

// A product of one row is stored by columns, but in a loop that is a kernel.
// CHECK-LABEL: func.func @main
// CHECK:         %[[V:.*]] = mgx.literal "{{.*}}" : tensor<32x32xf32>
// CHECK-NOT:     mgx.transpose
// CHECK:         mgx.loop
// CHECK:           mgx.dot %{{.*}}, %[[V]]
// CHECK:         %[[T:.*]] = mgx.transpose
// CHECK:         mgx.dot %{{.*}}, %[[T]]
func.func @main(%x: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %n = mgx.constant dense<8> : tensor<i64>
  %c = mgx.constant dense<true> : tensor<i1>
  %u = mgx.constant dense<3.0> : tensor<16x32xf32>
  %v = mgx.constant dense<5.0> : tensor<16x32xf32>
  %w = mgx.concat %u, %v axis = 0 : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<32x32xf32>
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<1x32xf32>) -> tensor<1x32xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<1x32xf32>):
    %d = mgx.dot %h, %w : tensor<1x32xf32>, tensor<32x32xf32> -> tensor<1x32xf32>
    %t = mgx.tanh %d : tensor<1x32xf32>
    mgx.yield %go, %t : tensor<i1>, tensor<1x32xf32>
  }
  %w2 = mgx.concat %v, %u axis = 0 : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<32x32xf32>
  %y = mgx.dot %r, %w2 : tensor<1x32xf32>, tensor<32x32xf32> -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}
