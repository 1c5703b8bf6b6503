"""Kernels in stored form, for tests of what is done with them."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.dialects import context
from mgx_mlir.rewriting.portable import portable_kernel

TEXT = """
mgx.kernel @{name}(%a: tensor<{size}xf32>, %b: tensor<{size}xf32>) -> tensor<{size}xf32>
    attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
  %c = mgx.{op} %a, %b : tensor<{size}xf32>, tensor<{size}xf32> -> tensor<{size}xf32>
  mgx.return %c : tensor<{size}xf32>
}} loc("{node}")
"""


def stored(name: str = "k0", op: str = "add", size: int = 8, node: str = "Add_0") -> PortableKernel:
    """A kernel of one op on two vectors."""
    module = ir.Module.parse(TEXT.format(name=name, op=op, size=size, node=node), context())
    return portable_kernel(module.body.operations[0])
