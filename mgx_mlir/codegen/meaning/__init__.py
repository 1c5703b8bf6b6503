"""The meaning of each mgx op, written once, for every path and every generator.

    values = emit_pointwise(op, scalars_or_vectors)  # one pointwise op, in arith and math

Ops on whole tensors are lowered to loops over these (`codegen.loops`).
"""
