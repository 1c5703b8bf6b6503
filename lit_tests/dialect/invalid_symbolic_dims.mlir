// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

#b = #mgx.dims<[b : 1 ... 8]>

func.func @size_out_of_bounds(%x: tensor<?xf32, #b>, %y: tensor<9xf32>) {
  // expected-error @+2 {{operands must have one shape}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mgx.add %x, %y : tensor<?xf32, #b>, tensor<9xf32> -> tensor<9xf32>
  return
}

// -----

#b = #mgx.dims<[b : 1 ... 8, _]>

func.func @result_out_of_bounds(%x: tensor<?x2xf32, #b>) {
  // expected-error @+2 {{are incompatible with return type(s) of operation 'tensor<9x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mgx.reverse %x axes = [1] : tensor<?x2xf32, #b> -> tensor<9x2xf32>
  return
}
