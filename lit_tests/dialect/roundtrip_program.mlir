// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<2xf32>, tensor<64x3x7x7xf32>) {
  // CHECK: mgx.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  %c = mgx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: mgx.literal "conv1.weight" : tensor<64x3x7x7xf32>
  %w = mgx.literal "conv1.weight" : tensor<64x3x7x7xf32>
  return %c, %w : tensor<2xf32>, tensor<64x3x7x7xf32>
}

// CHECK-LABEL: func.func @pointwise
func.func @pointwise(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK:      mgx.pointwise(%{{.+}}, %{{.+}}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %[[B:.+]]: f32):
  // CHECK-NEXT:   %[[C:.+]] = mgx.constant 2.000000e+00 : f32
  // CHECK-NEXT:   %[[M:.+]] = mgx.mul %[[B]], %[[C]] : f32, f32 -> f32
  // CHECK-NEXT:   %[[S:.+]] = mgx.add %[[A]], %[[M]] : f32, f32 -> f32
  // CHECK-NEXT:   mgx.yield %[[S]] : f32
  %r = mgx.pointwise(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = mgx.constant 2.0 : f32
    %m = mgx.mul %b, %c : f32, f32 -> f32
    %s = mgx.add %a, %m : f32, f32 -> f32
    mgx.yield %s : f32
  }
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @pointwise_with_two_results
func.func @pointwise_with_two_results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  // CHECK: mgx.pointwise(%{{.+}}) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %r:2 = mgx.pointwise(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  ^bb0(%a: f32):
    %e = mgx.exp %a : f32
    %n = mgx.isnan %a : f32 -> i1
    // CHECK: mgx.yield %{{.+}}, %{{.+}} : f32, i1
    mgx.yield %e, %n : f32, i1
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xi1>
}

// CHECK-LABEL: func.func @fused_reduce
func.func @fused_reduce(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: mgx.fused_reduce(%{{.+}}) axes = [1] : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.fused_reduce(%x) axes = [1] : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %m = mgx.reduce_max %a axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
    %b = mgx.multibroadcast %m : tensor<2x1xf32> -> tensor<2x3xf32>
    %s = mgx.sub %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    mgx.yield %s : tensor<2x3xf32>
  }
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @if
func.func @if(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK:      mgx.if %{{.+}} : tensor<i1> -> tensor<2xf32> {
  // CHECK-NEXT:   mgx.yield
  // CHECK-NEXT: } else {
  // CHECK-NEXT:   mgx.yield
  %r = mgx.if %c : tensor<i1> -> tensor<2xf32> {
    mgx.yield %x : tensor<2xf32>
  } else {
    mgx.yield %y : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// CHECK-LABEL: func.func @loop
func.func @loop(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<?x2xf32>) {
  // CHECK: mgx.loop %{{.+}}, %{{.+}} init(%{{.+}}) : tensor<i64>, tensor<i1>, (tensor<2xf32>) -> tensor<2xf32>, tensor<?x2xf32> {
  %r:2 = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<2xf32>)
      -> tensor<2xf32>, tensor<?x2xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    %w = mgx.add %v, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    mgx.yield %go, %w, %v : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<2xf32>, tensor<?x2xf32>
}

// Inside a kernel the ops stand without the dialect's name.
// CHECK-LABEL: mgx.kernel @add(
// CHECK-SAME:    %[[A:.+]]: tensor<4xf32>, %[[B:.+]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME:    attributes {arch = #mgx.arch<"gfxMIGX">, features = ["matrix-f16"]}
// CHECK-NEXT:    %[[C:.+]] = add %[[A]], %[[B]]
// CHECK-NEXT:    return %[[C]] : tensor<4xf32>
mgx.kernel @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>
    attributes {arch = #mgx.arch<"gfxMIGX">, features = ["matrix-f16"]} {
  %c = mgx.add %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  mgx.return %c : tensor<4xf32>
}

// CHECK-LABEL: func.func @launch
func.func @launch(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mgx.launch @add(%{{.+}}, %{{.+}}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = mgx.launch @add(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// CHECK: mgx.code_object @add_gfx942 of @add arch = "gfx942" sha256 = "9f86d0"
mgx.code_object @add_gfx942 of @add arch = "gfx942" sha256 = "9f86d0"
