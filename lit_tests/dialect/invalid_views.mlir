// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @reshape_loses_elements(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.reshape' op must keep the number of elements, got 'tensor<2x3xf32>' (6) and 'tensor<5xf32>' (5)}}
  %r = mgx.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  return
}

// -----

func.func @reshape_to_another_element(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.reshape' op the result must have the element type of x, 'f32', got 'i32'}}
  %r = mgx.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  return
}

// -----

func.func @multibroadcast_to_a_lower_rank(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.multibroadcast' op the result must have at least the rank of x, 2, got 1}}
  %r = mgx.multibroadcast %x : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @multibroadcast_of_another_size(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.multibroadcast' op dimension 1 of x must have size 1 or that of the result, 4, got 3}}
  %r = mgx.multibroadcast %x : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_axis(%x: tensor<3xf32>) {
  // expected-error @+1 {{'mgx.broadcast' op axis must be in [0, 1] to place 1 of 2 dimensions, got 2}}
  %r = mgx.broadcast %x axis = 2 : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_of_another_size(%x: tensor<3xf32>) {
  // expected-error @+1 {{'mgx.broadcast' op dimension 0 of x must have the size of dimension 0 of the result, 2, got 3}}
  %r = mgx.broadcast %x axis = 0 : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @permutation_of_another_length(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.transpose' op permutation must have 2 entries, got 1}}
  // expected-error @+1 {{'mgx.transpose' op failed to infer returned types}}
  %r = mgx.transpose %x permutation = [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @permutation_with_a_repetition(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.transpose' op permutation must hold each of 0 to 1 once, got [0, 0]}}
  // expected-error @+1 {{'mgx.transpose' op failed to infer returned types}}
  %r = mgx.transpose %x permutation = [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @squeeze_of_a_larger_dimension(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.squeeze' op dimension 0 must have size 1, got 2}}
  // expected-error @+1 {{'mgx.squeeze' op failed to infer returned types}}
  %r = mgx.squeeze %x axes = [0] : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @unsqueeze_axis(%x: tensor<3xf32>) {
  // expected-error @+2 {{'mgx.unsqueeze' op axis must be in [0, 2), got 2}}
  // expected-error @+1 {{'mgx.unsqueeze' op failed to infer returned types}}
  %r = mgx.unsqueeze %x axes = [2] : tensor<3xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @reverse_axis(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.reverse' op axis must be in [0, 2), got 2}}
  // expected-error @+1 {{'mgx.reverse' op failed to infer returned types}}
  %r = mgx.reverse %x axes = [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @flatten_axis(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.flatten' op axis must be in [0, 2], got 3}}
  // expected-error @+1 {{'mgx.flatten' op failed to infer returned types}}
  %r = mgx.flatten %x axis = 3 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_beyond_the_end(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.slice' op needs 0 <= start <= end <= 3, the size of dimension 1; got start 0 and end 4}}
  // expected-error @+1 {{'mgx.slice' op failed to infer returned types}}
  %r = mgx.slice %x axes = [1] starts = [0] ends = [4] : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @slice_with_a_negative_start(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.slice' op needs 0 <= start <= end <= 3, the size of dimension 1; got start -1 and end 3}}
  // expected-error @+1 {{'mgx.slice' op failed to infer returned types}}
  %r = mgx.slice %x axes = [1] starts = [-1] ends = [3] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_without_ends(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.slice' op ends must have 2 entries, got 1}}
  // expected-error @+1 {{'mgx.slice' op failed to infer returned types}}
  %r = mgx.slice %x axes = [0, 1] starts = [0, 0] ends = [1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @step_of_zero(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.step' op steps must be at least 1, got 0}}
  // expected-error @+1 {{'mgx.step' op failed to infer returned types}}
  %r = mgx.step %x axes = [1] steps = [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @layout_permutation(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.layout' op permutation must hold each of 0 to 1 once, got [0, 2]}}
  %r = mgx.layout %x permutation = [0, 2] : tensor<2x3xf32>
  return
}

// -----

func.func @dimensions_beyond_the_rank(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{'mgx.dimensions_of' op needs 0 <= start <= end <= 2, the rank of x; got start 0 and end 3}}
  // expected-error @+1 {{'mgx.dimensions_of' op failed to infer returned types}}
  %r = mgx.dimensions_of %x start = 0 end = 3 : tensor<2x3xf32> -> tensor<3xi64>
  return
}

// -----

func.func @runtime_shape_of_rank_two(%x: tensor<2x3xf32>, %d: tensor<1x1xi64>) {
  // expected-error @+1 {{'mgx.reshape_to' op dims must have rank 1, got 'tensor<1x1xi64>'}}
  %r = mgx.reshape_to %x to %d : tensor<2x3xf32>, tensor<1x1xi64> -> tensor<?xf32>
  return
}

// -----

func.func @runtime_shape_of_another_length(%x: tensor<2x3xf32>, %d: tensor<2xi64>) {
  // expected-error @+1 {{'mgx.reshape_to' op dims must have one entry for each of the 1 dimensions of the result, got 2}}
  %r = mgx.reshape_to %x to %d : tensor<2x3xf32>, tensor<2xi64> -> tensor<?xf32>
  return
}

// -----

func.func @unpack_to_bytes(%x: tensor<2x3xui8>) {
  // expected-error @+1 {{'mgx.unpack' op takes ui8 apart into elements of 2 or 4 bits, got 'ui8' and 'i8'}}
  %r = mgx.unpack %x : tensor<2x3xui8> -> tensor<2x3xi8>
  return
}

// -----

func.func @unpack_loses_elements(%x: tensor<2x3xui8>) {
  // expected-error @+1 {{'mgx.unpack' op dimension 1 of the result must have the size 6, got 5}}
  %r = mgx.unpack %x : tensor<2x3xui8> -> tensor<2x5xi4>
  return
}
