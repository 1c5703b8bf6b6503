"""The sizes that the one program for any serves, and its kernels that are slow."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir
from onnx import ModelProto

from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target, kind_of
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import Unsupported
from mgx_mlir.importer import structure
from mgx_mlir.rewriting.portable import read_kernel
from mgx_mlir.sizes.arithmetic import Symbol
from mgx_mlir.sizes.parser import parse

# Ops whose work is much more than reading and writing: the generic path takes many times as long.
_HEAVY = (
    *(mgx.AttentionOp, mgx.ConvolutionBackwardsOp, mgx.ConvolutionOp, mgx.DotOp),
    *(mgx.QuantConvolutionOp, mgx.QuantDotOp),
)
# The chip that says which kernels GPUs have generators for.
_CHIP = "gfx942"
_SLOW = "any sizes by the generic path, which is several times slower than given sizes"


def served_sizes(plan: Plan) -> tuple[str, ...]:
    """The sizes that a program for any serves, and the conditions on them, in words."""
    ranges = [_range(dim) for dim in plan.dims]
    known = {dim.name: dim for dim in plan.dims}
    found = [parse(text, known) for text in plan.formulas]
    conditions = [f"{size} is 0 or more" for size in found if not size >= 0]
    return tuple(dict.fromkeys((*ranges, *conditions)))


def _range(dim: Symbol) -> str:
    return f"{dim.name} from {dim.low}" + (f" to {dim.high}" if dim.high is not None else "")


def slow_nodes(artifact: Artifact, model: ModelProto, target: str | Target) -> list[Unsupported]:
    """The nodes of products, convolutions and attention that no generator takes on a target."""
    chip = Target.get(_CHIP) if target == "gpu" else target
    chip = chip if isinstance(chip, Target) else Target.get(chip)
    named = ModelProto()
    named.CopyFrom(model)
    structure.normalise(named)  # which names the nodes that have no name
    operators = {n.name: structure.operator_name(n) for n in structure.all_nodes(named.graph)}
    found: dict[str, Unsupported] = {}
    for portable in artifact.kernels:
        module, kernel = read_kernel(portable.bytecode)
        with module.context, ir.Location.unknown():
            if _is_heavy(kernel) and _is_generic(kernel, chip):
                found |= dict(_entries(portable.nodes, operators))
    return list(found.values())


def _entries(nodes: tuple[str, ...], operators: Mapping[str, str]) -> list[tuple[str, Unsupported]]:
    names = dict.fromkeys(part for name in nodes for part in name.split("+"))
    return [(n, Unsupported(n, operators[n], _SLOW)) for n in names if n in operators]


def _is_heavy(kernel: mgx.KernelOp) -> bool:
    found = False

    def look(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or isinstance(op.opview, _HEAVY)
        return ir.WalkResult.ADVANCE

    kernel.operation.walk(look)
    return found


def _is_generic(kernel: mgx.KernelOp, target: Target) -> bool:
    if kind_of(target) == "cpu":
        from mgx_mlir.codegen.cpu.kernel import is_generic

        return is_generic(kernel, target)
    from mgx_mlir.codegen.gpu.builders.program import Generated
    from mgx_mlir.codegen.gpu.kernel import SYMBOLIC_FAMILIES
    from mgx_mlir.codegen.loops.kernel import is_symbolic

    if not is_symbolic(kernel):
        return False
    programs = (family.program(kernel, target) for family in SYMBOLIC_FAMILIES)
    return not any(isinstance(made, Generated) for made in programs)
