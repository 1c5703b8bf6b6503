"""Prints every kernel of a file at a stage of its compilation for a chip, under its schedule.

python -m mgx_mlir.codegen FILE [--arch gfx942] [--stage gpu|cpu|llvm]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.cpu.kernel import compile_kernel
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.stages import watched
from mgx_mlir.dialects import context, mgx

parser = argparse.ArgumentParser(prog="python -m mgx_mlir.codegen", description=__doc__)
parser.add_argument("file", type=Path)
parser.add_argument("--arch", default="gfx942", type=Target.get)
parser.add_argument("--stage", default="gpu", choices=("gpu", "cpu", "llvm"))
options = parser.parse_args()
with context():
    module = ir.Module.parse(options.file.read_text())
    for op in module.body.operations:
        if isinstance(op, mgx.KernelOp):
            with watched() as forms:
                if options.arch.kind == "cpu":
                    code = compile_kernel(op, options.arch)
                else:
                    code = compiler(op)(options.arch)
            print(f"// {op.sym_name.value}: {code.why}")
            print(forms[options.stage])
