// RUN: %mgx-opt %s | %mgx-opt | FileCheck %s

// CHECK-LABEL: func.func @abs(
// CHECK: mgx.abs %{{.+}} : tensor<2x3xf32>
func.func @abs(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.abs %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @acos(
// CHECK: mgx.acos %{{.+}} : tensor<2x3xf32>
func.func @acos(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.acos %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @acosh(
// CHECK: mgx.acosh %{{.+}} : tensor<2x3xf32>
func.func @acosh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.acosh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @asin(
// CHECK: mgx.asin %{{.+}} : tensor<2x3xf32>
func.func @asin(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.asin %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @asinh(
// CHECK: mgx.asinh %{{.+}} : tensor<2x3xf32>
func.func @asinh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.asinh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @atan(
// CHECK: mgx.atan %{{.+}} : tensor<2x3xf32>
func.func @atan(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.atan %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @atanh(
// CHECK: mgx.atanh %{{.+}} : tensor<2x3xf32>
func.func @atanh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.atanh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @bitwise_not(
// CHECK: mgx.bitwise_not %{{.+}} : tensor<2x3xi32>
func.func @bitwise_not(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %r = mgx.bitwise_not %x : tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @ceil(
// CHECK: mgx.ceil %{{.+}} : tensor<2x3xf32>
func.func @ceil(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.ceil %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @cos(
// CHECK: mgx.cos %{{.+}} : tensor<2x3xf32>
func.func @cos(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.cos %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @cosh(
// CHECK: mgx.cosh %{{.+}} : tensor<2x3xf32>
func.func @cosh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.cosh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @elu(
// CHECK: mgx.elu %{{.+}} : tensor<2x3xf32>
func.func @elu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.elu %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @erf(
// CHECK: mgx.erf %{{.+}} : tensor<2x3xf32>
func.func @erf(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.erf %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @exp(
// CHECK: mgx.exp %{{.+}} : tensor<2x3xf32>
func.func @exp(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.exp %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @floor(
// CHECK: mgx.floor %{{.+}} : tensor<2x3xf32>
func.func @floor(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.floor %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @isinf(
// CHECK: mgx.isinf %{{.+}} : tensor<2x3xf32> -> tensor<2x3xi1>
func.func @isinf(%x: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.isinf %x : tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @isnan(
// CHECK: mgx.isnan %{{.+}} : tensor<2x3xf32> -> tensor<2x3xi1>
func.func @isnan(%x: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.isnan %x : tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @leaky_relu(
// CHECK: mgx.leaky_relu %{{.+}} : tensor<2x3xf32>
func.func @leaky_relu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.leaky_relu %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @log(
// CHECK: mgx.log %{{.+}} : tensor<2x3xf32>
func.func @log(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.log %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @log1p(
// CHECK: mgx.log1p %{{.+}} : tensor<2x3xf32>
func.func @log1p(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.log1p %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @log2(
// CHECK: mgx.log2 %{{.+}} : tensor<2x3xf32>
func.func @log2(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.log2 %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @nearbyint(
// CHECK: mgx.nearbyint %{{.+}} : tensor<2x3xf32>
func.func @nearbyint(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.nearbyint %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @neg(
// CHECK: mgx.neg %{{.+}} : tensor<2x3xf32>
func.func @neg(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.neg %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @not(
// CHECK: mgx.not %{{.+}} : tensor<2x3xi1>
func.func @not(%x: tensor<2x3xi1>) -> tensor<2x3xi1> {
  %r = mgx.not %x : tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @recip(
// CHECK: mgx.recip %{{.+}} : tensor<2x3xf32>
func.func @recip(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.recip %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @relu(
// CHECK: mgx.relu %{{.+}} : tensor<2x3xf32>
func.func @relu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.relu %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @rsqrt(
// CHECK: mgx.rsqrt %{{.+}} : tensor<2x3xf32>
func.func @rsqrt(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.rsqrt %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sigmoid(
// CHECK: mgx.sigmoid %{{.+}} : tensor<2x3xf32>
func.func @sigmoid(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sigmoid %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sign(
// CHECK: mgx.sign %{{.+}} : tensor<2x3xf32>
func.func @sign(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sign %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sin(
// CHECK: mgx.sin %{{.+}} : tensor<2x3xf32>
func.func @sin(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sin %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sinh(
// CHECK: mgx.sinh %{{.+}} : tensor<2x3xf32>
func.func @sinh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sinh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sqrt(
// CHECK: mgx.sqrt %{{.+}} : tensor<2x3xf32>
func.func @sqrt(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.sqrt %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @tan(
// CHECK: mgx.tan %{{.+}} : tensor<2x3xf32>
func.func @tan(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.tan %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @tanh(
// CHECK: mgx.tanh %{{.+}} : tensor<2x3xf32>
func.func @tanh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.tanh %x : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @elu_alpha(
// CHECK: mgx.elu %{{.+}} {alpha = 5.000000e-01 : f32} : tensor<2x3xf32>
func.func @elu_alpha(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = mgx.elu %x {alpha = 5.000000e-01 : f32} : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @isinf_negative_only(
// CHECK: mgx.isinf %{{.+}} {detect_positive = false} : tensor<2x3xf32> -> tensor<2x3xi1>
func.func @isinf_negative_only(%x: tensor<2x3xf32>) -> tensor<2x3xi1> {
  %r = mgx.isinf %x {detect_positive = false} : tensor<2x3xf32> -> tensor<2x3xi1>
  return %r : tensor<2x3xi1>
}

// CHECK-LABEL: func.func @convert(
// CHECK: mgx.convert %{{.+}} : tensor<2x3xf32> -> tensor<2x3xf16>
func.func @convert(%x: tensor<2x3xf32>) -> tensor<2x3xf16> {
  %r = mgx.convert %x : tensor<2x3xf32> -> tensor<2x3xf16>
  return %r : tensor<2x3xf16>
}

// CHECK-LABEL: func.func @convert_saturate(
// CHECK: mgx.convert %{{.+}} {saturate = false} : tensor<2x3xf32> -> tensor<2x3xf8E4M3FN>
func.func @convert_saturate(%x: tensor<2x3xf32>) -> tensor<2x3xf8E4M3FN> {
  %r = mgx.convert %x {saturate = false} : tensor<2x3xf32> -> tensor<2x3xf8E4M3FN>
  return %r : tensor<2x3xf8E4M3FN>
}

// CHECK-LABEL: func.func @bit_cast(
// CHECK: mgx.bit_cast %{{.+}} : tensor<2x3xf32> -> tensor<2x3xi32>
func.func @bit_cast(%x: tensor<2x3xf32>) -> tensor<2x3xi32> {
  %r = mgx.bit_cast %x : tensor<2x3xf32> -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}
