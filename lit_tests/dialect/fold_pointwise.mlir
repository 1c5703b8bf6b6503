// RUN: %mgx-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @neutral_elements
// CHECK-SAME:    %[[X:.+]]: tensor<2xf32>
func.func @neutral_elements(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = mgx.constant dense<0.0> : tensor<2xf32>
  %negative = mgx.constant dense<-0.0> : tensor<2xf32>
  %one = mgx.constant dense<1.0> : tensor<2xf32>
  %0 = mgx.add %negative, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.sub %0, %zero : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %2 = mgx.mul %one, %1 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %3 = mgx.div %2, %one : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %4 = mgx.pow %3, %one : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %5 = mgx.max %4, %4 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: return %[[X]]
  return %5 : tensor<2xf32>
}

// CHECK-LABEL: func.func @keeps_a_number_that_is_not_neutral
func.func @keeps_a_number_that_is_not_neutral(%x: tensor<2xf32>) -> tensor<2xf32> {
  %one = mgx.constant dense<[0.0, 1.0]> : tensor<2xf32>
  // CHECK: mgx.add
  %0 = mgx.add %x, %one : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @keeps_a_zero_that_changes_the_sign_of_zeros
func.func @keeps_a_zero_that_changes_the_sign_of_zeros(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = mgx.constant dense<0.0> : tensor<2xf32>
  %negative = mgx.constant dense<-0.0> : tensor<2xf32>
  // CHECK: mgx.add
  // CHECK: mgx.sub
  %0 = mgx.add %x, %zero : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.sub %0, %negative : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @keeps_zero_times_x
func.func @keeps_zero_times_x(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = mgx.constant dense<0.0> : tensor<2xf32>
  // Infinity times zero is no number.
  // CHECK: mgx.mul
  %0 = mgx.mul %x, %zero : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @bits
// CHECK-SAME:    %[[X:.+]]: tensor<2xui8>, %[[C:.+]]: tensor<2xi1>
func.func @bits(%x: tensor<2xui8>, %c: tensor<2xi1>) -> (tensor<2xui8>, tensor<2xi1>) {
  %zero = mgx.constant dense<0> : tensor<2xui8>
  %ones = mgx.constant dense<255> : tensor<2xui8>
  %0 = mgx.bitwise_and %x, %ones : tensor<2xui8>, tensor<2xui8> -> tensor<2xui8>
  %1 = mgx.shift_left %0, %zero : tensor<2xui8>, tensor<2xui8> -> tensor<2xui8>
  %true = mgx.constant dense<true> : tensor<2xi1>
  %2 = mgx.logical_and %true, %c : tensor<2xi1>, tensor<2xi1> -> tensor<2xi1>
  // CHECK-NEXT: return %[[X]], %[[C]]
  return %1, %2 : tensor<2xui8>, tensor<2xi1>
}

// CHECK-LABEL: func.func @twice
// CHECK-SAME:    %[[X:.+]]: tensor<2xf32>
func.func @twice(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = mgx.neg %x : tensor<2xf32>
  %1 = mgx.neg %0 : tensor<2xf32>
  // CHECK-NEXT: %[[R:.+]] = mgx.relu %[[X]]
  %2 = mgx.relu %x : tensor<2xf32>
  %3 = mgx.relu %2 : tensor<2xf32>
  // CHECK-NEXT: return %[[X]], %[[R]]
  return %1, %3 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @unary_constants
func.func @unary_constants() -> (tensor<2xf32>, tensor<3xi32>, tensor<1000x1000xf16>) {
  // CHECK-DAG: mgx.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
  %0 = mgx.constant dense<[4.0, 9.0]> : tensor<2xf32>
  %1 = mgx.sqrt %0 : tensor<2xf32>
  // CHECK-DAG: mgx.constant dense<[-1, 0, 1]> : tensor<3xi32>
  %2 = mgx.constant dense<[-7, 0, 7]> : tensor<3xi32>
  %3 = mgx.sign %2 : tensor<3xi32>
  // A splat folds at any size.
  // CHECK-DAG: mgx.constant dense<1.000000e+00> : tensor<1000x1000xf16>
  %4 = mgx.constant dense<0.0> : tensor<1000x1000xf16>
  %5 = mgx.exp %4 : tensor<1000x1000xf16>
  return %1, %3, %5 : tensor<2xf32>, tensor<3xi32>, tensor<1000x1000xf16>
}

// CHECK-LABEL: func.func @binary_constants
func.func @binary_constants() -> (tensor<2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2xui8>) {
  // CHECK-DAG: mgx.constant dense<[5.000000e+00, 6.000000e+00]> : tensor<2xf32>
  %0 = mgx.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %1 = mgx.constant dense<2.0> : tensor<2xf32>
  %2 = mgx.add %0, %1 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK-DAG: mgx.constant dense<[-2, 2, -2]> : tensor<3xi32>
  // CHECK-DAG: mgx.constant dense<[2, 1, -1]> : tensor<3xi32>
  %3 = mgx.constant dense<[-7, 7, 8]> : tensor<3xi32>
  %4 = mgx.constant dense<[3, 3, -3]> : tensor<3xi32>
  %5 = mgx.div %3, %4 : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  %6 = mgx.mod %3, %4 : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  // CHECK-DAG: mgx.constant dense<[200, 7]> : tensor<2xui8>
  %7 = mgx.constant dense<[200, 7]> : tensor<2xui8>
  %8 = mgx.constant dense<5> : tensor<2xui8>
  %9 = mgx.max %7, %8 : tensor<2xui8>, tensor<2xui8> -> tensor<2xui8>
  return %2, %5, %6, %9 : tensor<2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2xui8>
}

// CHECK-LABEL: func.func @keeps_a_division_by_zero
func.func @keeps_a_division_by_zero() -> tensor<1xi32> {
  %0 = mgx.constant dense<1> : tensor<1xi32>
  %1 = mgx.constant dense<0> : tensor<1xi32>
  // CHECK: mgx.div
  %2 = mgx.div %0, %1 : tensor<1xi32>, tensor<1xi32> -> tensor<1xi32>
  return %2 : tensor<1xi32>
}

// CHECK-LABEL: func.func @compare
func.func @compare() -> (tensor<3xi1>, tensor<2xi1>) {
  // CHECK-DAG: mgx.constant dense<[true, false, false]> : tensor<3xi1>
  %0 = mgx.constant dense<[1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
  %1 = mgx.constant dense<2.0> : tensor<3xf32>
  %2 = mgx.less %0, %1 : tensor<3xf32>, tensor<3xf32> -> tensor<3xi1>
  // CHECK-DAG: mgx.constant dense<[true, false]> : tensor<2xi1>
  %3 = mgx.constant dense<[200, 1]> : tensor<2xui8>
  %4 = mgx.constant dense<100> : tensor<2xui8>
  %5 = mgx.greater %3, %4 : tensor<2xui8>, tensor<2xui8> -> tensor<2xi1>
  return %2, %5 : tensor<3xi1>, tensor<2xi1>
}

// CHECK-LABEL: func.func @where
// CHECK-SAME:    %[[C:.+]]: tensor<2xi1>, %[[A:.+]]: tensor<2xf32>, %[[B:.+]]: tensor<2xf32>
func.func @where(%c: tensor<2xi1>, %a: tensor<2xf32>, %b: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>) {
  %false = mgx.constant dense<false> : tensor<2xi1>
  %0 = mgx.where %false, %a, %b : tensor<2xi1>, tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %1 = mgx.where %c, %a, %a : tensor<2xi1>, tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  // CHECK-NEXT: return %[[B]], %[[A]]
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @clip
func.func @clip() -> tensor<3xf32> {
  %x = mgx.constant dense<[-1.0, 3.0, 9.0]> : tensor<3xf32>
  %lo = mgx.constant dense<0.0> : tensor<3xf32>
  %hi = mgx.constant dense<6.0> : tensor<3xf32>
  // CHECK: mgx.constant dense<[0.000000e+00, 3.000000e+00, 6.000000e+00]> : tensor<3xf32>
  %0 = mgx.clip %x, %lo, %hi : tensor<3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @converts
// CHECK-SAME:    %[[X:.+]]: tensor<2xf16>
func.func @converts(%x: tensor<2xf16>) -> (tensor<2xf16>, tensor<2xf16>) {
  %0 = mgx.convert %x : tensor<2xf16> -> tensor<2xf16>
  %1 = mgx.convert %x : tensor<2xf16> -> tensor<2xf32>
  %2 = mgx.convert %1 : tensor<2xf32> -> tensor<2xf16>
  // CHECK-NEXT: return %[[X]], %[[X]]
  return %0, %2 : tensor<2xf16>, tensor<2xf16>
}

// CHECK-LABEL: func.func @keeps_a_convert_that_rounds
func.func @keeps_a_convert_that_rounds(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-COUNT-2: mgx.convert
  %0 = mgx.convert %x : tensor<2xf32> -> tensor<2xf16>
  %1 = mgx.convert %0 : tensor<2xf16> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @converted_constants
func.func @converted_constants() -> (tensor<2xi32>, tensor<2xi1>, tensor<2xf32>, tensor<2xi8>) {
  %0 = mgx.constant dense<[-1.75, 0.0]> : tensor<2xf32>
  // CHECK-DAG: mgx.constant dense<[-1, 0]> : tensor<2xi32>
  %1 = mgx.convert %0 : tensor<2xf32> -> tensor<2xi32>
  // CHECK-DAG: mgx.constant dense<[true, false]> : tensor<2xi1>
  %2 = mgx.convert %0 : tensor<2xf32> -> tensor<2xi1>
  // CHECK-DAG: mgx.constant dense<[2.550000e+02, 1.000000e+00]> : tensor<2xf32>
  %3 = mgx.constant dense<[255, 1]> : tensor<2xui8>
  %4 = mgx.convert %3 : tensor<2xui8> -> tensor<2xf32>
  // CHECK-DAG: mgx.constant dense<[1, 0]> : tensor<2xi8>
  %5 = mgx.convert %2 : tensor<2xi1> -> tensor<2xi8>
  return %1, %2, %4, %5 : tensor<2xi32>, tensor<2xi1>, tensor<2xf32>, tensor<2xi8>
}

// CHECK-LABEL: func.func @in_a_body
func.func @in_a_body(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = mgx.pointwise(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: f32):
    // CHECK:      %[[SIX:.+]] = mgx.constant 6.000000e+00 : f32
    // CHECK-NEXT: mgx.add %{{.+}}, %[[SIX]] : f32, f32 -> f32
    %two = mgx.constant 2.0 : f32
    %three = mgx.constant 3.0 : f32
    %six = mgx.mul %two, %three : f32, f32 -> f32
    %s = mgx.add %a, %six : f32, f32 -> f32
    mgx.yield %s : f32
  }
  return %r : tensor<2xf32>
}
