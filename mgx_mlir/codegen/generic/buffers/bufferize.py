"""Converts a function on tensors to one on memrefs."""

from __future__ import annotations

from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir.errors import CompilerError

# Named ops are generalised twice, because bufferizing makes new ones (fills of padding).
PIPELINE = (
    "builtin.module("
    "func.func(linalg-generalize-named-ops),"
    "eliminate-empty-tensors,"
    "one-shot-bufferize{bufferize-function-boundaries=1 "
    "function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{hoist-static-allocs=1 modify-public-functions=1},"
    "func.func(linalg-generalize-named-ops),"
    "lower-affine,canonicalize,cse)"
)


def bufferize(module: ir.Module) -> tuple[ir.OpView, int]:
    """Replaces the tensors of `module`'s one function by memrefs, in place.

    Gives the function, whose results are now its last arguments, and the number of its
    inputs. Inputs are never written. Raises CompilerError where a pass fails.
    """
    function = only_function(module)
    inputs = len(function.regions[0].blocks[0].arguments)
    read_only = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
    function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([read_only] * inputs)
    try:
        PassManager.parse(PIPELINE, module.context).run(module.operation)
    except ir.MLIRError as error:
        raise CompilerError(f"bufferizing failed: {error}") from error
    return only_function(module), inputs


def only_function(module: ir.Module) -> ir.OpView:
    """The one func.func of a lowered kernel."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise CompilerError(f"a lowered kernel has one function, not {len(functions)}")
    return functions[0]
