// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @add(
// CHECK: mgx.add %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @add(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.add %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @bitwise_and(
// CHECK: mgx.bitwise_and %{{.+}}, %{{.+}} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
func.func @bitwise_and(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.bitwise_and %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @bitwise_or(
// CHECK: mgx.bitwise_or %{{.+}}, %{{.+}} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
func.func @bitwise_or(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.bitwise_or %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @bitwise_xor(
// CHECK: mgx.bitwise_xor %{{.+}}, %{{.+}} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
func.func @bitwise_xor(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.bitwise_xor %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @div(
// CHECK: mgx.div %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @div(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.div %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @equal(
// CHECK: mgx.equal %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
func.func @equal(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.equal %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @fmod(
// CHECK: mgx.fmod %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @fmod(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.fmod %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @greater(
// CHECK: mgx.greater %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
func.func @greater(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.greater %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @less(
// CHECK: mgx.less %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
func.func @less(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.less %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @logical_and(
// CHECK: mgx.logical_and %{{.+}}, %{{.+}} : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
func.func @logical_and(%a: tensor<2x3xi1>, %b: tensor<2x3xi1>) -> tensor<2x3xi1> {
  %r = mgx.logical_and %a, %b : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @logical_or(
// CHECK: mgx.logical_or %{{.+}}, %{{.+}} : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
func.func @logical_or(%a: tensor<2x3xi1>, %b: tensor<2x3xi1>) -> tensor<2x3xi1> {
  %r = mgx.logical_or %a, %b : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @logical_xor(
// CHECK: mgx.logical_xor %{{.+}}, %{{.+}} : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
func.func @logical_xor(%a: tensor<2x3xi1>, %b: tensor<2x3xi1>) -> tensor<2x3xi1> {
  %r = mgx.logical_xor %a, %b : tensor<2x3xi1>, tensor<2x3xi1> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @max(
// CHECK: mgx.max %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @max(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.max %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @min(
// CHECK: mgx.min %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @min(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.min %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @mod(
// CHECK: mgx.mod %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @mod(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.mod %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @mul(
// CHECK: mgx.mul %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @mul(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.mul %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @pow(
// CHECK: mgx.pow %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @pow(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.pow %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @prelu(
// CHECK: mgx.prelu %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @prelu(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.prelu %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @shift_left(
// CHECK: mgx.shift_left %{{.+}}, %{{.+}} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
func.func @shift_left(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.shift_left %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @shift_right(
// CHECK: mgx.shift_right %{{.+}}, %{{.+}} : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
func.func @shift_right(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.shift_right %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @sqdiff(
// CHECK: mgx.sqdiff %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @sqdiff(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sqdiff %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sub(
// CHECK: mgx.sub %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @sub(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sub %a, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @where(
// CHECK: mgx.where %{{.+}}, %{{.+}}, %{{.+}} : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @where(%c: tensor<2x3xi1>, %a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.where %c, %a, %b : tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @clip(
// CHECK: mgx.clip %{{.+}}, %{{.+}}, %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @clip(%x: tensor<2x3xf32>, %lo: tensor<2x3xf32>, %hi: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.clip %x, %lo, %hi : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @quantizelinear(
// CHECK: mgx.quantizelinear %{{.+}} scale %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi8>
func.func @quantizelinear(%x: tensor<2x3xf32>, %s: tensor<2x3xf32>) -> tensor<2x3xi8> {
  %r = mgx.quantizelinear %x scale %s : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi8>
  return %r : tensor<2x3xi8>
}

// CHECK-LABEL: func.func @quantizelinear_precision(
// CHECK: mgx.quantizelinear %{{.+}} scale %{{.+}} {precision = f16} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi8>
func.func @quantizelinear_precision(%x: tensor<2x3xf32>, %s: tensor<2x3xf32>) -> tensor<2x3xi8> {
  %r = mgx.quantizelinear %x scale %s {precision = f16} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xi8>
  return %r : tensor<2x3xi8>
}

// CHECK-LABEL: func.func @quantizelinear_zero_point(
// CHECK: mgx.quantizelinear %{{.+}} scale %{{.+}} zero_point %{{.+}} : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xui8> -> tensor<2x3xui8>
func.func @quantizelinear_zero_point(%x: tensor<2x3xf32>, %s: tensor<2x3xf32>, %z: tensor<2x3xui8>) -> tensor<2x3xui8> {
  %r = mgx.quantizelinear %x scale %s zero_point %z
      : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xui8> -> tensor<2x3xui8>
  return %r : tensor<2x3xui8>
}

// CHECK-LABEL: func.func @dequantizelinear(
// CHECK: mgx.dequantizelinear %{{.+}} scale %{{.+}} : tensor<2x3xi8>, tensor<2x3xf32> -> tensor<2x3xf32>
func.func @dequantizelinear(%x: tensor<2x3xi8>, %s: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.dequantizelinear %x scale %s : tensor<2x3xi8>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @dequantizelinear_zero_point(
// CHECK: mgx.dequantizelinear %{{.+}} scale %{{.+}} zero_point %{{.+}} : tensor<2x3xi8>, tensor<2x3xf32>, tensor<2x3xi8> -> tensor<2x3xf32>
func.func @dequantizelinear_zero_point(%x: tensor<2x3xi8>, %s: tensor<2x3xf32>, %z: tensor<2x3xi8>) -> tensor<2x3xf32> {
  %r = mgx.dequantizelinear %x scale %s zero_point %z
      : tensor<2x3xi8>, tensor<2x3xf32>, tensor<2x3xi8> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
