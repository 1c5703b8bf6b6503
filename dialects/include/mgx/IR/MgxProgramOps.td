//===- MgxProgramOps.td - constants, regions, kernels ----------*- tablegen -*-===//
#ifndef MGX_PROGRAM_OPS_TD
#define MGX_PROGRAM_OPS_TD

include "mgx/IR/MgxBase.td"

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

def Mgx_ConstantOp : Mgx_PureOp<"constant", [ConstantLike]> {
  let skipDefaultBuilders = 0; // folding makes constants
  let summary = "A small tensor (or, in a pointwise body, a scalar) whose value stands in the program";
  let description = [{
    Example: `%c = mgx.constant dense<[1.0, 2.0]> : tensor<2xf32>`
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Mgx_Value:$result);
  let assemblyFormat = "attr-dict $value";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Mgx_LiteralOp : Mgx_Op<"literal", [Pure]> {
  let summary = "A weight, by reference";
  let description = [{
    The bytes stay in the model's file or the artifact's. `key` names them in the
    program's table of weights, which holds file, offset, size and hash.

    Example: `%w = mgx.literal "conv1.weight" : tensor<64x3x7x7xf32>`
  }];
  let arguments = (ins StrAttr:$key);
  let results = (outs Mgx_Tensor:$result);
  let assemblyFormat = "$key attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

def Mgx_YieldOp : Mgx_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["AttentionOp", "FusedReduceOp", "IfOp", "LoopOp", "PointwiseOp"]>]> {
  let summary = "The results of a region";
  let description = "Example: `mgx.yield %x : f32`";
  let arguments = (ins Variadic<AnyType>:$values);
  // The implicit terminator of a region without results.
  let builders = [OpBuilder<(ins)>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Mgx_PointwiseOp : Mgx_Op<"pointwise", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "A chain of pointwise ops as one loop over elements";
  let description = [{
    Inputs and results have one shape. The body gets one element of each input, as
    scalars, and holds pointwise ops and constants only.

    Example:
    ```
    %r = mgx.pointwise(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> {
    ^bb0(%a: f32, %b: f32):
      %s = mgx.add %a, %b : f32, f32 -> f32
      %t = mgx.relu %s : f32
      mgx.yield %t : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Mgx_Tensor>:$inputs);
  let results = (outs Variadic<Mgx_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

def Mgx_FusedReduceOp : Mgx_Op<"fused_reduce", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "Reductions along the same axes with the pointwise work around them";
  let description = [{
    The body works on whole tensors and holds reductions over `axes`, pointwise ops,
    broadcasts back over `axes`, and constants.

    Example:
    ```
    %r = mgx.fused_reduce(%x) axes = [1] : (tensor<2x3xf32>) -> tensor<2x1xf32> {
    ^bb0(%a: tensor<2x3xf32>):
      %s = mgx.mul %a, %a : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
      %t = mgx.reduce_sum %s axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
      mgx.yield %t : tensor<2x1xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Mgx_Tensor>:$inputs, DenseI64ArrayAttr:$axes);
  let results = (outs Variadic<Mgx_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` `axes` `=` $axes attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let hasVerifier = 1;
}

def Mgx_AttentionOp : Mgx_Op<"attention", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">, Mgx_Since<1>]> {
  let summary = "Shares of v: softmax over keys of the scores q k^T, times v, for each batch element";
  let description = [{
    q is (batch..., M, D), k (batch..., N, D), v (batch..., N, E), the result (batch..., M, E),
    all of one float type. The body gets the score of one query and one key, and one element
    of each extra tensor (batch..., M, N), such as a mask or a bias; it holds pointwise ops
    and constants only, and yields the score that enters the softmax. Scores, and the
    softmax, are f32, or f64 for operands of f64.

    With `causal = c`, query i sees the keys up to i + c only; with `earliest = e`, those from
    i + e on: both are a sliding window. Heads that share keys and values read them through a
    broadcast. Shares are NaN where no score is above -infinity, or one is NaN or infinity;
    with `nan_as_zero` they are 0 there, with `empty_as_zero` in the first case only.

    Example:
    ```
    %y = mgx.attention(%q, %k, %v) extras(%m) {causal = 0 : i64}
        : (tensor<2x8x16xf16>, tensor<2x8x16xf16>, tensor<2x8x16xf16>, tensor<2x8x8xf16>)
        -> tensor<2x8x16xf16> {
    ^bb0(%s: f32, %b: f16):
      %c = mgx.constant 2.500000e-01 : f32
      %t = mgx.mul %s, %c : f32, f32 -> f32
      %w = mgx.convert %b : f16 -> f32
      %u = mgx.add %t, %w : f32, f32 -> f32
      mgx.yield %u : f32
    }
    ```
  }];
  let arguments = (ins Mgx_FloatTensor:$q, Mgx_FloatTensor:$k, Mgx_FloatTensor:$v,
      Variadic<Mgx_Tensor>:$extras, OptionalAttr<I64Attr>:$causal, UnitAttr:$nan_as_zero,
      OptionalAttr<I64Attr>:$earliest, UnitAttr:$empty_as_zero);
  let results = (outs Mgx_FloatTensor:$y);
  let useCustomPropertiesEncoding = 1;
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `)` (`extras` `(` $extras^ `)`)? attr-dict
    `:` functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
}

def Mgx_IfOp : Mgx_Op<"if", [SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects,
    NoRegionArguments]> {
  let summary = "One of two regions, by a condition";
  let description = [{
    Example:
    ```
    %r = mgx.if %c : tensor<i1> -> tensor<2xf32> {
      mgx.yield %x : tensor<2xf32>
    } else {
      mgx.yield %y : tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins Mgx_BoolTensor:$condition);
  let results = (outs Variadic<Mgx_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$then_region, SizedRegion<1>:$else_region);
  let assemblyFormat = [{
    $condition attr-dict `:` type($condition) (`->` type($outputs)^)? $then_region `else` $else_region
  }];
  let hasVerifier = 1;
}

def Mgx_LoopOp : Mgx_Op<"loop", [SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "A region repeated while a condition holds (ONNX Loop)";
  let description = [{
    The body gets the iteration number, the condition and the carried values; it yields
    the next condition, the next carried values and then the scan outputs, which are
    stacked along a new first dimension. The results are the last carried values, then
    the scan outputs.

    Example:
    ```
    %r = mgx.loop %n, %c init(%x) : tensor<i64>, tensor<i1>, (tensor<2xf32>) -> tensor<2xf32> {
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
      %w = mgx.add %v, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      mgx.yield %go, %w : tensor<i1>, tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins RankedTensorOf<[I64]>:$max_trip_count, Mgx_BoolTensor:$condition,
      Variadic<Mgx_Tensor>:$init);
  let results = (outs Variadic<Mgx_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $max_trip_count `,` $condition `init` `(` $init `)` attr-dict
    `:` type($max_trip_count) `,` type($condition) `,` `(` type($init) `)` (`->` type($outputs)^)? $body
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Mgx_KernelOp : Mgx_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, Symbol,
    OpAsmOpInterface]> {
  let summary = "One fused kernel in portable form";
  let description = [{
    Its body holds mgx ops only and ends with `mgx.return`. `arch` is the dummy
    architecture; `features` names what a chip must have, never a chip.

    Example:
    ```
    mgx.kernel @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>
        attributes {arch = #mgx.arch<"gfxMIGX">} {
      %c = mgx.add %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      mgx.return %c : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      OptionalAttr<StrAttr>:$sym_visibility, Mgx_ArchAttr:$arch,
      DefaultValuedAttr<StrArrayAttr, "{}">:$features,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    static ::llvm::StringRef getDefaultDialect() { return "mgx"; }
  }];
}

def Mgx_ReturnOp : Mgx_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "The results of a kernel";
  let description = "Example: `mgx.return %x : tensor<4xf32>`";
  let arguments = (ins Variadic<Mgx_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

def Mgx_LaunchOp : Mgx_Op<"launch", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A kernel applied to tensors of the program";
  let description = [{
    Example: `%c = mgx.launch @add(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Mgx_Tensor>:$operands_);
  let results = (outs Variadic<Mgx_Tensor>:$outputs);
  let assemblyFormat = "$kernel `(` $operands_ `)` attr-dict `:` functional-type($operands_, $outputs)";
}

def Mgx_CodeObjectOp : Mgx_Op<"code_object", [Symbol]> {
  let summary = "A kernel finalized for one chip";
  let description = [{
    The bytes are named by their hash; `launches` describes the functions in them.

    Example: `mgx.code_object @add_gfx942 of @add arch = "gfx942" sha256 = "9f86d0"`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$kernel, StrAttr:$arch,
      StrAttr:$sha256, OptionalAttr<DictArrayAttr>:$launches);
  let assemblyFormat = [{
    $sym_name `of` $kernel `arch` `=` $arch `sha256` `=` $sha256 attr-dict
  }];
}

#endif // MGX_PROGRAM_OPS_TD
