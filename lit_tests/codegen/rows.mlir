// RUN: %python -m mgx_mlir.codegen %s --arch gfx942 | FileCheck %s

// A row is read once: its maximum, its sum across lanes, its quotients.
// CHECK-LABEL: // softmax: mgx.fused_reduce: {{.*}} read once
// CHECK: gpu.func
// CHECK: vector.load
// CHECK: arith.maximumf
// CHECK: rocdl.update.dpp
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: vector.store
mgx.kernel @softmax(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.fused_reduce(%x) axes = [1] : (tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  ^bb0(%r: tensor<512x1024xf32>):
    %m = mgx.reduce_max %r axes = [1] : tensor<512x1024xf32> -> tensor<512x1xf32>
    %b = mgx.multibroadcast %m : tensor<512x1xf32> -> tensor<512x1024xf32>
    %d = mgx.sub %r, %b : tensor<512x1024xf32>, tensor<512x1024xf32> -> tensor<512x1024xf32>
    %e = mgx.exp %d : tensor<512x1024xf32>
    %s = mgx.reduce_sum %e axes = [1] : tensor<512x1024xf32> -> tensor<512x1xf32>
    %i = mgx.recip %s : tensor<512x1xf32>
    %n = mgx.multibroadcast %i : tensor<512x1xf32> -> tensor<512x1024xf32>
    %q = mgx.mul %e, %n : tensor<512x1024xf32>, tensor<512x1024xf32> -> tensor<512x1024xf32>
    mgx.yield %q : tensor<512x1024xf32>
  }
  mgx.return %y : tensor<512x1024xf32>
}

// A wave adds across its lanes; each thread keeps several elements.
// CHECK-LABEL: // scan: mgx.prefix_scan_sum: {{.*}} threads a row
// CHECK: gpu.func
// CHECK: vector.load
// CHECK: rocdl.update.dpp
// CHECK: vector.store
mgx.kernel @scan(%x: tensor<64x512xf32>) -> (tensor<64x512xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.prefix_scan_sum %x axis = 1 : tensor<64x512xf32>
  mgx.return %y : tensor<64x512xf32>
}

// One read and one write an element.
// CHECK-LABEL: // pointwise: mgx.pointwise: {{.*}} elements at a time
// CHECK: gpu.func
// CHECK: vector.load
// CHECK: math.exp
// CHECK: vector.store
// CHECK-NOT: vector.store
mgx.kernel @pointwise(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.pointwise(%x) : (tensor<4096x64xf32>) -> tensor<4096x64xf32> {
  ^bb0(%e: f32):
    %a = mgx.exp %e : f32
    %r = mgx.relu %a : f32
    mgx.yield %r : f32
  }
  mgx.return %y : tensor<4096x64xf32>
}
