// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-place-concats --mgx-outline-kernels --mgx-plan-memory | FileCheck %s

// The first and the third tensor are never alive at one time; the last is the caller's.
// CHECK: module attributes {mgx.arena_bytes = 8192 : i64}
// CHECK: mgx.launch {{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch {{.*}} {mgx.offsets = array<i64: 4096>}
// CHECK: mgx.launch {{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch {{.*}} {mgx.offsets = array<i64: -1>}
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = mgx.prefix_scan_sum %x axis = 0 : tensor<1024xf32>
  %1 = mgx.prefix_scan_sum %0 axis = 0 : tensor<1024xf32>
  %2 = mgx.prefix_scan_sum %1 axis = 0 : tensor<1024xf32>
  %3 = mgx.prefix_scan_sum %2 axis = 0 : tensor<1024xf32>
  return %3 : tensor<1024xf32>
}

// -----

// Parts of a concat in place lie side by side in its memory.
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: 256>}
// CHECK: mgx.concat {{.*}} {mgx.in_place, mgx.offsets = array<i64: 0>}
func.func @main(%x: tensor<1x4x4x4xf32>) -> tensor<1x8x4x4xf32> {
  %a = mgx.prefix_scan_sum %x axis = 1 : tensor<1x4x4x4xf32>
  %b = mgx.prefix_scan_sum %x axis = 2 : tensor<1x4x4x4xf32>
  %c = mgx.concat %a, %b axis = 1 : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32> -> tensor<1x8x4x4xf32>
  %f = mgx.relu %c : tensor<1x8x4x4xf32>
  return %f : tensor<1x8x4x4xf32>
}
