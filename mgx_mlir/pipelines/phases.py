"""The named pipelines; `modes.py` chooses among them."""

from __future__ import annotations

from dataclasses import dataclass

from mgx_mlir.passes.align_rows import AlignRows
from mgx_mlir.passes.bind_dims import BindDims
from mgx_mlir.passes.cut_concats import CutConcats
from mgx_mlir.passes.eliminate_identities import EliminateIdentities
from mgx_mlir.passes.eliminate_pads import EliminatePads
from mgx_mlir.passes.find_attention import FindAttention
from mgx_mlir.passes.fold_constants import FoldConstants
from mgx_mlir.passes.fold_pad_values import FoldPadValues
from mgx_mlir.passes.fold_scales import FoldScales
from mgx_mlir.passes.fuse_horizontal import FuseHorizontal
from mgx_mlir.passes.fuse_pointwise import FusePointwise
from mgx_mlir.passes.fuse_reduce import FuseReduce
from mgx_mlir.passes.group_convolutions import GroupConvolutions
from mgx_mlir.passes.hoist_invariants import HoistInvariants
from mgx_mlir.passes.hoist_slices import HoistSlices
from mgx_mlir.passes.join_launches import JoinLaunches
from mgx_mlir.passes.layout_convolution import LayoutConvolution
from mgx_mlir.passes.layout_weights import LayoutWeights
from mgx_mlir.passes.merge_convolutions import MergeConvolutions
from mgx_mlir.passes.merge_pointwise import MergePointwise
from mgx_mlir.passes.normalize_control_flow import NormalizeControlFlow
from mgx_mlir.passes.normalize_ops import NormalizeOps
from mgx_mlir.passes.outline_kernels import OutlineKernels
from mgx_mlir.passes.pack_weights import PackWeights
from mgx_mlir.passes.pair_products import PairProducts
from mgx_mlir.passes.place_concats import PlaceConcats
from mgx_mlir.passes.plan_memory import PlanMemory
from mgx_mlir.passes.relax_convolutions import RelaxConvolutions
from mgx_mlir.passes.rewrite_deconvolution import RewriteDeconvolution
from mgx_mlir.passes.rewrite_patches import RewritePatches
from mgx_mlir.passes.rewrite_pooling import RewritePooling
from mgx_mlir.passes.rewrite_reduce import RewriteReduce
from mgx_mlir.passes.rewrite_resize import RewriteResize
from mgx_mlir.passes.rewrite_rotations import RewriteRotations
from mgx_mlir.passes.share_kernels import ShareKernels
from mgx_mlir.passes.share_weights import ShareWeights
from mgx_mlir.passes.simplify_algebra import SimplifyAlgebra
from mgx_mlir.passes.simplify_concats import SimplifyConcats
from mgx_mlir.passes.simplify_dyn_ops import SimplifyDynOps
from mgx_mlir.passes.simplify_gathers import SimplifyGathers
from mgx_mlir.passes.simplify_quantized import SimplifyQuantized
from mgx_mlir.passes.simplify_reshapes import SimplifyReshapes
from mgx_mlir.passes.sink_concats import SinkConcats
from mgx_mlir.passes.sink_dequantize import SinkDequantize
from mgx_mlir.passes.sink_views import SinkViews
from mgx_mlir.passes.split_conversions import SplitConversions
from mgx_mlir.passes.yield_products import YieldProducts
from mgx_mlir.pipelines.registry import Pipeline


@dataclass(frozen=True)
class NamedPipeline:
    """Passes with one purpose. Only a pipeline with `knows_chip` may look at the target."""

    summary: str
    passes: Pipeline
    knows_chip: bool = False


PIPELINES: dict[str, NamedPipeline] = {
    "dynamic_shapes": NamedPipeline(
        "sizes by name; shapes that are computed are types",
        (
            SimplifyDynOps(),
            BindDims(),
        ),
    ),
    "core": NamedPipeline(
        "one form for each thing; constants are computed",
        (
            NormalizeOps(),
            ShareWeights(),
            FoldConstants(keep_quantized=True),
            NormalizeControlFlow(),
            EliminateIdentities(),
            SimplifyGathers(),
            RewriteResize(),
            SimplifyReshapes(),
            EliminatePads(),
            RewritePooling(),
            RewriteDeconvolution(),
        ),
    ),
    "quantization": NamedPipeline(
        "products of quantized tensors are products of 8-bit integers",
        (
            SinkDequantize(),
            SimplifyQuantized(),
            FoldPadValues(),
            FoldConstants(),
            SimplifyReshapes(),
        ),
    ),
    "optimize": NamedPipeline(
        "cheaper forms of the same",
        (
            RewriteRotations(),
            HoistSlices(),
            GroupConvolutions(),
            SimplifyAlgebra(),
            FoldScales(),
            FoldConstants(),
            MergeConvolutions(),
            RewritePatches(),
            SimplifyConcats(),
            SimplifyReshapes(),
            EliminateIdentities(),
            SinkViews(),
            SimplifyReshapes(),
            SinkConcats(),
            HoistInvariants(),
            FuseHorizontal(),
            FoldConstants(),
            PackWeights(),
            LayoutWeights(),
            FindAttention(),
            RewriteReduce(),
            LayoutConvolution(),
            RelaxConvolutions(),
            SimplifyReshapes(),
            AlignRows(),
            SimplifyReshapes(),
            SinkViews(),
            SimplifyReshapes(),
        ),
    ),
    "fusion": NamedPipeline(
        "ops that run together become one",
        (
            SplitConversions(),
            FuseReduce(),
            FusePointwise(),
            PairProducts(),
            MergePointwise(),
            YieldProducts(),
            "canonicalize",
            "cse",
        ),
    ),
    "backend": NamedPipeline(
        "kernels, and the program that launches them",
        (
            CutConcats(),
            PlaceConcats(),
            OutlineKernels(),
            ShareKernels(),
            JoinLaunches(),
            PlanMemory(),
        ),
    ),
}
