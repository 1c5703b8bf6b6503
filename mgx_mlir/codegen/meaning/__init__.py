"""The meaning of each mgx op, written once, for every path and every generator.

    values = emit_pointwise(op, scalars_or_vectors)  # one pointwise op, in arith and math

How it works: a value is a rule that gives each element where it is read (value.py), over index
expressions with known ranges (index.py). Views, pointwise ops, padding, gathers only compose such
rules; contractions, reductions and the results of the kernel put values into memory, each with one
nest of loops (kernel.py). So the chain of views and pointwise work around a reduction is part of
its nest, with no fusion pass. The functions that lower each op are in ops/, found by `lowers`.
"""

from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise

__all__ = ["Element", "element_of", "emit_pointwise"]
