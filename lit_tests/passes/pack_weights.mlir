// RUN: %mgx-opt %s --split-input-file --mgx-fold-constants --mgx-pack-weights | FileCheck %s

// The sum runs over the rows: they become neighbours in bytes.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = mgx.literal "{{.*}}" : tensor<32x32xui8>
// CHECK:         %[[U:.*]] = mgx.unpack %[[P]] : tensor<32x32xui8> -> tensor<32x64xi4>
// CHECK:         %[[T:.*]] = mgx.transpose %[[U]] permutation = [1, 0] : tensor<32x64xi4> -> tensor<64x32xi4>
// CHECK:         mgx.dequantizelinear %[[T]]
func.func @main(%x: tensor<2x64xf16>, %z: tensor<64x32xi4>) -> tensor<2x32xf16> {
  %v = mgx.constant dense<-3> : tensor<32x32xi4>
  %u = mgx.constant dense<5> : tensor<32x32xi4>
  %w = mgx.concat %v, %u axis = 0 : tensor<32x32xi4>, tensor<32x32xi4> -> tensor<64x32xi4>
  %s = mgx.constant dense<0.5> : tensor<64x32xf16>
  %d = mgx.dequantizelinear %w scale %s : tensor<64x32xi4>, tensor<64x32xf16> -> tensor<64x32xf16>
  %y = mgx.dot %x, %d : tensor<2x64xf16>, tensor<64x32xf16> -> tensor<2x32xf16>
  return %y : tensor<2x32xf16>
}

// -----

// It runs along their last dimension: they are neighbours already.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = mgx.literal "{{.*}}" : tensor<32x32xui8>
// CHECK:         %[[U:.*]] = mgx.unpack %[[P]] : tensor<32x32xui8> -> tensor<32x64xui4>
// CHECK:         mgx.convert %[[U]]
func.func @main(%x: tensor<2x64xf16>) -> tensor<2x32xf16> {
  %v = mgx.constant dense<3> : tensor<32x32xui4>
  %u = mgx.constant dense<5> : tensor<32x32xui4>
  %w = mgx.concat %v, %u axis = 1 : tensor<32x32xui4>, tensor<32x32xui4> -> tensor<32x64xui4>
  %d = mgx.convert %w : tensor<32x64xui4> -> tensor<32x64xf16>
  %t = mgx.transpose %d permutation = [1, 0] : tensor<32x64xf16> -> tensor<64x32xf16>
  %y = mgx.dot %x, %t : tensor<2x64xf16>, tensor<64x32xf16> -> tensor<2x32xf16>
  return %y : tensor<2x32xf16>
}

// -----

// What no product reads keeps a byte for each.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     mgx.unpack
func.func @main(%x: tensor<64x32xf16>) -> tensor<64x32xf16> {
  %w = mgx.literal "w" : tensor<64x32xi4>
  %d = mgx.convert %w : tensor<64x32xi4> -> tensor<64x32xf16>
  %y = mgx.add %x, %d : tensor<64x32xf16>, tensor<64x32xf16> -> tensor<64x32xf16>
  return %y : tensor<64x32xf16>
}
