// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @concat_of_different_shapes(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @+2 {{'mgx.concat' op operands must have one shape but for dimension 0, got 'tensor<2x3xf32>' and 'tensor<2x4xf32>'}}
  // expected-error @+1 {{'mgx.concat' op failed to infer returned types}}
  %r = mgx.concat %x, %y axis = 0 : tensor<2x3xf32>, tensor<2x4xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @concat_of_different_elements(%x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error @+2 {{'mgx.concat' op operands must have one element type, got 'f32' and 'i32'}}
  // expected-error @+1 {{'mgx.concat' op failed to infer returned types}}
  %r = mgx.concat %x, %y axis = 0 : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<4x3xf32>
  return
}

// -----

func.func @gather_axis(%x: tensor<2x3xf32>, %i: tensor<1xi64>) {
  // expected-error @+2 {{'mgx.gather' op axis must be in [0, 2), got 2}}
  // expected-error @+1 {{'mgx.gather' op failed to infer returned types}}
  %r = mgx.gather %x[%i] axis = 2 : tensor<2x3xf32>, tensor<1xi64> -> tensor<2x3xf32>
  return
}

// -----

func.func @gather_elements_rank(%x: tensor<2x3xf32>, %i: tensor<1xi64>) {
  // expected-error @+2 {{'mgx.gather_elements' op indices must have the rank of x, 2, got 1}}
  // expected-error @+1 {{'mgx.gather_elements' op failed to infer returned types}}
  %r = mgx.gather_elements %x[%i] axis = 0 : tensor<2x3xf32>, tensor<1xi64> -> tensor<1xf32>
  return
}

// -----

func.func @gathernd_tuples_too_long(%x: tensor<2x3xf32>, %i: tensor<1x3xi64>) {
  // expected-error @+2 {{'mgx.gathernd' op index tuples must have at most 2 entries, got 3}}
  // expected-error @+1 {{'mgx.gathernd' op failed to infer returned types}}
  %r = mgx.gathernd %x[%i] : tensor<2x3xf32>, tensor<1x3xi64> -> tensor<1xf32>
  return
}

// -----

func.func @gathernd_dynamic_tuples(%x: tensor<2x3xf32>, %i: tensor<1x?xi64>) {
  // expected-error @+2 {{'mgx.gathernd' op the last dimension of indices must have a static size, got ?}}
  // expected-error @+1 {{'mgx.gathernd' op failed to infer returned types}}
  %r = mgx.gathernd %x[%i] : tensor<2x3xf32>, tensor<1x?xi64> -> tensor<1xf32>
  return
}

// -----

func.func @gathernd_batch_dims(%x: tensor<2x3xf32>, %i: tensor<1x1xi64>) {
  // expected-error @+2 {{'mgx.gathernd' op batch_dims must be in [0, 1], got 2}}
  // expected-error @+1 {{'mgx.gathernd' op failed to infer returned types}}
  %r = mgx.gathernd %x[%i] {batch_dims = 2 : i64}
      : tensor<2x3xf32>, tensor<1x1xi64> -> tensor<1xf32>
  return
}

// -----

func.func @scatter_updates_of_another_shape(%x: tensor<2x3xf32>, %i: tensor<1x3xi64>, %u: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.scatter_none' op updates must have the shape [1x3], got [2x3]}}
  // expected-error @+1 {{'mgx.scatter_none' op failed to infer returned types}}
  %r = mgx.scatter_none %x[%i], %u axis = 0
      : tensor<2x3xf32>, tensor<1x3xi64>, tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @scatter_updates_of_another_element(%x: tensor<2x3xf32>, %i: tensor<1x3xi64>, %u: tensor<1x3xf16>) {
  // expected-error @+2 {{'mgx.scatter_add' op updates must have the element type of x, 'f32', got 'f16'}}
  // expected-error @+1 {{'mgx.scatter_add' op failed to infer returned types}}
  %r = mgx.scatter_add %x[%i], %u axis = 0
      : tensor<2x3xf32>, tensor<1x3xi64>, tensor<1x3xf16> -> tensor<2x3xf32>
  return
}

// -----

func.func @scatternd_updates_of_another_shape(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x2xf32>) {
  // expected-error @+2 {{'mgx.scatternd_add' op updates must have the shape [4x3], got [4x2]}}
  // expected-error @+1 {{'mgx.scatternd_add' op failed to infer returned types}}
  %r = mgx.scatternd_add %x[%i], %u
      : tensor<2x3xf32>, tensor<4x1xi64>, tensor<4x2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @pad_amounts(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.pad' op low must have 2 entries, got 1}}
  // expected-error @+1 {{'mgx.pad' op failed to infer returned types}}
  %r = mgx.pad %x low = [0] high = [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @pad_takes_too_many(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.pad' op dimension 0 of size 2 cannot lose more elements than it has, got low -2 and high -1}}
  // expected-error @+1 {{'mgx.pad' op failed to infer returned types}}
  %r = mgx.pad %x low = [-2, 0] high = [-1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @reflect_beyond_the_size(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.pad' op mode reflect adds at most 2 elements to each side of dimension 1, got low 3 and high 0}}
  // expected-error @+1 {{'mgx.pad' op failed to infer returned types}}
  %r = mgx.pad %x low = [0, 3] high = [0, 0] {mode = #mgx<pad_mode reflect>}
      : tensor<2x3xf32> -> tensor<2x6xf32>
  return
}

// -----

func.func @resize_scales(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.resize' op scales must have 2 entries, got 1}}
  %r = mgx.resize %x scales = [2.0] : tensor<2x3xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @resize_by_a_negative_scale(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.resize' op scales must be positive, got -2.000000e+00}}
  %r = mgx.resize %x scales = [2.0, -2.0] : tensor<2x3xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @resize_to_another_rank(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.resize' op the result must have the rank of x, 2, got 1}}
  %r = mgx.resize %x scales = [2.0, 2.0] : tensor<2x3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @crop_without_a_roi(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.resize' op coordinate mode tf_crop_and_resize needs a roi}}
  %r = mgx.resize %x scales = [1.0, 1.0] {coordinate_mode = #mgx<coordinate_mode tf_crop_and_resize>}
      : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}
