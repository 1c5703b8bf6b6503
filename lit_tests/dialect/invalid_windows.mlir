// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @channels_differ(%x: tensor<1x4x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op x must have 3 * 1 channels (w's times group), got 4}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x4x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @group_does_not_divide_filters(%x: tensor<1x3x8x8xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op group must divide the 4 filters of w, got 3}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {group = 3 : i64}
      : tensor<1x3x8x8xf32>, tensor<4x1x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @pads_of_another_length(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op pads must have 4 entries, got 2}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @negative_pads(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op pads must not be negative, got [0, 0, 0, -1]}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, -1] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @stride_of_zero(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op strides must be at least 1, got [0, 1]}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [0, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @window_larger_than_x(%x: tensor<1x3x2x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op the window of 3 elements does not fit into spatial dimension 0 of size 2 with pads 0 and 0}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x2x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x1x6xf32>
  return
}

// -----

func.func @window_that_lacks_two_strides(%x: tensor<1x3x1x8xf32>) {
  // expected-error @+2 {{'mgx.pooling' op the window of 5 elements does not fit into spatial dimension 0 of size 1 with pads 0 and 0}}
  // expected-error @+1 {{'mgx.pooling' op failed to infer returned types}}
  %r = mgx.pooling max %x lengths = [5, 1] pads = [0, 0, 0, 0] strides = [2, 1] dilations = [1, 1] {ceil_mode = true}
      : tensor<1x3x1x8xf32> -> tensor<1x3x0x8xf32>
  return
}

// -----

func.func @weights_of_another_rank(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op x and w must have one rank, got 'tensor<1x3x8x8xf32>' and 'tensor<4x3x3xf32>'}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32>, tensor<4x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @no_spatial_dimensions(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>) {
  // expected-error @+2 {{'mgx.convolution' op x must have batch, channel and spatial dimensions, got 'tensor<1x3xf32>'}}
  // expected-error @+1 {{'mgx.convolution' op failed to infer returned types}}
  %r = mgx.convolution %x, %w pads = [] strides = [] dilations = []
      : tensor<1x3xf32>, tensor<4x3xf32> -> tensor<1x4xf32>
  return
}

// -----

func.func @transposed_channels_differ(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+2 {{'mgx.convolution_backwards' op x must have as many channels as w has filters, 4, got 3}}
  // expected-error @+1 {{'mgx.convolution_backwards' op failed to infer returned types}}
  %r = mgx.convolution_backwards %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] {output_pads = array<i64: 0, 0>}
      : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x3x10x10xf32>
  return
}

// -----

func.func @pooling_lengths(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+2 {{'mgx.pooling' op lengths must have 2 entries, got 1}}
  // expected-error @+1 {{'mgx.pooling' op failed to infer returned types}}
  %r = mgx.pooling max %x lengths = [3] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xf32>
  return
}

// -----

func.func @pooling_window_of_zero(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+2 {{'mgx.pooling' op lengths must be at least 1, got [3, 0]}}
  // expected-error @+1 {{'mgx.pooling' op failed to infer returned types}}
  %r = mgx.pooling max %x lengths = [3, 0] pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
      : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xf32>
  return
}

// -----

func.func @dot_inner_sizes_differ(%a: tensor<3x4xf32>, %b: tensor<5x6xf32>) {
  // expected-error @+2 {{'mgx.dot' op the columns of a must be as many as the rows of b, got 4 and 5}}
  // expected-error @+1 {{'mgx.dot' op failed to infer returned types}}
  %r = mgx.dot %a, %b : tensor<3x4xf32>, tensor<5x6xf32> -> tensor<3x6xf32>
  return
}

// -----

func.func @dot_batches_differ(%a: tensor<2x3x4xf32>, %b: tensor<1x4x6xf32>) {
  // expected-error @+2 {{'mgx.dot' op batch dimensions must be equal, got [2] and [1]}}
  // expected-error @+1 {{'mgx.dot' op failed to infer returned types}}
  %r = mgx.dot %a, %b : tensor<2x3x4xf32>, tensor<1x4x6xf32> -> tensor<2x3x6xf32>
  return
}

// -----

func.func @dot_of_vectors(%a: tensor<4xf32>) {
  // expected-error @+2 {{'mgx.dot' op a and b must have one rank of at least 2, got 'tensor<4xf32>' and 'tensor<4xf32>'}}
  // expected-error @+1 {{'mgx.dot' op failed to infer returned types}}
  %r = mgx.dot %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<f32>
  return
}

// -----

func.func @dot_of_different_elements(%a: tensor<3x4xf32>, %b: tensor<4x5xf16>) {
  // expected-error @+2 {{'mgx.dot' op a and b must have one element type, got 'f32' and 'f16'}}
  // expected-error @+1 {{'mgx.dot' op failed to infer returned types}}
  %r = mgx.dot %a, %b : tensor<3x4xf32>, tensor<4x5xf16> -> tensor<3x5xf32>
  return
}

// -----

func.func @quant_dot_of_integers_and_floats(%a: tensor<3x4xi8>, %b: tensor<4x5xf8E5M2>) {
  // expected-error @+2 {{'mgx.quant_dot' op a and b must have one element type, got 'i8' and 'f8E5M2'}}
  // expected-error @+1 {{'mgx.quant_dot' op failed to infer returned types}}
  %r = mgx.quant_dot %a, %b : tensor<3x4xi8>, tensor<4x5xf8E5M2> -> tensor<3x5xf32>
  return
}

// -----

func.func @quant_dot_result(%a: tensor<3x4xi8>, %b: tensor<4x5xi8>) {
  // expected-error @+2 {{'mgx.quant_dot' op inferred type(s) 'tensor<3x5xi32>' are incompatible with return type(s) of operation 'tensor<3x5xf32>'}}
  // expected-error @+1 {{'mgx.quant_dot' op failed to infer returned types}}
  %r = mgx.quant_dot %a, %b : tensor<3x4xi8>, tensor<4x5xi8> -> tensor<3x5xf32>
  return
}

// -----

func.func @main(%x: tensor<1x1x4xi8>, %w: tensor<1x1x2xi8>) -> tensor<1x1x4xi32> {
  // expected-error @+1 {{'mgx.quant_convolution' op pad_value must be of x's type, 'i8', got 128}}
  %y = mgx.quant_convolution %x, %w pads = [0, 1] strides = [1] dilations = [1] {pad_value = 128 : i64} : tensor<1x1x4xi8>, tensor<1x1x2xi8> -> tensor<1x1x4xi32>
  return %y : tensor<1x1x4xi32>
}

// -----

func.func @main(%x: tensor<1x1x4xf8E4M3FN>, %w: tensor<1x1x2xf8E4M3FN>) -> tensor<1x1x4xf32> {
  // expected-error @+1 {{'mgx.quant_convolution' op pad_value is of integers, got x of 'f8E4M3FN'}}
  %y = mgx.quant_convolution %x, %w pads = [0, 1] strides = [1] dilations = [1] {pad_value = 1 : i64} : tensor<1x1x4xf8E4M3FN>, tensor<1x1x2xf8E4M3FN> -> tensor<1x1x4xf32>
  return %y : tensor<1x1x4xf32>
}
