// RUN: %mgx-opt %s --pass-pipeline='builtin.module(func.func(mgx-expand-math{ops=tanh},mgx-simplify-math),gpu.module(gpu.func(mgx-lower-subgroup-reduce-to-dpp{chipset=gfx942 subgroup-size=64})))' | FileCheck %s

// CHECK-LABEL: func.func @math
func.func @math(%x: f32, %v: vector<4xf32>) -> (f32, f32, f32, vector<4xf32>) {
  // CHECK-NOT: math.tanh
  // CHECK-NOT: math.powf
  // CHECK:     math.exp %{{.+}} : f32
  // CHECK-NOT: math.tanh
  %0 = math.tanh %x : f32
  %1 = math.exp %x : f32
  %two = arith.constant 2.0 : f32
  %2 = math.powf %x, %two : f32
  %3 = math.tanh %v : vector<4xf32>
  // CHECK: return
  return %0, %1, %2, %3 : f32, f32, f32, vector<4xf32>
}

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @sum
  gpu.func @sum(%x: f32, %out: memref<1xf32>) kernel {
    // CHECK-NOT: gpu.subgroup_reduce
    // CHECK:     amdgpu.dpp
    %s = gpu.subgroup_reduce add %x : (f32) -> f32
    %c0 = arith.constant 0 : index
    memref.store %s, %out[%c0] : memref<1xf32>
    gpu.return
  }
}
