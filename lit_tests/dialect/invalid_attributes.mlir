// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @static_size_with_a_name(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 0 is named 'batch', so its size must be '?', got 2}}
  %r = "mgx.identity"(%x) : (tensor<2x3xf32, #mgx.dims<[batch : 1 ... 4, _]>>) -> tensor<2x3xf32>
  return
}

// -----

func.func @dims_of_another_rank(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{#mgx.dims names 2 dimensions, but the tensor has 1}}
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[a : 1 ... 4, _]>>
  return
}

// -----

func.func @max_below_min(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 'a': the largest size must be -1 (no bound) or at least 4, got 1}}
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[a : 4 ... 1]>>
  return
}

// -----

func.func @negative_min(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 'a': the least size must not be negative, got -1}}
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[a : -1 ... 1]>>
  return
}

// -----

func.func @optimals_that_do_not_ascend(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 'a': optimals must ascend, got [4, 2]}}
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[a : 1 ... 8 {4, 2}]>>
  return
}

// -----

func.func @optimal_out_of_bounds(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 'a': optimal size 16 is outside its bounds, 1 to 8}}
  %r = mgx.relu %x : tensor<?xf32, #mgx.dims<[a : 1 ... 8 {16}]>>
  return
}
