//===- MgxWindowOps.td - convolutions, pooling, dots -----------*- tablegen -*-===//
#ifndef MGX_WINDOW_OPS_TD
#define MGX_WINDOW_OPS_TD

include "mgx/IR/MgxBase.td"

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

// Spatial dimensions follow batch and channel. `pads` holds the amounts before each
// spatial dimension, then those after it (ONNX order).
class Mgx_ConvolutionLikeOp<string mnemonic, dag operands, dag attrs = (ins)>
    : Mgx_PureOp<mnemonic> {
  let arguments = !con(operands, (ins DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$strides,
      DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group), attrs);
  let results = (outs Mgx_NumberTensor:$y);
  let assemblyFormat = [{
    $x `,` $w `pads` `=` $pads `strides` `=` $strides `dilations` `=` $dilations attr-dict
    `:` type($x) `,` type($w) `->` type($y)
  }];
}

def Mgx_ConvolutionOp : Mgx_ConvolutionLikeOp<"convolution",
    (ins Mgx_FloatTensor:$x, Mgx_FloatTensor:$w),
    (ins UnitAttr:$channels_last, UnitAttr:$relaxed)> {
  let summary = "Convolution of x (N, C, spatial...) with w (M, C / group, spatial...)";
  let useCustomPropertiesEncoding = 1;
  let description = [{
    With `channels_last` (since 1.1) all three tensors have their channels last: x (N,
    spatial..., C), w (M, spatial..., C / group), and the result (N, spatial..., M).

    With `relaxed` (since 1.1) a kernel may compute the sums by another formula, such as Winograd's,
    with another rounding error.

    Example:
    ```
    %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1]
        : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x8x8xf32>
    ```
  }];
}

def Mgx_ConvolutionBackwardsOp : Mgx_ConvolutionLikeOp<"convolution_backwards",
    (ins Mgx_FloatTensor:$x, Mgx_FloatTensor:$w), (ins DenseI64ArrayAttr:$output_pads)> {
  let summary = "Transposed convolution of x (N, C, spatial...) with w (C, M / group, spatial...)";
  let description = [{
    `output_pads` elements are added at the end of each spatial dimension of the result.

    Example:
    ```
    %y = mgx.convolution_backwards %x, %w pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1]
        {output_pads = array<i64: 0, 0>}
        : tensor<1x3x4x4xf32>, tensor<3x4x2x2xf32> -> tensor<1x4x8x8xf32>
    ```
  }];
}

def Mgx_QuantConvolutionOp : Mgx_ConvolutionLikeOp<"quant_convolution",
    (ins Mgx_QuantizedTensor:$x, Mgx_QuantizedTensor:$w),
    (ins UnitAttr:$channels_last, OptionalAttr<I64Attr>:$pad_value)> {
  let summary = "Convolution of 8-bit x and w: i32 for integers, f32 for floats";
  let useCustomPropertiesEncoding = 1;
  let hasVerifier = 1;
  let description = [{
    `channels_last` (since 1.1) as in `convolution`. Integers may be with a sign and without (since
    1.1). Padding is of `pad_value`, an integer of x's type (since 1.1; without it 0): the zero point
    of x, so that it stands for 0.

    Example:
    ```
    %y = mgx.quant_convolution %x, %w pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1]
        : tensor<1x3x8x8xi8>, tensor<4x3x3x3xi8> -> tensor<1x4x6x6xi32>
    ```
  }];
}

def Mgx_PoolingOp : Mgx_PureOp<"pooling"> {
  let summary = "Average, maximum or p-norm of the windows of x (N, C, spatial...)";
  let description = [{
    An average divides by the elements inside x, or by the window's size with
    `count_include_pad`. With `ceil_mode` the result's size rounds up, so that the last
    window, which may be the only one, reads as much as there is; a window that starts
    in the padding after x is left out.

    Example:
    ```
    %y = mgx.pooling max %x lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1]
        : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
    ```
  }];
  let arguments = (ins Mgx_NumberTensor:$x, Mgx_PoolingModeAttr:$mode, DenseI64ArrayAttr:$lengths,
      DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
      DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
      DefaultValuedAttr<BoolAttr, "false">:$count_include_pad,
      DefaultValuedAttr<I64Attr, "2">:$lp_order);
  let results = (outs Mgx_NumberTensor:$y);
  let assemblyFormat = [{
    `` $mode $x `lengths` `=` $lengths `pads` `=` $pads `strides` `=` $strides
    `dilations` `=` $dilations attr-dict `:` type($x) `->` type($y)
  }];
}

def Mgx_LrnOp : Mgx_SameTypeOp<"lrn", [Mgx_Passes<4>]> {
  let summary = "x / (bias + alpha / size * sum of squares of size neighbouring channels) ^ beta";
  let description = [{
    Example: `%y = mgx.lrn %x size = 5 {alpha = 1.0e-4 : f32} : tensor<1x3x8x8xf32>`
  }];
  let arguments = (ins Mgx_FloatTensor:$x, I64Attr:$size, DefaultValuedAttr<F32Attr, "1.0e-4f">:$alpha,
      DefaultValuedAttr<F32Attr, "0.75f">:$beta, DefaultValuedAttr<F32Attr, "1.0f">:$bias);
  let results = (outs Mgx_FloatTensor:$y);
  let assemblyFormat = "$x `size` `=` $size attr-dict `:` type($x)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

class Mgx_DotLikeOp<string mnemonic, Type operand> : Mgx_PureOp<mnemonic> {
  let arguments = (ins operand:$a, operand:$b);
  let results = (outs Mgx_NumberTensor:$c);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($c)";
}
def Mgx_DotOp : Mgx_DotLikeOp<"dot", Mgx_NumberTensor> {
  let summary = "Matrix product of the last two dimensions; the others are equal batch dimensions";
  let description = [{
    Example: `%c = mgx.dot %a, %b : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>`
  }];
}
def Mgx_QuantDotOp : Mgx_DotLikeOp<"quant_dot", Mgx_QuantizedTensor> {
  let summary = "Matrix product of 8-bit matrices: i32 for integers, f32 for floats";
  let description = [{
    Floats may be of two kinds, and integers with a sign and without (since 1.1).

    Example: `%c = mgx.quant_dot %a, %b : tensor<3x4xi8>, tensor<4x5xi8> -> tensor<3x5xi32>`
  }];
}

#endif // MGX_WINDOW_OPS_TD
