// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @reshape(
// CHECK: mgx.reshape %{{.+}} : tensor<2x3xf32> -> tensor<6xf32>
func.func @reshape(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %r = mgx.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// CHECK-LABEL: func.func @multibroadcast(
// CHECK: mgx.multibroadcast %{{.+}} : tensor<3x1xf32> -> tensor<2x3x4xf32>
func.func @multibroadcast(%x: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %r = mgx.multibroadcast %x : tensor<3x1xf32> -> tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @broadcast(
// CHECK: mgx.broadcast %{{.+}} axis = 1 : tensor<3xf32> -> tensor<2x3x4x4xf32>
func.func @broadcast(%x: tensor<3xf32>) -> tensor<2x3x4x4xf32> {
  %r = mgx.broadcast %x axis = 1 : tensor<3xf32> -> tensor<2x3x4x4xf32>
  return %r : tensor<2x3x4x4xf32>
}

// CHECK-LABEL: func.func @transpose(
// CHECK: mgx.transpose %{{.+}} permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
func.func @transpose(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = mgx.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @squeeze(
// CHECK: mgx.squeeze %{{.+}} axes = [0] : tensor<1x3xf32> -> tensor<3xf32>
func.func @squeeze(%x: tensor<1x3xf32>) -> tensor<3xf32> {
  %r = mgx.squeeze %x axes = [0] : tensor<1x3xf32> -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// CHECK-LABEL: func.func @unsqueeze(
// CHECK: mgx.unsqueeze %{{.+}} axes = [0, 2] : tensor<3xf32> -> tensor<1x3x1xf32>
func.func @unsqueeze(%x: tensor<3xf32>) -> tensor<1x3x1xf32> {
  %r = mgx.unsqueeze %x axes = [0, 2] : tensor<3xf32> -> tensor<1x3x1xf32>
  return %r : tensor<1x3x1xf32>
}

// CHECK-LABEL: func.func @reverse(
// CHECK: mgx.reverse %{{.+}} axes = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
func.func @reverse(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.reverse %x axes = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @flatten(
// CHECK: mgx.flatten %{{.+}} axis = 1 : tensor<2x3x4xf32> -> tensor<2x12xf32>
func.func @flatten(%x: tensor<2x3x4xf32>) -> tensor<2x12xf32> {
  %r = mgx.flatten %x axis = 1 : tensor<2x3x4xf32> -> tensor<2x12xf32>
  return %r : tensor<2x12xf32>
}

// CHECK-LABEL: func.func @slice(
// CHECK: mgx.slice %{{.+}} axes = [1] starts = [0] ends = [2] : tensor<2x3xf32> -> tensor<2x2xf32>
func.func @slice(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %r = mgx.slice %x axes = [1] starts = [0] ends = [2] : tensor<2x3xf32> -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @step(
// CHECK: mgx.step %{{.+}} axes = [1] steps = [2] : tensor<2x5xf32> -> tensor<2x3xf32>
func.func @step(%x: tensor<2x5xf32>) -> tensor<2x3xf32> {
  %r = mgx.step %x axes = [1] steps = [2] : tensor<2x5xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @identity(
// CHECK: mgx.identity %{{.+}} : tensor<2x3xf32>
func.func @identity(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.identity %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @contiguous(
// CHECK: mgx.contiguous %{{.+}} : tensor<2x3xf32>
func.func @contiguous(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.contiguous %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @layout(
// CHECK: mgx.layout %{{.+}} permutation = [0, 2, 3, 1] : tensor<1x3x8x8xf32>
func.func @layout(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %r = mgx.layout %x permutation = [0, 2, 3, 1] : tensor<1x3x8x8xf32>
  return %r : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: func.func @dimensions_of(
// CHECK: mgx.dimensions_of %{{.+}} start = 0 end = 2 : tensor<?x3xf32> -> tensor<2xi64>
func.func @dimensions_of(%x: tensor<?x3xf32>) -> tensor<2xi64> {
  %r = mgx.dimensions_of %x start = 0 end = 2 : tensor<?x3xf32> -> tensor<2xi64>
  return %r : tensor<2xi64>
}

// CHECK-LABEL: func.func @reshape_to(
// CHECK: mgx.reshape_to %{{.+}} to %{{.+}} : tensor<2x3xf32>, tensor<1xi64> -> tensor<?xf32>
func.func @reshape_to(%x: tensor<2x3xf32>, %d: tensor<1xi64>) -> tensor<?xf32> {
  %r = mgx.reshape_to %x to %d : tensor<2x3xf32>, tensor<1xi64> -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// CHECK-LABEL: func.func @broadcast_with_dims(
// CHECK: mgx.broadcast_with_dims %{{.+}} to %{{.+}} : tensor<2x3xf32>, tensor<3xi64> -> tensor<?x2x3xf32>
func.func @broadcast_with_dims(%x: tensor<2x3xf32>, %d: tensor<3xi64>) -> tensor<?x2x3xf32> {
  %r = mgx.broadcast_with_dims %x to %d : tensor<2x3xf32>, tensor<3xi64> -> tensor<?x2x3xf32>
  return %r : tensor<?x2x3xf32>
}
