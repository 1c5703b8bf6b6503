"""Prints the lowering of every kernel of a file.

python -m mgx_mlir.codegen.generic.lowering FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlir import ir

from mgx_mlir.codegen.generic.lowering import lower_kernel
from mgx_mlir.dialects import context, mgx

with context():
    module = ir.Module.parse(Path(sys.argv[1]).read_text())
    for op in module.body.operations:
        if isinstance(op, mgx.KernelOp):
            print(lower_kernel(op))
