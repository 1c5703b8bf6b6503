// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x8x16xf32>, %k: tensor<2x6x16xf32>, %v: tensor<2x6x4xf32>) -> tensor<2x8x4xf32> {
  // CHECK:      mgx.attention(%{{.+}}, %{{.+}}, %{{.+}}) {causal = 3 : i64} :
  // CHECK-SAME:   (tensor<2x8x16xf32>, tensor<2x6x16xf32>, tensor<2x6x4xf32>) -> tensor<2x8x4xf32> {
  // CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
  // CHECK-NEXT:   mgx.yield %[[S]] : f32
  %y = mgx.attention(%q, %k, %v) {causal = 3 : i64} : (tensor<2x8x16xf32>, tensor<2x6x16xf32>, tensor<2x6x4xf32>) -> tensor<2x8x4xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return %y : tensor<2x8x4xf32>
}

// CHECK-LABEL: func.func @attention_without_nan
func.func @attention_without_nan(%q: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: mgx.attention(%{{.+}}, %{{.+}}, %{{.+}}) {causal = 0 : i64, nan_as_zero} :
  %y = mgx.attention(%q, %q, %q) {causal = 0 : i64, nan_as_zero} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return %y : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @attention_in_a_window
func.func @attention_in_a_window(%q: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: mgx.attention(%{{.+}}, %{{.+}}, %{{.+}}) {causal = 2 : i64, earliest = -2 : i64, empty_as_zero} :
  %y = mgx.attention(%q, %q, %q) {causal = 2 : i64, earliest = -2 : i64, empty_as_zero} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%s: f32):
    mgx.yield %s : f32
  }
  return %y : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @attention_of_half_with_a_mask
func.func @attention_of_half_with_a_mask(%q: tensor<8x16xf16>, %m: tensor<8x8xf16>) -> tensor<8x16xf16> {
  // CHECK:      mgx.attention(%{{.+}}, %{{.+}}, %{{.+}}) extras(%{{.+}}) :
  // CHECK-NEXT: ^bb0(%{{.+}}: f32, %{{.+}}: f16):
  %y = mgx.attention(%q, %q, %q) extras(%m) : (tensor<8x16xf16>, tensor<8x16xf16>, tensor<8x16xf16>, tensor<8x8xf16>) -> tensor<8x16xf16> {
  ^bb0(%s: f32, %b: f16):
    %w = mgx.convert %b : f16 -> f32
    %u = mgx.add %s, %w : f32, f32 -> f32
    mgx.yield %u : f32
  }
  return %y : tensor<8x16xf16>
}
