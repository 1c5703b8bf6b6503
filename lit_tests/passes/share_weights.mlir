// RUN: %mgx-opt %s --mgx-share-weights | FileCheck %s

// Weights that are not there, as here, are not compared; the pytest has some.
// CHECK-LABEL: func.func @main
// CHECK:         mgx.literal "a"
// CHECK:         mgx.literal "b"
func.func @main() -> (tensor<2xf32>, tensor<2xf32>) {
  %a = mgx.literal "a" : tensor<2xf32>
  %b = mgx.literal "b" : tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}
