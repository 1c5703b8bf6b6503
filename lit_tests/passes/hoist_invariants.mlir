// RUN: %mgx-opt %s --split-input-file --mgx-hoist-invariants | FileCheck %s

// What depends on nothing in a loop leaves it, and the loop around it too; a branch stays one.
// CHECK-LABEL: func.func @main
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

// -----

// The rows that trips multiply in turn are one product before the loop, also by a counter.
// CHECK-LABEL: func.func @main
// CHECK-SAME:      %[[XS:[^:]*]]: tensor<3x5x8xf32>, %[[W:[^:]*]]: tensor<8x4xf32>
// CHECK:     %[[FLAT:.*]] = mgx.reshape %[[XS]] : tensor<3x5x8xf32> -> tensor<15x8xf32>
// CHECK:     %[[ALL:.*]] = mgx.dot %[[FLAT]], %[[W]]
// CHECK:     %[[PS:.*]] = mgx.reshape %[[ALL]] : tensor<15x4xf32> -> tensor<3x5x4xf32>
// CHECK:     mgx.loop
// CHECK-NOT:   mgx.dot
// CHECK:       %[[P:.*]] = mgx.gather %[[PS]][%{{.*}}] axis = 1 {{.*}} -> tensor<3x4xf32>
// CHECK:       mgx.add %{{.*}}, %[[P]]
func.func @main(%xs: tensor<3x5x8xf32>, %w: tensor<8x4xf32>, %h: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = mgx.constant dense<5> : tensor<i64>
  %zero = mgx.constant dense<0> : tensor<i64>
  %one = mgx.constant dense<1> : tensor<i64>
  %true = mgx.constant dense<true> : tensor<i1>
  %r:2 = mgx.loop %n, %true init(%h, %zero) : tensor<i64>, tensor<i1>, (tensor<3x4xf32>, tensor<i64>) -> tensor<3x4xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3x4xf32>, %c: tensor<i64>):
    %short = mgx.convert %c : tensor<i64> -> tensor<i32>
    %x = mgx.gather %xs[%short] axis = 1 : tensor<3x5x8xf32>, tensor<i32> -> tensor<3x8xf32>
    %p = mgx.dot %x, %w : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
    %s = mgx.add %v, %p : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %d = mgx.add %c, %one : tensor<i64>, tensor<i64> -> tensor<i64>
    mgx.yield %go, %s, %d : tensor<i1>, tensor<3x4xf32>, tensor<i64>
  }
  return %r#0 : tensor<3x4xf32>
}

// -----

// Rows that are more than the trips, columns, and rows by another number stay in the loop.
// CHECK-LABEL: func.func @main
// CHECK-NOT: mgx.dot
// CHECK:     mgx.loop
// CHECK-COUNT-3: mgx.dot
func.func @main(%xs: tensor<6x3x8xf32>, %ys: tensor<3x8x5xf32>, %zs: tensor<5x3x8xf32>, %w: tensor<8x4xf32>, %k: tensor<i64>, %h: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = mgx.constant dense<5> : tensor<i64>
  %true = mgx.constant dense<true> : tensor<i1>
  %r = mgx.loop %n, %true init(%h) : tensor<i64>, tensor<i1>, (tensor<3x4xf32>) -> tensor<3x4xf32> {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<3x4xf32>):
    %x = mgx.gather %xs[%i] axis = 0 : tensor<6x3x8xf32>, tensor<i64> -> tensor<3x8xf32>
    %y = mgx.gather %ys[%i] axis = 2 : tensor<3x8x5xf32>, tensor<i64> -> tensor<3x8xf32>
    %m = mgx.mul %i, %k : tensor<i64>, tensor<i64> -> tensor<i64>
    %z = mgx.gather %zs[%m] axis = 0 : tensor<5x3x8xf32>, tensor<i64> -> tensor<3x8xf32>
    %p = mgx.dot %x, %w : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
    %q = mgx.dot %y, %w : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
    %o = mgx.dot %z, %w : tensor<3x8xf32>, tensor<8x4xf32> -> tensor<3x4xf32>
    %a = mgx.add %p, %q : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %b = mgx.add %a, %o : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %s = mgx.add %v, %b : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    mgx.yield %go, %s : tensor<i1>, tensor<3x4xf32>
  }
  return %r : tensor<3x4xf32>
}
