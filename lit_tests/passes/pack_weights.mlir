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

// -----

// Zero points of blocks are whole numbers, and take a byte each; scales stay.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[Z:.*]] = mgx.literal "{{.*}}" : tensor<128x2x1xui8>
// CHECK-DAG:     %[[S:.*]] = mgx.literal "{{.*}}" : tensor<128x2x1xf16>
// CHECK-DAG:     %[[B:.*]] = mgx.multibroadcast %[[Z]] : tensor<128x2x1xui8> -> tensor<128x2x32xui8>
// CHECK-DAG:     %[[R:.*]] = mgx.reshape %[[B]] : tensor<128x2x32xui8> -> tensor<128x64xui8>
// CHECK-DAG:     mgx.convert %[[R]] : tensor<128x64xui8> -> tensor<128x64xf16>
// CHECK-DAG:     mgx.multibroadcast %[[S]] : tensor<128x2x1xf16>
func.func @main(%x: tensor<2x64xf16>) -> tensor<2x128xf16> {
  %v = mgx.constant dense<3> : tensor<64x64xui4>
  %u = mgx.constant dense<5> : tensor<64x64xui4>
  %w = mgx.concat %v, %u axis = 0 : tensor<64x64xui4>, tensor<64x64xui4> -> tensor<128x64xui4>
  %f = mgx.convert %w : tensor<128x64xui4> -> tensor<128x64xf16>
  %p = mgx.constant dense<7.0> : tensor<64x2x1xf16>
  %q = mgx.constant dense<8.0> : tensor<64x2x1xf16>
  %r = mgx.constant dense<0.25> : tensor<64x2x1xf16>
  %z = mgx.concat %p, %q axis = 0 : tensor<64x2x1xf16>, tensor<64x2x1xf16> -> tensor<128x2x1xf16>
  %s = mgx.concat %p, %r axis = 0 : tensor<64x2x1xf16>, tensor<64x2x1xf16> -> tensor<128x2x1xf16>
  %zb = mgx.multibroadcast %z : tensor<128x2x1xf16> -> tensor<128x2x32xf16>
  %zr = mgx.reshape %zb : tensor<128x2x32xf16> -> tensor<128x64xf16>
  %sb = mgx.multibroadcast %s : tensor<128x2x1xf16> -> tensor<128x2x32xf16>
  %sr = mgx.reshape %sb : tensor<128x2x32xf16> -> tensor<128x64xf16>
  %a = mgx.sub %f, %zr : tensor<128x64xf16>, tensor<128x64xf16> -> tensor<128x64xf16>
  %b = mgx.mul %a, %sr : tensor<128x64xf16>, tensor<128x64xf16> -> tensor<128x64xf16>
  %t = mgx.transpose %b permutation = [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
  %y = mgx.dot %x, %t : tensor<2x64xf16>, tensor<64x128xf16> -> tensor<2x128xf16>
  return %y : tensor<2x128xf16>
}

// -----

// Zero points of 4 bits share no bytes: a kernel reads one for a block.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.literal "{{.*}}" : tensor<2x1x128xui4>
func.func @main(%x: tensor<2x64xf16>) -> tensor<2x128xf16> {
  %v = mgx.constant dense<3> : tensor<64x64xui4>
  %u = mgx.constant dense<5> : tensor<64x64xui4>
  %w = mgx.concat %v, %u axis = 1 : tensor<64x64xui4>, tensor<64x64xui4> -> tensor<64x128xui4>
  %g = mgx.constant dense<6> : tensor<1x1x128xui4>
  %h = mgx.constant dense<9> : tensor<1x1x128xui4>
  %i = mgx.concat %g, %h axis = 0 : tensor<1x1x128xui4>, tensor<1x1x128xui4> -> tensor<2x1x128xui4>
  %j = mgx.multibroadcast %i : tensor<2x1x128xui4> -> tensor<2x32x128xui4>
  %k = mgx.reshape %j : tensor<2x32x128xui4> -> tensor<64x128xui4>
  %s = mgx.constant dense<0.5> : tensor<64x128xf16>
  %d = mgx.dequantizelinear %w scale %s zero_point %k : tensor<64x128xui4>, tensor<64x128xf16>, tensor<64x128xui4> -> tensor<64x128xf16>
  %y = mgx.dot %x, %d : tensor<2x64xf16>, tensor<64x128xf16> -> tensor<2x128xf16>
  return %y : tensor<2x128xf16>
}
