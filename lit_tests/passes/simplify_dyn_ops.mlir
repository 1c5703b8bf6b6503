// RUN: %mgx-opt %s --split-input-file --mgx-simplify-dyn-ops | FileCheck %s

// A shape that is computed from sizes becomes the result's type.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<?x12xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _]>>
// CHECK-NEXT:    %[[Y:.*]] = mgx.reshape %[[X]]
// CHECK-SAME:    -> tensor<?x3x4xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _, _]>>
// CHECK-NEXT:    %[[R:.*]] = mgx.relu %[[Y]] : tensor<?x3x4xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _, _]>>
// CHECK-NEXT:    return %[[R]]
func.func @main(%x: tensor<?x12xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _]>>) -> tensor<?x?x?xf32> {
  %c = mgx.constant dense<[3, 4]> : tensor<2xi64>
  %d = mgx.dimensions_of %x start = 0 end = 1 : tensor<?x12xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _]>> -> tensor<1xi64>
  %s = mgx.concat %d, %c axis = 0 : tensor<1xi64>, tensor<2xi64> -> tensor<3xi64>
  %y = mgx.reshape_to %x to %s : tensor<?x12xf32, #mgx.dims<[batch : 1 ... 8 {2, 4}, _]>>, tensor<3xi64> -> tensor<?x?x?xf32>
  %r = mgx.relu %y : tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}

// -----

// Sizes that are computed are called by their formulas: a product, a sum, rounded halves.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.flatten %{{.*}} -> tensor<?x4xf32, #mgx.dims<["batch*seq" : 1 ... ?, _]>>
// CHECK:         mgx.concat %{{.*}} -> tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, "seq+1" : 2 ... ?, _]>>
// CHECK:         mgx.step %{{.*}} -> tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, "(seq+1)//2" : {{.*}}, _]>>
func.func @main(%x: tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>>, %y: tensor<?x1x4xf32, #mgx.dims<[batch : 1 ... ?, _, _]>>) -> (tensor<?x4xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) {
  %f = mgx.flatten %x axis = 2 : tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>> -> tensor<?x4xf32>
  %c = mgx.concat %x, %y axis = 1 : tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>>, tensor<?x1x4xf32, #mgx.dims<[batch : 1 ... ?, _, _]>> -> tensor<?x?x4xf32>
  %s = mgx.step %x axes = [1] steps = [2] : tensor<?x?x4xf32, #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?, _]>> -> tensor<?x?x4xf32>
  return %f, %c, %s : tensor<?x4xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>
}

// -----

// A broadcast to a shape that is known keeps x's own sizes where the shape says 1.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.multibroadcast %{{.*}} : tensor<1x?xf32, #mgx.dims<[_, seq : 1 ... ?]>> -> tensor<?x?xf32, #mgx.dims<[batch : 1 ... ?, seq : 1 ... ?]>>
// CHECK-NOT:     broadcast_with_dims
func.func @main(%x: tensor<1x?xf32, #mgx.dims<[_, seq : 1 ... ?]>>, %b: tensor<?x2xf32, #mgx.dims<[batch : 1 ... ?, _]>>) -> tensor<?x?xf32> {
  %one = mgx.constant dense<1> : tensor<1xi64>
  %d = mgx.dimensions_of %b start = 0 end = 1 : tensor<?x2xf32, #mgx.dims<[batch : 1 ... ?, _]>> -> tensor<1xi64>
  %s = mgx.concat %d, %one axis = 0 : tensor<1xi64>, tensor<1xi64> -> tensor<2xi64>
  %y = mgx.broadcast_with_dims %x to %s : tensor<1x?xf32, #mgx.dims<[_, seq : 1 ... ?]>>, tensor<2xi64> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// Sizes that are data stay: the program's own input says them.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.reshape_to
func.func @main(%x: tensor<?x12xf32, #mgx.dims<[batch : 1 ... ?, _]>>, %s: tensor<2xi64>) -> tensor<?x?xf32> {
  %y = mgx.reshape_to %x to %s : tensor<?x12xf32, #mgx.dims<[batch : 1 ... ?, _]>>, tensor<2xi64> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// Sizes of equal names are equal: they are asked for once.
// CHECK-LABEL: func.func @main
// CHECK:         %[[D:.*]] = mgx.dimensions_of
// CHECK-NOT:     mgx.dimensions_of
// CHECK:         mgx.add %[[D]], %[[D]]
#x = #mgx.dims<[rows : 1 ... ?, _]>
#y = #mgx.dims<[_, rows : 1 ... ?, _]>
func.func @main(%x: tensor<?x4xf32, #x>, %y: tensor<2x?x4xf32, #y>) -> tensor<2xi64> {
  %d = mgx.dimensions_of %x start = 0 end = 2 : tensor<?x4xf32, #x> -> tensor<2xi64>
  %e = mgx.dimensions_of %y start = 1 end = 3 : tensor<2x?x4xf32, #y> -> tensor<2xi64>
  %s = mgx.add %d, %e : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  return %s : tensor<2xi64>
}

// -----

// A number that follows from sizes is the length of indices, and waits for no tensor.
// CHECK-LABEL: func.func @main
// CHECK:         %[[I:.*]] = mgx.iota : tensor<?xi64, #mgx.dims<["columns+rows" : 2 ... ?]>>
// CHECK-NEXT:    %[[N:.*]] = mgx.dimensions_of %[[I]] start = 0 end = 1
// CHECK-NEXT:    %[[R:.*]] = mgx.reshape %[[N]] : tensor<1xi64> -> tensor<i64>
// CHECK-NEXT:    mgx.multibroadcast %[[R]]
// CHECK-NOT:     mgx.dimensions_of
#x = #mgx.dims<[rows : 1 ... ?, columns : 1 ... ?]>
func.func @main(%x: tensor<?x?xi64, #x>) -> tensor<?x?xi64, #x> {
  %d = mgx.dimensions_of %x start = 0 end = 2 : tensor<?x?xi64, #x> -> tensor<2xi64>
  %s = mgx.reduce_sum %d axes = [0] : tensor<2xi64> -> tensor<1xi64>
  %n = mgx.reshape %s : tensor<1xi64> -> tensor<i64>
  %b = mgx.multibroadcast %n : tensor<i64> -> tensor<?x?xi64, #x>
  %y = mgx.add %x, %b : tensor<?x?xi64, #x>, tensor<?x?xi64, #x> -> tensor<?x?xi64, #x>
  return %y : tensor<?x?xi64, #x>
}

// -----

// One that may be negative is none.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.sub
#x = #mgx.dims<[rows : 1 ... ?, columns : 1 ... ?]>
func.func @main(%x: tensor<?x?xi64, #x>) -> tensor<1xi64> {
  %a = mgx.dimensions_of %x start = 0 end = 1 : tensor<?x?xi64, #x> -> tensor<1xi64>
  %b = mgx.dimensions_of %x start = 1 end = 2 : tensor<?x?xi64, #x> -> tensor<1xi64>
  %y = mgx.sub %a, %b : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  return %y : tensor<1xi64>
}

// -----

// What an op needs to be equal, and names do not say, is compared in each run; `n` twice is not.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    required = ["k-m", "-k+m", "k-5", "-k+5"]
func.func @main(%x: tensor<?x?xf32, #mgx.dims<[n : 1 ... ?, k : 1 ... ?]>>, %y: tensor<?x?xf32, #mgx.dims<[n : 1 ... ?, m : 1 ... ?]>>, %w: tensor<5x3xf32>) -> (tensor<?x?xf32>, tensor<?x3xf32>) {
  %a = mgx.add %x, %y : tensor<?x?xf32, #mgx.dims<[n : 1 ... ?, k : 1 ... ?]>>, tensor<?x?xf32, #mgx.dims<[n : 1 ... ?, m : 1 ... ?]>> -> tensor<?x?xf32>
  %d = mgx.dot %x, %w : tensor<?x?xf32, #mgx.dims<[n : 1 ... ?, k : 1 ... ?]>>, tensor<5x3xf32> -> tensor<?x3xf32>
  return %a, %d : tensor<?x?xf32>, tensor<?x3xf32>
}
