"""The ops of mgx, for type checkers. Made by `python -m scripts.dialect_types`."""

from collections.abc import Sequence
from enum import IntEnum

from mlir import ir

from mgx_mlir._native._mgx import ArchAttr as ArchAttr
from mgx_mlir._native._mgx import DimAttr as DimAttr
from mgx_mlir._native._mgx import DimsAttr as DimsAttr
from mgx_mlir.dialects.builders import bit_cast as bit_cast
from mgx_mlir.dialects.builders import broadcast as broadcast
from mgx_mlir.dialects.builders import broadcast_with_dims as broadcast_with_dims
from mgx_mlir.dialects.builders import convert as convert
from mgx_mlir.dialects.builders import convolution as convolution
from mgx_mlir.dialects.builders import convolution_backwards as convolution_backwards
from mgx_mlir.dialects.builders import dequantizelinear as dequantizelinear
from mgx_mlir.dialects.builders import iota as iota
from mgx_mlir.dialects.builders import literal as literal
from mgx_mlir.dialects.builders import multibroadcast as multibroadcast
from mgx_mlir.dialects.builders import pooling as pooling
from mgx_mlir.dialects.builders import quant_convolution as quant_convolution
from mgx_mlir.dialects.builders import quantizelinear as quantizelinear
from mgx_mlir.dialects.builders import reshape as reshape
from mgx_mlir.dialects.builders import reshape_to as reshape_to
from mgx_mlir.dialects.builders import resize as resize
from mgx_mlir.dialects.builders import squeeze as squeeze
from mgx_mlir.dialects.builders import topk as topk
from mgx_mlir.dialects.builders import transpose as transpose
from mgx_mlir.dialects.builders import unpack as unpack
from mgx_mlir.dialects.constants import attribute_array as attribute_array
from mgx_mlir.dialects.constants import constant as constant
from mgx_mlir.dialects.constants import constant_array as constant_array
from mgx_mlir.dialects.constants import dense_attribute as dense_attribute
from mgx_mlir.dialects.constants import splat as splat
from mgx_mlir.dialects.groups import is_pointwise as is_pointwise
from mgx_mlir.dialects.groups import is_reduction as is_reduction
from mgx_mlir.dialects.groups import is_view as is_view
from mgx_mlir.dialects.regions import attention as attention
from mgx_mlir.dialects.regions import fused_reduce as fused_reduce
from mgx_mlir.dialects.regions import if_ as if_
from mgx_mlir.dialects.regions import kernel as kernel
from mgx_mlir.dialects.regions import launch as launch
from mgx_mlir.dialects.regions import loop as loop
from mgx_mlir.dialects.regions import pointwise as pointwise
from mgx_mlir.dialects.types import byte_size as byte_size
from mgx_mlir.dialects.types import element_type as element_type
from mgx_mlir.dialects.types import numpy_dtype as numpy_dtype
from mgx_mlir.dialects.types import tensor_type as tensor_type

OPS: frozenset[str]

BROADCASTS: tuple[type[BroadcastOp], type[MultibroadcastOp]]

COMMUTATIVE: tuple[
    type[AddOp],
    type[BitwiseAndOp],
    type[BitwiseOrOp],
    type[BitwiseXorOp],
    type[EqualOp],
    type[LogicalAndOp],
    type[LogicalOrOp],
    type[LogicalXorOp],
    type[MaxOp],
    type[MinOp],
    type[MulOp],
    type[SqdiffOp],
]

CONTRACTIONS: tuple[
    type[ConvolutionOp],
    type[QuantConvolutionOp],
    type[ConvolutionBackwardsOp],
    type[DotOp],
    type[QuantDotOp],
]

CONTROL_FLOW: tuple[type[IfOp], type[LoopOp]]

CONVOLUTIONS: tuple[type[ConvolutionOp], type[QuantConvolutionOp]]

COSTLY: tuple[
    type[AcosOp],
    type[AcoshOp],
    type[AsinOp],
    type[AsinhOp],
    type[AtanOp],
    type[AtanhOp],
    type[CosOp],
    type[CoshOp],
    type[EluOp],
    type[ErfOp],
    type[ExpOp],
    type[FmodOp],
    type[LogOp],
    type[Log1pOp],
    type[Log2Op],
    type[ModOp],
    type[PowOp],
    type[SigmoidOp],
    type[SinOp],
    type[SinhOp],
    type[TanOp],
    type[TanhOp],
]

DOTS: tuple[type[DotOp], type[QuantDotOp]]

FUSED: tuple[type[AttentionOp], type[FusedReduceOp], type[PointwiseOp]]

GATHERS: tuple[type[GatherOp], type[GatherElementsOp], type[GatherndOp]]

MOVERS: tuple[type[ConcatOp], type[GatherOp], type[GatherElementsOp], type[GatherndOp], type[PadOp]]

NEUTRAL_RIGHT: dict[type[ir.OpView], int]

PASSES: dict[type[ir.OpView], int]

POINTWISE_OPS: tuple[
    type[AbsOp],
    type[AcosOp],
    type[AcoshOp],
    type[AddOp],
    type[AsinOp],
    type[AsinhOp],
    type[AtanOp],
    type[AtanhOp],
    type[BitCastOp],
    type[BitwiseAndOp],
    type[BitwiseNotOp],
    type[BitwiseOrOp],
    type[BitwiseXorOp],
    type[CeilOp],
    type[ClipOp],
    type[ConvertOp],
    type[CosOp],
    type[CoshOp],
    type[DequantizelinearOp],
    type[DivOp],
    type[EluOp],
    type[EqualOp],
    type[ErfOp],
    type[ExpOp],
    type[FloorOp],
    type[FmodOp],
    type[GreaterOp],
    type[IsinfOp],
    type[IsnanOp],
    type[LeakyReluOp],
    type[LessOp],
    type[LogOp],
    type[Log1pOp],
    type[Log2Op],
    type[LogicalAndOp],
    type[LogicalOrOp],
    type[LogicalXorOp],
    type[MaxOp],
    type[MinOp],
    type[ModOp],
    type[MulOp],
    type[NearbyintOp],
    type[NegOp],
    type[NotOp],
    type[PowOp],
    type[PreluOp],
    type[QuantizelinearOp],
    type[RecipOp],
    type[ReluOp],
    type[RsqrtOp],
    type[ShiftLeftOp],
    type[ShiftRightOp],
    type[SigmoidOp],
    type[SignOp],
    type[SinOp],
    type[SinhOp],
    type[SqdiffOp],
    type[SqrtOp],
    type[SubOp],
    type[TanOp],
    type[TanhOp],
    type[WhereOp],
]

REDUCTION_OPS: tuple[
    type[ReduceAllOp],
    type[ReduceAnyOp],
    type[ReduceMaxOp],
    type[ReduceMeanOp],
    type[ReduceMinOp],
    type[ReduceProdOp],
    type[ReduceSumOp],
]

RESHAPES: tuple[
    type[ContiguousOp],
    type[FlattenOp],
    type[IdentityOp],
    type[ReshapeOp],
    type[SqueezeOp],
    type[UnsqueezeOp],
]

SOURCES: tuple[type[ConstantOp], type[LiteralOp]]

VIEW_OPS: tuple[
    type[BroadcastOp],
    type[FlattenOp],
    type[IdentityOp],
    type[MultibroadcastOp],
    type[ReshapeOp],
    type[ReverseOp],
    type[SliceOp],
    type[SqueezeOp],
    type[StepOp],
    type[TransposeOp],
    type[UnsqueezeOp],
]

class CoordinateMode(IntEnum):
    half_pixel = 0
    pytorch_half_pixel = 1
    align_corners = 2
    asymmetric = 3
    half_pixel_symmetric = 4
    tf_crop_and_resize = 5

class NearestMode(IntEnum):
    round_prefer_floor = 0
    round_prefer_ceil = 1
    floor = 2
    ceil = 3

class PadMode(IntEnum):
    constant = 0
    reflect = 1
    edge = 2
    wrap = 3

class PoolingMode(IntEnum):
    average = 0
    max = 1
    lpnorm = 2

class ResizeMode(IntEnum):
    nearest = 0
    linear = 1
    cubic = 2

class AbsOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def abs(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AcosOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def acos(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AcoshOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def acosh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AddOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def add(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ArgmaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        select_last_index: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def select_last_index(self) -> ir.BoolAttr: ...
    @select_last_index.setter
    def select_last_index(self, value: ir.BoolAttr) -> None: ...
    @property
    def indices(self) -> ir.OpResult[ir.RankedTensorType]: ...

def argmax(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    select_last_index: bool | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ArgminOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        select_last_index: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def select_last_index(self) -> ir.BoolAttr: ...
    @select_last_index.setter
    def select_last_index(self, value: ir.BoolAttr) -> None: ...
    @property
    def indices(self) -> ir.OpResult[ir.RankedTensorType]: ...

def argmin(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    select_last_index: bool | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AsinOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def asin(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AsinhOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def asinh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AtanOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def atan(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AtanhOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def atanh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class AttentionOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        q: ir.Value,
        k: ir.Value,
        v: ir.Value,
        extras: Sequence[ir.Value],
        *,
        causal: int | ir.Attribute | None = None,
        nan_as_zero: bool | None = None,
        earliest: int | ir.Attribute | None = None,
        empty_as_zero: bool | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def q(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def k(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def v(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def extras(self) -> ir.OpOperandList: ...
    @property
    def causal(self) -> ir.IntegerAttr | None: ...
    @causal.setter
    def causal(self, value: ir.IntegerAttr) -> None: ...
    @causal.deleter
    def causal(self) -> None: ...
    @property
    def nan_as_zero(self) -> bool: ...
    @nan_as_zero.setter
    def nan_as_zero(self, value: bool) -> None: ...
    @nan_as_zero.deleter
    def nan_as_zero(self) -> None: ...
    @property
    def earliest(self) -> ir.IntegerAttr | None: ...
    @earliest.setter
    def earliest(self, value: ir.IntegerAttr) -> None: ...
    @earliest.deleter
    def earliest(self) -> None: ...
    @property
    def empty_as_zero(self) -> bool: ...
    @empty_as_zero.setter
    def empty_as_zero(self, value: bool) -> None: ...
    @empty_as_zero.deleter
    def empty_as_zero(self) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...
    @property
    def body(self) -> ir.Region: ...

class BitCastOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

class BitwiseAndOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def bitwise_and(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class BitwiseNotOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def bitwise_not(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class BitwiseOrOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def bitwise_or(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class BitwiseXorOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def bitwise_xor(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class BroadcastOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class BroadcastWithDimsOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        dims: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def dims(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class CeilOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def ceil(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ClipOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        min: ir.Value,
        max: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def min(self) -> ir.Value: ...
    @property
    def max(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def clip(
    x: ir.Value,
    min: ir.Value,
    max: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class CodeObjectOp(ir.OpView):
    def __init__(
        self,
        sym_name: str | ir.Attribute,
        kernel: str | ir.Attribute,
        arch: str | ir.Attribute,
        sha256: str | ir.Attribute,
        *,
        launches: Sequence[ir.Attribute] | ir.Attribute | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def sym_name(self) -> ir.StringAttr: ...
    @sym_name.setter
    def sym_name(self, value: ir.StringAttr) -> None: ...
    @property
    def kernel(self) -> ir.FlatSymbolRefAttr: ...
    @kernel.setter
    def kernel(self, value: ir.FlatSymbolRefAttr) -> None: ...
    @property
    def arch(self) -> ir.StringAttr: ...
    @arch.setter
    def arch(self, value: ir.StringAttr) -> None: ...
    @property
    def sha256(self) -> ir.StringAttr: ...
    @sha256.setter
    def sha256(self, value: ir.StringAttr) -> None: ...
    @property
    def launches(self) -> ir.ArrayAttr | None: ...
    @launches.setter
    def launches(self, value: ir.ArrayAttr) -> None: ...
    @launches.deleter
    def launches(self) -> None: ...

def code_object(
    sym_name: str | ir.Attribute,
    kernel: str | ir.Attribute,
    arch: str | ir.Attribute,
    sha256: str | ir.Attribute,
    *,
    launches: Sequence[ir.Attribute] | ir.Attribute | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> CodeObjectOp: ...

class ConcatOp(ir.OpView):
    def __init__(
        self,
        xs: Sequence[ir.Value],
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def xs(self) -> ir.OpOperandList: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def concat(
    xs: Sequence[ir.Value],
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ConstantOp(ir.OpView):
    def __init__(
        self,
        value: IntEnum | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def value(self) -> ir.Attribute: ...
    @value.setter
    def value(self, value: ir.Attribute) -> None: ...
    @property
    def result(self) -> ir.OpResult: ...

class ContiguousOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def contiguous(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ConvertOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        *,
        saturate: bool | ir.Attribute | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def saturate(self) -> ir.BoolAttr: ...
    @saturate.setter
    def saturate(self, value: ir.BoolAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult: ...

class ConvolutionBackwardsOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        w: ir.Value,
        pads: Sequence[int] | ir.Attribute,
        strides: Sequence[int] | ir.Attribute,
        dilations: Sequence[int] | ir.Attribute,
        output_pads: Sequence[int] | ir.Attribute,
        *,
        group: int | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def w(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def pads(self) -> ir.DenseI64ArrayAttr: ...
    @pads.setter
    def pads(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def strides(self) -> ir.DenseI64ArrayAttr: ...
    @strides.setter
    def strides(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def dilations(self) -> ir.DenseI64ArrayAttr: ...
    @dilations.setter
    def dilations(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def group(self) -> ir.IntegerAttr: ...
    @group.setter
    def group(self, value: ir.IntegerAttr) -> None: ...
    @property
    def output_pads(self) -> ir.DenseI64ArrayAttr: ...
    @output_pads.setter
    def output_pads(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class ConvolutionOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        w: ir.Value,
        pads: Sequence[int] | ir.Attribute,
        strides: Sequence[int] | ir.Attribute,
        dilations: Sequence[int] | ir.Attribute,
        *,
        group: int | ir.Attribute | None = None,
        channels_last: bool | None = None,
        relaxed: bool | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def w(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def pads(self) -> ir.DenseI64ArrayAttr: ...
    @pads.setter
    def pads(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def strides(self) -> ir.DenseI64ArrayAttr: ...
    @strides.setter
    def strides(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def dilations(self) -> ir.DenseI64ArrayAttr: ...
    @dilations.setter
    def dilations(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def group(self) -> ir.IntegerAttr: ...
    @group.setter
    def group(self, value: ir.IntegerAttr) -> None: ...
    @property
    def channels_last(self) -> bool: ...
    @channels_last.setter
    def channels_last(self, value: bool) -> None: ...
    @channels_last.deleter
    def channels_last(self) -> None: ...
    @property
    def relaxed(self) -> bool: ...
    @relaxed.setter
    def relaxed(self, value: bool) -> None: ...
    @relaxed.deleter
    def relaxed(self) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class CosOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def cos(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class CoshOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def cosh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class DequantizelinearOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        scale: ir.Value,
        *,
        zero_point: ir.Value | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def scale(self) -> ir.Value: ...
    @property
    def zero_point(self) -> ir.Value | None: ...
    @property
    def y(self) -> ir.OpResult: ...

class DimensionsOfOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        start: int | ir.Attribute,
        end: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def start(self) -> ir.IntegerAttr: ...
    @start.setter
    def start(self, value: ir.IntegerAttr) -> None: ...
    @property
    def end(self) -> ir.IntegerAttr: ...
    @end.setter
    def end(self, value: ir.IntegerAttr) -> None: ...
    @property
    def dims(self) -> ir.OpResult[ir.RankedTensorType]: ...

def dimensions_of(
    x: ir.Value,
    start: int | ir.Attribute,
    end: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class DivOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def div(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class DotOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def b(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def c(self) -> ir.OpResult[ir.RankedTensorType]: ...

def dot(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class EluOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        alpha: float | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def alpha(self) -> ir.FloatAttr: ...
    @alpha.setter
    def alpha(self, value: ir.FloatAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult: ...

def elu(
    x: ir.Value,
    *,
    alpha: float | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class EqualOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def equal(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ErfOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def erf(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ExpOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def exp(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class FlattenOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def flatten(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class FloorOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def floor(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class FmodOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def fmod(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class FusedReduceOp(ir.OpView):
    def __init__(
        self,
        outputs: Sequence[ir.Type],
        inputs: Sequence[ir.Value],
        axes: Sequence[int] | ir.Attribute,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def inputs(self) -> ir.OpOperandList: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def outputs(self) -> ir.OpResultList: ...
    @property
    def body(self) -> ir.Region: ...

class GatherElementsOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def gather_elements(
    x: ir.Value,
    indices: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class GatherOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def gather(
    x: ir.Value,
    indices: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class GatherndOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        *,
        batch_dims: int | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def batch_dims(self) -> ir.IntegerAttr: ...
    @batch_dims.setter
    def batch_dims(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def gathernd(
    x: ir.Value,
    indices: ir.Value,
    *,
    batch_dims: int | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class GreaterOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def greater(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class IdentityOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def identity(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class IfOp(ir.OpView):
    def __init__(
        self,
        outputs: Sequence[ir.Type],
        condition: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def condition(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def outputs(self) -> ir.OpResultList: ...
    @property
    def then_region(self) -> ir.Region: ...
    @property
    def else_region(self) -> ir.Region: ...

class IotaOp(ir.OpView):
    def __init__(
        self, y: ir.Type, *, loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None
    ) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class IsinfOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        detect_negative: bool | ir.Attribute | None = None,
        detect_positive: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def detect_negative(self) -> ir.BoolAttr: ...
    @detect_negative.setter
    def detect_negative(self, value: ir.BoolAttr) -> None: ...
    @property
    def detect_positive(self) -> ir.BoolAttr: ...
    @detect_positive.setter
    def detect_positive(self, value: ir.BoolAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult: ...

def isinf(
    x: ir.Value,
    *,
    detect_negative: bool | ir.Attribute | None = None,
    detect_positive: bool | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class IsnanOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def isnan(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class KernelOp(ir.OpView):
    def __init__(
        self,
        sym_name: str | ir.Attribute,
        function_type: ir.Type | ir.Attribute,
        arch: IntEnum | ir.Attribute,
        *,
        sym_visibility: str | ir.Attribute | None = None,
        features: Sequence[ir.Attribute] | ir.Attribute | None = None,
        arg_attrs: Sequence[ir.Attribute] | ir.Attribute | None = None,
        res_attrs: Sequence[ir.Attribute] | ir.Attribute | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def sym_name(self) -> ir.StringAttr: ...
    @sym_name.setter
    def sym_name(self, value: ir.StringAttr) -> None: ...
    @property
    def function_type(self) -> ir.TypeAttr: ...
    @function_type.setter
    def function_type(self, value: ir.TypeAttr) -> None: ...
    @property
    def sym_visibility(self) -> ir.StringAttr | None: ...
    @sym_visibility.setter
    def sym_visibility(self, value: ir.StringAttr) -> None: ...
    @sym_visibility.deleter
    def sym_visibility(self) -> None: ...
    @property
    def arch(self) -> ir.Attribute: ...
    @arch.setter
    def arch(self, value: ir.Attribute) -> None: ...
    @property
    def features(self) -> ir.ArrayAttr: ...
    @features.setter
    def features(self, value: ir.ArrayAttr) -> None: ...
    @property
    def arg_attrs(self) -> ir.ArrayAttr | None: ...
    @arg_attrs.setter
    def arg_attrs(self, value: ir.ArrayAttr) -> None: ...
    @arg_attrs.deleter
    def arg_attrs(self) -> None: ...
    @property
    def res_attrs(self) -> ir.ArrayAttr | None: ...
    @res_attrs.setter
    def res_attrs(self, value: ir.ArrayAttr) -> None: ...
    @res_attrs.deleter
    def res_attrs(self) -> None: ...
    @property
    def body(self) -> ir.Region: ...

class LaunchOp(ir.OpView):
    def __init__(
        self,
        outputs: Sequence[ir.Type],
        kernel: str | ir.Attribute,
        operands_: Sequence[ir.Value],
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def operands_(self) -> ir.OpOperandList: ...
    @property
    def kernel(self) -> ir.FlatSymbolRefAttr: ...
    @kernel.setter
    def kernel(self, value: ir.FlatSymbolRefAttr) -> None: ...
    @property
    def outputs(self) -> ir.OpResultList: ...

class LayoutOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        permutation: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def permutation(self) -> ir.DenseI64ArrayAttr: ...
    @permutation.setter
    def permutation(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def layout(
    x: ir.Value,
    permutation: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LeakyReluOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        alpha: float | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def alpha(self) -> ir.FloatAttr: ...
    @alpha.setter
    def alpha(self, value: ir.FloatAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult: ...

def leaky_relu(
    x: ir.Value,
    *,
    alpha: float | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LessOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def less(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LiteralOp(ir.OpView):
    def __init__(
        self,
        result: ir.Type,
        key: str | ir.Attribute,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def key(self) -> ir.StringAttr: ...
    @key.setter
    def key(self, value: ir.StringAttr) -> None: ...
    @property
    def result(self) -> ir.OpResult[ir.RankedTensorType]: ...

class Log1pOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def log1p(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class Log2Op(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def log2(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LogOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def log(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LogicalAndOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def logical_and(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LogicalOrOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def logical_or(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LogicalXorOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def logical_xor(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LogsoftmaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def logsoftmax(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class LoopOp(ir.OpView):
    def __init__(
        self,
        outputs: Sequence[ir.Type],
        max_trip_count: ir.Value,
        condition: ir.Value,
        init: Sequence[ir.Value],
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def max_trip_count(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def condition(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def init(self) -> ir.OpOperandList: ...
    @property
    def outputs(self) -> ir.OpResultList: ...
    @property
    def body(self) -> ir.Region: ...

class LrnOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        size: int | ir.Attribute,
        *,
        alpha: float | ir.Attribute | None = None,
        beta: float | ir.Attribute | None = None,
        bias: float | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def size(self) -> ir.IntegerAttr: ...
    @size.setter
    def size(self, value: ir.IntegerAttr) -> None: ...
    @property
    def alpha(self) -> ir.FloatAttr: ...
    @alpha.setter
    def alpha(self, value: ir.FloatAttr) -> None: ...
    @property
    def beta(self) -> ir.FloatAttr: ...
    @beta.setter
    def beta(self, value: ir.FloatAttr) -> None: ...
    @property
    def bias(self) -> ir.FloatAttr: ...
    @bias.setter
    def bias(self, value: ir.FloatAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def lrn(
    x: ir.Value,
    size: int | ir.Attribute,
    *,
    alpha: float | ir.Attribute | None = None,
    beta: float | ir.Attribute | None = None,
    bias: float | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class MaxOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def max(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class MinOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def min(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ModOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def mod(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class MulOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def mul(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class MultibroadcastOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class NearbyintOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def nearbyint(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class NegOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def neg(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class NonzeroOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.OpResult[ir.RankedTensorType]: ...

def nonzero(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class NotOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def not_(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class PadOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        low: Sequence[int] | ir.Attribute,
        high: Sequence[int] | ir.Attribute,
        *,
        value: float | ir.Attribute | None = None,
        mode: IntEnum | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def low(self) -> ir.DenseI64ArrayAttr: ...
    @low.setter
    def low(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def high(self) -> ir.DenseI64ArrayAttr: ...
    @high.setter
    def high(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def value(self) -> ir.FloatAttr: ...
    @value.setter
    def value(self, value: ir.FloatAttr) -> None: ...
    @property
    def mode(self) -> ir.Attribute: ...
    @mode.setter
    def mode(self, value: ir.Attribute) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def pad(
    x: ir.Value,
    low: Sequence[int] | ir.Attribute,
    high: Sequence[int] | ir.Attribute,
    *,
    value: float | ir.Attribute | None = None,
    mode: IntEnum | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class PointwiseOp(ir.OpView):
    def __init__(
        self,
        outputs: Sequence[ir.Type],
        inputs: Sequence[ir.Value],
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def inputs(self) -> ir.OpOperandList: ...
    @property
    def outputs(self) -> ir.OpResultList: ...
    @property
    def body(self) -> ir.Region: ...

class PoolingOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        mode: IntEnum | ir.Attribute,
        lengths: Sequence[int] | ir.Attribute,
        pads: Sequence[int] | ir.Attribute,
        strides: Sequence[int] | ir.Attribute,
        dilations: Sequence[int] | ir.Attribute,
        *,
        ceil_mode: bool | ir.Attribute | None = None,
        count_include_pad: bool | ir.Attribute | None = None,
        lp_order: int | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def mode(self) -> ir.Attribute: ...
    @mode.setter
    def mode(self, value: ir.Attribute) -> None: ...
    @property
    def lengths(self) -> ir.DenseI64ArrayAttr: ...
    @lengths.setter
    def lengths(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def pads(self) -> ir.DenseI64ArrayAttr: ...
    @pads.setter
    def pads(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def strides(self) -> ir.DenseI64ArrayAttr: ...
    @strides.setter
    def strides(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def dilations(self) -> ir.DenseI64ArrayAttr: ...
    @dilations.setter
    def dilations(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def ceil_mode(self) -> ir.BoolAttr: ...
    @ceil_mode.setter
    def ceil_mode(self, value: ir.BoolAttr) -> None: ...
    @property
    def count_include_pad(self) -> ir.BoolAttr: ...
    @count_include_pad.setter
    def count_include_pad(self, value: ir.BoolAttr) -> None: ...
    @property
    def lp_order(self) -> ir.IntegerAttr: ...
    @lp_order.setter
    def lp_order(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class PowOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def pow(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class PrefixScanProdOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        exclusive: bool | ir.Attribute | None = None,
        reverse: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def exclusive(self) -> ir.BoolAttr: ...
    @exclusive.setter
    def exclusive(self, value: ir.BoolAttr) -> None: ...
    @property
    def reverse(self) -> ir.BoolAttr: ...
    @reverse.setter
    def reverse(self, value: ir.BoolAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def prefix_scan_prod(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    exclusive: bool | ir.Attribute | None = None,
    reverse: bool | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class PrefixScanSumOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        exclusive: bool | ir.Attribute | None = None,
        reverse: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def exclusive(self) -> ir.BoolAttr: ...
    @exclusive.setter
    def exclusive(self, value: ir.BoolAttr) -> None: ...
    @property
    def reverse(self) -> ir.BoolAttr: ...
    @reverse.setter
    def reverse(self, value: ir.BoolAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def prefix_scan_sum(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    exclusive: bool | ir.Attribute | None = None,
    reverse: bool | ir.Attribute | None = None,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class PreluOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def prelu(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class QuantConvolutionOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        w: ir.Value,
        pads: Sequence[int] | ir.Attribute,
        strides: Sequence[int] | ir.Attribute,
        dilations: Sequence[int] | ir.Attribute,
        *,
        group: int | ir.Attribute | None = None,
        channels_last: bool | None = None,
        pad_value: int | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def w(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def pads(self) -> ir.DenseI64ArrayAttr: ...
    @pads.setter
    def pads(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def strides(self) -> ir.DenseI64ArrayAttr: ...
    @strides.setter
    def strides(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def dilations(self) -> ir.DenseI64ArrayAttr: ...
    @dilations.setter
    def dilations(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def group(self) -> ir.IntegerAttr: ...
    @group.setter
    def group(self, value: ir.IntegerAttr) -> None: ...
    @property
    def channels_last(self) -> bool: ...
    @channels_last.setter
    def channels_last(self, value: bool) -> None: ...
    @channels_last.deleter
    def channels_last(self) -> None: ...
    @property
    def pad_value(self) -> ir.IntegerAttr | None: ...
    @pad_value.setter
    def pad_value(self, value: ir.IntegerAttr) -> None: ...
    @pad_value.deleter
    def pad_value(self) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class QuantDotOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def b(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def c(self) -> ir.OpResult[ir.RankedTensorType]: ...

def quant_dot(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class QuantizelinearOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        scale: ir.Value,
        *,
        zero_point: ir.Value | None = None,
        saturate: bool | ir.Attribute | None = None,
        precision: ir.Type | ir.Attribute | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def scale(self) -> ir.Value: ...
    @property
    def zero_point(self) -> ir.Value | None: ...
    @property
    def saturate(self) -> ir.BoolAttr: ...
    @saturate.setter
    def saturate(self, value: ir.BoolAttr) -> None: ...
    @property
    def precision(self) -> ir.TypeAttr | None: ...
    @precision.setter
    def precision(self, value: ir.TypeAttr) -> None: ...
    @precision.deleter
    def precision(self) -> None: ...
    @property
    def y(self) -> ir.OpResult: ...

class RecipOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def recip(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceAllOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_all(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceAnyOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_any(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceMaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_max(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceMeanOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_mean(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceMinOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_min(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceProdOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_prod(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReduceSumOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reduce_sum(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReluOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def relu(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ReshapeOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class ReshapeToOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        dims: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def dims(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class ResizeOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        scales: Sequence[float] | ir.Attribute,
        *,
        mode: IntEnum | ir.Attribute | None = None,
        coordinate_mode: IntEnum | ir.Attribute | None = None,
        nearest_mode: IntEnum | ir.Attribute | None = None,
        cubic_coeff_a: float | ir.Attribute | None = None,
        exclude_outside: bool | ir.Attribute | None = None,
        antialias: bool | ir.Attribute | None = None,
        extrapolation_value: float | ir.Attribute | None = None,
        roi: Sequence[float] | ir.Attribute | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def scales(self) -> ir.DenseF32ArrayAttr: ...
    @scales.setter
    def scales(self, value: ir.DenseF32ArrayAttr) -> None: ...
    @property
    def mode(self) -> ir.Attribute: ...
    @mode.setter
    def mode(self, value: ir.Attribute) -> None: ...
    @property
    def coordinate_mode(self) -> ir.Attribute: ...
    @coordinate_mode.setter
    def coordinate_mode(self, value: ir.Attribute) -> None: ...
    @property
    def nearest_mode(self) -> ir.Attribute: ...
    @nearest_mode.setter
    def nearest_mode(self, value: ir.Attribute) -> None: ...
    @property
    def cubic_coeff_a(self) -> ir.FloatAttr: ...
    @cubic_coeff_a.setter
    def cubic_coeff_a(self, value: ir.FloatAttr) -> None: ...
    @property
    def exclude_outside(self) -> ir.BoolAttr: ...
    @exclude_outside.setter
    def exclude_outside(self, value: ir.BoolAttr) -> None: ...
    @property
    def antialias(self) -> ir.BoolAttr: ...
    @antialias.setter
    def antialias(self, value: ir.BoolAttr) -> None: ...
    @property
    def extrapolation_value(self) -> ir.FloatAttr: ...
    @extrapolation_value.setter
    def extrapolation_value(self, value: ir.FloatAttr) -> None: ...
    @property
    def roi(self) -> ir.DenseF32ArrayAttr | None: ...
    @roi.setter
    def roi(self, value: ir.DenseF32ArrayAttr) -> None: ...
    @roi.deleter
    def roi(self) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class ReturnOp(ir.OpView):
    def __init__(
        self,
        values: Sequence[ir.Value],
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def values(self) -> ir.OpOperandList: ...

def return_(
    values: Sequence[ir.Value],
    *,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ReturnOp: ...

class ReverseOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def reverse(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class RsqrtOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def rsqrt(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterAddOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatter_add(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterMaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatter_max(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterMinOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatter_min(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterMulOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatter_mul(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterNoneOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatter_none(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterndAddOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatternd_add(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterndMaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatternd_max(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterndMinOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatternd_min(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterndMulOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatternd_mul(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ScatterndNoneOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def updates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def scatternd_none(
    x: ir.Value,
    indices: ir.Value,
    updates: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ShiftLeftOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def shift_left(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class ShiftRightOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def shift_right(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SigmoidOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def sigmoid(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SignOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def sign(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SinOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def sin(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SinhOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def sinh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SliceOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        starts: Sequence[int] | ir.Attribute,
        ends: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def starts(self) -> ir.DenseI64ArrayAttr: ...
    @starts.setter
    def starts(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def ends(self) -> ir.DenseI64ArrayAttr: ...
    @ends.setter
    def ends(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def slice(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    starts: Sequence[int] | ir.Attribute,
    ends: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SoftmaxOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axis: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def softmax(
    x: ir.Value,
    axis: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SqdiffOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def sqdiff(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SqrtOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def sqrt(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SqueezeOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class StepOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        steps: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def steps(self) -> ir.DenseI64ArrayAttr: ...
    @steps.setter
    def steps(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def step(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    steps: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SubOp(ir.OpView):
    def __init__(
        self,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def c(self) -> ir.OpResult: ...

def sub(
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class SuppressOp(ir.OpView):
    def __init__(
        self,
        boxes: ir.Value,
        candidates: ir.Value,
        threshold: float | ir.Attribute,
        most: int | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def boxes(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def candidates(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def threshold(self) -> ir.FloatAttr: ...
    @threshold.setter
    def threshold(self, value: ir.FloatAttr) -> None: ...
    @property
    def most(self) -> ir.IntegerAttr: ...
    @most.setter
    def most(self, value: ir.IntegerAttr) -> None: ...
    @property
    def kept(self) -> ir.OpResult[ir.RankedTensorType]: ...

def suppress(
    boxes: ir.Value,
    candidates: ir.Value,
    threshold: float | ir.Attribute,
    most: int | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class TanOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def tan(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class TanhOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def tanh(
    x: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class TopkOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        k: int | ir.Attribute,
        axis: int | ir.Attribute,
        *,
        largest: bool | ir.Attribute | None = None,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def k(self) -> ir.IntegerAttr: ...
    @k.setter
    def k(self, value: ir.IntegerAttr) -> None: ...
    @property
    def axis(self) -> ir.IntegerAttr: ...
    @axis.setter
    def axis(self, value: ir.IntegerAttr) -> None: ...
    @property
    def largest(self) -> ir.BoolAttr: ...
    @largest.setter
    def largest(self, value: ir.BoolAttr) -> None: ...
    @property
    def values(self) -> ir.OpResult[ir.RankedTensorType]: ...
    @property
    def indices(self) -> ir.OpResult[ir.RankedTensorType]: ...

class TransposeOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        permutation: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def permutation(self) -> ir.DenseI64ArrayAttr: ...
    @permutation.setter
    def permutation(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class UnpackOp(ir.OpView):
    def __init__(
        self,
        y: ir.Type,
        x: ir.Value,
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

class UnsqueezeOp(ir.OpView):
    def __init__(
        self,
        x: ir.Value,
        axes: Sequence[int] | ir.Attribute,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def x(self) -> ir.Value[ir.RankedTensorType]: ...
    @property
    def axes(self) -> ir.DenseI64ArrayAttr: ...
    @axes.setter
    def axes(self, value: ir.DenseI64ArrayAttr) -> None: ...
    @property
    def y(self) -> ir.OpResult[ir.RankedTensorType]: ...

def unsqueeze(
    x: ir.Value,
    axes: Sequence[int] | ir.Attribute,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class WhereOp(ir.OpView):
    def __init__(
        self,
        condition: ir.Value,
        a: ir.Value,
        b: ir.Value,
        *,
        results: Sequence[ir.Type] | None = None,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def condition(self) -> ir.Value: ...
    @property
    def a(self) -> ir.Value: ...
    @property
    def b(self) -> ir.Value: ...
    @property
    def y(self) -> ir.OpResult: ...

def where(
    condition: ir.Value,
    a: ir.Value,
    b: ir.Value,
    *,
    results: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Value: ...

class YieldOp(ir.OpView):
    def __init__(
        self,
        values: Sequence[ir.Value],
        *,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
    ) -> None: ...
    @property
    def values(self) -> ir.OpOperandList: ...

def yield_(
    values: Sequence[ir.Value],
    *,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> YieldOp: ...
