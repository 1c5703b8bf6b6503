// RUN: %mgx-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{"mgx.arena_bytes" must be an i64 that is not negative, got -1 : i64}}
module attributes {mgx.arena_bytes = -1 : i64} {}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{"mgx.in_place" stands on mgx.concat only}}
  %0 = mgx.relu %x {mgx.in_place} : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{"mgx.offsets" must be an array of 1 to 1 i64, got array<i64: 0, 8>}}
  %0 = mgx.concat %x, %x axis = 0 {mgx.offsets = array<i64: 0, 8>} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{mgx.inplace is no attribute of the mgx dialect}}
  %0 = mgx.relu %x {mgx.inplace} : tensor<2xf32>
  return %0 : tensor<2xf32>
}
