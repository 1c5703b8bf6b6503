// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-outline-kernels | FileCheck %s

// A contraction takes its epilogue and the views it reads through.
// CHECK:      mgx.kernel @k0_dot(%[[A:.*]]: tensor<3x4xf32>, %[[B:.*]]: tensor<5x4xf32>) -> tensor<3x5xf32>
// CHECK-SAME:   arch = #mgx.arch<"gfxMIGX">
// CHECK:        transpose %[[B]]
// CHECK:        dot %[[A]]
// CHECK:        pointwise
// CHECK:        return
// CHECK:      func.func @main(%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<5x4xf32>)
// CHECK-NEXT:   %[[R:.*]] = mgx.launch @k0_dot(%[[X]], %[[Y]])
// CHECK-NEXT:   return %[[R]]
func.func @main(%x: tensor<3x4xf32>, %y: tensor<5x4xf32>) -> tensor<3x5xf32> {
  %t = mgx.transpose %y permutation = [1, 0] : tensor<5x4xf32> -> tensor<4x5xf32>
  %d = mgx.dot %x, %t : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %r = mgx.relu %d : tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

// Equal kernels are one; a reshape between kernels stays in the program.
// CHECK:     mgx.kernel @k0_pointwise
// CHECK-NOT: mgx.kernel
// CHECK:     %[[A:.*]] = mgx.launch @k0_pointwise
// CHECK:     %[[B:.*]] = mgx.reshape %[[A]] : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK:     %[[C:.*]] = mgx.reshape %[[B]]
// CHECK:     mgx.launch @k0_pointwise(%[[C]])
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mgx.exp %x : tensor<2x3xf32>
  %1 = mgx.reshape %0 : tensor<2x3xf32> -> tensor<3x2xf32>
  %2 = mgx.reshape %1 : tensor<3x2xf32> -> tensor<2x3xf32>
  %3 = mgx.exp %2 : tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// A view that the program returns is a copy.
// CHECK: mgx.kernel @k0_transpose
// CHECK: mgx.launch @k0_transpose
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = mgx.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// Two products that are added up, with others between, are one kernel.
// CHECK:     mgx.kernel @k0_dot
// CHECK:       dot
// CHECK:       dot
// CHECK:       pointwise
// CHECK-NOT: mgx.kernel
func.func @main(%a: tensor<3x8xf32>, %b: tensor<8x5xf32>, %c: tensor<3x9xf32>, %d: tensor<9x5xf32>, %z: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = mgx.dot %a, %b : tensor<3x8xf32>, tensor<8x5xf32> -> tensor<3x5xf32>
  %1 = mgx.add %0, %z : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %2 = mgx.dot %c, %d : tensor<3x9xf32>, tensor<9x5xf32> -> tensor<3x5xf32>
  %3 = mgx.add %1, %2 : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %4 = mgx.relu %3 : tensor<3x5xf32>
  return %4 : tensor<3x5xf32>
}

// -----

// One of two products that are multiplied is a kernel of its own.
// CHECK: mgx.kernel @k0_dot
// CHECK: mgx.kernel @k1_dot
func.func @main(%a: tensor<3x8xf32>, %b: tensor<8x5xf32>, %c: tensor<3x9xf32>, %d: tensor<9x5xf32>) -> tensor<3x5xf32> {
  %0 = mgx.dot %a, %b : tensor<3x8xf32>, tensor<8x5xf32> -> tensor<3x5xf32>
  %1 = mgx.dot %c, %d : tensor<3x9xf32>, tensor<9x5xf32> -> tensor<3x5xf32>
  %2 = mgx.mul %0, %1 : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}

// -----

// An attention takes the pointwise work on its result, and what that reads.
// CHECK:      mgx.kernel @k0_attention(%{{.*}}: tensor<2x3x4xf32>, %{{.*}}: tensor<2x5x4xf32>, %{{.*}}: tensor<2x5x6xf32>, %{{.*}}: tensor<6xf32>, %{{.*}}: tensor<3x2x6xf32>) -> tensor<2x3x6xi8>
// CHECK:        %[[Y:.*]] attention
// CHECK:        %[[R:.*]] = transpose
// CHECK:        %[[P:.*]] = pointwise(%{{.*}}, %[[R]]
// CHECK:        return %[[P]]
// CHECK-NOT:  mgx.kernel
// CHECK:        mgx.launch @k0_attention
func.func @main(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x6xf32>, %w: tensor<6xf32>, %r: tensor<3x2x6xf32>) -> tensor<2x3x6xi8> {
  %c = mgx.constant dense<0.5> : tensor<2x3x6xf32>
  %y = mgx.attention(%q, %k, %v) : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x6xf32>) -> tensor<2x3x6xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  %b = mgx.multibroadcast %w : tensor<6xf32> -> tensor<2x3x6xf32>
  %a = mgx.mul %y, %b : tensor<2x3x6xf32>, tensor<2x3x6xf32> -> tensor<2x3x6xf32>
  %t = mgx.transpose %r permutation = [1, 0, 2] : tensor<3x2x6xf32> -> tensor<2x3x6xf32>
  %u = mgx.add %a, %t : tensor<2x3x6xf32>, tensor<2x3x6xf32> -> tensor<2x3x6xf32>
  %z = mgx.quantizelinear %u scale %c : tensor<2x3x6xf32>, tensor<2x3x6xf32> -> tensor<2x3x6xi8>
  return %z : tensor<2x3x6xi8>
}

// -----

// Attentions that are added up are no one kernel; what others read too stays as it is.
// CHECK: mgx.kernel @k0_attention
// CHECK-NOT: pointwise
// CHECK: mgx.kernel @k1_attention
// CHECK:   attention
// CHECK:   pointwise
// CHECK-NOT: attention
// CHECK: func.func @main
// CHECK-NEXT: mgx.launch @k0_attention
// CHECK-NEXT: mgx.launch @k1_attention
func.func @main(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  %y = mgx.attention(%q, %k, %v) : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  %x = mgx.attention(%q, %v, %k) : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  %z = mgx.add %y, %x : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  return %z : tensor<2x3x4xf32>
}

// -----

// An image whose dimensions have no strides is copied; what reads each element once reads through.
// CHECK-LABEL: mgx.kernel @k0_reshape
// CHECK:         multibroadcast
// CHECK:         reshape {{.*}} -> tensor<1x2x8x4xf32>
// CHECK-LABEL: mgx.kernel @k1_convolution
// CHECK-NOT:     reshape
// CHECK:       func.func @main
// CHECK:         %[[C:.*]] = mgx.launch @k0_reshape(%{{.*}})
// CHECK:         mgx.launch @k1_convolution(%[[C]], %{{.*}})
func.func @main(%x: tensor<1x2x4x1x4xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x6x2xf32> {
  %b = mgx.multibroadcast %x : tensor<1x2x4x1x4xf32> -> tensor<1x2x4x2x4xf32>
  %r = mgx.reshape %b : tensor<1x2x4x2x4xf32> -> tensor<1x2x8x4xf32>
  %y = mgx.convolution %r, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x2x8x4xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x6x2xf32>
  return %y : tensor<1x3x6x2xf32>
}

// -----

// Weights of few bits expand in the product's kernel.
// CHECK:     mgx.kernel @k0_dot(%{{.*}}: tensor<2x64xf16>, %{{.*}}: tensor<64x32xui8>, %{{.*}}: tensor<64x2x1xf16>)
// CHECK:       unpack
// CHECK:       pointwise
// CHECK:       transpose
// CHECK:       dot
// CHECK-NOT: mgx.kernel
func.func @main(%x: tensor<2x64xf16>) -> tensor<2x64xf16> {
  %w = mgx.literal "w" : tensor<64x32xui8>
  %s = mgx.literal "s" : tensor<64x2x1xf16>
  %0 = mgx.unpack %w : tensor<64x32xui8> -> tensor<64x64xui4>
  %1 = mgx.convert %0 : tensor<64x64xui4> -> tensor<64x64xf16>
  %2 = mgx.multibroadcast %s : tensor<64x2x1xf16> -> tensor<64x2x32xf16>
  %3 = mgx.reshape %2 : tensor<64x2x32xf16> -> tensor<64x64xf16>
  %4 = mgx.mul %1, %3 : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf16>
  %5 = mgx.transpose %4 permutation = [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
  %6 = mgx.dot %x, %5 : tensor<2x64xf16>, tensor<64x64xf16> -> tensor<2x64xf16>
  return %6 : tensor<2x64xf16>
}

// -----

// What thousands of rows would repeat too often is done once.
// CHECK:     mgx.kernel @k0_pointwise
// CHECK:     mgx.kernel @k1_dot
func.func @main(%x: tensor<4096x64xf16>) -> tensor<4096x64xf16> {
  %w = mgx.literal "w" : tensor<64x64xi8>
  %1 = mgx.convert %w : tensor<64x64xi8> -> tensor<64x64xf16>
  %2 = mgx.erf %1 : tensor<64x64xf16>
  %6 = mgx.dot %x, %2 : tensor<4096x64xf16>, tensor<64x64xf16> -> tensor<4096x64xf16>
  return %6 : tensor<4096x64xf16>
}

// -----

// The rows of a product are reduced in its kernel, the columns in one of their own.
// CHECK: mgx.kernel @k0_dot
// CHECK:   fused_reduce
// CHECK: mgx.kernel @k1_dot
// CHECK: mgx.kernel @k2_fused_reduce
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x600xf32>, %v: tensor<16x32xf32>) -> (tensor<8x1xf32>, tensor<1x32xf32>) {
  %d = mgx.dot %x, %w : tensor<8x16xf32>, tensor<16x600xf32> -> tensor<8x600xf32>
  %y = mgx.fused_reduce(%d) axes = [1] : (tensor<8x600xf32>) -> tensor<8x1xf32> {
  ^bb0(%b: tensor<8x600xf32>):
    %m = mgx.reduce_max %b axes = [1] : tensor<8x600xf32> -> tensor<8x1xf32>
    mgx.yield %m : tensor<8x1xf32>
  }
  %e = mgx.dot %x, %v : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  %z = mgx.fused_reduce(%e) axes = [0] : (tensor<8x32xf32>) -> tensor<1x32xf32> {
  ^bb0(%b: tensor<8x32xf32>):
    %m = mgx.reduce_max %b axes = [0] : tensor<8x32xf32> -> tensor<1x32xf32>
    mgx.yield %m : tensor<1x32xf32>
  }
  return %y, %z : tensor<8x1xf32>, tensor<1x32xf32>
}

// -----

// Rows that a product alone normalises as it reads them are in its kernel, and written for those
// that read them later; those that another op reads before it are a kernel of their own.
// CHECK: mgx.kernel @k0_dot
// CHECK:   fused_reduce
// CHECK:   dot
// CHECK:   return %{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<8x32xf32>
// CHECK: mgx.kernel @k1_pointwise
// CHECK: mgx.kernel @k2_fused_reduce
// CHECK: mgx.kernel @k3_pointwise
// CHECK: mgx.kernel @k4_dot
func.func @main(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>) -> (tensor<8x16xf32>, tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x32xf32>) {
  %y = mgx.fused_reduce(%x) axes = [1] : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%b: tensor<8x32xf32>):
    %s = mgx.mul %b, %b : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    %m = mgx.reduce_mean %s axes = [1] : tensor<8x32xf32> -> tensor<8x1xf32>
    %r = mgx.rsqrt %m : tensor<8x1xf32>
    %f = mgx.multibroadcast %r : tensor<8x1xf32> -> tensor<8x32xf32>
    %n = mgx.mul %b, %f : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    mgx.yield %n : tensor<8x32xf32>
  }
  %p = mgx.dot %y, %w : tensor<8x32xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %a = mgx.relu %y : tensor<8x32xf32>
  %z = mgx.fused_reduce(%a) axes = [1] : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%b: tensor<8x32xf32>):
    %s = mgx.mul %b, %b : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    %m = mgx.reduce_mean %s axes = [1] : tensor<8x32xf32> -> tensor<8x1xf32>
    %r = mgx.rsqrt %m : tensor<8x1xf32>
    %f = mgx.multibroadcast %r : tensor<8x1xf32> -> tensor<8x32xf32>
    %n = mgx.mul %b, %f : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    mgx.yield %n : tensor<8x32xf32>
  }
  %c = mgx.tanh %z : tensor<8x32xf32>
  %q = mgx.dot %z, %w : tensor<8x32xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  return %p, %a, %q, %c : tensor<8x16xf32>, tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x32xf32>
}

// -----

// A product between two normalisations is with the first one: the other is a kernel of its own.
// CHECK: mgx.kernel @k0_dot
// CHECK:   fused_reduce
// CHECK:   dot
// CHECK:   return
// CHECK: mgx.kernel @k1_fused_reduce
func.func @main(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>) -> tensor<8x16xf32> {
  %y = mgx.fused_reduce(%x) axes = [1] : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%b: tensor<8x32xf32>):
    %s = mgx.mul %b, %b : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    %m = mgx.reduce_mean %s axes = [1] : tensor<8x32xf32> -> tensor<8x1xf32>
    %r = mgx.rsqrt %m : tensor<8x1xf32>
    %f = mgx.multibroadcast %r : tensor<8x1xf32> -> tensor<8x32xf32>
    %n = mgx.mul %b, %f : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
    mgx.yield %n : tensor<8x32xf32>
  }
  %p = mgx.dot %y, %w : tensor<8x32xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %z = mgx.fused_reduce(%p) axes = [1] : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%b: tensor<8x16xf32>):
    %s = mgx.mul %b, %b : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
    %m = mgx.reduce_mean %s axes = [1] : tensor<8x16xf32> -> tensor<8x1xf32>
    %r = mgx.rsqrt %m : tensor<8x1xf32>
    %f = mgx.multibroadcast %r : tensor<8x1xf32> -> tensor<8x16xf32>
    %n = mgx.mul %b, %f : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
    mgx.yield %n : tensor<8x16xf32>
  }
  return %z : tensor<8x16xf32>
}

// -----

// A product does pointwise work on what it reads, on one operand.
// CHECK:     mgx.kernel @k0_pointwise
// CHECK:       relu
// CHECK:     mgx.kernel @k1_dot
// CHECK:       tanh
// CHECK:       dot
// CHECK-NOT: mgx.kernel
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %a = mgx.relu %x : tensor<8x16xf32>
  %b = mgx.tanh %w : tensor<16x32xf32>
  %d = mgx.dot %a, %b : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  return %d : tensor<8x32xf32>
}

// -----

// Not what others read too, nor what is not finite past the end of k.
// CHECK:     mgx.kernel @k0_pointwise
// CHECK:     mgx.kernel @k1_dot
// CHECK:     mgx.kernel @k2_pointwise
// CHECK:     mgx.launch @k1_dot
// CHECK:     mgx.launch @k2_pointwise
// CHECK:     mgx.launch @k1_dot
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> (tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x32xf32>) {
  %a = mgx.relu %x : tensor<8x16xf32>
  %d = mgx.dot %a, %w : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  %b = mgx.log %x : tensor<8x16xf32>
  %e = mgx.dot %b, %w : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  return %d, %a, %e : tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x32xf32>
}

// -----

// A convolution does it on the pixels it reads, but not where each channel is a group of its own:
// there each pixel is read for every tap.
// CHECK:      mgx.kernel @k0_convolution
// CHECK:        %[[N:.*]] = pointwise
// CHECK:          mgx.add
// CHECK:          mgx.relu
// CHECK:        %[[C:.*]] = convolution %[[N]]
// CHECK:        pointwise(%[[C]]
// CHECK:          mgx.exp
// CHECK:      mgx.kernel @k1_pointwise
// CHECK:        mgx.tanh
// CHECK:      mgx.kernel @k2_convolution
// CHECK-NOT:  mgx.kernel
func.func @main(%x: tensor<2x8x6x6xf32>, %b: tensor<8x1x1xf32>, %v: tensor<16x8x3x3xf32>, %w: tensor<8x1x3x3xf32>) -> (tensor<2x16x6x6xf32>, tensor<2x8x6x6xf32>) {
  %t = mgx.multibroadcast %b : tensor<8x1x1xf32> -> tensor<2x8x6x6xf32>
  %s = mgx.add %x, %t : tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32> -> tensor<2x8x6x6xf32>
  %r = mgx.relu %s : tensor<2x8x6x6xf32>
  %c = mgx.convolution %r, %v pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<2x8x6x6xf32>, tensor<16x8x3x3xf32> -> tensor<2x16x6x6xf32>
  %e = mgx.exp %c : tensor<2x16x6x6xf32>
  %h = mgx.tanh %x : tensor<2x8x6x6xf32>
  %d = mgx.convolution %h, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 8 : i64} : tensor<2x8x6x6xf32>, tensor<8x1x3x3xf32> -> tensor<2x8x6x6xf32>
  return %e, %d : tensor<2x16x6x6xf32>, tensor<2x8x6x6xf32>
}

// -----

// Filters of one pixel are expanded as they are read; work for each of many taps does not pay.
// CHECK:      mgx.kernel @k0_convolution(%{{.*}}: tensor<1x256x7x7xf16>, %{{.*}}: tensor<512x256x1x1xi8>
// CHECK:        %[[W:.*]] = pointwise
// CHECK:        convolution %{{.*}}, %[[W]]
// CHECK:      mgx.kernel @k1_pointwise
// CHECK:      mgx.kernel @k2_convolution
func.func @main(%x: tensor<1x256x7x7xf16>, %w: tensor<512x256x1x1xi8>, %s: tensor<512x1x1x1xf16>, %z: tensor<1x33x32x64xf16>, %v: tensor<8x9x9x64xf16>) -> (tensor<1x512x7x7xf16>, tensor<1x33x32x8xf16>) {
  %c = mgx.convert %w : tensor<512x256x1x1xi8> -> tensor<512x256x1x1xf16>
  %b = mgx.multibroadcast %s : tensor<512x1x1x1xf16> -> tensor<512x256x1x1xf16>
  %m = mgx.mul %c, %b : tensor<512x256x1x1xf16>, tensor<512x256x1x1xf16> -> tensor<512x256x1x1xf16>
  %y = mgx.convolution %x, %m pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<1x256x7x7xf16>, tensor<512x256x1x1xf16> -> tensor<1x512x7x7xf16>
  %p = mgx.tanh %z : tensor<1x33x32x64xf16>
  %q = mgx.sigmoid %p : tensor<1x33x32x64xf16>
  %r = mgx.tanh %q : tensor<1x33x32x64xf16>
  %t = mgx.sigmoid %r : tensor<1x33x32x64xf16>
  %u = mgx.convolution %t, %v pads = [4, 4, 4, 4] strides = [1, 1] dilations = [1, 1] {channels_last} : tensor<1x33x32x64xf16>, tensor<8x9x9x64xf16> -> tensor<1x33x32x8xf16>
  return %y, %u : tensor<1x512x7x7xf16>, tensor<1x33x32x8xf16>
}

// -----

// A pooling takes the work on its result into its kernel.
// CHECK-LABEL: mgx.kernel @k0_pooling
// CHECK:         pooling max
// CHECK:         pointwise(
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.launch @k0_pooling
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32> {
  %p = mgx.pooling max %x lengths = [2, 2] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  %y = mgx.pointwise(%p) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  ^bb0(%a: f32):
    %b = mgx.relu %a : f32
    mgx.yield %b : f32
  }
  return %y : tensor<1x2x2x2xf32>
}

// -----

// Rows that a size counts lie one after another for the product that reads them.
// CHECK-LABEL: mgx.kernel @k0_reshape
// CHECK:         transpose
// CHECK-LABEL: mgx.kernel @k1_dot
// CHECK-NEXT:    dot %arg0, %arg1
#h = #mgx.dims<[batch : 1 ... ?, _, seq : 1 ... ?, _]>
#t = #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _, _]>
#f = #mgx.dims<["batch*seq" : 1 ... ?, _]>
func.func @main(%x: tensor<?x2x?x4xf32, #h>, %w: tensor<8x6xf32>) -> tensor<?x6xf32, #f> {
  %t = mgx.transpose %x permutation = [0, 2, 1, 3] : tensor<?x2x?x4xf32, #h> -> tensor<?x?x2x4xf32, #t>
  %r = mgx.reshape %t : tensor<?x?x2x4xf32, #t> -> tensor<?x8xf32, #f>
  %y = mgx.dot %r, %w : tensor<?x8xf32, #f>, tensor<8x6xf32> -> tensor<?x6xf32, #f>
  return %y : tensor<?x6xf32, #f>
}

// -----

// A loop of little work is one kernel, in which the trip's number takes the place of a counter.
// CHECK-LABEL: mgx.kernel @k0_loop(%arg0: tensor<4xf32>, %arg1: tensor<9x4xf32>)
// CHECK:         loop %{{.*}}, %{{.*}} init(%arg0)
// CHECK-NEXT:    ^bb0(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<i1>, %[[V:.*]]: tensor<4xf32>):
// CHECK-NEXT:      %[[ROW:.*]] = mgx.gather %arg1[%[[I]]]
// CHECK-NEXT:      %[[SUM:.*]] = mgx.pointwise(%[[V]], %[[ROW]])
// CHECK:           mgx.yield %{{.*}}, %[[SUM]], %[[SUM]] : tensor<i1>, tensor<4xf32>, tensor<4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         mgx.launch @k0_loop
func.func @main(%x: tensor<4xf32>, %table: tensor<9x4xf32>) -> (tensor<4xf32>, tensor<9x4xf32>) {
  %n = mgx.constant dense<9> : tensor<i64>
  %zero = mgx.constant dense<0> : tensor<i64>
  %true = mgx.constant dense<true> : tensor<i1>
  %r:3 = mgx.loop %n, %true init(%x, %zero) : tensor<i64>, tensor<i1>, (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>, tensor<i64>, tensor<9x4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>, %j: tensor<i64>):
    %row = mgx.gather %table[%j] axis = 0 : tensor<9x4xf32>, tensor<i64> -> tensor<4xf32>
    %w = mgx.add %v, %row : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %one = mgx.constant dense<1> : tensor<i64>
    %next = mgx.add %j, %one : tensor<i64>, tensor<i64> -> tensor<i64>
    mgx.yield %true, %w, %next, %w : tensor<i1>, tensor<4xf32>, tensor<i64>, tensor<4xf32>
  }
  return %r#0, %r#2 : tensor<4xf32>, tensor<9x4xf32>
}

// -----

// As many trips as the program is told: the program's loop counts them.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.loop
func.func @main(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %true = mgx.constant dense<true> : tensor<i1>
  %r = mgx.loop %n, %true init(%x) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %w = mgx.exp %v : tensor<4xf32>
    mgx.yield %true, %w : tensor<i1>, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// A concat's kernel converts what it copies.
// CHECK-LABEL: mgx.kernel @k0_concat
// CHECK:         mgx.convert
// CHECK:         concat
// CHECK-NOT:   mgx.kernel
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x2xf16>) -> tensor<4x8xf16> {
  %h = mgx.pointwise(%x) : (tensor<4x6xf32>) -> tensor<4x6xf16> {
  ^bb0(%a: f32):
    %b = mgx.convert %a : f32 -> f16
    mgx.yield %b : f16
  }
  %c = mgx.concat %h, %y axis = 1 : tensor<4x6xf16>, tensor<4x2xf16> -> tensor<4x8xf16>
  return %c : tensor<4x8xf16>
}

// -----

// Two readers share the converted tensor.
// CHECK-LABEL: mgx.kernel @k0_pointwise
// CHECK:       mgx.kernel @k1_concat
// CHECK-NOT:     mgx.convert
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x2xf16>) -> (tensor<4x8xf16>, tensor<4x6xf16>) {
  %h = mgx.pointwise(%x) : (tensor<4x6xf32>) -> tensor<4x6xf16> {
  ^bb0(%a: f32):
    %b = mgx.convert %a : f32 -> f16
    mgx.yield %b : f16
  }
  %c = mgx.concat %h, %y axis = 1 : tensor<4x6xf16>, tensor<4x2xf16> -> tensor<4x8xf16>
  return %c, %h : tensor<4x8xf16>, tensor<4x6xf16>
}

// -----

// An argmax takes the work on its operand with it.
// CHECK-LABEL: mgx.kernel @k0_argmax(%{{.*}}: tensor<4x6xf32>) -> tensor<4x1xi64>
// CHECK:         pointwise
// CHECK:         argmax
// CHECK-NOT:   mgx.kernel
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x1xi64> {
  %h = mgx.pointwise(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32> {
  ^bb0(%a: f32):
    %b = mgx.mul %a, %a : f32, f32 -> f32
    mgx.yield %b : f32
  }
  %i = mgx.argmax %h axis = 1 : tensor<4x6xf32> -> tensor<4x1xi64>
  return %i : tensor<4x1xi64>
}

// -----

// Work that others read too is a kernel of its own.
// CHECK-LABEL: mgx.kernel @k0_pointwise
// CHECK:       mgx.kernel @k1_argmin
// CHECK-NEXT:    argmin
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x1xi64>, tensor<4x6xf32>) {
  %h = mgx.pointwise(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32> {
  ^bb0(%a: f32):
    %b = mgx.mul %a, %a : f32, f32 -> f32
    mgx.yield %b : f32
  }
  %i = mgx.argmin %h axis = 1 : tensor<4x6xf32> -> tensor<4x1xi64>
  return %i, %h : tensor<4x1xi64>, tensor<4x6xf32>
}

// -----

// A product's epilogue stays with the product.
// CHECK-LABEL: mgx.kernel @k0_dot
// CHECK:       mgx.kernel @k1_argmax
func.func @main(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) -> tensor<4x1xi64> {
  %d = mgx.dot %x, %w : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  %h = mgx.pointwise(%d) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: f32):
    %b = mgx.neg %a : f32
    mgx.yield %b : f32
  }
  %i = mgx.argmax %h axis = 1 : tensor<4x8xf32> -> tensor<4x1xi64>
  return %i : tensor<4x1xi64>
}

// -----

// A concat's kernel gathers what it alone reads, and copies the rest.
// CHECK-LABEL: mgx.kernel @k0_concat(%{{.*}}: tensor<9x6xf32>, %{{.*}}: tensor<4xi64>, %{{.*}}: tensor<2x6xf32>) -> tensor<6x6xf32>
// CHECK:         gather
// CHECK:         concat
// CHECK-NOT:   mgx.kernel
func.func @main(%t: tensor<9x6xf32>, %i: tensor<4xi64>, %x: tensor<2x6xf32>) -> tensor<6x6xf32> {
  %g = mgx.gather %t[%i] axis = 0 : tensor<9x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %c = mgx.concat %g, %x axis = 0 : tensor<4x6xf32>, tensor<2x6xf32> -> tensor<6x6xf32>
  return %c : tensor<6x6xf32>
}

// -----

// Two readers share what was gathered.
// CHECK-LABEL: mgx.kernel @k0_gather
// CHECK:       mgx.kernel @k1_concat
// CHECK-NEXT:    concat
func.func @main(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> (tensor<8x6xf32>, tensor<4x6xf32>) {
  %g = mgx.gather %t[%i] axis = 0 : tensor<9x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %c = mgx.concat %g, %g axis = 0 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  return %c, %g : tensor<8x6xf32>, tensor<4x6xf32>
}

// -----

// Indices are no kernel where pointwise work alone reads them; a gather reads them from memory.
// CHECK-LABEL: mgx.kernel @k0_pointwise(%{{[^:]*}}: tensor<?xi64
// CHECK:         iota
// CHECK:         dimensions_of
// CHECK:         pointwise
// CHECK:       mgx.kernel @k1_gather(%{{.*}}, %{{.*}})
// CHECK-NOT:     iota
// CHECK:       mgx.kernel @k2_iota()
// CHECK-NOT:   mgx.kernel
#r = #mgx.dims<[rows : 1 ... ?]>
func.func @main(%x: tensor<?xi64, #r>, %t: tensor<9x4xf32>) -> (tensor<?xi64, #r>, tensor<?x4xf32, #mgx.dims<[rows : 1 ... ?, _]>>) {
  %i = mgx.iota : tensor<?xi64, #r>
  %d = mgx.dimensions_of %i start = 0 end = 1 : tensor<?xi64, #r> -> tensor<1xi64>
  %n = mgx.multibroadcast %d : tensor<1xi64> -> tensor<?xi64, #r>
  %a = mgx.add %x, %i : tensor<?xi64, #r>, tensor<?xi64, #r> -> tensor<?xi64, #r>
  %y = mgx.mul %a, %n : tensor<?xi64, #r>, tensor<?xi64, #r> -> tensor<?xi64, #r>
  %g = mgx.gather %t[%i] axis = 0 : tensor<9x4xf32>, tensor<?xi64, #r> -> tensor<?x4xf32, #mgx.dims<[rows : 1 ... ?, _]>>
  return %y, %g : tensor<?xi64, #r>, tensor<?x4xf32, #mgx.dims<[rows : 1 ... ?, _]>>
}
