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

// A pointwise kernel writes over what it is the last to read element by element, but not over a
// tensor that it reads turned.
// CHECK: module attributes {mgx.arena_bytes = 8192 : i64}
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch @{{.*}}pointwise{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: 4096>}
// CHECK: mgx.launch @{{.*}}pointwise{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: -1>}
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = mgx.prefix_scan_sum %x axis = 0 : tensor<32x32xf32>
  %1 = mgx.tanh %0 : tensor<32x32xf32>
  %2 = mgx.prefix_scan_sum %1 axis = 1 : tensor<32x32xf32>
  %3 = mgx.transpose %2 permutation = [1, 0] : tensor<32x32xf32> -> tensor<32x32xf32>
  %4 = mgx.tanh %3 : tensor<32x32xf32>
  %5 = mgx.prefix_scan_sum %4 axis = 0 : tensor<32x32xf32>
  return %5 : tensor<32x32xf32>
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

// -----

// A carried value is read for the last time before its next value is made: one tensor, which
// the initial value and the result share; here the caller's. The last kernel's result is copied.
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: -1>}
// CHECK: mgx.loop {{.*}} {mgx.offsets = array<i64: -1>}
// CHECK:   mgx.launch @{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK:   mgx.launch @{{.*}} {mgx.offsets = array<i64: -1>}
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mgx.prefix_scan_sum %x axis = 0 : tensor<64xf32>
  %r = mgx.loop %n, %c init(%0) : tensor<i64>, tensor<i1>, (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<64xf32>):
    %1 = mgx.prefix_scan_sum %v axis = 0 : tensor<64xf32>
    %2 = mgx.prefix_scan_sum %1 axis = 0 : tensor<64xf32>
    mgx.yield %c, %2 : tensor<i1>, tensor<64xf32>
  }
  return %r : tensor<64xf32>
}

// -----

// The results of both branches lie where the result lies, over what both read.
// CHECK: mgx.launch @{{.*}} {mgx.offsets = array<i64: 0>}
// CHECK: mgx.if {{.*}} {mgx.offsets = array<i64: -1>}
// CHECK:   mgx.launch @{{.*}} {mgx.offsets = array<i64: -1>}
// CHECK: else
// CHECK:   mgx.launch @{{.*}} {mgx.offsets = array<i64: 256>}
// CHECK:   mgx.launch @{{.*}} {mgx.offsets = array<i64: -1>}
func.func @main(%c: tensor<i1>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mgx.prefix_scan_sum %x axis = 0 : tensor<64xf32>
  %r = mgx.if %c : tensor<i1> -> tensor<64xf32> {
    %1 = mgx.prefix_scan_sum %0 axis = 0 : tensor<64xf32>
    mgx.yield %1 : tensor<64xf32>
  } else {
    %2 = mgx.prefix_scan_sum %0 axis = 0 : tensor<64xf32>
    %3 = mgx.prefix_scan_sum %2 axis = 0 : tensor<64xf32>
    mgx.yield %3 : tensor<64xf32>
  }
  return %r : tensor<64xf32>
}

// -----

// Carried values that change places are copied aside: the second one, which the first one has
// taken the place of by then.
// CHECK: mgx.loop {{.*}} {mgx.offsets = array<i64: -1, -2>, mgx.staged = array<i64: 0>}
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %r:2 = mgx.loop %n, %c init(%x, %y) : tensor<i64>, tensor<i1>, (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>, tensor<64xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<64xf32>, %w: tensor<64xf32>):
    mgx.yield %c, %w, %v : tensor<i1>, tensor<64xf32>, tensor<64xf32>
  }
  return %r#0, %r#1 : tensor<64xf32>, tensor<64xf32>
}

// -----

// Where sizes are symbols, offsets are the numbers of tensors: a run finds their places.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>)
// CHECK:         mgx.launch @k0(%{{.*}}) {mgx.offsets = array<i64: 0>}
// CHECK:         mgx.launch @k0(%{{.*}}) {mgx.offsets = array<i64: -1>}
// CHECK-NOT:   mgx.arena_bytes
mgx.kernel @k0(%x: tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>) -> tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %y = mgx.relu %x : tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
  mgx.return %y : tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
}
func.func @main(%x: tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>) -> tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>> {
  %a = mgx.launch @k0(%x) : (tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>) -> tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
  %b = mgx.launch @k0(%a) : (tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>) -> tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
  return %b : tensor<?x4xf32, #mgx.dims<[batch : 1 ... ?, _]>>
}
