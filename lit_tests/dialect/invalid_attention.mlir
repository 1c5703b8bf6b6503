// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

func.func @ranks(%q: tensor<2x8x16xf32>, %k: tensor<8x16xf32>) {
  // expected-error @+1 {{'mgx.attention' op q, k, v and the result must have one rank of at least 2, got 3, 2, 2 and 3}}
  %y = mgx.attention(%q, %k, %k) : (tensor<2x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<2x8x16xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return
}

// -----

func.func @keys(%q: tensor<8x16xf32>, %v: tensor<6x16xf32>) {
  // expected-error @+1 {{'mgx.attention' op k and v must have one number of keys, got [8x16] and [6x16]}}
  %y = mgx.attention(%q, %q, %v) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<6x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return
}

// -----

func.func @extra(%q: tensor<8x16xf32>, %m: tensor<1x8xf32>) {
  // expected-error @+1 {{'mgx.attention' op an extra tensor must have the shape of the scores, [8x8], got 'tensor<1x8xf32>'}}
  %y = mgx.attention(%q, %q, %q) extras(%m) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<1x8xf32>) -> tensor<8x16xf32> {
  ^bb0(%s: f32, %b: f32):
    mgx.yield %s : f32
  }
  return
}

// -----

func.func @causal(%q: tensor<8x16xf32>) {
  // expected-error @+1 {{'mgx.attention' op causal must not be negative, got -1}}
  %y = mgx.attention(%q, %q, %q) {causal = -1 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return
}

// -----

func.func @narrow_score(%q: tensor<8x16xf16>) {
  // expected-error @+1 {{'mgx.attention' op argument 0 of the body must have type 'f32', got 'f16'}}
  %y = mgx.attention(%q, %q, %q) : (tensor<8x16xf16>, tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<8x16xf16> {
  ^bb0(%s: f16):
    mgx.yield %s : f16
  }
  return
}
