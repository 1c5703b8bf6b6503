// RUN: %mgx-opt %s --split-input-file --mgx-normalize-control-flow | FileCheck %s

// The counter is carried; in the body the condition is true.
// CHECK-LABEL: @main
// CHECK-DAG: %[[ZERO:.*]] = mgx.constant dense<0> : tensor<i64>
// CHECK-DAG: %[[ONE:.*]] = mgx.constant dense<1> : tensor<i64>
// CHECK-DAG: %[[TRUE:.*]] = mgx.constant dense<true> : tensor<i1>
// CHECK:     mgx.loop %{{.*}}, %{{.*}} init(%{{.*}}, %[[ZERO]])
// CHECK:     ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<i1>, %[[V:.*]]: tensor<i64>, %[[I:.*]]: tensor<i64>):
// CHECK-DAG:   %[[W:.*]] = mgx.add %[[V]], %[[I]]
// CHECK-DAG:   %[[J:.*]] = mgx.add %[[I]], %[[ONE]]
// CHECK:       mgx.yield %[[TRUE]], %[[W]], %[[J]], %[[W]]
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<i64>) -> (tensor<i64>, tensor<4xi64>) {
  %r:2 = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<i64>) -> tensor<i64>, tensor<4xi64> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<i64>):
    %w = mgx.add %v, %i : tensor<i64>, tensor<i64> -> tensor<i64>
    mgx.yield %go, %w, %w : tensor<i1>, tensor<i64>, tensor<i64>
  }
  return %r#0, %r#1 : tensor<i64>, tensor<4xi64>
}

// -----

// A known branch is taken, also in a loop.
// CHECK-LABEL: @main
// CHECK-NOT: mgx.if
// CHECK:     mgx.loop
// CHECK:       mgx.neg
// CHECK-NOT:   mgx.exp
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %w = mgx.if %go : tensor<i1> -> tensor<4xf32> {
      %a = mgx.neg %v : tensor<4xf32>
      mgx.yield %a : tensor<4xf32>
    } else {
      %b = mgx.exp %v : tensor<4xf32>
      mgx.yield %b : tensor<4xf32>
    }
    mgx.yield %go, %w : tensor<i1>, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// A loop of no trips goes away; one that stacks results stays.
// CHECK-LABEL: @main
// CHECK-SAME:  %[[X:[a-z0-9]*]]: tensor<4xf32>)
// CHECK-NOT:   mgx.loop
// CHECK:       return %[[X]]
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %n = mgx.constant dense<0> : tensor<i64>
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %w = mgx.neg %v : tensor<4xf32>
    mgx.yield %go, %w : tensor<i1>, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
