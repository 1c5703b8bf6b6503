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
