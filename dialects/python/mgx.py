from mgx_mlir._native._mgx_ops_gen import *
