"""The artifact, all that a deployed program needs: its record, file, plan, weights and targets.

Imports neither MLIR nor LLVM.
"""

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.record import Artifact

__all__ = ["Artifact", "PortableKernel"]
