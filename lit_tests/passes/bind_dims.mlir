// RUN: %mgx-opt %s --split-input-file --mgx-bind-dims=sizes=batch:4 | FileCheck %s
// RUN: %mgx-opt %s --split-input-file --mgx-bind-dims | FileCheck %s --check-prefix=PLAIN

// A dimension and what is computed of it get sizes; without the option they stay.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4x2x3xf32>) -> tensor<8x3xf32>
// CHECK:         mgx.reshape %{{.*}} : tensor<4x2x3xf32> -> tensor<8x3xf32>
// PLAIN-LABEL: func.func @main(%{{.*}}: tensor<?x2x3xf32
// PLAIN:         -> tensor<?x3xf32, #mgx.dims<["2*batch" : 2 ... 16, _]>>
func.func @main(%x: tensor<?x2x3xf32, #mgx.dims<[batch : 1 ... 8, _, _]>>) -> tensor<?x3xf32, #mgx.dims<["2*batch" : 2 ... 16, _]>> {
  %y = mgx.reshape %x : tensor<?x2x3xf32, #mgx.dims<[batch : 1 ... 8, _, _]>> -> tensor<?x3xf32, #mgx.dims<["2*batch" : 2 ... 16, _]>>
  return %y : tensor<?x3xf32, #mgx.dims<["2*batch" : 2 ... 16, _]>>
}

// -----

// Bounds that leave one size are that size.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<5xf32>, %{{.*}}: tensor<4xf32>)
// PLAIN-LABEL: func.func @main(%{{.*}}: tensor<5xf32>, %{{.*}}: tensor<?xf32
func.func @main(%x: tensor<?xf32, #mgx.dims<[n : 5 ... 5]>>, %y: tensor<?xf32, #mgx.dims<[batch : 1 ... ?]>>) -> tensor<?xf32, #mgx.dims<[n : 5 ... 5]>> {
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[n : 5 ... 5]>>
  return %r : tensor<?xf32, #mgx.dims<[n : 5 ... 5]>>
}

// -----

// A slice that its result's size ends gets its end.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.slice %{{.*}} axes = [0] starts = [1] ends = [5] : tensor<12xf32> -> tensor<4xf32>
// PLAIN-LABEL: func.func @main
// PLAIN:         ends = [9223372036854775807]
func.func @main(%x: tensor<12xf32>, %b: tensor<?xf32, #mgx.dims<[batch : 1 ... 11]>>) -> tensor<?xf32, #mgx.dims<[batch : 1 ... 11]>> {
  %y = mgx.slice %x axes = [0] starts = [1] ends = [9223372036854775807] : tensor<12xf32> -> tensor<?xf32, #mgx.dims<[batch : 1 ... 11]>>
  return %y : tensor<?xf32, #mgx.dims<[batch : 1 ... 11]>>
}
