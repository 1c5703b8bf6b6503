"""Groups of ops: the op classes of one kind, for `isinstance`, and questions about one op."""

from __future__ import annotations

from mlir import ir

from mgx_mlir._native import _mgx
from mgx_mlir._native import _mgx_ops_gen as gen

# Windows over images, with weights.
CONVOLUTIONS = (gen.ConvolutionOp, gen.QuantConvolutionOp)
# Products of matrices, batches of them too.
DOTS = (gen.DotOp, gen.QuantDotOp)
# Ops that multiply and sum: what matrix cores compute.
CONTRACTIONS = (*CONVOLUTIONS, gen.ConvolutionBackwardsOp, *DOTS)
# Ops whose result is known before the program runs.
SOURCES = (gen.ConstantOp, gen.LiteralOp)
# Views that repeat elements.
BROADCASTS = (gen.BroadcastOp, gen.MultibroadcastOp)
# Ops that move elements, each to one place of their result.
GATHERS = (gen.GatherOp, gen.GatherElementsOp, gen.GatherndOp)
MOVERS = (gen.ConcatOp, *GATHERS, gen.PadOp)
# Ops whose bodies are parts of the program.
CONTROL_FLOW = (gen.IfOp, gen.LoopOp)
# Ops that hold a loop over elements: the body of one is no part of the program.
FUSED = (gen.AttentionOp, gen.FusedReduceOp, gen.PointwiseOp)
# Pointwise ops that are many instructions on any machine.
COSTLY = (
    gen.AcosOp,
    gen.AcoshOp,
    gen.AsinOp,
    gen.AsinhOp,
    gen.AtanOp,
    gen.AtanhOp,
    gen.CosOp,
    gen.CoshOp,
    gen.EluOp,
    gen.ErfOp,
    gen.ExpOp,
    gen.FmodOp,
    gen.LogOp,
    gen.Log1pOp,
    gen.Log2Op,
    gen.ModOp,
    gen.PowOp,
    gen.SigmoidOp,
    gen.SinOp,
    gen.SinhOp,
    gen.TanOp,
    gen.TanhOp,
)

_CLASSES: dict[str, type[ir.OpView]] = {
    value.OPERATION_NAME: value
    for value in vars(gen).values()
    if getattr(value, "OPERATION_NAME", "").startswith("mgx.")
}


def _with_trait(trait: str) -> tuple[type[ir.OpView], ...]:
    return tuple(_CLASSES[name] for name in sorted(_mgx.op_names_with_trait(trait)))


# Views that keep the row-major order of the elements: in contiguous memory they cost nothing.
RESHAPES = _with_trait("keeps order")
# Ops for which a op b is b op a.
COMMUTATIVE = _with_trait("commutative")
# Ops that leave a as it is where all elements of b are this number; -1 has all bits set.
NEUTRAL_RIGHT = {_CLASSES[name]: number for name, number in _mgx.neutral_elements().items()}
# Ops along an axis, with how often they read their operand.
PASSES = {_CLASSES[name]: count for name, count in _mgx.passes().items()}
# The ops of which the questions below are true.
POINTWISE_OPS, REDUCTION_OPS, VIEW_OPS = map(_with_trait, ("pointwise", "reduction", "view"))
_POINTWISE, _REDUCTIONS, _VIEWS = map(frozenset, (POINTWISE_OPS, REDUCTION_OPS, VIEW_OPS))


def is_pointwise(op: ir.OpView | None) -> bool:
    """Whether an op computes each element of its result of the same element of its operands."""
    return type(op) in _POINTWISE


def is_reduction(op: ir.OpView | None) -> bool:
    """Whether an op reduces its operand along axes and keeps them with size 1."""
    return type(op) in _REDUCTIONS


def is_view(op: ir.OpView | None) -> bool:
    """Whether an op gives its operand's elements, or some of them, in another order or shape."""
    return type(op) in _VIEWS
