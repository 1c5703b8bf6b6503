// RUN: %mgx-opt %s --split-input-file --mgx-fold-constants | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK:         mgx.constant dense<[4.000000e+00, 6.000000e+00]> : tensor<2xf32>
// CHECK-NOT:     mgx.add
func.func @main() -> tensor<2xf32> {
  %a = mgx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = mgx.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %c = mgx.add %a, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %c : tensor<2xf32>
}

// -----

// A broadcast of a constant costs nothing and stays; what it repeats is folded.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK:         mgx.multibroadcast %[[C]] : tensor<2xf32> -> tensor<512x2xf32>
func.func @main(%x: tensor<512x2xf32>) -> tensor<512x2xf32> {
  %a = mgx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %d = mgx.add %a, %a : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %b = mgx.multibroadcast %d : tensor<2xf32> -> tensor<512x2xf32>
  %c = mgx.add %x, %b : tensor<512x2xf32>, tensor<512x2xf32> -> tensor<512x2xf32>
  return %c : tensor<512x2xf32>
}

// -----

// The bytes of this weight are not here: what depends on it stays.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.literal "w"
// CHECK:         mgx.transpose
func.func @main() -> tensor<3x2xf32> {
  %w = mgx.literal "w" : tensor<2x3xf32>
  %t = mgx.transpose %w permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}

// -----

// Large splats are computed from one element.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.constant dense<3.000000e+00> : tensor<4096x4096xf32>
func.func @main() -> tensor<4096x4096xf32> {
  %a = mgx.constant dense<1.0> : tensor<4096x4096xf32>
  %b = mgx.constant dense<2.0> : tensor<4096x4096xf32>
  %c = mgx.add %a, %b : tensor<4096x4096xf32>, tensor<4096x4096xf32> -> tensor<4096x4096xf32>
  return %c : tensor<4096x4096xf32>
}

// -----

// Weights of few bits stay such where a product's kernel expands them; their scales are folded.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.unpack
// CHECK:         mgx.multibroadcast
// CHECK-NOT:     mgx.exp
// CHECK:         mgx.mul
// CHECK:         mgx.dot
func.func @main(%x: tensor<2x64xf16>) -> tensor<2x64xf16> {
  %w = mgx.constant dense<17> : tensor<64x32xui8>
  %s = mgx.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf16>
  %e = mgx.exp %s : tensor<1x2x1xf16>
  %0 = mgx.unpack %w : tensor<64x32xui8> -> tensor<64x64xui4>
  %1 = mgx.convert %0 : tensor<64x64xui4> -> tensor<64x64xf16>
  %2 = mgx.multibroadcast %e : tensor<1x2x1xf16> -> tensor<64x2x32xf16>
  %3 = mgx.reshape %2 : tensor<64x2x32xf16> -> tensor<64x64xf16>
  %4 = mgx.mul %1, %3 : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf16>
  %6 = mgx.dot %x, %4 : tensor<2x64xf16>, tensor<64x64xf16> -> tensor<2x64xf16>
  return %6 : tensor<2x64xf16>
}

// -----

// Nothing has no element that says it all.
// CHECK-LABEL: func.func @main
// CHECK:         return
func.func @main() -> tensor<0xf32> {
  %a = mgx.constant dense<> : tensor<0xf32>
  %b = mgx.constant dense<2.0> : tensor<0xf32>
  %c = mgx.add %a, %b : tensor<0xf32>, tensor<0xf32> -> tensor<0xf32>
  return %c : tensor<0xf32>
}
