// RUN: %mgx-opt %s --mgx-hoist-invariants | FileCheck %s

// What depends on nothing in a loop leaves it, and the loop around it too; a branch stays one.
// CHECK:     %[[U:.*]] = mgx.exp %{{.*}} : tensor<4xf32>
// CHECK:     mgx.loop
// CHECK:       %[[T:.*]] = mgx.neg
// CHECK:       mgx.loop
// CHECK-NOT:     mgx.exp
// CHECK:         mgx.mul %{{.*}}, %[[U]]
// CHECK:         mgx.add %{{.*}}, %[[T]]
// CHECK:         mgx.if
// CHECK:           mgx.sqrt
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %s = mgx.loop %n, %go init(%v) : tensor<i64>, tensor<i1>, (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%j: tensor<i64>, %on: tensor<i1>, %y: tensor<4xf32>):
      %u = mgx.exp %w : tensor<4xf32>
      %t = mgx.neg %v : tensor<4xf32>
      %z = mgx.mul %y, %u : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      %a = mgx.add %z, %t : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      %b = mgx.if %c : tensor<i1> -> tensor<4xf32> {
        %q = mgx.sqrt %w : tensor<4xf32>
        %e = mgx.add %a, %q : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
        mgx.yield %e : tensor<4xf32>
      } else {
        mgx.yield %a : tensor<4xf32>
      }
      mgx.yield %on, %b : tensor<i1>, tensor<4xf32>
    }
    mgx.yield %go, %s : tensor<i1>, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
