"""The meaning of mgx programs, in numpy: the oracle of tests, `mgx verify` and constant folding.

    outputs = evaluate(module, weights, {"x": array})
    results = evaluate_op(op, [array, ...])

Written for clarity, and independent of the lowering: nothing here comes from codegen.
"""

from mgx_mlir.reference.program import evaluate, evaluate_kernel, evaluate_op, is_evaluable

__all__ = ["evaluate", "evaluate_kernel", "evaluate_op", "is_evaluable"]
