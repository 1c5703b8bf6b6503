//===- MgxTensorOps.td - ops on whole tensors ------------------*- tablegen -*-===//
#ifndef MGX_TENSOR_OPS_TD
#define MGX_TENSOR_OPS_TD

include "mgx/IR/MgxBase.td"

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

class Mgx_ReduceOp<string mnemonic, string meaning, Type tensor = Mgx_NumberTensor>
    : Mgx_PureOp<"reduce_" # mnemonic, [Mgx_Reduction, Mgx_Passes<1>]> {
  let summary = meaning # " along axes, which keep size 1";
  let description = [{
    Example: `%y = mgx.reduce_}] # mnemonic # [{ %x axes = [1, 2] : tensor<2x3x4xf32> -> tensor<2x1x1xf32>`
  }];
  let arguments = (ins tensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs tensor:$y);
  let assemblyFormat = "$x `axes` `=` $axes attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
  let extraClassDefinition = Mgx_InferBy<[{::mgx::inferReduction(
          location, getOperationName(), adaptor.getX(), adaptor.getAxes(), inferred)}]>.definition
      # Mgx_FoldBy<"::mgx::foldReduction(*this, adaptor.getX(), getAxes())">.definition;
}
def Mgx_ReduceSumOp : Mgx_ReduceOp<"sum", "sum">;
def Mgx_ReduceMeanOp : Mgx_ReduceOp<"mean", "mean">;
def Mgx_ReduceMaxOp : Mgx_ReduceOp<"max", "maximum">;
def Mgx_ReduceMinOp : Mgx_ReduceOp<"min", "minimum">;
def Mgx_ReduceProdOp : Mgx_ReduceOp<"prod", "product">;
def Mgx_ReduceAnyOp : Mgx_ReduceOp<"any", "logical or", Mgx_BoolTensor>;
def Mgx_ReduceAllOp : Mgx_ReduceOp<"all", "logical and", Mgx_BoolTensor>;

class Mgx_ArgOp<string mnemonic, string which> : Mgx_PureOp<mnemonic, [Mgx_Passes<1>]> {
  let summary = "Index of the " # which # " along an axis, which keeps size 1";
  let description = [{
    Among equal elements the first counts, or the last with `select_last_index`.

    Example: `%i = mgx.}] # mnemonic # [{ %x axis = 1 : tensor<2x3xf32> -> tensor<2x1xi64>`
  }];
  let arguments = (ins Mgx_NumberTensor:$x, I64Attr:$axis,
      DefaultValuedAttr<BoolAttr, "false">:$select_last_index);
  let results = (outs Mgx_IndexTensor:$indices);
  let assemblyFormat = "$x `axis` `=` $axis attr-dict `:` type($x) `->` type($indices)";
  let extraClassDefinition = Mgx_InferBy<[{::mgx::inferArg(
      location, getOperationName(), adaptor.getX(), adaptor.getAxis(), inferred)}]>.definition;
}
def Mgx_ArgmaxOp : Mgx_ArgOp<"argmax", "largest element">;
def Mgx_ArgminOp : Mgx_ArgOp<"argmin", "smallest element">;

class Mgx_SoftmaxLikeOp<string mnemonic, string meaning>
    : Mgx_SameTypeOp<mnemonic, [Mgx_Passes<5>]> {
  let summary = meaning;
  let description = [{
    Example: `%y = mgx.}] # mnemonic # [{ %x axis = 1 : tensor<2x3xf32>`
  }];
  let arguments = (ins Mgx_FloatTensor:$x, I64Attr:$axis);
  let results = (outs Mgx_FloatTensor:$y);
  let assemblyFormat = "$x `axis` `=` $axis attr-dict `:` type($x)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::mgx::verifyAxis(*this, getX(), getAxis()); }
  }];
}
def Mgx_SoftmaxOp : Mgx_SoftmaxLikeOp<"softmax", "exp(x - max) / sum(exp(x - max)) along an axis">;
def Mgx_LogsoftmaxOp : Mgx_SoftmaxLikeOp<"logsoftmax", "log(softmax(x)) along an axis">;

class Mgx_PrefixScanOp<string mnemonic, string what, list<Trait> traits = []>
    : Mgx_SameTypeOp<"prefix_scan_" # mnemonic, !listconcat([Mgx_Passes<1>], traits)> {
  let summary = "Cumulative " # what # " along an axis";
  let description = [{
    `exclusive` leaves an element out of its own }] # what # [{; `reverse` starts from the end.

    Example: `%y = mgx.prefix_scan_}] # mnemonic # [{ %x axis = 1 : tensor<2x3xf32>`
  }];
  let arguments = (ins Mgx_NumberTensor:$x, I64Attr:$axis,
      DefaultValuedAttr<BoolAttr, "false">:$exclusive,
      DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Mgx_NumberTensor:$y);
  let assemblyFormat = "$x `axis` `=` $axis attr-dict `:` type($x)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::mgx::verifyAxis(*this, getX(), getAxis()); }
  }];
}
def Mgx_PrefixScanSumOp : Mgx_PrefixScanOp<"sum", "sum">;
def Mgx_PrefixScanProdOp : Mgx_PrefixScanOp<"prod", "product", [Mgx_Since<1>]>;

def Mgx_SuppressOp : Mgx_Op<"suppress", [Pure, AllTypesMatch<["candidates", "kept"]>, Mgx_Since<1>]> {
  let summary = "The boxes, in order, that overlap no box kept before them";
  let description = [{
    The last dimension of `boxes` has two opposite corners, the lower one first. Along the
    last dimension of `candidates`, a candidate is kept whose intersection with each box kept
    before it is at most `threshold` of their union, until `most` are kept.

    Example: `%k = mgx.suppress %b, %c threshold = 5.000000e-01 most = 9 : tensor<2x7x4xf32>, tensor<2x7xi1>`
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$boxes, Mgx_BoolTensor:$candidates,
      F32Attr:$threshold, I64Attr:$most);
  let results = (outs Mgx_BoolTensor:$kept);
  let assemblyFormat = [{
    $boxes `,` $candidates `threshold` `=` $threshold `most` `=` $most attr-dict
    `:` type($boxes) `,` type($candidates)
  }];
  let hasVerifier = 1;
}

def Mgx_TopkOp : Mgx_PureOp<"topk"> {
  let summary = "The k largest (or smallest) elements along an axis, sorted, and their indices";
  let description = [{
    Equal elements come in the order of their indices. A k of -1 stands for all elements.

    Example: `%v, %i = mgx.topk %x k = 2 axis = 1 : tensor<2x9xf32> -> tensor<2x2xf32>, tensor<2x2xi64>`
  }];
  let arguments = (ins Mgx_NumberTensor:$x, I64Attr:$k, I64Attr:$axis,
      DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs Mgx_NumberTensor:$values, Mgx_IndexTensor:$indices);
  let assemblyFormat = [{
    $x `k` `=` $k `axis` `=` $axis attr-dict `:` type($x) `->` type($values) `,` type($indices)
  }];
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

// A view whose result shape is stated by its result type.
class Mgx_ShapeViewOp<string mnemonic, list<Trait> traits = []>
    : Mgx_Op<mnemonic, !listconcat([Pure, Mgx_View], traits)> {
  let arguments = (ins Mgx_Tensor:$x);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

// A view whose result shape follows from its attributes.
class Mgx_ViewOp<string mnemonic, list<Trait> traits = []>
    : Mgx_PureOp<mnemonic, !listconcat([Mgx_View], traits)> {
  let results = (outs Mgx_Tensor:$y);
  let hasFolder = 1;
}

def Mgx_ReshapeOp : Mgx_ShapeViewOp<"reshape", [Mgx_KeepsOrder]> {
  let summary = "The elements in row-major order, in another shape";
  let description = [{
    Example: `%y = mgx.reshape %x : tensor<2x3xf32> -> tensor<6xf32>`
  }];
}

def Mgx_MultibroadcastOp : Mgx_ShapeViewOp<"multibroadcast"> {
  let summary = "x repeated along dimensions of size 1 and along new leading ones (numpy's rule)";
  let description = [{
    Example: `%y = mgx.multibroadcast %x : tensor<3x1xf32> -> tensor<2x3x4xf32>`
  }];
}

def Mgx_BroadcastOp : Mgx_ShapeViewOp<"broadcast"> {
  let summary = "x with its dimensions placed at `axis`, repeated along all others";
  let description = [{
    Example: `%y = mgx.broadcast %x axis = 1 : tensor<3xf32> -> tensor<2x3x4x4xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, I64Attr:$axis);
  let assemblyFormat = "$x `axis` `=` $axis attr-dict `:` type($x) `->` type($y)";
}

def Mgx_TransposeOp : Mgx_ViewOp<"transpose"> {
  let summary = "Dimension i of the result is dimension permutation[i] of x";
  let description = [{
    Example: `%y = mgx.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let assemblyFormat = "$x `permutation` `=` $permutation attr-dict `:` type($x) `->` type($y)";
}

class Mgx_AxesViewOp<string mnemonic, string meaning, string example, list<Trait> traits = []>
    : Mgx_ViewOp<mnemonic, traits> {
  let summary = meaning;
  let description = "Example: `" # example # "`";
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$axes);
  let assemblyFormat = "$x `axes` `=` $axes attr-dict `:` type($x) `->` type($y)";
}
def Mgx_SqueezeOp : Mgx_AxesViewOp<"squeeze", "x without the given dimensions of size 1",
    "%y = mgx.squeeze %x axes = [0] : tensor<1x3xf32> -> tensor<3xf32>", [Mgx_KeepsOrder]>;
def Mgx_UnsqueezeOp : Mgx_AxesViewOp<"unsqueeze",
    "x with dimensions of size 1 at the given places of the result",
    "%y = mgx.unsqueeze %x axes = [0] : tensor<3xf32> -> tensor<1x3xf32>", [Mgx_KeepsOrder]>;
def Mgx_ReverseOp : Mgx_AxesViewOp<"reverse", "x read backwards along the given axes",
    "%y = mgx.reverse %x axes = [0] : tensor<3xf32> -> tensor<3xf32>">;

def Mgx_FlattenOp : Mgx_ViewOp<"flatten", [Mgx_KeepsOrder]> {
  let summary = "x as a matrix: dimensions before `axis` are its rows, the others its columns";
  let description = [{
    Example: `%y = mgx.flatten %x axis = 1 : tensor<2x3x4xf32> -> tensor<2x12xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, I64Attr:$axis);
  let assemblyFormat = "$x `axis` `=` $axis attr-dict `:` type($x) `->` type($y)";
}

def Mgx_SliceOp : Mgx_ViewOp<"slice"> {
  let summary = "The elements from starts to ends (excluded) along axes";
  let description = [{
    Starts and ends are within the dimension; they are not negative. Where an end is
    9223372036854775807, the result's size says how many elements there are: all to the end
    of a dynamic dimension whose result has no size of its own.

    Example: `%y = mgx.slice %x axes = [1] starts = [0] ends = [2] : tensor<2x3xf32> -> tensor<2x2xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$axes, DenseI64ArrayAttr:$starts,
      DenseI64ArrayAttr:$ends);
  let assemblyFormat = [{
    $x `axes` `=` $axes `starts` `=` $starts `ends` `=` $ends attr-dict `:` type($x) `->` type($y)
  }];
}

def Mgx_StepOp : Mgx_ViewOp<"step"> {
  let summary = "Every steps[i]-th element along axes[i], from the first";
  let description = [{
    Example: `%y = mgx.step %x axes = [1] steps = [2] : tensor<2x5xf32> -> tensor<2x3xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$axes, DenseI64ArrayAttr:$steps);
  let assemblyFormat = "$x `axes` `=` $axes `steps` `=` $steps attr-dict `:` type($x) `->` type($y)";
}

def Mgx_IdentityOp : Mgx_SameTypeOp<"identity", [Mgx_View, Mgx_KeepsOrder]> {
  let summary = "x";
  let description = "Example: `%y = mgx.identity %x : tensor<2xf32>`";
  let arguments = (ins Mgx_Tensor:$x);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
}

def Mgx_ContiguousOp : Mgx_SameTypeOp<"contiguous", [Mgx_KeepsOrder]> {
  let summary = "A copy of x in row-major order";
  let description = "Example: `%y = mgx.contiguous %x : tensor<2xf32>`";
  let arguments = (ins Mgx_Tensor:$x);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Mgx_IotaOp : Mgx_Op<"iota", [Pure, Mgx_Since<1>]> {
  let summary = "The numbers 0, 1, 2, ... as many as the result has";
  let description = [{
    Example: `%y = mgx.iota : tensor<?xi64, #mgx.dims<[seq : 1 ... ?]>>`
  }];
  let results = (outs 1DTensorOf<[I32, I64]>:$y);
  let assemblyFormat = "attr-dict `:` type($y)";
}

def Mgx_UnpackOp : Mgx_Op<"unpack", [Pure, Mgx_Since<1>]> {
  let summary = "The numbers of 4 or 2 bits that the bytes of x hold, low bits first";
  let description = [{
    A byte of the last dimension gives 8 / bits neighbours of the result's.

    Example: `%y = mgx.unpack %x : tensor<2x3xui8> -> tensor<2x6xui4>`
  }];
  let arguments = (ins Mgx_Tensor:$x);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def Mgx_LayoutOp : Mgx_SameTypeOp<"layout"> {
  let summary = "A copy of x whose memory order is the permutation of its dimensions";
  let description = [{
    Example: `%y = mgx.layout %x permutation = [0, 2, 3, 1] : tensor<1x3x8x8xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x `permutation` `=` $permutation attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Mgx_DimensionsOfOp : Mgx_PureOp<"dimensions_of"> {
  let summary = "The sizes of dimensions start to end (excluded) of x";
  let description = [{
    Example: `%d = mgx.dimensions_of %x start = 0 end = 2 : tensor<?x3xf32> -> tensor<2xi64>`
  }];
  let arguments = (ins Mgx_Tensor:$x, I64Attr:$start, I64Attr:$end);
  let results = (outs RankedTensorOf<[I64]>:$dims);
  let assemblyFormat = "$x `start` `=` $start `end` `=` $end attr-dict `:` type($x) `->` type($dims)";
  let hasFolder = 1;
}

class Mgx_RuntimeShapeOp<string mnemonic, string meaning> : Mgx_Op<mnemonic, [Pure]> {
  let summary = meaning;
  let description = [{
    Example: `%y = mgx.}] # mnemonic # [{ %x to %d : tensor<2x3xf32>, tensor<1xi64> -> tensor<?xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, RankedTensorOf<[I64]>:$dims);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x `to` $dims attr-dict `:` type($x) `,` type($dims) `->` type($y)";
  let hasVerifier = 1;
}
def Mgx_ReshapeToOp : Mgx_RuntimeShapeOp<"reshape_to", "reshape to a shape known at run time">;
def Mgx_BroadcastWithDimsOp : Mgx_RuntimeShapeOp<"broadcast_with_dims",
    "multibroadcast of x and a shape known at run time">;

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

def Mgx_ConcatOp : Mgx_PureOp<"concat"> {
  let summary = "The tensors one after another along an axis";
  let description = [{
    Example: `%y = mgx.concat %a, %b axis = 0 : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<3x3xf32>`
  }];
  let arguments = (ins Variadic<Mgx_Tensor>:$xs, I64Attr:$axis);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$xs `axis` `=` $axis attr-dict `:` type($xs) `->` type($y)";
  let hasFolder = 1;
}

class Mgx_GatherLikeOp<string mnemonic> : Mgx_PureOp<mnemonic> {
  let arguments = (ins Mgx_Tensor:$x, Mgx_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = [{
    $x `[` $indices `]` `axis` `=` $axis attr-dict `:` type($x) `,` type($indices) `->` type($y)
  }];
}
def Mgx_GatherOp : Mgx_GatherLikeOp<"gather"> {
  let summary = "Slices of x along an axis, chosen by indices (ONNX Gather)";
  let description = [{
    Negative indices count from the end.

    Example: `%y = mgx.gather %x[%i] axis = 0 : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>`
  }];
}
def Mgx_GatherElementsOp : Mgx_GatherLikeOp<"gather_elements"> {
  let summary = "For each element of the result, the element of x that has its index along an axis";
  let description = [{
    Negative indices count from the end.

    Example: `%y = mgx.gather_elements %x[%i] axis = 0 : tensor<9x4xf32>, tensor<2x4xi64> -> tensor<2x4xf32>`
  }];
}
def Mgx_GatherndOp : Mgx_PureOp<"gathernd"> {
  let summary = "Slices of x chosen by index tuples in the last dimension of indices (ONNX GatherND)";
  let description = [{
    Example: `%y = mgx.gathernd %x[%i] : tensor<9x4xf32>, tensor<5x1xi64> -> tensor<5x4xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, Mgx_IndexTensor:$indices,
      DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x `[` $indices `]` attr-dict `:` type($x) `,` type($indices) `->` type($y)";
}

class Mgx_ScatterOp<string reduction, string how> : Mgx_PureOp<"scatter_" # reduction> {
  let summary = "x with updates " # how # " the elements that indices name (ONNX ScatterElements)";
  let description = [{
    Example: `%y = mgx.scatter_}] # reduction # [{ %x[%i], %u axis = 0 : tensor<9x4xf32>, tensor<2x4xi64>, tensor<2x4xf32> -> tensor<9x4xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, Mgx_IndexTensor:$indices, Mgx_Tensor:$updates, I64Attr:$axis);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = [{
    $x `[` $indices `]` `,` $updates `axis` `=` $axis attr-dict
    `:` type($x) `,` type($indices) `,` type($updates) `->` type($y)
  }];
  let extraClassDefinition = Mgx_InferBy<[{::mgx::inferScatter(location, getOperationName(),
      adaptor.getX(), adaptor.getIndices(), adaptor.getUpdates(), adaptor.getAxis(), inferred)}]>.definition;
}
class Mgx_ScatterndOp<string reduction, string how> : Mgx_PureOp<"scatternd_" # reduction> {
  let summary = "x with updates " # how # " the slices that index tuples name (ONNX ScatterND)";
  let description = [{
    Example: `%y = mgx.scatternd_}] # reduction # [{ %x[%i], %u : tensor<9x4xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<9x4xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, Mgx_IndexTensor:$indices, Mgx_Tensor:$updates);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = [{
    $x `[` $indices `]` `,` $updates attr-dict
    `:` type($x) `,` type($indices) `,` type($updates) `->` type($y)
  }];
  let extraClassDefinition = Mgx_InferBy<[{::mgx::inferScatternd(location, getOperationName(),
      adaptor.getX(), adaptor.getIndices(), adaptor.getUpdates(), inferred)}]>.definition;
}
foreach kind = [["none", "replacing", "None"], ["add", "added to", "Add"],
                ["mul", "multiplied into", "Mul"], ["min", "bounding from above", "Min"],
                ["max", "bounding from below", "Max"]] in {
  def Mgx_Scatter#kind[2]#Op : Mgx_ScatterOp<kind[0], kind[1]>;
  def Mgx_Scatternd#kind[2]#Op : Mgx_ScatterndOp<kind[0], kind[1]>;
}

def Mgx_PadOp : Mgx_PureOp<"pad"> {
  let summary = "x with low[i] elements before and high[i] after along dimension i";
  let description = [{
    A negative amount takes elements away. `value` fills in mode `constant`.

    Example: `%y = mgx.pad %x low = [0, 1] high = [0, 1] : tensor<2x3xf32> -> tensor<2x5xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
      DefaultValuedAttr<F64Attr, "0.0">:$value,
      DefaultValuedAttr<Mgx_PadModeAttr, "::mgx::PadMode::constant">:$mode);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x `low` `=` $low `high` `=` $high attr-dict `:` type($x) `->` type($y)";
  let hasFolder = 1;
}

def Mgx_NonzeroOp : Mgx_PureOp<"nonzero"> {
  let summary = "The indices of the elements that are not zero, one column each";
  let description = [{
    Example: `%i = mgx.nonzero %x : tensor<2x3xf32> -> tensor<2x?xi64>`
  }];
  let arguments = (ins Mgx_Tensor:$x);
  let results = (outs RankedTensorOf<[I64]>:$indices);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($indices)";
}

def Mgx_ResizeOp : Mgx_Op<"resize", [Pure]> {
  let summary = "x interpolated to the result's shape (ONNX Resize)";
  let description = [{
    `scales` holds one factor for each dimension, as the model gives them: they enter
    the coordinate transformation and may differ from the ratio of sizes. `roi` holds
    the region for `tf_crop_and_resize`: starts, then ends.

    Example: `%y = mgx.resize %x scales = [1.0, 1.0, 2.0, 2.0] : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>`
  }];
  let arguments = (ins Mgx_Tensor:$x, DenseF32ArrayAttr:$scales,
      DefaultValuedAttr<Mgx_ResizeModeAttr, "::mgx::ResizeMode::nearest">:$mode,
      DefaultValuedAttr<Mgx_CoordinateModeAttr, "::mgx::CoordinateMode::half_pixel">:$coordinate_mode,
      DefaultValuedAttr<Mgx_NearestModeAttr, "::mgx::NearestMode::round_prefer_floor">:$nearest_mode,
      DefaultValuedAttr<F32Attr, "-0.75">:$cubic_coeff_a,
      DefaultValuedAttr<BoolAttr, "false">:$exclude_outside,
      DefaultValuedAttr<BoolAttr, "false">:$antialias,
      DefaultValuedAttr<F32Attr, "0.0">:$extrapolation_value,
      OptionalAttr<DenseF32ArrayAttr>:$roi);
  let results = (outs Mgx_Tensor:$y);
  let assemblyFormat = "$x `scales` `=` $scales attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

#endif // MGX_TENSOR_OPS_TD
