//===- MgxBase.td - the mgx dialect, its types and attributes --*- tablegen -*-===//
#ifndef MGX_BASE_TD
#define MGX_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Mgx_Dialect : Dialect {
  let name = "mgx";
  let cppNamespace = "::mgx";
  let summary = "Operators of ONNX models, and the kernels that are fused from them";
  let description = [{
    The operators are MIGraphX's, by name and meaning, on builtin ranked tensors.
    Broadcasts are explicit: the operands of a pointwise op have one shape.
    Reductions keep the reduced dimensions, with size 1.

    Signless integers are signed; `ui8`, `ui32`, ... are unsigned; `i1` is bool.
    A dynamic dimension can have a name and bounds, in the tensor's encoding:
    `tensor<?x3xf32, #mgx.dims<[batch : 1 ... 64 {1, 8}, _]>>`. Equal names are
    equal sizes.

    The stored form of a kernel holds ops of this dialect only. Ops and attributes
    are added, never changed; the bytecode carries the dialect's version.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
  let hasConstantMaterializer = 1;
  // The plan, which passes leave on a program: stored kernels carry none of it.
  let discardableAttrs = (ins
      // On a module: the bytes of its arena.
      "::mlir::IntegerAttr":$arena_bytes,
      // On a concat: its operands are written directly into its memory.
      "::mlir::UnitAttr":$in_place,
      // On a loop: the trips after which one that has not ended is an error.
      "::mlir::IntegerAttr":$max_iterations,
      // On a launch, a concat or control flow: the offset of each result in the arena, in
      // bytes; negative for results that lie elsewhere.
      "::mlir::DenseI64ArrayAttr":$offsets,
      // On a kernel's function: the inputs whose memory may be that of a result.
      "::mlir::DenseI64ArrayAttr":$overwritable,
      // On a loop: the offsets of the copies of carried values that are permuted.
      "::mlir::DenseI64ArrayAttr":$staged);
  let hasOperationAttrVerify = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Mgx_Bool : TypeAlias<I1, "bool">;
def Mgx_SignedInt : AnyTypeOf<[I<2>, I<4>, I8, I16, I32, I64], "signed integer">;
def Mgx_UnsignedInt : AnyTypeOf<[UI<2>, UI<4>, UI8, UI16, UI32, UI64], "unsigned integer">;
def Mgx_Int : AnyTypeOf<[Mgx_SignedInt, Mgx_UnsignedInt], "integer">;
def Mgx_Float8 : AnyTypeOf<
    [F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ, F8E8M0FNU], "8-bit float">;
def Mgx_Float : AnyTypeOf<[F16, BF16, F32, F64, Mgx_Float8, F4E2M1FN], "float">;
def Mgx_Number : AnyTypeOf<[Mgx_Int, Mgx_Float], "number">;
def Mgx_Element : AnyTypeOf<[Mgx_Bool, Mgx_Number], "bool or number">;

// A pointwise op takes tensors in a program and scalars in the body of
// `mgx.pointwise`: the same op, with the same meaning for each element.
class Mgx_ValueOf<Type element>
    : AnyTypeOf<[RankedTensorOf<[element]>, element],
                "tensor or scalar of " # element.summary>;

def Mgx_Value : Mgx_ValueOf<Mgx_Element>;
def Mgx_BoolValue : Mgx_ValueOf<Mgx_Bool>;
def Mgx_IntValue : Mgx_ValueOf<Mgx_Int>;
def Mgx_BitsValue : Mgx_ValueOf<AnyTypeOf<[Mgx_Bool, Mgx_Int], "bool or integer">>;
def Mgx_FloatValue : Mgx_ValueOf<Mgx_Float>;
def Mgx_NumberValue : Mgx_ValueOf<Mgx_Number>;

def Mgx_Tensor : RankedTensorOf<[Mgx_Element]>;
def Mgx_BoolTensor : RankedTensorOf<[Mgx_Bool]>;
def Mgx_FloatTensor : RankedTensorOf<[Mgx_Float]>;
def Mgx_NumberTensor : RankedTensorOf<[Mgx_Number]>;
def Mgx_IndexTensor : RankedTensorOf<[I32, I64]>;
def Mgx_QuantizedTensor : RankedTensorOf<[Mgx_Int, Mgx_Float8, F4E2M1FN]>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Mgx_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Mgx_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Mgx_DimAttr : Mgx_Attr<"Dim", "dim"> {
  let summary = "One symbolic dimension: its name, its bounds and its preferred sizes";
  let description = [{
    Sizes lie in `[min, max]`; `max` is -1 when there is no bound. `optimals` are the
    sizes worth specialising for, ascending.

    Example: `#mgx.dim<batch : 1 ... 64 {1, 8}>`
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$min, "int64_t":$max,
      ArrayRefParameter<"int64_t">:$optimals);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Mgx_DimsAttr : Mgx_Attr<"Dims", "dims",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let summary = "The symbolic dimensions of a tensor, as its encoding";
  let description = [{
    One entry for each dimension of the tensor: a `#mgx.dim` or, for a dimension
    without a name, a null attribute, printed `_`. A named dimension is dynamic.

    Example: `tensor<?x3xf32, #mgx.dims<[batch : 1 ... 64 {1, 8}, _]>>`
  }];
  let parameters = (ins ArrayRefParameter<"::mgx::DimAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
}

def Mgx_ArchAttr : Mgx_Attr<"Arch", "arch"> {
  let summary = "The architecture that a kernel is written for";
  let description = [{
    `gfxMIGX` is the portable form: no chip is known. Upstream's chipset parser
    refuses that name on purpose, so that no pass that needs a chip runs on it.

    Example: `#mgx.arch<"gfxMIGX">`
  }];
  let parameters = (ins StringRefParameter<>:$name);
  let assemblyFormat = "`<` $name `>`";
}

class Mgx_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mgx";
  let genSpecializedAttr = 0;
}
class Mgx_EnumAttr<EnumAttrInfo info, string attrMnemonic>
    : EnumAttr<Mgx_Dialect, info, attrMnemonic> {
  let assemblyFormat = "$value";
}

def Mgx_PoolingMode : Mgx_Enum<"PoolingMode", "what pooling does in a window", [
  I32EnumAttrCase<"average", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"lpnorm", 2>]>;
def Mgx_PoolingModeAttr : Mgx_EnumAttr<Mgx_PoolingMode, "pooling_mode">;

def Mgx_PadMode : Mgx_Enum<"PadMode", "where padded elements come from", [
  I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"reflect", 1>,
  I32EnumAttrCase<"edge", 2>, I32EnumAttrCase<"wrap", 3>]>;
def Mgx_PadModeAttr : Mgx_EnumAttr<Mgx_PadMode, "pad_mode">;

def Mgx_ResizeMode : Mgx_Enum<"ResizeMode", "how resize interpolates", [
  I32EnumAttrCase<"nearest", 0>, I32EnumAttrCase<"linear", 1>, I32EnumAttrCase<"cubic", 2>]>;
def Mgx_ResizeModeAttr : Mgx_EnumAttr<Mgx_ResizeMode, "resize_mode">;

def Mgx_CoordinateMode : Mgx_Enum<"CoordinateMode",
    "how resize maps a result coordinate to an input coordinate (ONNX Resize)", [
  I32EnumAttrCase<"half_pixel", 0>, I32EnumAttrCase<"pytorch_half_pixel", 1>,
  I32EnumAttrCase<"align_corners", 2>, I32EnumAttrCase<"asymmetric", 3>,
  I32EnumAttrCase<"half_pixel_symmetric", 4>, I32EnumAttrCase<"tf_crop_and_resize", 5>]>;
def Mgx_CoordinateModeAttr : Mgx_EnumAttr<Mgx_CoordinateMode, "coordinate_mode">;

def Mgx_NearestMode : Mgx_Enum<"NearestMode", "how resize rounds a coordinate", [
  I32EnumAttrCase<"round_prefer_floor", 0>, I32EnumAttrCase<"round_prefer_ceil", 1>,
  I32EnumAttrCase<"floor", 2>, I32EnumAttrCase<"ceil", 3>]>;
def Mgx_NearestModeAttr : Mgx_EnumAttr<Mgx_NearestMode, "nearest_mode">;

//===----------------------------------------------------------------------===//
// Op classes
//===----------------------------------------------------------------------===//

// Pointwise ops can stand in the body of `mgx.pointwise`.
def Mgx_Pointwise : NativeOpTrait<"IsPointwise"> { let cppNamespace = "::mgx"; }
// Views move no data: fusion folds them into index maps.
def Mgx_View : NativeOpTrait<"IsView"> { let cppNamespace = "::mgx"; }
// Views that keep the row-major order of the elements, and copies in that order: between
// contiguous tensors they do nothing.
def Mgx_KeepsOrder : NativeOpTrait<"KeepsOrder"> { let cppNamespace = "::mgx"; }
// `a op b` is a for every a where all elements of b are this number; -1 stands for a number
// whose bits are all set.
class Mgx_NeutralRight<int number> : ParamNativeOpTrait<"NeutralRight", !cast<string>(number)> {
  let cppNamespace = "::mgx";
}
// An op along an axis that reads its operand as often as this.
class Mgx_Passes<int count> : ParamNativeOpTrait<"Passes", !cast<string>(count)> {
  let cppNamespace = "::mgx";
}
// Reductions take `axes` and keep the reduced dimensions with size 1.
def Mgx_Reduction : NativeOpTrait<"IsReduction"> { let cppNamespace = "::mgx"; }

// The minor version that an op came with, after version 1.0 of the stored form. Writing an
// older version refuses it by name.
class Mgx_Since<int minor> : ParamNativeOpTrait<"Since", !cast<string>(minor)> {
  let cppNamespace = "::mgx";
}

// Result types follow from operands and attributes. A result type that says more
// (a static size, a name of a dimension) is accepted where it is compatible. The
// inference checks what it reads, so that an op needs no verifier beside it.
def Mgx_InferType : InferTypeOpAdaptorBase<[{
  static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual) {
    return ::mgx::areCompatible(inferred, actual);
  }
}]>;

// Python builds the ops, through MLIR's generic interface. Builders of the arguments' forms would be
// a quarter of the generated C++, so there is one of the generic form (ODS asks for one).
class Mgx_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mgx_Dialect, mnemonic, traits> {
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$types, "::mlir::ValueRange":$operands), [{
    $_state.addTypes(types);
    $_state.addOperands(operands);
  }]>];
}

class Mgx_PureOp<string mnemonic, list<Trait> traits = []>
    : Mgx_Op<mnemonic, !listconcat([Pure, Mgx_InferType], traits)>;

// The result has the type of the operands, encoding included: ODS infers it.
class Mgx_SameTypeOp<string mnemonic, list<Trait> traits = []>
    : Mgx_Op<mnemonic, !listconcat([Pure, SameOperandsAndResultType,
        DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)>;

// The definition of an inference that a whole class of ops shares.
class Mgx_InferBy<string call> {
  string definition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context,
        std::optional<::mlir::Location> location, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &inferred) {
      return }] # call # [{;
    }
  }];
}

// The definition of a folder that a whole class of ops shares.
class Mgx_FoldBy<string call> {
  string definition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {
      return }] # call # [{;
    }
  }];
}

#endif // MGX_BASE_TD
