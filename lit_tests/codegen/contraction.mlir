// RUN: %python -m mgx_mlir.codegen %s --arch gfx942 | FileCheck %s

// Tiles of a product: copied to LDS, multiplied by matrix instructions.
// CHECK-LABEL: // product: mgx.dot: tile {{.*}} mfma of f16
// CHECK: gpu.func @{{.*}} workgroup(
// CHECK: amdgpu.raw_buffer_load
// CHECK: vector.store {{.*}}#gpu.address_space<workgroup>
// CHECK: {{rocdl[.]s[.]waitcnt|gpu[.]barrier|rocdl[.]s[.]barrier|amdgpu[.]lds_barrier}}
// CHECK: amdgpu.mfma
mgx.kernel @product(%a: tensor<256x64xf16>, %b: tensor<64x256xf16>) -> (tensor<256x256xf16>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.dot %a, %b : tensor<256x64xf16>, tensor<64x256xf16> -> tensor<256x256xf16>
  mgx.return %y : tensor<256x256xf16>
}

// One row: lanes share the sum, and add their parts across registers, without LDS.
// CHECK-LABEL: // one_row: mgx.dot: {{.*}} columns a block of {{.*}} waves
// CHECK: gpu.func
// CHECK: vector.load
// CHECK: rocdl.update.dpp
mgx.kernel @one_row(%a: tensor<1x512xf16>, %b: tensor<512x256xf16>) -> (tensor<1x256xf16>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.dot %a, %b : tensor<1x512xf16>, tensor<512x256xf16> -> tensor<1x256xf16>
  mgx.return %y : tensor<1x256xf16>
}

// A depthwise convolution: multiply-adds of the windows in registers.
// CHECK-LABEL: // depthwise: mgx.convolution: {{.*}} results a thread
// CHECK: gpu.func
// CHECK-NOT: amdgpu.mfma
// CHECK: vector.fma
mgx.kernel @depthwise(%x: tensor<1x32x28x28xf32>, %w: tensor<32x1x3x3xf32>) -> (tensor<1x32x28x28xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] {group = 32 : i64}
      : tensor<1x32x28x28xf32>, tensor<32x1x3x3xf32> -> tensor<1x32x28x28xf32>
  mgx.return %y : tensor<1x32x28x28xf32>
}

// A convolution of channels first: its operands are packed, then it is a product.
// CHECK-LABEL: // convolution: mgx.convolution: tile {{.*}} operands packed first
// CHECK: gpu.func
// CHECK: gpu.func
// CHECK: amdgpu.mfma
mgx.kernel @convolution(%x: tensor<8x64x28x28xf16>, %w: tensor<64x64x3x3xf16>) -> (tensor<8x64x28x28xf16>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
      : tensor<8x64x28x28xf16>, tensor<64x64x3x3xf16> -> tensor<8x64x28x28xf16>
  mgx.return %y : tensor<8x64x28x28xf16>
}
