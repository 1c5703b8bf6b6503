// RUN: %mgx-opt %s --split-input-file --mgx-fuse-pointwise --mgx-outline-kernels --mgx-share-kernels | FileCheck %s

// Two layers of one shape have scales and zero points of their own: they are arguments. What both
// share stays in the code.
// CHECK:       mgx.kernel @k0_pointwise(%{{.*}}: tensor<8xf32>, %[[S:.*]]: tensor<1xf32>, %[[Z:.*]]: tensor<1xi8>) -> tensor<8xi8>
// CHECK-DAG:     multibroadcast %[[S]] : tensor<1xf32> -> tensor<8xf32>
// CHECK-DAG:     multibroadcast %[[Z]] : tensor<1xi8> -> tensor<8xi8>
// CHECK:         mgx.constant 0.699999988 : f32
// CHECK-NOT:   mgx.kernel
// CHECK-LABEL: func.func @main
// CHECK:         mgx.literal {{.*}} : tensor<1xf32>
// CHECK:         mgx.launch @k0_pointwise
// CHECK:         mgx.literal {{.*}} : tensor<1xf32>
// CHECK:         mgx.launch @k0_pointwise
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xi8>, tensor<8xi8>) {
  %h = mgx.constant dense<0.7> : tensor<8xf32>
  %s = mgx.constant dense<0.5> : tensor<8xf32>
  %t = mgx.constant dense<0.25> : tensor<8xf32>
  %p = mgx.constant dense<3> : tensor<8xi8>
  %q = mgx.constant dense<4> : tensor<8xi8>
  %u = mgx.mul %x, %h : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %v = mgx.mul %y, %h : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %a = mgx.quantizelinear %u scale %s zero_point %p : tensor<8xf32>, tensor<8xf32>, tensor<8xi8> -> tensor<8xi8>
  %b = mgx.quantizelinear %v scale %t zero_point %q : tensor<8xf32>, tensor<8xf32>, tensor<8xi8> -> tensor<8xi8>
  return %a, %b : tensor<8xi8>, tensor<8xi8>
}

// -----

// Other sizes are other code, and so are numbers that are no scales.
// CHECK-COUNT-3: mgx.kernel
func.func @main(%x: tensor<8xf32>, %y: tensor<6xf32>) -> (tensor<8xf32>, tensor<6xf32>, tensor<6xf32>) {
  %s = mgx.constant dense<0.5> : tensor<8xf32>
  %t = mgx.constant dense<2.0> : tensor<6xf32>
  %e = mgx.constant dense<3.0> : tensor<6xf32>
  %a = mgx.pow %x, %s : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %b = mgx.pow %y, %t : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
  %c = mgx.pow %y, %e : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<6xf32>, tensor<6xf32>
}

// -----

// Numbers without dimensions are no broadcasts of an argument.
// CHECK-COUNT-2: mgx.kernel
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %s = mgx.constant dense<0.5> : tensor<f32>
  %t = mgx.constant dense<0.7> : tensor<f32>
  %a = mgx.mul %x, %s : tensor<f32>, tensor<f32> -> tensor<f32>
  %b = mgx.mul %y, %t : tensor<f32>, tensor<f32> -> tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
}
