// RUN: %python -m mgx_mlir.codegen.generic.lowering %s | FileCheck %s

// A chain of views and pointwise ops is one linalg.generic; the views are its indexing maps.
// CHECK-DAG: #[[TRANSPOSED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[ROW:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[IDENTITY:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.+]]: tensor<6x4xf32>, %[[B:.+]]: tensor<6xf32>) -> tensor<4x6xf32>
// CHECK: linalg.generic
// CHECK-SAME: indexing_maps = [#[[TRANSPOSED]], #[[ROW]], #[[IDENTITY]]]
// CHECK-SAME: iterator_types = ["parallel", "parallel"]
// CHECK: arith.addf {{.*}} fastmath<contract>
// CHECK: linalg.yield
// CHECK-NOT: linalg.generic
// CHECK: return
mgx.kernel @chain(%x: tensor<6x4xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %t = mgx.transpose %x permutation = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %c = mgx.multibroadcast %b : tensor<6xf32> -> tensor<4x6xf32>
  %s = mgx.add %t, %c : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  %y = mgx.relu %s : tensor<4x6xf32>
  mgx.return %y : tensor<4x6xf32>
}

// The producer of a reduction is computed inside it; f16 is summed in f32.
// CHECK-LABEL: func.func @sum_of_squares(
// CHECK: linalg.fill {{.*}} outs({{.*}} : tensor<4xf32>)
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: arith.mulf
// CHECK: arith.addf {{.*}} fastmath<reassoc,contract> : f32
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel"]
// CHECK: arith.truncf
mgx.kernel @sum_of_squares(%x: tensor<4x8xf16>) -> tensor<4x1xf16>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %s = mgx.mul %x, %x : tensor<4x8xf16>, tensor<4x8xf16> -> tensor<4x8xf16>
  %y = mgx.reduce_sum %s axes = [1] : tensor<4x8xf16> -> tensor<4x1xf16>
  mgx.return %y : tensor<4x1xf16>
}

// A reshape of what is in memory looks at the same memory.
// CHECK-LABEL: func.func @reshaped(
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
// CHECK: linalg.generic
mgx.kernel @reshaped(%x: tensor<4x6xf32>) -> tensor<3x8xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %r = mgx.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  %y = mgx.abs %r : tensor<3x8xf32>
  mgx.return %y : tensor<3x8xf32>
}
