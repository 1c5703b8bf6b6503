"""The meaning of each mgx op, written once: mgx kernels as linalg on tensors.

    module = lower_kernel(kernel)                   # func.func on tensors, no mgx op left
    values = emit_pointwise(op, scalars_or_vectors)  # one pointwise op, in arith and math

How it works: a value is a rule that gives each element where it is read (value.py), over index
expressions with known ranges (index.py). Views, pointwise ops, padding, gathers only compose such
rules; contractions, reductions and the results of the kernel put values into memory, each with one
linalg.generic (body.py). So the chain of views and pointwise work around a reduction is part of its
loop nest, with no fusion pass. The functions that lower each op are in ops/, found by `lowers`.
"""

from mgx_mlir.codegen.generic.lowering.element import Element, element_of
from mgx_mlir.codegen.generic.lowering.lower import lower_kernel
from mgx_mlir.codegen.generic.lowering.pointwise import emit_pointwise

__all__ = ["Element", "element_of", "emit_pointwise", "lower_kernel"]
