// RUN: %mgx-opt %s --split-input-file "--mgx-narrow-floats=keep=*/head/*" | FileCheck %s
// RUN: %mgx-opt %s --split-input-file --mgx-narrow-floats=to=bf16 | FileCheck %s --check-prefix=BF16

// Products are narrow; a softmax and the work that only it reads are not.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>, %[[W:.*]]: tensor<3x4xf32>
// CHECK-DAG:     %[[A:.*]] = mgx.convert %[[X]] : tensor<2x3xf32> -> tensor<2x3xf16>
// CHECK-DAG:     %[[B:.*]] = mgx.convert %[[W]] : tensor<3x4xf32> -> tensor<3x4xf16>
// CHECK:         %[[H:.*]] = mgx.dot %[[A]], %[[B]]
// CHECK-NEXT:    %[[F:.*]] = mgx.convert %[[H]] : tensor<2x4xf16> -> tensor<2x4xf32>
// CHECK-NEXT:    %[[S:.*]] = mgx.neg %[[F]] : tensor<2x4xf32>
// CHECK-NEXT:    %[[Y:.*]] = mgx.softmax %[[S]] axis = 1 : tensor<2x4xf32>
// CHECK-NEXT:    return %[[Y]]
// BF16:          mgx.dot {{.*}} : tensor<2x3xbf16>, tensor<3x4xbf16> -> tensor<2x4xbf16>
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %h = mgx.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %s = mgx.neg %h : tensor<2x4xf32>
  %y = mgx.softmax %s axis = 1 : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A sum and the first step after it are wide; the next one is narrow again.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reduce_mean {{.*}} : tensor<2x4xf32>
// CHECK:         mgx.multibroadcast {{.*}} : tensor<2x1xf32> -> tensor<2x4xf32>
// CHECK:         mgx.sub {{.*}} : tensor<2x4xf32>
// CHECK:         mgx.relu {{.*}} : tensor<2x4xf16>
// CHECK:         mgx.transpose {{.*}} : tensor<2x4xf16> -> tensor<4x2xf16>
func.func @main(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %m = mgx.reduce_mean %x axes = [1] : tensor<2x4xf32> -> tensor<2x1xf32>
  %b = mgx.multibroadcast %m : tensor<2x1xf32> -> tensor<2x4xf32>
  %d = mgx.sub %x, %b : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %r = mgx.relu %d : tensor<2x4xf32>
  %y = mgx.transpose %r permutation = [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// A constant that f16 cannot hold keeps its reader in f32; infinity does not, nor does bf16 care.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.max {{.*}} : tensor<2xf32>
// CHECK:         mgx.min {{.*}} : tensor<2xf16>
// BF16:          mgx.max {{.*}} : tensor<2xbf16>
func.func @main(%x: tensor<2xf32>) -> tensor<1x2xf32> {
  %large = mgx.constant dense<-1.0e+30> : tensor<2xf32>
  %infinite = mgx.constant dense<0x7F800000> : tensor<2xf32>
  %a = mgx.max %x, %large : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %b = mgx.min %a, %infinite : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %y = mgx.unsqueeze %b axes = [0] : tensor<2xf32> -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// -----

// Nodes that `keep` names stay in f32.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.dot {{.*}} : tensor<2x2xf16>, tensor<2x2xf16> -> tensor<2x2xf16>
// CHECK:         mgx.dot {{.*}} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %a = mgx.dot %x, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32> loc("/body/MatMul")
  %b = mgx.dot %a, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32> loc("/head/MatMul")
  return %b : tensor<2x2xf32>
}

// -----

// Bodies of control flow are narrowed inside; the values that they yield keep their types. Other
// types, and products of quantized tensors, are as they were.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.if {{.*}} -> tensor<2x2xf32>
// CHECK:           mgx.dot {{.*}} -> tensor<2x2xf16>
// CHECK:           mgx.convert {{.*}} : tensor<2x2xf16> -> tensor<2x2xf32>
// CHECK-NEXT:      mgx.yield {{.*}} : tensor<2x2xf32>
// CHECK:         mgx.add {{.*}} : tensor<2xf64>
// CHECK:         mgx.dot {{.*}} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
func.func @main(%c: tensor<i1>, %x: tensor<2x2xf32>, %d: tensor<2xf64>, %q: tensor<2x2xi8>, %s: tensor<f32>) -> (tensor<2x2xf32>, tensor<2xf64>, tensor<2x2xf32>) {
  %y = mgx.if %c : tensor<i1> -> tensor<2x2xf32> {
    %a = mgx.dot %x, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
    mgx.yield %a : tensor<2x2xf32>
  } else {
    mgx.yield %x : tensor<2x2xf32>
  }
  %e = mgx.add %d, %d : tensor<2xf64>, tensor<2xf64> -> tensor<2xf64>
  %b = mgx.multibroadcast %s : tensor<f32> -> tensor<2x2xf32>
  %f = mgx.dequantizelinear %q scale %b : tensor<2x2xi8>, tensor<2x2xf32> -> tensor<2x2xf32>
  %z = mgx.dot %f, %f : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %y, %e, %z : tensor<2x2xf32>, tensor<2xf64>, tensor<2x2xf32>
}

// -----

// Sums of integers may be beyond f16: they, and what is computed of them, are wide until the end.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.convert {{.*}} : tensor<2x4xi32> -> tensor<2x4xf32>
// CHECK:         mgx.mul {{.*}} : tensor<2x4xf32>
// CHECK:         mgx.mul {{.*}} : tensor<2x4xf32>
// CHECK:         mgx.relu {{.*}} : tensor<2x4xf32>
// CHECK:         mgx.convert {{.*}} : tensor<2x4xf32> -> tensor<2x4xf16>
// CHECK:         mgx.transpose {{.*}} : tensor<2x4xf16>
func.func @main(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>, %s: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %p = mgx.quant_dot %x, %w : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
  %f = mgx.convert %p : tensor<2x4xi32> -> tensor<2x4xf32>
  %a = mgx.mul %f, %s : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %b = mgx.mul %a, %s : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %r = mgx.relu %b : tensor<2x4xf32>
  %y = mgx.transpose %r permutation = [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// What is read before and after a product that depends on it is stored: it is rounded once, and
// scaled as it is before it is quantized. %g: a squeeze and excitation.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.quant_convolution
// CHECK:         mgx.sigmoid {{.*}} : tensor<1x4x8x8xf32>
// CHECK:         %[[M:.*]] = mgx.mul {{.*}} : tensor<1x4x8x8xf32>
// CHECK:         %[[X:.*]] = mgx.convert %[[M]] : tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf16>
// CHECK:         mgx.reduce_mean {{.*}} : tensor<1x4x8x8xf32>
// CHECK:         mgx.mul {{.*}}%[[X]]{{.*}} : tensor<1x4x8x8xf16>
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<4x4x1x1xi8>, %v: tensor<4x4x1x1xf32>, %s: tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xi8> {
  %p = mgx.quant_convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x4x8x8xi8>, tensor<4x4x1x1xi8> -> tensor<1x4x8x8xi32>
  %f = mgx.convert %p : tensor<1x4x8x8xi32> -> tensor<1x4x8x8xf32>
  %a = mgx.sigmoid %f : tensor<1x4x8x8xf32>
  %y = mgx.mul %f, %a : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
  %m = mgx.reduce_mean %y axes = [2, 3] : tensor<1x4x8x8xf32> -> tensor<1x4x1x1xf32>
  %c = mgx.convolution %m, %v pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x4x1x1xf32>, tensor<4x4x1x1xf32> -> tensor<1x4x1x1xf32>
  %g = mgx.multibroadcast %c : tensor<1x4x1x1xf32> -> tensor<1x4x8x8xf32>
  %z = mgx.mul %y, %g : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
  %q = mgx.quantizelinear %z scale %s : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32> -> tensor<1x4x8x8xi8>
  return %q : tensor<1x4x8x8xi8>
}

// -----

// What is repeated is converted once.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = mgx.convert %{{.*}} : tensor<4xf32> -> tensor<4xf16>
// CHECK-NEXT:    mgx.multibroadcast %[[C]] : tensor<4xf16> -> tensor<2x4xf16>
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>, %z: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %r = mgx.multibroadcast %b : tensor<4xf32> -> tensor<2x4xf32>
  %s = mgx.sqrt %r : tensor<2x4xf32>
  %p = mgx.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %y = mgx.add %p, %r : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %t = mgx.transpose %y permutation = [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  %u = mgx.transpose %t permutation = [1, 0] : tensor<4x2xf32> -> tensor<2x4xf32>
  return %u, %s : tensor<2x4xf32>, tensor<2x4xf32>
}
