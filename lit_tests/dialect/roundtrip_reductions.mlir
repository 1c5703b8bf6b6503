// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @reduce_all(
// CHECK: mgx.reduce_all %{{.+}} axes = [1, 2] : tensor<2x3x4xi1> -> tensor<2x1x1xi1>
func.func @reduce_all(%x: tensor<2x3x4xi1>) -> tensor<2x1x1xi1> {
  %r = mgx.reduce_all %x axes = [1, 2] : tensor<2x3x4xi1> -> tensor<2x1x1xi1>
  return %r : tensor<2x1x1xi1>
}

// CHECK-LABEL: func.func @reduce_any(
// CHECK: mgx.reduce_any %{{.+}} axes = [1, 2] : tensor<2x3x4xi1> -> tensor<2x1x1xi1>
func.func @reduce_any(%x: tensor<2x3x4xi1>) -> tensor<2x1x1xi1> {
  %r = mgx.reduce_any %x axes = [1, 2] : tensor<2x3x4xi1> -> tensor<2x1x1xi1>
  return %r : tensor<2x1x1xi1>
}

// CHECK-LABEL: func.func @reduce_max(
// CHECK: mgx.reduce_max %{{.+}} axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
func.func @reduce_max(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %r = mgx.reduce_max %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @reduce_mean(
// CHECK: mgx.reduce_mean %{{.+}} axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
func.func @reduce_mean(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %r = mgx.reduce_mean %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @reduce_min(
// CHECK: mgx.reduce_min %{{.+}} axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
func.func @reduce_min(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %r = mgx.reduce_min %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @reduce_prod(
// CHECK: mgx.reduce_prod %{{.+}} axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
func.func @reduce_prod(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %r = mgx.reduce_prod %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @reduce_sum(
// CHECK: mgx.reduce_sum %{{.+}} axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
func.func @reduce_sum(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %r = mgx.reduce_sum %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>
  return %r : tensor<2x1x1xf32>
}

// CHECK-LABEL: func.func @argmax(
// CHECK: mgx.argmax %{{.+}} axis = 1 : tensor<2x3xf32> -> tensor<2x1xi64>
func.func @argmax(%x: tensor<2x3xf32>) -> tensor<2x1xi64> {
  %r = mgx.argmax %x axis = 1 : tensor<2x3xf32> -> tensor<2x1xi64>
  return %r : tensor<2x1xi64>
}

// CHECK-LABEL: func.func @argmin(
// CHECK: mgx.argmin %{{.+}} axis = 1 : tensor<2x3xf32> -> tensor<2x1xi64>
func.func @argmin(%x: tensor<2x3xf32>) -> tensor<2x1xi64> {
  %r = mgx.argmin %x axis = 1 : tensor<2x3xf32> -> tensor<2x1xi64>
  return %r : tensor<2x1xi64>
}

// CHECK-LABEL: func.func @argmax_last(
// CHECK: mgx.argmax %{{.+}} axis = 0 {select_last_index = true} : tensor<2x3xf32> -> tensor<1x3xi64>
func.func @argmax_last(%x: tensor<2x3xf32>) -> tensor<1x3xi64> {
  %r = mgx.argmax %x axis = 0 {select_last_index = true} : tensor<2x3xf32> -> tensor<1x3xi64>
  return %r : tensor<1x3xi64>
}

// CHECK-LABEL: func.func @softmax(
// CHECK: mgx.softmax %{{.+}} axis = 1 : tensor<2x3xf32>
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.softmax %x axis = 1 : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @logsoftmax(
// CHECK: mgx.logsoftmax %{{.+}} axis = 1 : tensor<2x3xf32>
func.func @logsoftmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.logsoftmax %x axis = 1 : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @prefix_scan_sum(
// CHECK: mgx.prefix_scan_sum %{{.+}} axis = 1 : tensor<2x3xf32>
func.func @prefix_scan_sum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.prefix_scan_sum %x axis = 1 : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @prefix_scan_sum_reverse(
// CHECK: mgx.prefix_scan_sum %{{.+}} axis = 1 {exclusive = true, reverse = true} : tensor<2x3xf32>
func.func @prefix_scan_sum_reverse(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.prefix_scan_sum %x axis = 1 {exclusive = true, reverse = true} : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @topk(
// CHECK: mgx.topk %{{.+}} k = 2 axis = 1 : tensor<2x9xf32> -> tensor<2x2xf32>, tensor<2x2xi64>
func.func @topk(%x: tensor<2x9xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>) {
  %r:2 = mgx.topk %x k = 2 axis = 1 : tensor<2x9xf32> -> tensor<2x2xf32>, tensor<2x2xi64>
  return %r#0, %r#1 : tensor<2x2xf32>, tensor<2x2xi64>
}

// CHECK-LABEL: func.func @prefix_scan_prod(
// CHECK: mgx.prefix_scan_prod %{{.+}} axis = 1 : tensor<2x3xf32>
func.func @prefix_scan_prod(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.prefix_scan_prod %x axis = 1 : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @suppress(
// CHECK: mgx.suppress %{{.+}}, %{{.+}} threshold = 5.000000e-01 most = 9 : tensor<2x7x4xf32>, tensor<2x7xi1>
func.func @suppress(%b: tensor<2x7x4xf32>, %c: tensor<2x7xi1>) -> tensor<2x7xi1> {
  %r = mgx.suppress %b, %c threshold = 0.5 most = 9 : tensor<2x7x4xf32>, tensor<2x7xi1>
  return %r : tensor<2x7xi1>
}
