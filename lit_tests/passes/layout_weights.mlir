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
