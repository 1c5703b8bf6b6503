"""The artifact, all that a deployed program needs: its record, file, plan, weights and targets.

Imports neither MLIR nor LLVM.
"""
