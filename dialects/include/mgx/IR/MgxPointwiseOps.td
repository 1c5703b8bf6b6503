//===- MgxPointwiseOps.td - ops that work on each element ------*- tablegen -*-===//
#ifndef MGX_POINTWISE_OPS_TD
#define MGX_POINTWISE_OPS_TD

include "mgx/IR/MgxBase.td"

class Mgx_ElementOp<string mnemonic, list<Trait> traits = []>
    : Mgx_PureOp<mnemonic, !listconcat([Mgx_Pointwise], traits)>;

// All operands have one type, the result has it too.
def Mgx_InferLikeOperands : Mgx_InferBy<
    "::mgx::inferLikeOperands(location, getOperationName(), adaptor.getOperands(), inferred)">;
// All operands have one type, the result has its shape and is bool.
def Mgx_InferPredicate : Mgx_InferBy<
    "::mgx::inferPredicate(location, getOperationName(), adaptor.getOperands(), inferred)">;

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

// `meaning` is the result of an op for one element, in words.
class Mgx_UnaryOp<string mnemonic, string meaning, Type value = Mgx_FloatValue,
                  list<Trait> traits = []>
    : Mgx_SameTypeOp<mnemonic, !listconcat([Mgx_Pointwise], traits)> {
  let summary = meaning;
  let description = "For each element: " # meaning # [{.

    Example: `%y = mgx.}] # mnemonic # [{ %x : tensor<2x3xf32>`
  }];
  let arguments = (ins value:$x);
  let results = (outs value:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
  let extraClassDefinition = Mgx_FoldBy<"::mgx::foldUnary(*this, adaptor.getX())">.definition;
}

def Mgx_AbsOp : Mgx_UnaryOp<"abs", "absolute value", Mgx_NumberValue, [Idempotent]>;
def Mgx_AcosOp : Mgx_UnaryOp<"acos", "arc cosine">;
def Mgx_AcoshOp : Mgx_UnaryOp<"acosh", "inverse hyperbolic cosine">;
def Mgx_AsinOp : Mgx_UnaryOp<"asin", "arc sine">;
def Mgx_AsinhOp : Mgx_UnaryOp<"asinh", "inverse hyperbolic sine">;
def Mgx_AtanOp : Mgx_UnaryOp<"atan", "arc tangent">;
def Mgx_AtanhOp : Mgx_UnaryOp<"atanh", "inverse hyperbolic tangent">;
def Mgx_CeilOp : Mgx_UnaryOp<"ceil", "smallest whole number not below x", Mgx_FloatValue,
    [Idempotent]>;
def Mgx_CosOp : Mgx_UnaryOp<"cos", "cosine of x in radians">;
def Mgx_CoshOp : Mgx_UnaryOp<"cosh", "hyperbolic cosine">;
def Mgx_ErfOp : Mgx_UnaryOp<"erf", "Gauss error function">;
def Mgx_ExpOp : Mgx_UnaryOp<"exp", "e to the power of x">;
def Mgx_FloorOp : Mgx_UnaryOp<"floor", "largest whole number not above x", Mgx_FloatValue,
    [Idempotent]>;
def Mgx_LogOp : Mgx_UnaryOp<"log", "natural logarithm">;
def Mgx_Log1pOp : Mgx_UnaryOp<"log1p", "natural logarithm of 1 + x, exact for small x",
    Mgx_FloatValue, [Mgx_Since<1>]>;
def Mgx_Log2Op : Mgx_UnaryOp<"log2", "base-2 logarithm">;
def Mgx_NearbyintOp : Mgx_UnaryOp<"nearbyint", "nearest whole number, ties to even", Mgx_FloatValue,
    [Idempotent]>;
def Mgx_NegOp : Mgx_UnaryOp<"neg", "-x", Mgx_NumberValue, [Involution]>;
def Mgx_RecipOp : Mgx_UnaryOp<"recip", "1 / x">;
def Mgx_ReluOp : Mgx_UnaryOp<"relu", "max(x, 0)", Mgx_NumberValue, [Idempotent]>;
def Mgx_RsqrtOp : Mgx_UnaryOp<"rsqrt", "1 / sqrt(x)">;
def Mgx_SigmoidOp : Mgx_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Mgx_SignOp : Mgx_UnaryOp<"sign", "-1, 0 or 1 by the sign of x", Mgx_NumberValue, [Idempotent]>;
def Mgx_SinOp : Mgx_UnaryOp<"sin", "sine of x in radians">;
def Mgx_SinhOp : Mgx_UnaryOp<"sinh", "hyperbolic sine">;
def Mgx_SqrtOp : Mgx_UnaryOp<"sqrt", "square root">;
def Mgx_TanOp : Mgx_UnaryOp<"tan", "tangent of x in radians">;
def Mgx_TanhOp : Mgx_UnaryOp<"tanh", "hyperbolic tangent">;
def Mgx_NotOp : Mgx_UnaryOp<"not", "logical negation", Mgx_BoolValue, [Involution]>;
def Mgx_BitwiseNotOp : Mgx_UnaryOp<"bitwise_not", "complement of the bits", Mgx_BitsValue,
    [Involution]>;

class Mgx_UnaryAlphaOp<string mnemonic, string meaning, string default>
    : Mgx_UnaryOp<mnemonic, meaning> {
  let arguments = (ins Mgx_FloatValue:$x, DefaultValuedAttr<F32Attr, default>:$alpha);
}
def Mgx_EluOp : Mgx_UnaryAlphaOp<"elu", "x if x > 0, else alpha * (exp(x) - 1)", "1.0">;
def Mgx_LeakyReluOp : Mgx_UnaryAlphaOp<"leaky_relu", "x if x > 0, else alpha * x", "0.01">;

class Mgx_UnaryPredicateOp<string mnemonic, string meaning>
    : Mgx_ElementOp<mnemonic> {
  let summary = meaning;
  let description = "For each element: " # meaning # [{.

    Example: `%y = mgx.}] # mnemonic # [{ %x : tensor<2xf32> -> tensor<2xi1>`
  }];
  let arguments = (ins Mgx_FloatValue:$x);
  let results = (outs Mgx_BoolValue:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let extraClassDefinition = Mgx_InferPredicate.definition;
}
def Mgx_IsnanOp : Mgx_UnaryPredicateOp<"isnan", "whether x is not a number">;
def Mgx_IsinfOp : Mgx_UnaryPredicateOp<"isinf", "whether x is infinite"> {
  let arguments = (ins Mgx_FloatValue:$x,
      DefaultValuedAttr<BoolAttr, "true">:$detect_negative,
      DefaultValuedAttr<BoolAttr, "true">:$detect_positive);
}

def Mgx_ConvertOp : Mgx_Op<"convert", [Pure, Mgx_Pointwise]> {
  let summary = "The value of x in another element type";
  let description = [{
    Float to integer truncates; to bool is `x != 0`; to a narrower float rounds to
    nearest even and, with `saturate`, an fp8 or fp4 result out of range becomes the
    largest finite value instead of infinity or NaN (ONNX Cast).

    Example: `%y = mgx.convert %x : tensor<2xf32> -> tensor<2xf16>`
  }];
  let arguments = (ins Mgx_Value:$x, DefaultValuedAttr<BoolAttr, "true">:$saturate);
  let results = (outs Mgx_Value:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Mgx_BitCastOp : Mgx_Op<"bit_cast", [Pure, Mgx_Pointwise]> {
  let summary = "The bits of x as another element type of the same width";
  let description = [{
    Example: `%y = mgx.bit_cast %x : tensor<2xf32> -> tensor<2xi32>`
  }];
  let arguments = (ins Mgx_Value:$x);
  let results = (outs Mgx_Value:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

class Mgx_BinaryOp<string mnemonic, string meaning, Type value = Mgx_NumberValue,
                   list<Trait> traits = []>
    : Mgx_ElementOp<mnemonic, traits> {
  let summary = meaning;
  let description = "For each pair of elements: " # meaning # [{.

    Example: `%c = mgx.}] # mnemonic # [{ %a, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>`
  }];
  let arguments = (ins value:$a, value:$b);
  let results = (outs value:$c);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($c)";
  let hasFolder = 1;
  let extraClassDefinition = Mgx_InferLikeOperands.definition
      # Mgx_FoldBy<"::mgx::foldBinary(*this, adaptor.getA(), adaptor.getB())">.definition;
}

def Mgx_AddOp : Mgx_BinaryOp<"add", "a + b", Mgx_NumberValue,
    [Commutative, Mgx_NeutralRight<0>]>;
def Mgx_SubOp : Mgx_BinaryOp<"sub", "a - b", Mgx_NumberValue,
    [Mgx_NeutralRight<0>]>;
def Mgx_MulOp : Mgx_BinaryOp<"mul", "a * b", Mgx_NumberValue,
    [Commutative, Mgx_NeutralRight<1>]>;
def Mgx_DivOp : Mgx_BinaryOp<"div", "a / b; for integers, truncated towards zero", Mgx_NumberValue,
    [Mgx_NeutralRight<1>]>;
def Mgx_FmodOp : Mgx_BinaryOp<"fmod", "remainder of a / b with the sign of a">;
def Mgx_ModOp : Mgx_BinaryOp<"mod", "remainder of a / b with the sign of b">;
def Mgx_PowOp : Mgx_BinaryOp<"pow", "a to the power of b", Mgx_NumberValue,
    [Mgx_NeutralRight<1>]>;
def Mgx_MaxOp : Mgx_BinaryOp<"max", "the larger; NaN if either is NaN", Mgx_NumberValue, [Commutative]>;
def Mgx_MinOp : Mgx_BinaryOp<"min", "the smaller; NaN if either is NaN", Mgx_NumberValue, [Commutative]>;
def Mgx_SqdiffOp : Mgx_BinaryOp<"sqdiff", "(a - b) * (a - b)", Mgx_NumberValue, [Commutative]>;
def Mgx_PreluOp : Mgx_BinaryOp<"prelu", "a if a > 0, else a * b", Mgx_NumberValue,
    [Mgx_NeutralRight<1>]>;
def Mgx_BitwiseAndOp : Mgx_BinaryOp<"bitwise_and", "a & b", Mgx_BitsValue,
    [Commutative, Mgx_NeutralRight<-1>]>;
def Mgx_BitwiseOrOp : Mgx_BinaryOp<"bitwise_or", "a | b", Mgx_BitsValue,
    [Commutative, Mgx_NeutralRight<0>]>;
def Mgx_BitwiseXorOp : Mgx_BinaryOp<"bitwise_xor", "a ^ b", Mgx_BitsValue,
    [Commutative, Mgx_NeutralRight<0>]>;
def Mgx_ShiftLeftOp : Mgx_BinaryOp<"shift_left", "a << b", Mgx_IntValue,
    [Mgx_NeutralRight<0>]>;
def Mgx_ShiftRightOp : Mgx_BinaryOp<"shift_right", "a >> b; arithmetic for signed a", Mgx_IntValue,
    [Mgx_NeutralRight<0>]>;
def Mgx_LogicalAndOp : Mgx_BinaryOp<"logical_and", "a and b", Mgx_BoolValue,
    [Commutative, Mgx_NeutralRight<-1>]>;
def Mgx_LogicalOrOp : Mgx_BinaryOp<"logical_or", "a or b", Mgx_BoolValue,
    [Commutative, Mgx_NeutralRight<0>]>;
def Mgx_LogicalXorOp : Mgx_BinaryOp<"logical_xor", "a xor b", Mgx_BoolValue,
    [Commutative, Mgx_NeutralRight<0>]>;

class Mgx_CompareOp<string mnemonic, string meaning, list<Trait> traits = []>
    : Mgx_BinaryOp<mnemonic, meaning, Mgx_Value, traits> {
  let results = (outs Mgx_BoolValue:$c);
  let extraClassDefinition = Mgx_InferPredicate.definition
      # Mgx_FoldBy<"::mgx::foldCompare(*this, adaptor.getA(), adaptor.getB())">.definition;
}
def Mgx_EqualOp : Mgx_CompareOp<"equal", "a == b; false if either is NaN", [Commutative]>;
def Mgx_GreaterOp : Mgx_CompareOp<"greater", "a > b; false if either is NaN">;
def Mgx_LessOp : Mgx_CompareOp<"less", "a < b; false if either is NaN">;

//===----------------------------------------------------------------------===//
// More operands
//===----------------------------------------------------------------------===//

def Mgx_WhereOp : Mgx_ElementOp<"where"> {
  let summary = "a where the condition holds, else b";
  let description = [{
    Example: `%y = mgx.where %c, %a, %b : tensor<2xi1>, tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>`
  }];
  let arguments = (ins Mgx_BoolValue:$condition, Mgx_Value:$a, Mgx_Value:$b);
  let results = (outs Mgx_Value:$y);
  let assemblyFormat = [{
    $condition `,` $a `,` $b attr-dict `:` type($condition) `,` type($a) `,` type($b) `->` type($y)
  }];
  let hasFolder = 1;
}

def Mgx_ClipOp : Mgx_ElementOp<"clip"> {
  let summary = "x bounded below by min and above by max: min(max(x, min), max)";
  let description = [{
    Example: `%y = mgx.clip %x, %lo, %hi : tensor<2xf32>, tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>`
  }];
  let arguments = (ins Mgx_NumberValue:$x, Mgx_NumberValue:$min, Mgx_NumberValue:$max);
  let results = (outs Mgx_NumberValue:$y);
  let assemblyFormat = [{
    $x `,` $min `,` $max attr-dict `:` type($x) `,` type($min) `,` type($max) `->` type($y)
  }];
  let hasFolder = 1;
  let extraClassDefinition = Mgx_InferLikeOperands.definition;
}

def Mgx_QuantizelinearOp : Mgx_Op<"quantizelinear", [Pure, Mgx_Pointwise]> {
  let summary = "saturate(round(x / scale) + zero_point) in the result's type";
  let description = [{
    Rounds to nearest even. Operands have one shape: broadcasts are explicit. The division is
    of `precision` (f16, bf16, f32 or f64; since 1.1), without it of f64 for x in f64, else
    of f32.

    Example: `%y = mgx.quantizelinear %x scale %s : tensor<2xf32>, tensor<2xf32> -> tensor<2xi8>`
  }];
  let arguments = (ins Mgx_NumberValue:$x, Mgx_FloatValue:$scale,
      Optional<Mgx_NumberValue>:$zero_point, DefaultValuedAttr<BoolAttr, "true">:$saturate,
      OptionalAttr<TypeAttr>:$precision);
  let useCustomPropertiesEncoding = 1;
  let results = (outs Mgx_NumberValue:$y);
  let assemblyFormat = [{
    $x `scale` $scale (`zero_point` $zero_point^)? attr-dict
    `:` type($x) `,` type($scale) (`,` type($zero_point)^)? `->` type($y)
  }];
  let hasVerifier = 1;
}

def Mgx_DequantizelinearOp : Mgx_Op<"dequantizelinear", [Pure, Mgx_Pointwise]> {
  let summary = "(x - zero_point) * scale in the result's type";
  let description = [{
    Example: `%y = mgx.dequantizelinear %x scale %s : tensor<2xi8>, tensor<2xf32> -> tensor<2xf32>`
  }];
  let arguments = (ins Mgx_NumberValue:$x, Mgx_FloatValue:$scale,
      Optional<Mgx_NumberValue>:$zero_point);
  let results = (outs Mgx_FloatValue:$y);
  let assemblyFormat = [{
    $x `scale` $scale (`zero_point` $zero_point^)? attr-dict
    `:` type($x) `,` type($scale) (`,` type($zero_point)^)? `->` type($y)
  }];
  let hasVerifier = 1;
}

#endif // MGX_POINTWISE_OPS_TD
