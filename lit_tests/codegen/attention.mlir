// RUN: %python -m mgx_mlir.codegen %s --arch gfx942 | FileCheck %s

// Scores stay in the work-group; both products are matrix instructions.
// CHECK-LABEL: // attention: mgx.attention: {{.*}} queries by {{.*}} keys
// CHECK: gpu.func
// CHECK: amdgpu.mfma
// CHECK: rocdl.exp2
// CHECK: amdgpu.mfma
mgx.kernel @attention(%q: tensor<8x256x64xf16>, %k: tensor<8x256x64xf16>, %v: tensor<8x256x64xf16>) -> (tensor<8x256x64xf16>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.attention(%q, %k, %v) : (tensor<8x256x64xf16>, tensor<8x256x64xf16>, tensor<8x256x64xf16>) -> tensor<8x256x64xf16> {
  ^bb0(%s: f32):
    %c = mgx.constant 1.250000e-01 : f32
    %t = mgx.mul %s, %c : f32, f32 -> f32
    mgx.yield %t : f32
  }
  mgx.return %y : tensor<8x256x64xf16>
}
