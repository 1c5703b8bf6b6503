// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @concat(
// CHECK: mgx.concat %{{.+}}, %{{.+}} axis = 0 : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
func.func @concat(%a: tensor<1x3xf32>, %b: tensor<2x3xf32>) -> tensor<3x3xf32> {
  %r = mgx.concat %a, %b axis = 0 : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @gather(
// CHECK: mgx.gather %{{.+}}[%{{.+}}] axis = 0 : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
func.func @gather(%x: tensor<9x4xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x4xf32> {
  %r = mgx.gather %x[%i] axis = 0 : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @gather_scalar_index(
// CHECK: mgx.gather %{{.+}}[%{{.+}}] axis = 1 : tensor<9x4xf32>, tensor<i32> -> tensor<9xf32>
func.func @gather_scalar_index(%x: tensor<9x4xf32>, %i: tensor<i32>) -> tensor<9xf32> {
  %r = mgx.gather %x[%i] axis = 1 : tensor<9x4xf32>, tensor<i32> -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// CHECK-LABEL: func.func @gather_elements(
// CHECK: mgx.gather_elements %{{.+}}[%{{.+}}] axis = 0 : tensor<9x4xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
func.func @gather_elements(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>) -> tensor<2x4xf32> {
  %r = mgx.gather_elements %x[%i] axis = 0 : tensor<9x4xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @gathernd(
// CHECK: mgx.gathernd %{{.+}}[%{{.+}}] : tensor<9x4xf32>, tensor<5x1xi64> -> tensor<5x4xf32>
func.func @gathernd(%x: tensor<9x4xf32>, %i: tensor<5x1xi64>) -> tensor<5x4xf32> {
  %r = mgx.gathernd %x[%i] : tensor<9x4xf32>, tensor<5x1xi64> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// CHECK-LABEL: func.func @gathernd_batch(
// CHECK: mgx.gathernd %{{.+}}[%{{.+}}] {batch_dims = 1 : i64} : tensor<5x4x6xf32>, tensor<5x3x1xi64> -> tensor<5x3x6xf32>
func.func @gathernd_batch(%x: tensor<5x4x6xf32>, %i: tensor<5x3x1xi64>) -> tensor<5x3x6xf32> {
  %r = mgx.gathernd %x[%i] {batch_dims = 1 : i64}
      : tensor<5x4x6xf32>, tensor<5x3x1xi64> -> tensor<5x3x6xf32>
  return %r : tensor<5x3x6xf32>
}

// CHECK-LABEL: func.func @scatter_none(
// CHECK: mgx.scatter_none %{{.+}}[%{{.+}}], %{{.+}} axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatter_none(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatter_none %x[%i], %u axis = 0
      : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatternd_none(
// CHECK: mgx.scatternd_none %{{.+}}[%{{.+}}], %{{.+}} : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatternd_none(%x: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatternd_none %x[%i], %u
      : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatter_add(
// CHECK: mgx.scatter_add %{{.+}}[%{{.+}}], %{{.+}} axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatter_add(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatter_add %x[%i], %u axis = 0
      : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatternd_add(
// CHECK: mgx.scatternd_add %{{.+}}[%{{.+}}], %{{.+}} : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatternd_add(%x: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatternd_add %x[%i], %u
      : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatter_mul(
// CHECK: mgx.scatter_mul %{{.+}}[%{{.+}}], %{{.+}} axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatter_mul(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatter_mul %x[%i], %u axis = 0
      : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatternd_mul(
// CHECK: mgx.scatternd_mul %{{.+}}[%{{.+}}], %{{.+}} : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatternd_mul(%x: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatternd_mul %x[%i], %u
      : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatter_min(
// CHECK: mgx.scatter_min %{{.+}}[%{{.+}}], %{{.+}} axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatter_min(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatter_min %x[%i], %u axis = 0
      : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatternd_min(
// CHECK: mgx.scatternd_min %{{.+}}[%{{.+}}], %{{.+}} : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatternd_min(%x: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatternd_min %x[%i], %u
      : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatter_max(
// CHECK: mgx.scatter_max %{{.+}}[%{{.+}}], %{{.+}} axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatter_max(%x: tensor<9x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatter_max %x[%i], %u axis = 0
      : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @scatternd_max(
// CHECK: mgx.scatternd_max %{{.+}}[%{{.+}}], %{{.+}} : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
func.func @scatternd_max(%x: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<9x4xf32> {
  %r = mgx.scatternd_max %x[%i], %u
      : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
  return %r : tensor<9x4xf32>
}

// CHECK-LABEL: func.func @pad(
// CHECK: mgx.pad %{{.+}} low = [0, 1] high = [0, 1] : tensor<2x3xf32> -> tensor<2x5xf32>
func.func @pad(%x: tensor<2x3xf32>) -> tensor<2x5xf32> {
  %r = mgx.pad %x low = [0, 1] high = [0, 1] : tensor<2x3xf32> -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// CHECK-LABEL: func.func @pad_edge(
// CHECK: mgx.pad %{{.+}} low = [0, -1] high = [2, 1] {mode = #mgx<pad_mode edge>} : tensor<2x3xf32> -> tensor<4x3xf32>
func.func @pad_edge(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %r = mgx.pad %x low = [0, -1] high = [2, 1] {mode = #mgx<pad_mode edge>}
      : tensor<2x3xf32> -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @pad_value(
// CHECK: mgx.pad %{{.+}} low = [0, 1] high = [0, 1] {value = -1.000000e+00 : f64} : tensor<2x3xf32> -> tensor<2x5xf32>
func.func @pad_value(%x: tensor<2x3xf32>) -> tensor<2x5xf32> {
  %r = mgx.pad %x low = [0, 1] high = [0, 1] {value = -1.000000e+00 : f64}
      : tensor<2x3xf32> -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// CHECK-LABEL: func.func @nonzero(
// CHECK: mgx.nonzero %{{.+}} : tensor<2x3xf32> -> tensor<2x?xi64>
func.func @nonzero(%x: tensor<2x3xf32>) -> tensor<2x?xi64> {
  %r = mgx.nonzero %x : tensor<2x3xf32> -> tensor<2x?xi64>
  return %r : tensor<2x?xi64>
}

// CHECK-LABEL: func.func @resize(
// CHECK: mgx.resize %{{.+}} scales = [1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00] : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
func.func @resize(%x: tensor<1x3x4x4xf32>) -> tensor<1x3x8x8xf32> {
  %r = mgx.resize %x scales = [1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00]
      : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
  return %r : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: func.func @resize_linear(
// CHECK: mgx.resize %{{.+}} scales = [1.000000e+00, 2.000000e+00] {coordinate_mode = #mgx<coordinate_mode align_corners>, mode = #mgx<resize_mode linear>} : tensor<1x4xf32> -> tensor<1x8xf32>
func.func @resize_linear(%x: tensor<1x4xf32>) -> tensor<1x8xf32> {
  %r = mgx.resize %x scales = [1.000000e+00, 2.000000e+00] {coordinate_mode = #mgx<coordinate_mode align_corners>, mode = #mgx<resize_mode linear>}
      : tensor<1x4xf32> -> tensor<1x8xf32>
  return %r : tensor<1x8xf32>
}

// CHECK-LABEL: func.func @unpack(
// CHECK: mgx.unpack %{{.+}} : tensor<2x3xui8> -> tensor<2x6xui4>
func.func @unpack(%x: tensor<2x3xui8>) -> tensor<2x6xui4> {
  %r = mgx.unpack %x : tensor<2x3xui8> -> tensor<2x6xui4>
  return %r : tensor<2x6xui4>
}

// CHECK-LABEL: func.func @iota(
// CHECK: mgx.iota : tensor<?xi64, #mgx.dims<[seq : 1 ... ?]>>
func.func @iota() -> tensor<?xi64, #mgx.dims<[seq : 1 ... ?]>> {
  %r = mgx.iota : tensor<?xi64, #mgx.dims<[seq : 1 ... ?]>>
  return %r : tensor<?xi64, #mgx.dims<[seq : 1 ... ?]>>
}

// The end of a slice whose result has a size of its own.
// CHECK-LABEL: func.func @slice_by_the_result(
// CHECK: mgx.slice %{{.+}} axes = [0] starts = [0] ends = [9223372036854775807]
// CHECK-SAME: tensor<12x4xf32> -> tensor<?x4xf32, #mgx.dims<[seq : 1 ... 12, _]>>
func.func @slice_by_the_result(%x: tensor<12x4xf32>) -> tensor<?x4xf32, #mgx.dims<[seq : 1 ... 12, _]>> {
  %r = mgx.slice %x axes = [0] starts = [0] ends = [9223372036854775807] : tensor<12x4xf32> -> tensor<?x4xf32, #mgx.dims<[seq : 1 ... 12, _]>>
  return %r : tensor<?x4xf32, #mgx.dims<[seq : 1 ... 12, _]>>
}
