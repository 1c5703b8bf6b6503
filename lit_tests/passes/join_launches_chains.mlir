// RUN: %mgx-opt %s --arch x86-64-v3 --mgx-fuse-pointwise --mgx-outline-kernels --mgx-join-launches | FileCheck %s
// RUN: %mgx-opt %s --mgx-fuse-pointwise --mgx-outline-kernels --mgx-join-launches | FileCheck %s --check-prefix=GPU

// On a CPU, few elements are one launch from a table's entries to their sum, whatever reads what.
// The product of many stays alone.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    mgx.launch @joined0
// CHECK-NEXT:    mgx.launch @k{{.*}}_pointwise
// CHECK-NEXT:    return
// On a GPU, a walk is one launch: gathers by indices of the group, and pointwise work on these.
// GPU:         mgx.kernel @joined0({{.*}}) -> tensor<1x4xf32>
// GPU-NEXT:      gather
// GPU-NEXT:      gather_elements
// GPU-NEXT:      gather
// GPU-NEXT:      pointwise
// GPU-LABEL: func.func @main
// GPU-NEXT:    mgx.launch @joined0
// GPU-NEXT:    mgx.launch @k{{.*}}_reduce_sum
// GPU-NEXT:    mgx.launch @k{{.*}}_pointwise
// GPU-NEXT:    return
func.func @main(%x: tensor<1x6xf32>, %t: tensor<9xi32>, %w: tensor<9xf32>, %i: tensor<1x4xi32>, %y: tensor<64x64xf32>) -> (tensor<1x1xf32>, tensor<64x64xf32>) {
  %a = mgx.gather %t[%i] axis = 0 : tensor<9xi32>, tensor<1x4xi32> -> tensor<1x4xi32>
  %b = mgx.gather_elements %x[%a] axis = 1 : tensor<1x6xf32>, tensor<1x4xi32> -> tensor<1x4xf32>
  %c = mgx.gather %w[%a] axis = 0 : tensor<9xf32>, tensor<1x4xi32> -> tensor<1x4xf32>
  %d = mgx.mul %b, %c : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %s = mgx.reduce_sum %d axes = [1] : tensor<1x4xf32> -> tensor<1x1xf32>
  %z = mgx.exp %y : tensor<64x64xf32>
  return %s, %z : tensor<1x1xf32>, tensor<64x64xf32>
}
