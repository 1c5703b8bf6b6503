// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @axis_out_of_range(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.reduce_sum' op axis must be in [0, 2), got 2}}
  // expected-error @+1 {{'mgx.reduce_sum' op failed to infer returned types}}
  %r = mgx.reduce_sum %x axes = [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @negative_axis(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.reduce_sum' op axis must be in [0, 2), got -1}}
  // expected-error @+1 {{'mgx.reduce_sum' op failed to infer returned types}}
  %r = mgx.reduce_sum %x axes = [-1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @axis_twice(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.reduce_sum' op axes must differ, got 1 twice}}
  // expected-error @+1 {{'mgx.reduce_sum' op failed to infer returned types}}
  %r = mgx.reduce_sum %x axes = [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @reduced_dimension_is_lost(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.reduce_sum' op inferred type(s) 'tensor<2x1xf32>' are incompatible with return type(s) of operation 'tensor<2xf32>'}}
  // expected-error @+1 {{'mgx.reduce_sum' op failed to infer returned types}}
  %r = mgx.reduce_sum %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @argmax_axis(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.argmax' op axis must be in [0, 2), got 2}}
  // expected-error @+1 {{'mgx.argmax' op failed to infer returned types}}
  %r = mgx.argmax %x axis = 2 : tensor<2x3xf32> -> tensor<2x1xi64>
  return
}

// -----

func.func @argmax_of_nothing(%x: tensor<2x0xf32>) {
  // expected-error @+2 {{'mgx.argmax' op dimension 1 must not be empty, got 'tensor<2x0xf32>'}}
  // expected-error @+1 {{'mgx.argmax' op failed to infer returned types}}
  %r = mgx.argmax %x axis = 1 : tensor<2x0xf32> -> tensor<2x1xi64>
  return
}

// -----

func.func @softmax_axis(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.softmax' op axis must be in [0, 2), got 2}}
  %r = mgx.softmax %x axis = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @scan_axis(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.prefix_scan_sum' op axis must be in [0, 2), got -1}}
  %r = mgx.prefix_scan_sum %x axis = -1 : tensor<2x3xf32>
  return
}

// -----

func.func @topk_of_too_many(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.topk' op k must be in [0, 3], the size of dimension 1, or -1; got 4}}
  // expected-error @+1 {{'mgx.topk' op failed to infer returned types}}
  %r:2 = mgx.topk %x k = 4 axis = 1 : tensor<2x3xf32> -> tensor<2x4xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @lrn_size(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.lrn' op size must be at least 1, got 0}}
  %r = mgx.lrn %x size = 0 : tensor<2x3xf32>
  return
}

// -----

func.func @lrn_rank(%x: tensor<3xf32>) {
  // expected-error @+1 {{'mgx.lrn' op x must have batch and channel dimensions, got 'tensor<3xf32>'}}
  %r = mgx.lrn %x size = 3 : tensor<3xf32>
  return
}

// -----

func.func @suppress_of_other_boxes(%b: tensor<2x6x4xf32>, %c: tensor<2x7xi1>) {
  // expected-error @+1 {{'mgx.suppress' op boxes must have the shape of the candidates, and 4 corners; got 'tensor<2x6x4xf32>' and 'tensor<2x7xi1>'}}
  %r = mgx.suppress %b, %c threshold = 0.5 most = 9 : tensor<2x6x4xf32>, tensor<2x7xi1>
  return
}
