// RUN: %mgx-opt %s --split-input-file --canonicalize | FileCheck %s

#batch = #mgx.dims<[batch : 1 ... 64 {1, 8}, _]>

// CHECK-LABEL: func.func @prints_names_bounds_and_optimals
// CHECK-SAME:    tensor<?x3xf32, #mgx.dims<[batch : 1 ... 64 {1, 8}, _]>>
func.func @prints_names_bounds_and_optimals(%x: tensor<?x3xf32, #batch>) {
  return
}

// -----

// CHECK-LABEL: func.func @without_a_bound
// CHECK-SAME:    tensor<?xf32, #mgx.dims<["with space" : 0 ... ?]>>
func.func @without_a_bound(%x: tensor<?xf32, #mgx.dims<["with space" : 0 ... ?]>>) {
  return
}

// -----

#b = #mgx.dims<[b : 1 ... 8, _]>
#a = #mgx.dims<[a : 1 ... 8, _]>

// A result may say less than what is inferred, and more.
// CHECK-LABEL: func.func @accepts_compatible_results
func.func @accepts_compatible_results(%x: tensor<?x3xf32, #b>, %y: tensor<4x3xf32>,
                                      %z: tensor<?x3xf32>, %w: tensor<?x3xf32, #a>)
    -> (tensor<4x3xf32>, tensor<?x3xf32>, tensor<?x3xf32, #b>, tensor<?x3xf32, #b>) {
  // CHECK: mgx.add {{.*}} -> tensor<4x3xf32>
  %0 = mgx.add %x, %y : tensor<?x3xf32, #b>, tensor<4x3xf32> -> tensor<4x3xf32>
  // CHECK: mgx.add {{.*}} -> tensor<?x3xf32>
  %1 = mgx.add %x, %z : tensor<?x3xf32, #b>, tensor<?x3xf32> -> tensor<?x3xf32>
  // CHECK: mgx.add {{.*}} -> tensor<?x3xf32, #mgx.dims<[b : 1 ... 8, _]>>
  %2 = mgx.add %z, %x : tensor<?x3xf32>, tensor<?x3xf32, #b> -> tensor<?x3xf32, #b>
  // CHECK: mgx.add {{.*}} -> tensor<?x3xf32, #mgx.dims<[b : 1 ... 8, _]>>
  %3 = mgx.add %x, %w : tensor<?x3xf32, #b>, tensor<?x3xf32, #a> -> tensor<?x3xf32, #b>
  return %0, %1, %2, %3
      : tensor<4x3xf32>, tensor<?x3xf32>, tensor<?x3xf32, #b>, tensor<?x3xf32, #b>
}

// -----

#b = #mgx.dims<[b : 1 ... 8, _]>

// Equal names are equal sizes; without names nothing is known.
// CHECK-LABEL: func.func @folds_by_name
// CHECK-SAME:    %[[X:[^:]+]]: tensor<?x3xf32, {{.+}}>, %[[Y:.+]]: tensor<?x3xf32>
func.func @folds_by_name(%x: tensor<?x3xf32, #b>, %y: tensor<?x3xf32>)
    -> (tensor<?x3xf32, #b>, tensor<?x3xf32, #b>, tensor<?x3xf32>) {
  // CHECK: %[[R:.+]] = mgx.multibroadcast %[[Y]]
  %0 = mgx.multibroadcast %x : tensor<?x3xf32, #b> -> tensor<?x3xf32, #b>
  %1 = mgx.slice %x axes = [0] starts = [0] ends = [9223372036854775807]
      : tensor<?x3xf32, #b> -> tensor<?x3xf32, #b>
  %2 = mgx.multibroadcast %y : tensor<?x3xf32> -> tensor<?x3xf32>
  // CHECK: return %[[X]], %[[X]], %[[R]]
  return %0, %1, %2 : tensor<?x3xf32, #b>, tensor<?x3xf32, #b>, tensor<?x3xf32>
}
