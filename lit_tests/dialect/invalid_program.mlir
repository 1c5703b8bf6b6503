// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @constant_of_a_string() {
  // expected-error @+1 {{'mgx.constant' op the value must be dense elements or, for a scalar, a number, got "x" : tensor<2xf32>}}
  %r = "mgx.constant"() <{value = "x" : tensor<2xf32>}> : () -> tensor<2xf32>
  return
}

// -----

func.func @pointwise_body_with_another_op(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.pointwise' op the body must hold pointwise ops and constants only, got 'arith.negf'}}
  %r = mgx.pointwise(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: f32):
    %b = arith.negf %a : f32
    mgx.yield %b : f32
  }
  return
}

// -----

func.func @pointwise_of_two_shapes(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'mgx.pointwise' op inputs and results must have one shape, got [2] and 'tensor<3xf32>'}}
  %r = mgx.pointwise(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32> {
  ^bb0(%a: f32, %b: f32):
    mgx.yield %a : f32
  }
  return
}

// -----

func.func @pointwise_with_a_missing_argument(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.pointwise' op the body must have 2 arguments, got 1}}
  %r = mgx.pointwise(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: f32):
    mgx.yield %a : f32
  }
  return
}

// -----

func.func @pointwise_argument_of_another_type(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.pointwise' op argument 0 of the body must have type 'f32', got 'f16'}}
  %r = mgx.pointwise(%x) : (tensor<2xf32>) -> tensor<2xf16> {
  ^bb0(%a: f16):
    mgx.yield %a : f16
  }
  return
}

// -----

func.func @pointwise_yield_of_another_type(%x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.pointwise' op value 0 that the body yields must have type 'f16', got 'f32'}}
  %r = mgx.pointwise(%x) : (tensor<2xf32>) -> tensor<2xf16> {
  ^bb0(%a: f32):
    mgx.yield %a : f32
  }
  return
}

// -----

func.func @pointwise_of_nothing() {
  // expected-error @+1 {{'mgx.pointwise' op needs at least one input or result, got none}}
  mgx.pointwise() : () -> () {
  ^bb0:
    mgx.yield
  }
  return
}

// -----

func.func @fused_reduce_over_other_axes(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'mgx.fused_reduce' op reductions in the body must have its axes, [1], got [0]}}
  %r = mgx.fused_reduce(%x) axes = [1] : (tensor<2x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %s = mgx.reduce_sum %a axes = [0] : tensor<2x3xf32> -> tensor<1x3xf32>
    mgx.yield %s : tensor<1x3xf32>
  }
  return
}

// -----

func.func @fused_reduce_with_a_dot(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{'mgx.fused_reduce' op the body must hold reductions, pointwise ops, broadcasts and constants only, got 'mgx.dot'}}
  %r = mgx.fused_reduce(%x) axes = [1] : (tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%a: tensor<3x3xf32>):
    %s = mgx.dot %a, %a : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
    mgx.yield %s : tensor<3x3xf32>
  }
  return
}

// -----

func.func @if_with_many_conditions(%c: tensor<2xi1>, %x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.if' op the condition must have one element, got 'tensor<2xi1>'}}
  %r = mgx.if %c : tensor<2xi1> -> tensor<2xf32> {
    mgx.yield %x : tensor<2xf32>
  } else {
    mgx.yield %x : tensor<2xf32>
  }
  return
}

// -----

func.func @if_of_two_types(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'mgx.if' op value 0 that the body yields must have type 'tensor<2xf32>', got 'tensor<3xf32>'}}
  %r = mgx.if %c : tensor<i1> -> tensor<2xf32> {
    mgx.yield %x : tensor<2xf32>
  } else {
    mgx.yield %y : tensor<3xf32>
  }
  return
}

// -----

func.func @loop_that_loses_a_value(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.loop' op must return each of the 1 carried values, got 0 results}}
  mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<2xf32>) {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    mgx.yield %go, %v : tensor<i1>, tensor<2xf32>
  }
  return
}

// -----

func.func @loop_that_yields_no_condition(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @+1 {{'mgx.loop' op the body must yield 2 values, got 1}}
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    mgx.yield %v : tensor<2xf32>
  }
  return
}

// -----

// expected-error @+1 {{'mgx.kernel' op the portable form holds mgx ops only, got 'arith.negf'}}
mgx.kernel @kernel_with_another_dialect(%a: tensor<4xf32>) -> tensor<4xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  %b = arith.negf %a : tensor<4xf32>
  mgx.return %b : tensor<4xf32>
}

// -----

// expected-error @+1 {{'mgx.kernel' op takes and returns ranked tensors only, got 'f32'}}
mgx.kernel @kernel_of_scalars(%a: f32) attributes {arch = #mgx.arch<"gfxMIGX">} {
  mgx.return
}

// -----

mgx.kernel @kernel_that_returns_too_few(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  // expected-error @+1 {{'mgx.return' op kernel 'kernel_that_returns_too_few' returns 2 values, got 1}}
  mgx.return %a : tensor<4xf32>
}

// -----

mgx.kernel @kernel_that_returns_another_type(%a: tensor<4xf32>) -> tensor<5xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">} {
  // expected-error @+1 {{'mgx.return' op value 0 must have type 'tensor<5xf32>', as kernel 'kernel_that_returns_another_type' returns, got 'tensor<4xf32>'}}
  mgx.return %a : tensor<4xf32>
}

// -----

func.func @launch_of_nothing(%a: tensor<4xf32>) {
  // expected-error @+1 {{'mgx.launch' op 'missing' does not name an mgx.kernel}}
  mgx.launch @missing(%a) : (tensor<4xf32>) -> ()
  return
}

// -----

mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32> attributes {arch = #mgx.arch<"gfxMIGX">} {
  mgx.return %a : tensor<4xf32>
}
func.func @launch_with_another_operand(%a: tensor<5xf32>) {
  // expected-error @+1 {{'mgx.launch' op kernel 'k' takes ('tensor<4xf32>'), got ('tensor<5xf32>')}}
  %r = mgx.launch @k(%a) : (tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32> attributes {arch = #mgx.arch<"gfxMIGX">} {
  mgx.return %a : tensor<4xf32>
}
func.func @launch_with_another_result(%a: tensor<4xf32>) {
  // expected-error @+1 {{'mgx.launch' op kernel 'k' returns ('tensor<4xf32>'), got ('tensor<5xf32>')}}
  %r = mgx.launch @k(%a) : (tensor<4xf32>) -> tensor<5xf32>
  return
}
