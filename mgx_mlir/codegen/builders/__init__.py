"""Short forms for building MLIR, for every target."""
