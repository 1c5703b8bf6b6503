// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @shapes_differ(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error @+2 {{'mgx.add' op operands must have one shape (broadcasts are explicit), got 'tensor<2x3xf32>' and 'tensor<3x2xf32>'}}
  // expected-error @+1 {{'mgx.add' op failed to infer returned types}}
  %r = mgx.add %x, %y : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @elements_differ(%x: tensor<2xf32>, %y: tensor<2xf16>) {
  // expected-error @+2 {{'mgx.add' op operands must have one element type, got 'f32' and 'f16'}}
  // expected-error @+1 {{'mgx.add' op failed to infer returned types}}
  %r = mgx.add %x, %y : tensor<2xf32>, tensor<2xf16> -> tensor<2xf32>
  return
}

// -----

func.func @scalar_and_tensor(%x: tensor<2xf32>, %y: f32) {
  // expected-error @+2 {{'mgx.add' op operands must be all tensors or all scalars, got 'tensor<2xf32>' and 'f32'}}
  // expected-error @+1 {{'mgx.add' op failed to infer returned types}}
  %r = mgx.add %x, %y : tensor<2xf32>, f32 -> tensor<2xf32>
  return
}

// -----

func.func @wrong_result(%x: tensor<2xf32>) {
  // expected-error @+2 {{'mgx.add' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  // expected-error @+1 {{'mgx.add' op failed to infer returned types}}
  %r = mgx.add %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @bool_operand_of_a_float_op(%x: tensor<2xi1>) {
  // expected-error @+1 {{'mgx.exp' op operand #0 must be tensor or scalar of float, but got 'tensor<2xi1>'}}
  %r = mgx.exp %x : tensor<2xi1>
  return
}

// -----

func.func @where_of_different_elements(%c: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<2xi32>) {
  // expected-error @+2 {{'mgx.where' op operands must have one element type, got 'f32' and 'i32'}}
  // expected-error @+1 {{'mgx.where' op failed to infer returned types}}
  %r = mgx.where %c, %x, %y : tensor<2xi1>, tensor<2xf32>, tensor<2xi32> -> tensor<2xf32>
  return
}

// -----

func.func @convert_of_another_shape(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.convert' op the result must have the shape of the operands, [2], got [3]}}
  %r = mgx.convert %x : tensor<2xf32> -> tensor<3xf16>
  return
}

// -----

func.func @convert_to_a_scalar(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.convert' op takes 'tensor<2xf32>', so its result must be a tensor, got 'f16'}}
  %r = mgx.convert %x : tensor<2xf32> -> f16
  return
}

// -----

func.func @bit_cast_of_another_width(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.bit_cast' op needs element types of one width, got 'f32' (32 bits) and 'i16' (16 bits)}}
  %r = mgx.bit_cast %x : tensor<2xf32> -> tensor<2xi16>
  return
}

// -----

func.func @quantize_precision_that_is_no_type_of_a_division(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.quantizelinear' op precision must be f16, bf16, f32 or f64, got 'i8'}}
  %r = mgx.quantizelinear %x scale %x {precision = i8}
      : tensor<2xf32>, tensor<2xf32> -> tensor<2xui8>
  return
}

// -----

func.func @quantize_zero_point_of_another_type(%x: tensor<2xf32>, %z: tensor<2xi8>) {
  // expected-error @+1 {{'mgx.quantizelinear' op the zero point must have the result's element type, 'ui8', got 'i8'}}
  %r = mgx.quantizelinear %x scale %x zero_point %z
      : tensor<2xf32>, tensor<2xf32>, tensor<2xi8> -> tensor<2xui8>
  return
}

// -----

func.func @dequantize_zero_point_of_another_type(%q: tensor<2xui8>, %x: tensor<2xf32>, %z: tensor<2xi8>) {
  // expected-error @+1 {{'mgx.dequantizelinear' op the zero point must have the element type of x, 'ui8', got 'i8'}}
  %r = mgx.dequantizelinear %q scale %x zero_point %z
      : tensor<2xui8>, tensor<2xf32>, tensor<2xi8> -> tensor<2xf32>
  return
}
